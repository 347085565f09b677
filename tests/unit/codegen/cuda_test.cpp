#include "codegen/cuda_kernels.h"

namespace braze::codegen::cuda {
namespace {

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

// Threads whose loads lie apart take few points, so that a warp reads few lines of the cache.
TEST(CudaPoints, Windows) {
  const auto sum = [](const std::string& place, const std::string& type) {
    std::string text;
    for (int i = 0; i < 4; ++i) {
      const std::string load = "load(b0, o0*512 + " + place + " + " + number(i) + ")";
      const std::string term = type == "f16" ? "f32(" + load + ")" : load;
      text = i == 0 ? term : "add(" + text + ", " + term + ")";
    }
    return "kernel windows(b0: " + type + " in, b1: " + type +
           " out) outer(o0 < 64, o1 < 128) {\n store(b1, o0*128 + o1, " +
           (type == "f16" ? "f16(" + text + ")" : text) + ")\n}";
  };
  const std::string far = sum("o1*2", "f16"), farther = sum("max(o1*4 + -1, 0)", "f32");
  const std::string near = sum("o1//2", "f32");
  check_emulated({far, farther, near}, {.elements = 1 << 16, .tolerance = 1e-3, .magnitude = 1e-2},
                 {}, {{}}, small_gpu());
  EXPECT_NE(text_of(far, small_gpu()).find("store_pack<2>"), std::string::npos);
  EXPECT_EQ(text_of(farther, small_gpu()).find("store_pack"), std::string::npos);
  EXPECT_NE(text_of(near, small_gpu()).find("store_pack<4>"), std::string::npos);
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
  // The mask changes from row to row, what it guards does not.
  const std::string columns =
      "kernel columns(b0: f16 in, b1: f16 in, b2: f32 out) outer(o0 < 256) inner(i0 < 60) {\n"
      " r0 = sum(add(f32(load(b0, i0*256 + o0)), masked(lt(i0, 40), f32(load(b1, o0)), 0:f32))) "
      "inner\n store(b2, o0, r0)\n}";
  check_emulated({whole, cut, rows, columns}, {.tolerance = 1e-4, .magnitude = 1e-2}, {}, {{}},
                 small_gpu());
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
  EXPECT_NE(text_of(layer_norm("f16", 9000, 1000001)).find("while (first0"), std::string::npos);
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

// Rows that no block holds in its registers are shared by the blocks of a cluster, as are those
// whose number leaves processors idle.
TEST(CudaEmulated, LongRowsInClusters) {
  const auto cluster_of = [](const std::string& kernel, const target::Cuda& gpu) {
    sym::ExprArena arena;
    loop::ExprPool pool;
    return generate(parse_kernels({kernel}, pool, arena), gpu)[0].cluster;
  };
  const RunOptions long_rows{.elements = 300'000, .tolerance = 1e-4, .magnitude = 1};
  const std::string odd = softmax(3, 50'257), norm = layer_norm("f32", 2, 65'536);
  EXPECT_EQ(cluster_of(odd, tested_gpu()), 4);
  EXPECT_EQ(cluster_of(norm, tested_gpu()), 4);
  EXPECT_EQ(cluster_of(softmax(1, 262'144), tested_gpu()), 8);
  EXPECT_EQ(cluster_of(softmax(8192, 4096), tested_gpu()), 1);
  check_emulated({odd, norm}, long_rows);

  target::Cuda small = small_gpu();
  const std::string sums =
      "kernel sums(b0: f32 in, b1: f32 out) outer(o0 < 3) inner(i0 < 50000) {\n"
      " r0 = max(load(b0, o0*50000 + i0)) inner\n"
      " r1 = sum(exp(sub(load(b0, o0*50000 + i0), r0))) inner\n"
      " store(b1, o0, add(log(r1), r0))\n}";
  EXPECT_GT(cluster_of(sums, small), 1);
  check_emulated({sums}, long_rows, {}, {{}}, small);
  small.sm = 80;
  EXPECT_EQ(cluster_of(sums, small), 1);
  EXPECT_EQ(cluster_of(odd, small), 1);
}

// Kernels whose parameters p are common[p], or of their own, against each of them by itself.
void check_several(const std::vector<std::string>& texts, const std::vector<int64_t>& extents,
                   const std::vector<bool>& common, const target::Cuda& gpu) {
  sym::ExprArena arena;
  loop::ExprPool pool;
  const std::vector<loop::Kernel> kernels = parse_kernels(texts, pool, arena);
  const KernelCode code = generate_several(kernels[0], extents, common, gpu);
  EXPECT_TRUE(code.sizes.empty());
  loop::Kernel all = kernels[0];  // with the parameters of all, in order
  all.params.clear();
  std::vector<std::vector<size_t>> places(kernels.size(), std::vector<size_t>(common.size()));
  for (const bool shared : {false, true})
    for (size_t k = 0; k < (shared ? 1 : kernels.size()); ++k)
      for (size_t p = 0; p < common.size(); ++p) {
        if (common[p] != shared) continue;
        for (size_t to = k; to < (shared ? kernels.size() : k + 1); ++to)
          places[to][p] = all.params.size();
        all.params.push_back(kernels[k].params[p]);
      }
  EXPECT_EQ(code.alignment.size(), all.params.size());
  check_launch(all, code, [&](Buffers& want) {
    for (size_t k = 0; k < kernels.size(); ++k) {
      std::vector<void*> own;
      for (const size_t place : places[k]) own.push_back(want[place].data());
      ASSERT_TRUE(loop::interpret(kernels[k], own));
    }
  });
}

// Each block does a part of one of them.
TEST(CudaEmulated, SeveralKernelsInOneLaunch) {
  const std::vector<int64_t> extents = {3, 700, 256, 1, 2049, 64};
  std::vector<std::string> texts;
  for (const int64_t extent : extents)
    texts.push_back(
        "kernel update(b0: f32 in, b1: f32 out, b2: f64 value, b3: f16 out) outer(o0 < " +
        number(extent) +
        ") {\n store(b1, o0, mul(load(b0, o0), f32(load(b2, 0))))\n"
        " store(b3, o0, f16(load(b0, o0)))\n}");
  target::Cuda small = tested_gpu();
  small.processors = 1;  // packs
  for (const target::Cuda& gpu : {tested_gpu(), small})
    check_several(texts, extents, {false, false, true, false}, gpu);
}

TEST(CudaEmulated, SeveralRowsAndTilesInOneLaunch) {
  const auto same = [](const std::string& text, int count, const std::vector<bool>& common) {
    check_several(std::vector<std::string>(count, text), std::vector<int64_t>(count, 1), common,
                  tested_gpu());
  };
  same(softmax(3, 100), 4, {false, false});
  same(softmax(2, 5000), 3, {false, false});
  same(
      "kernel norm(b0: f32 in, b1: f32 out) inner(i0 < 3000) {\n"
      " r0 = sum(mul(load(b0, i0), load(b0, i0))) inner\n store(b1, 0, sqrt(r0))\n}",
      5, {false, false});
  same(
      "kernel columns(b0: f32 in, b1: f32 out) outer(o0 < 70) inner(i0 < 90) {\n"
      " r0 = sum(load(b0, i0*70 + o0)) inner\n store(b1, o0, r0)\n}",
      3, {false, false});
  for (const std::string at : {"o0*300 + i0", "i0*20 + o0"})
    same(
        "kernel scan(b0: f32 in, b1: f32 out) outer(o0 < 20) inner(i0 < 300) {\n r0 = "
        "scan_max(load(b0, " +
            at + ")) inner\n store(b1, " + at + ", r0) inner\n}",
        3, {false, false});
  same(
      "kernel turned(b0: f32 in, b1: f32 out) outer(o0 < 70, o1 < 90) {\n"
      " store(b1, o0*90 + o1, load(b0, o1*70 + o0))\n}",
      3, {true, false});
}

}  // namespace
}  // namespace braze::codegen::cuda
