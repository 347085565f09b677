#include <set>

#include "codegen/cuda_emulator.h"
#include "toolchain/nvrtc.h"

namespace braze::codegen::cuda {
namespace {

std::string number(int64_t n) { return std::to_string(n); }

// One multiprocessor is busy with little: elements are taken in packs.
target::Cuda small_gpu() {
  target::Cuda gpu = tested_gpu();
  gpu.processors = 1;
  return gpu;
}

std::string relu(const std::string& type, const std::string& extent) {
  const bool half = type.ends_with("f16");
  const std::string x = half ? "f32(load(b0, o0))" : "load(b0, o0)";
  const std::string y = "mul(max(add(" + x + ", 1:f32), 0:f32), 2:f32)";
  return "kernel relu(b0: " + type + " in, b1: " + type + " out) outer(o0 < " + extent +
         ") {\n store(b1, o0, " + (half ? type + "(" + y + ")" : y) + ")\n}";
}

std::string softmax(int64_t rows, int64_t columns) {
  const std::string x = "load(b0, o0*" + number(columns) + " + i0)";
  return "kernel softmax(b0: f32 in, b1: f32 out) outer(o0 < " + number(rows) + ") inner(i0 < " +
         number(columns) + ") {\n r0 = max(" + x + ") inner\n t0 = exp(sub(" + x +
         ", r0))\n r1 = sum(t0) inner\n store(b1, o0*" + number(columns) +
         " + i0, div(t0, r1)) inner\n}";
}

std::string layer_norm(const std::string& type, int64_t rows, int64_t columns) {
  const bool half = type.ends_with("f16");
  const auto widened = [&](const std::string& load) { return half ? "f32(" + load + ")" : load; };
  const std::string c = number(columns);
  const std::string x = widened("load(b0, o0*" + c + " + i0)");
  const std::string y = "add(mul(mul(sub(" + x +
                        ", r0.0), rsqrt(add(div(r0.1, r0.2), 1e-05:f32)))"
                        ", " +
                        widened("load(b1, i0)") + "), " + widened("load(b2, i0)") + ")";
  return "kernel layer_norm(b0: " + type + " in, b1: " + type + " in, b2: " + type +
         " in, b3: " + type + " out) outer(o0 < " + number(rows) + ") inner(i0 < " + c +
         ") {\n r0 = welford(" + x + ") inner\n store(b3, o0*" + c + " + i0, " +
         (half ? type + "(" + y + ")" : y) + ") inner\n}";
}

std::string text_of(const std::string& kernel, const target::Cuda& gpu = tested_gpu()) {
  sym::ExprArena arena;
  loop::ExprPool pool;
  const std::vector<KernelCode> code = generate(parse_kernels({kernel}, pool, arena), gpu);
  return code[0].text.substr(prelude().size());
}

TEST(CudaPoints, EachTypeAndLength) {
  std::vector<std::string> texts;
  for (const std::string type : {"f32", "f16", "bf16"})
    for (int n : {1, 7, 255, 256, 257, 4096, 10001}) texts.push_back(relu(type, number(n)));
  check_emulated(texts);
  check_emulated(texts, {}, {}, {{}}, small_gpu());
}

TEST(CudaPoints, BroadcastStridesAndOffsets) {
  const std::vector<std::string> texts = {
      "kernel bias(b0: f32 in, b1: f32 in, b2: f32 out) outer(o0 < 50, o1 < 36) {\n"
      " store(b2, o0*36 + o1, add(load(b0, o0*36 + o1), load(b1, o1)))\n}",
      "kernel channel_bias(b0: f32 in, b1: f32 in, b2: f32 out) outer(o0 < 2, o1 < 3, o2 < 49) {\n"
      " store(b2, o0*147 + o1*49 + o2, mul(load(b0, o0*147 + o1*49 + o2), load(b1, o1)))\n}",
      "kernel strided(b0: f32 in, b1: f32 out) outer(o0 < 90, o1 < 24) {\n"
      " store(b1, o0*24 + o1, neg(load(b0, o0*64 + o1*3 + 5)))\n}",
      "kernel shifted(b0: f32 in, b1: f32 out) outer(o0 < 4096) {\n"
      " store(b1, o0, load(b0, o0 + 1))\n}",
      "kernel transpose(b0: f32 in, b1: f32 out) outer(o0 < 19, o1 < 32) {\n"
      " store(b1, o0*32 + o1, load(b0, o1*19 + o0))\n}",
      "kernel flip(b0: f32 in, b1: f32 out) outer(o0 < 50) {\n"
      " store(b1, o0, load(b0, o0*-1 + 49))\n}",
      "kernel number(b0: f32 in, b1: f64 value, b2: f32 out) outer(o0 < 300) {\n"
      " store(b2, o0, mul(load(b0, o0), f32(load(b1, 0))))\n}",
      "kernel scalar(b0: f32 in, b1: f32 out) {\n store(b1, 3, exp(load(b0, 1)))\n}",
      "kernel division(b0: f32 in, b1: f32 out) outer(o0 < 210) {\n"
      " store(b1, o0, load(b0, o0//7*64 + o0%7))\n}",
      "kernel reread(b0: f32 out, b1: f32 in, b2: f32 out) outer(o0 < 2100) {\n"
      " store(b0, o0, add(load(b1, o0), 1:f32))\n"
      " store(b2, o0, mul(load(b0, o0), 2:f32))\n}",
      "kernel mixed(b0: f16 in, b1: f32 in, b2: i64 in, b3: f32 out) outer(o0 < 4000) {\n"
      " store(b3, o0, add(mul(f32(load(b0, o0)), load(b1, o0)), f32(load(b2, o0))))\n}",
      "kernel bools(b0: bool in, b1: f32 in, b2: bool out) outer(o0 < 4000) {\n"
      " store(b2, o0, or(not(load(b0, o0)), lt(load(b1, o0), 0.5:f32)))\n}",
      "kernel padded(b0: f32 in, b1: f32 out) outer(o0 < 1000) {\n"
      " store(b1, o0, masked(lt(o0, 700), load(b0, o0), -1:f32))\n}",
      "kernel joined(b0: f32 in, b1: f32 in, b2: f32 out) outer(o0 < 1000) {\n"
      " store(b2, o0, masked(lt(o0, 700), load(b0, o0), masked(lt(o0, 900), load(b1, o0 + -700), "
      "0:f32)))\n}",
  };
  check_emulated(texts);
  check_emulated(texts, {.special = true}, {}, {{}}, small_gpu());
}

TEST(CudaPoints, Transposes) {
  std::vector<std::string> texts;
  for (const auto& [rows, columns] : {std::pair{256, 260}, {1000, 72}, {65, 1024}})
    for (const std::string type : {"f16", "f32", "f64", "i8"})
      texts.push_back("kernel transpose(b0: " + type + " in, b1: " + type + " out) outer(o0 < " +
                      number(rows) + ", o1 < " + number(columns) + ") {\n store(b1, o0*" +
                      number(columns) + " + o1, load(b0, o1*" + number(rows) + " + o0))\n}");
  texts.push_back(
      "kernel between(b0: f32 in, b1: f32 in, b2: f32 out) outer(o0 < 3, o1 < 130, o2 < 2, o3 < "
      "100) {\n store(b2, o0*26000 + o1*200 + o2*100 + o3, add(load(b0, o0*26000 + o2*13000 + "
      "o3*130 + o1), load(b1, o3)))\n}");
  texts.push_back(
      "kernel stored_across(b0: f16 in, b1: f16 out) outer(o0 < 300, o1 < 256) {\n"
      " store(b1, o1*300 + o0, load(b0, o0*256 + o1))\n}");
  check_emulated(texts, {.elements = 1 << 17});
  for (const std::string& text : texts)
    EXPECT_NE(text_of(text).find("tile = blockIdx.x"), std::string::npos) << text;
}

TEST(CudaPoints, IndicesFromMemory) {
  check_emulated({"kernel gather(b0: i64 in, b1: f32 in, b2: f32 out) outer(o0 < 100, o1 < 16) {\n"
                  " store(b2, o0*16 + o1, load(b1, load(b0, o0)*16 + o1))\n}"},
                 {}, {}, {{}}, small_gpu());
}

// What is checked is what lies in b0: numbers from 0 to 7 are in range, all of them are not.
TEST(CudaPoints, CheckedIndices) {
  const auto take = [](const std::string& size) {
    return "kernel take(b0: i64 in, b1: f16 in, b2: f16 out) outer(o0 < 100, o1 < 16) {\n"
           " store(b2, o0*16 + o1, load(b1, check_index(and(load(b0, o0), 7), " +
           size + ")*16 + o1))\n}";
  };
  const std::string after =
      "kernel after(b0: i64 in, b1: f32 in, b2: f32 out) outer(o0 < 100) {\n"
      " store(b2, o0, after(check_index(and(load(b0, o0), 7), 8), load(b1, o0)))\n}";
  check_emulated({take("8"), after}, {}, {}, {{}}, small_gpu());
  EXPECT_NE(text_of(take("8"), small_gpu()).find("load_pack<4>(p1 + "), std::string::npos);
  const std::string masked =
      "kernel masked(b0: i64 in, b1: f32 in, b2: f32 out) outer(o0 < 100) {\n"
      " store(b2, o0, masked(lt(o0, 50), load(b1, check_index(add(o0, 50), 100)), 0:f32))\n}";
  check_emulated({masked}, {}, {}, {{}}, small_gpu());
  EXPECT_EQ(refused_indices({take("8"), after, masked}), 0);
  EXPECT_GT(refused_indices({take("7")}), 0);
}

// Halves side by side that change places, as in rotary embeddings: no pack has elements of both.
TEST(CudaPoints, MasksOfWholePacks) {
  const auto rotated = [](const std::string& half, const std::string& all) {
    return "kernel rotate(b0: f16 in, b1: f16 out) outer(o0 < 64, o1 < " + all +
           ") {\n store(b1, o0*" + all + " + o1, f16(add(f32(load(b0, o0*" + all +
           " + o1)), masked(lt(o1, " + half + "), f32(load(b0, o0*" + all + " + o1 + " + half +
           ")), masked(le(" + half + ", o1), f32(load(b0, o0*" + all + " + o1 + -" + half +
           ")), 0:f32)))))\n}";
  };
  const std::string whole = rotated("64", "128"), cut = rotated("60", "120");
  const std::string rows =
      "kernel rows(b0: f32 in, b1: f32 out) outer(o0 < 20) inner(i0 < 64) {\n"
      " r0 = sum(masked(and(le(8, i0), lt(i0, 40)), load(b0, o0*64 + i0 + -8), 1:f32)) inner\n"
      " store(b1, o0*64 + i0, masked(lt(i0, 32), load(b0, o0*64 + i0 + 32), r0)) inner\n}";
  check_emulated({whole, cut, rows}, {.tolerance = 1e-5, .magnitude = 1e-2}, {}, {{}}, small_gpu());
  const std::string text = text_of(whole, small_gpu());
  EXPECT_NE(text.find("? load_pack<8>(p0 + "), std::string::npos) << text;
  EXPECT_EQ(text.find("= p0["), std::string::npos) << text;
}

TEST(CudaPoints, IntegerOps) {
  std::vector<std::string> texts;
  for (const std::string type : {"u8", "i8", "i16", "i32", "i64"}) {
    std::string stores;
    int at = 0;
    for (const std::string op : {"add", "sub", "mul", "floordiv", "truncdiv", "mod", "fmod", "pow",
                                 "min", "max", "and", "or", "xor", "shl", "shr"})
      stores +=
          " store(b2, o0 + " + number(200 * at++) + ", " + op + "(load(b0, o0), load(b1, o0)))\n";
    texts.push_back("kernel ops(b0: " + type + " in, b1: " + type + " in, b2: " + type +
                    " out) outer(o0 < 100) {\n" + stores + "}");
  }
  check_emulated(texts);
}

TEST(CudaPoints, FloatOps) {
  std::vector<std::string> texts;
  for (const std::string type : {"f32", "f64"}) {
    std::string stores;
    int at = 0;
    const auto add = [&](const std::string& value) {
      stores += " store(b2, o0 + " + number(100 * at++) + ", " + value + ")\n";
    };
    for (const std::string op :
         {"neg",   "abs",  "floor", "ceil",  "trunc", "round", "sqrt", "exp",    "exp2",
          "expm1", "log",  "log2",  "log10", "log1p", "rsqrt", "sin",  "cos",    "tan",
          "asin",  "acos", "atan",  "sinh",  "cosh",  "tanh",  "erf",  "sigmoid"})
      add(op + "(load(b0, o0))");
    for (const std::string op : {"add", "sub", "mul", "div", "min", "max", "floordiv", "truncdiv",
                                 "mod", "fmod", "pow", "atan2"})
      add(op + "(load(b0, o0), load(b1, o0))");
    for (const std::string op : {"isnan", "isinf"})
      add("where(" + op + "(load(b0, o0)), 1:" + type + ", 2:" + type + ")");
    texts.push_back("kernel ops(b0: " + type + " in, b1: " + type + " in, b2: " + type +
                    " out) outer(o0 < 100) {\n" + stores + "}");
  }
  check_emulated(texts, {.tolerance = 1e-5});
  check_emulated(texts, {.tolerance = 1e-5, .special = true});
}

TEST(CudaPoints, RandomNumbers) {
  std::vector<std::string> texts;
  for (const std::string element : {"o0*100 + o1", "o1*37 + o0", "o1"})
    texts.push_back(
        "kernel words(b0: i64 in, b1: i32 out) outer(o0 < 37, o1 < 100) {\n"
        " store(b1, o0*100 + o1, random(mul(load(b0, 0), 7046029254386353131), "
        "load(b0, 1), or(and(shr(" +
        element + ", 2), -16), and(" + element + ", 15)), and(shr(" + element + ", 4), 3)))\n}");
  check_emulated(texts);
}

TEST(CudaPoints, Casts) {
  std::vector<std::string> texts;
  const char* types[] = {"bool", "u8", "i8", "i16", "i32", "i64", "f32", "f64"};
  for (const std::string from : types)
    for (const std::string to : types)
      if (from != to)
        texts.push_back("kernel cast(b0: " + from + " in, b1: " + to +
                        " out) outer(o0 < 37) {\n store(b1, o0 + 3, " + to + "(load(b0, o0)))\n}");
  check_emulated(texts);
}

TEST(CudaRows, AllReductions) {
  std::vector<std::string> texts;
  for (const bool rows : {true, false})
    for (int n : {1, 5, 70, 300}) {
      const std::string index = rows ? "o0*" + number(n) + " + i0" : "i0*21 + o0";
      const auto add = [&](const std::string& op, const std::string& type, const std::string& out) {
        texts.push_back("kernel " + op + "(b0: " + type + " in, b1: " + out +
                        " out) outer(o0 < 21) inner(i0 < " + number(n) + ") {\n r0 = " + op +
                        "(load(b0, " + index + ")) inner\n store(b1, o0, r0)\n}");
      };
      // How many there are, how they lie and of what type are questions apart.
      for (const std::string op : {"sum", "prod", "max", "min", "argmax", "argmin"})
        for (const std::string type : {"f32", "i64", "i32", "f64"})
          if (n == 70 ? rows || type == "f32" : type == "f32" && (op == "sum" || op == "argmax"))
            add(op, type, op.starts_with("arg") ? "i64" : type);
      for (const std::string op : {"any", "all"})
        if (n == 70) add(op, "bool", "bool");
    }
  check_emulated(texts, {.tolerance = 1e-4, .magnitude = 1e-2});
  check_emulated(texts, {.tolerance = 1e-4, .magnitude = 1, .special = true});
}

TEST(CudaColumns, InPacks) {
  std::vector<std::string> texts;
  for (const std::string type : {"f16", "f32"})
    for (const auto& [rows, columns] : {std::pair{3, 64}, {40, 256}, {17, 520}, {200, 72}}) {
      const std::string x = "load(b0, i0*" + number(columns) + " + o0)";
      const std::string value = type == "f16" ? "f32(" + x + ")" : x;
      const std::string begin = "(b0: " + type + " in, b1: f32 out, b2: f32 out) outer(o0 < " +
                                number(columns) + ") inner(i0 < " + number(rows) + ") {\n";
      texts.push_back("kernel sums" + begin + " r0 = sum(" + value + ") inner\n r1 = max(" + value +
                      ") inner\n store(b1, o0, add(r0, f32(o0)))\n store(b2, o0, mul(r0, r1))\n}");
      texts.push_back("kernel norm" + begin + " r0 = welford(" + value +
                      ") inner\n store(b1, o0, r0.1)\n store(b2, i0*" + number(columns) +
                      " + o0, sub(" + value + ", r0)) inner\n}");
      texts.push_back("kernel places(b0: " + type + " in, b1: i64 out) outer(o0 < " +
                      number(columns) + ") inner(i0 < " + number(rows) + ") {\n r0 = argmax(" +
                      value + ") inner\n store(b1, o0, r0)\n}");
    }
  // As for the weight of a layer norm, with numbers of each row beside the columns.
  texts.push_back(
      "kernel beside(b0: f16 in, b1: f32 in, b2: f32 out) outer(o0 < 256) inner(i0 < 60) {\n"
      " r0 = sum(mul(f32(load(b0, i0*256 + o0)), load(b1, i0))) inner\n store(b2, o0, r0)\n}");
  texts.push_back(
      "kernel parts(b0: f16 in, b1: f32 in, b2: f32 out) outer(o0 < 4, o1 < 256) inner(i0 < 15) {\n"
      " r0 = sum(mul(f32(load(b0, o0*3840 + i0*256 + o1)), load(b1, o0*15 + i0))) inner\n"
      " store(b2, o0*256 + o1, r0)\n}");
  check_emulated(texts, {.tolerance = 1e-4, .magnitude = 1e-2}, {}, {{}}, small_gpu());
  for (const std::string& text : {texts[3], texts[texts.size() - 2], texts.back()})
    EXPECT_NE(text_of(text, small_gpu()).find("load_pack<8>(p0"), std::string::npos);
}

TEST(CudaRows, Softmax) {
  std::vector<std::string> texts;
  for (int64_t columns : {1, 3, 32, 33, 100, 1024, 1025, 4096, 12000})
    texts.push_back(softmax(std::max<int64_t>(1, std::min<int64_t>(40, 16000 / columns)), columns));
  check_emulated(texts, {.tolerance = 1e-5, .magnitude = 1e-6});
  check_emulated(texts, {.tolerance = 1e-5, .magnitude = 1e-6}, {}, {{}}, small_gpu());
}

// Rows of no whole packs, whose elements are taken one by one.
TEST(CudaRows, OddWidths) {
  std::vector<std::string> texts;
  for (int64_t columns : {65, 515, 1023, 40001}) {
    const int64_t rows = std::max<int64_t>(1, 4000 / columns);
    texts.push_back(softmax(rows, columns));
    texts.push_back(layer_norm("f16", rows, columns));
  }
  check_emulated(texts, {.elements = 1 << 17, .tolerance = 1e-4, .magnitude = 1e-2});
  EXPECT_NE(text_of(layer_norm("f16", 9000, 1023)).find(".add_pack("), std::string::npos);
  EXPECT_NE(text_of(layer_norm("f16", 9000, 40001)).find("while (first0"), std::string::npos);
}

// Of rows that are read once: with elements at infinity and rows of nothing else.
TEST(CudaRows, SumsOfExponentialsWithTheirMaximum) {
  const auto kernel = [](const std::string& type, int64_t rows, int64_t columns) {
    const std::string load = "load(b0, o0*" + number(columns) + " + i0)";
    const std::string x = type == "f16" ? "f32(" + load + ")" : load;
    return "kernel lse(b0: " + type + " in, b1: f32 out, b2: f32 out) outer(o0 < " + number(rows) +
           ") inner(i0 < " + number(columns) + ") {\n r0 = max(" + x +
           ") inner\n store(b1, o0, r0)\n r1 = sum(exp(sub(" + x +
           ", r0))) inner\n store(b2, o0, log(r1))\n}";
  };
  std::vector<std::string> texts;
  for (const std::string type : {"f16", "f32"})
    for (int64_t columns : {7, 64, 1000, 12000})
      texts.push_back(kernel(type, std::min<int64_t>(20, 16000 / columns), columns));
  check_emulated(texts, {.tolerance = 1e-5, .magnitude = 1e-3});
  check_emulated(texts, {.tolerance = 1e-5, .magnitude = 1e-3, .special = true});
  EXPECT_NE(text_of(texts[2]).find(".add_pack("), std::string::npos);
  EXPECT_EQ(text_of(softmax(100, 1024)).find("SoftSum"), std::string::npos);
  EXPECT_NE(text_of(softmax(8192, 65536)).find("SoftSum"), std::string::npos);
}

TEST(CudaRows, SumsAndQuotientsOfHalves) {
  const std::string x = "load(b0, o0*64 + i0)", y = "load(b1, o0*64 + i0)";
  std::vector<std::string> texts;
  for (const std::string type : {"f16", "bf16"})
    for (const std::string op :
         {"add(f32(" + x + "), f32(" + y + "))", "sub(f32(" + x + "), 0.5:f32)",
          "mul(0.1:f32, f32(" + y + "))", "mul(f32(" + x + "), f32(" + y + "))"})
      texts.push_back("kernel halves(b0: " + type + " in, b1: " + type + " in, b2: " + type +
                      " out) outer(o0 < 32) inner(i0 < 64) {\n t0 = f32(" + type + "(" + op +
                      "))\n r0 = sum(mul(t0, t0)) inner\n store(b2, o0*64 + i0, " + type +
                      "(div(t0, r0))) inner\n}");
  check_emulated(texts, {.tolerance = 1e-5, .magnitude = 1e-2});
  check_emulated(texts, {.tolerance = 1e-5, .magnitude = 1e-2, .special = true});
  EXPECT_NE(text_of(texts[0]).find("add_f16("), std::string::npos);
  EXPECT_NE(text_of(texts[1]).find("sub_f16("), std::string::npos);
  EXPECT_EQ(text_of(texts[2]).find("mul_f16("), std::string::npos);  // no half is 0.1
  EXPECT_NE(text_of(texts[4]).find("add_bf16("), std::string::npos);
  EXPECT_NE(text_of(texts[0]).find("divide("), std::string::npos);
}

TEST(CudaRows, LayerNorm) {
  std::vector<std::string> texts;
  for (const std::string type : {"f32", "f16", "bf16"})
    for (int64_t columns : {8, 33, 768, 1000, 8000})
      texts.push_back(layer_norm(type, std::min<int64_t>(20, 16000 / columns), columns));
  check_emulated(texts, {.tolerance = 1e-4, .magnitude = 1e-2});
}

TEST(CudaRows, SeveralAxesAndLevels) {
  check_emulated(
      {
          "kernel pool(b0: f32 in, b1: f32 out) outer(o0 < 3, o1 < 5) inner(i0 < 7, i1 < 12) {\n"
          " r0 = sum(load(b0, o0*500 + o1*100 + i0*14 + i1)) inner\n store(b1, o0*5 + o1, r0)\n}",
          "kernel pool(b0: f32 in, b1: f32 out) outer(o0 < 3, o1 < 5) inner(i0 < 7, i1 < 19) {\n"
          " r0 = max(load(b0, o0*5 + o1 + i0*15 + i1*105)) inner\n store(b1, o0*5 + o1, r0)\n}",
          "kernel all(b0: f32 in, b1: f32 out) inner(i0 < 16000) {\n"
          " r0 = sum(load(b0, i0)) inner\n store(b1, 0, r0)\n}",
          "kernel two(b0: f32 in, b1: f32 out, b2: f32 out) outer(o0 < 50) inner(i0 < 64) {\n"
          " store(b1, o0, mul(load(b0, o0*64), 2:f32))\n"
          " r0 = sum(mul(load(b0, o0*64 + i0), load(b1, o0))) inner\n"
          " r1 = max(load(b0, o0*64 + i0)) inner\n"
          " store(b2, o0*64 + i0, add(load(b0, o0*64 + i0), add(r0, r1))) inner\n}",
          "kernel reread(b0: f32 in, b1: f32 out, b2: f32 out) outer(o0 < 9) inner(i0 < 256) {\n"
          " store(b1, o0*256 + i0, exp(load(b0, o0*256 + i0))) inner\n"
          " r0 = sum(load(b1, o0*256 + i0)) inner\n"
          " store(b2, o0*256 + i0, div(load(b1, o0*256 + i0), r0)) inner\n}",
      },
      {.tolerance = 1e-4, .magnitude = 10});
}

TEST(CudaSymbolic, SizesOfTheCall) {
  const std::vector<std::vector<int64_t>> values = {{2, 3}, {64, 128}, {100, 100}, {37, 401}};
  const std::vector<std::string> texts = {
      relu("f32", "{s0}"),
      relu("f16", "{4*s0*s1}"),
      "kernel bias(b0: f32 in, b1: f32 in, b2: f32 out) outer(o0 < {s0}, o1 < {s1}) {\n"
      " store(b2, o0*{s1} + o1, add(load(b0, o0*{s1} + o1), load(b1, o1)))\n}",
      "kernel sums(b0: f32 in, b1: f32 out) outer(o0 < {s0}) inner(i0 < {s1}) {\n"
      " r0 = sum(load(b0, o0*{s1} + i0)) inner\n store(b1, o0, r0)\n}",
      "kernel columns(b0: f32 in, b1: f32 out) outer(o0 < {s1}) inner(i0 < {s0}) {\n"
      " r0 = sum(load(b0, i0*{s1} + o0)) inner\n store(b1, o0, r0)\n}",
  };
  const RunOptions options = {.elements = 1 << 16, .tolerance = 1e-4, .magnitude = 1e-2};
  check_emulated(texts, options, {64, 128}, values);
  check_emulated(texts, options, {64, 128}, values, small_gpu());
}

TEST(CudaText, PacksWhereThereIsWorkEnough) {
  EXPECT_EQ(text_of(relu("f32", "100")).find("load_pack"), std::string::npos);
  EXPECT_NE(text_of(relu("f32", "1000000")).find("load_pack<4>"), std::string::npos);
  EXPECT_NE(text_of(relu("f16", "1000000")).find("load_pack<8>"), std::string::npos);
  EXPECT_EQ(text_of(relu("f32", "1000000")).find("if (v >= count)"), std::string::npos);
  EXPECT_NE(text_of(relu("f32", "1000001")).find("if (v >= count)"), std::string::npos);
}

TEST(CudaText, AddressesThatPacksNeed) {
  const auto alignment = [](const std::string& kernel) {
    sym::ExprArena arena;
    loop::ExprPool pool;
    return generate(parse_kernels({kernel}, pool, arena), tested_gpu())[0].alignment;
  };
  EXPECT_EQ(alignment(relu("f32", "1000000")), (std::vector<int32_t>{16, 16}));
  EXPECT_EQ(alignment(relu("f16", "100000")), (std::vector<int32_t>{4, 4}));
  EXPECT_EQ(alignment(relu("f32", "100")), (std::vector<int32_t>{1, 1}));
  EXPECT_EQ(alignment("kernel shifted(b0: f32 in, b1: f32 out) outer(o0 < 4000000) {\n"
                      " store(b1, o0, load(b0, o0 + 1))\n}"),
            (std::vector<int32_t>{1, 16}));
}

TEST(CudaText, ThreadsOfARow) {
  const auto threads = [](const std::string& kernel) {
    sym::ExprArena arena;
    loop::ExprPool pool;
    const KernelCode code = generate(parse_kernels({kernel}, pool, arena), tested_gpu())[0];
    return std::pair(code.threads[0].constant(), code.blocks[0].constant());
  };
  EXPECT_EQ(threads(softmax(100000, 4)), std::pair(int64_t{256}, int64_t{391}));
  EXPECT_EQ(threads(softmax(100000, 128)).first, 256);
  EXPECT_EQ(threads(softmax(8192, 4096)), std::pair(int64_t{256}, int64_t{8192}));
  EXPECT_EQ(threads(softmax(1, 100000)), std::pair(int64_t{1024}, int64_t{1}));
  // So that a thread keeps its part of a row in registers.
  EXPECT_EQ(threads(softmax(8192, 32768)).first, 1024);
}

// Sources of any graphs may stand behind each other in one program.
TEST(CudaText, KernelsThatDifferDifferInName) {
  sym::ExprArena arena;
  loop::ExprPool pool;
  const auto code =
      generate(parse_kernels({relu("f32", "1000"), relu("f32", "1000"), relu("f32", "1001"),
                              relu("f16", "1000"), softmax(100, 64), softmax(100, 65)},
                             pool, arena),
               tested_gpu());
  EXPECT_EQ(code[0].text, code[1].text);
  std::set<std::string> names;
  for (const KernelCode& kernel : code) {
    names.insert(kernel.name);
    EXPECT_NE(kernel.text.find(" " + kernel.name + "("), std::string::npos) << kernel.text;
  }
  EXPECT_EQ(names.size(), 5u);
  const std::string_view shared = prelude();
  EXPECT_EQ(shared.find("#ifndef BRAZE_PRELUDE\n#define BRAZE_PRELUDE\n"), 1u);
  EXPECT_TRUE(shared.ends_with("\n#endif\n"));
}

TEST(CudaText, WhatThereIsNoCodeFor) {
  const auto why = [](const std::string& text) {
    loop::ExprPool pool;
    return why_unsupported(loop::parse_kernel(text, pool));
  };
  EXPECT_EQ(why("kernel scan(b0: f32 in, b1: f32 out) outer(o0 < 5) inner(i0 < 9) {\n"
                " r0 = scan(0:f32, add(r0.before, load(b0, o0*9 + i0))) inner\n"
                " store(b1, o0*9 + i0, r0) inner\n}"),
            "it keeps a running value along an axis");
  EXPECT_EQ(why("kernel add(b0: i64 in, b1: f32 out) outer(o0 < 5) inner(i0 < 9) {\n"
                " store_add(b1, o0*9 + load(b0, i0), 1:f32) inner\n}"),
            "several points store to one element");
}

TEST(CudaNvrtc, CompilesWhatIsGenerated) {
  if (!toolchain::why_no_nvrtc().empty())
    GTEST_SKIP() << toolchain::why_no_nvrtc() << "; a machine with CUDA lifts it";
  sym::ExprArena arena;
  loop::ExprPool pool;
  const std::vector<std::string> texts = {
      relu("f32", "1000001"),
      relu("f16", "4096"),
      relu("bf16", "{s0}"),
      softmax(100000, 4),
      softmax(4096, 1000),
      softmax(8192, 4096),
      layer_norm("f16", 4096, 768),
      layer_norm("f32", 1, 100000),
      layer_norm("f16", 9000, 1023),
      layer_norm("bf16", 9000, 40001),
      softmax(9000, 4097),
      softmax(9000, 65536),
      "kernel take(b0: i64 in, b1: bf16 in, b2: bf16 out) outer(o0 < 90000, o1 < 16) {\n"
      " store(b2, o0*16 + o1, bf16(add(f32(load(b1, check_index(load(b0, o0), 7)*16 + o1)), "
      "1:f32)))\n}",
      "kernel sums(b0: f16 in, b1: f32 out) outer(o0 < 65536) inner(i0 < 100) {\n"
      " r0 = sum(f32(load(b0, i0*65536 + o0))) inner\n store(b1, o0, r0)\n}",
      "kernel columns(b0: f64 in, b1: f64 out) outer(o0 < 500) inner(i0 < 100) {\n"
      " r0 = welford(load(b0, i0*500 + o0)) inner\n store(b1, o0, r0.1)\n}",
      "kernel arg(b0: f32 in, b1: i64 out) outer(o0 < 500) inner(i0 < 100) {\n"
      " r0 = argmax(load(b0, o0*100 + i0)) inner\n store(b1, o0, r0)\n}"};
  std::vector<toolchain::CudaSource> sources;
  for (const KernelCode& code : generate(parse_kernels(texts, pool, arena, {64}), tested_gpu()))
    sources.push_back({code.text, compiler_flags(tested_gpu())});
  toolchain::DiskCache none("", 0);
  const toolchain::Cubins cubins = toolchain::cubins(sources, none);
  EXPECT_EQ(cubins.of_source.size(), sources.size());
  for (const std::string& cubin : cubins.code)
    EXPECT_TRUE(
        cubin.starts_with("\x7f"
                          "ELF"));
}

}  // namespace
}  // namespace braze::codegen::cuda
