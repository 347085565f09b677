#include <array>

#include "codegen/run_kernels.h"

namespace braze::codegen::cpp {
namespace {

TEST(Pointwise, ContiguousOfOddLengths) {
  std::vector<std::string> texts;
  for (int n : {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 100, 1000, 4099})
    texts.push_back("kernel add_relu(b0: f32 in, b1: f32 in, b2: f32 out) outer(o0 < " +
                    std::to_string(n) +
                    ") {\n store(b2, o0, max(add(load(b0, o0), load(b1, o0)), 0:f32))\n}");
  check_kernels(texts);
}

TEST(Pointwise, BroadcastStridesAndOffsets) {
  check_kernels({
      "kernel bias(b0: f32 in, b1: f32 in, b2: f32 out) outer(o0 < 5, o1 < 37) {\n"
      " store(b2, o0*37 + o1, add(load(b0, o0*37 + o1), load(b1, o1)))\n}",
      "kernel channel_bias(b0: f32 in, b1: f32 in, b2: f32 out) outer(o0 < 2, o1 < 3, o2 < 49) {\n"
      " store(b2, o0*147 + o1*49 + o2, mul(load(b0, o0*147 + o1*49 + o2), load(b1, o1)))\n}",
      "kernel strided(b0: f32 in, b1: f32 out) outer(o0 < 9, o1 < 21) {\n"
      " store(b1, o0*21 + o1, neg(load(b0, o0*64 + o1*3 + 5)))\n}",
      "kernel transpose(b0: f32 in, b1: f32 out) outer(o0 < 19, o1 < 33) {\n"
      " store(b1, o0*33 + o1, load(b0, o1*19 + o0))\n}",
      "kernel flip(b0: f32 in, b1: f32 out) outer(o0 < 50) {\n"
      " store(b1, o0, load(b0, o0*-1 + 49))\n}",
      "kernel scatter(b0: f32 in, b1: f32 out) outer(o0 < 40) {\n"
      " store(b1, o0*7 + 2, load(b0, o0))\n}",
      "kernel scalar(b0: f32 in, b1: f32 out) {\n store(b1, 3, exp(load(b0, 1)))\n}",
      "kernel division(b0: f32 in, b1: f32 out) outer(o0 < 210) {\n"
      " store(b1, o0, load(b0, o0//7*100 + o0%7))\n}",
      "kernel reread(b0: f32 out, b1: f32 in, b2: f32 out) outer(o0 < 21) {\n"
      " store(b0, o0, add(load(b1, o0), 1:f32))\n"
      " store(b2, o0, mul(load(b0, o0), 2:f32))\n}",
  });
}

// Where no element has more than 8 bytes, masks have 8 in each lane, as what has been compared.
TEST(Pointwise, ComparisonsOfWideElements) {
  std::vector<std::string> texts;
  for (const std::string type : {"i64", "f64"}) {
    const auto add = [&](const std::string& name, const std::string& value) {
      texts.push_back("kernel " + name + "(b0: " + type + " in, b1: " + type +
                      " in, b2: bool out) outer(o0 < 3, o1 < 38) {\n store(b2, o0*38 + o1, " +
                      value + ")\n}");
    };
    const std::string zero = "0:" + type, a = "load(b0, o0*38 + o1)", b = "load(b1, o0*38 + o1)";
    const std::string moved = "load(b0, o0*37 + o1 + -1)";
    for (const std::string& condition : std::vector<std::string>{
             "ne(" + moved + ", " + zero + ")", "lt(" + moved + ", load(b1, o1))",
             "not(" + moved + ")", "bool(" + moved + ")", "isnan(" + moved + ")",
             "isinf(" + moved + ")"})
      add("padded", "masked(lt(0, o1), " + condition + ", 1:bool)");
    add("chosen", "where(ne(" + a + ", " + zero + "), ne(abs(" + b + "), " + zero + "), lt(" + a +
                      ", " + b + "))");
    add("both", "and(ne(" + a + ", " + zero + "), where(lt(" + b + ", " + a + "), 1:bool, eq(" + a +
                    ", " + b + ")))");
  }
  check_kernels(texts);
}

// The place in a row of a head decides a condition, in vectors, and where a table is loaded.
TEST(Pointwise, RunsThatBeginAtARemainder) {
  check_kernels({
      "kernel turned(b0: f32 in, b1: f32 in, b2: f32 in, b3: f32 out) outer(o0 < 2, o1 < 12, o2 < "
      "32) {\n store(b3, o0*384 + o1*32 + o2, mul(add(masked(lt(o2%16, 8), load(b0, o0*384 + "
      "o1*32 + o2 + 8), masked(le(8, o2%16), neg(load(b0, o0*384 + o1*32 + o2 + -8)), 0:f32)), "
      "mul(load(b1, o0*384 + o1*32 + o2), load(b2, o1*16 + o2%16))), 0.25:f32))\n}",
  });
}

TEST(Pointwise, Transposes) {
  std::vector<std::string> texts;
  for (const std::string type : {"f32", "u8", "i64", "bf16"})
    for (const auto& [rows, columns] : std::vector<std::pair<int, int>>{
             {16, 16}, {32, 64}, {37, 19}, {64, 65}, {100, 5}, {3, 90}}) {
      if (!exhaustive() && type != "f32" && rows != 37) continue;
      const std::string r = std::to_string(rows), c = std::to_string(columns);
      texts.push_back("kernel transpose(b0: " + type + " in, b1: " + type + " out) outer(o0 < " +
                      r + ", o1 < " + c + ") {\n store(b1, o0*" + c + " + o1, load(b0, o1*" + r +
                      " + o0))\n}");
    }
  texts.push_back(
      "kernel transpose_add(b0: f32 in, b1: f32 in, b2: f32 in, b3: f32 out) outer(o0 < 3, o1 < "
      "40, "
      "o2 < 33) {\n store(b3, o0*1320 + o1*33 + o2, add(mul(load(b0, o0*1320 + o2*40 + o1), "
      "load(b1, o0*1320 + o1*33 + o2)), load(b2, o1)))\n}");
  check_kernels(texts);
}

TEST(Pointwise, Dtypes) {
  std::vector<std::string> texts;
  const char* types[] = {"bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"};
  const std::string common = "bool i64 f32";
  for (const std::string from : types)
    for (const std::string to : types) {
      if (!exhaustive() && common.find(from) == std::string::npos &&
          common.find(to) == std::string::npos)
        continue;
      texts.push_back("kernel cast(b0: " + from + " in, b1: " + to + " out) outer(o0 < 37) {\n" +
                      " store(b1, o0 + 3, " +
                      (from == to ? "load(b0, o0)" : to + "(load(b0, o0))") + ")\n}");
    }
  check_kernels(texts);
}

TEST(Pointwise, IntegerOps) {
  std::vector<std::string> texts;
  for (const std::string type : {"u8", "i8", "i16", "i32", "i64"}) {
    std::string stores;
    int at = 0;
    for (const std::string op : {"add", "sub", "mul", "floordiv", "truncdiv", "mod", "fmod", "pow",
                                 "min", "max", "and", "or", "xor", "shl", "shr"})
      stores += " store(b2, o0 + " + std::to_string(200 * at++) + ", " + op +
                "(load(b0, o0), load(b1, o0)))\n";
    for (const std::string op : {"neg", "abs", "bitnot"})
      stores += " store(b2, o0 + " + std::to_string(200 * at++) + ", " + op + "(load(b0, o0)))\n";
    int bools = 0;
    for (const std::string op : {"eq", "ne", "lt", "le"})
      stores += " store(b3, o0 + " + std::to_string(200 * bools++) + ", " + op +
                "(load(b0, o0), load(b1, o0)))\n";
    texts.push_back("kernel ints(b0: " + type + " in, b1: " + type + " in, b2: " + type +
                    " out, b3: bool out) outer(o0 < 37) {\n" + stores + "}");
  }
  check_kernels(texts);
}

TEST(Pointwise, FloatOps) {
  std::vector<std::string> texts;
  for (const std::string type : {"f32", "f64"}) {
    if (type == "f64" && !exhaustive()) continue;
    std::string stores;
    int at = 0;
    for (const std::string op : {"add", "sub", "mul", "div", "floordiv", "truncdiv", "mod", "fmod",
                                 "atan2", "min", "max", "pow"})
      stores += " store(b2, o0 + " + std::to_string(300 * at++) + ", " + op +
                "(load(b0, o0), load(b1, o0)))\n";
    for (const std::string op :
         {"neg",  "abs",   "exp", "exp2",    "expm1", "log",  "log2",  "log10", "log1p",
          "sqrt", "rsqrt", "sin", "cos",     "tan",   "asin", "acos",  "atan",  "sinh",
          "cosh", "tanh",  "erf", "sigmoid", "floor", "ceil", "trunc", "round"})
      stores += " store(b2, o0 + " + std::to_string(300 * at++) + ", " + op + "(load(b0, o0)))\n";
    int bools = 0;
    for (const std::string op : {"eq", "ne", "lt", "le"})
      stores += " store(b3, o0 + " + std::to_string(300 * bools++) + ", " + op +
                "(load(b0, o0), load(b1, o0)))\n";
    for (const std::string op : {"isnan", "isinf", "not"})
      stores +=
          " store(b3, o0 + " + std::to_string(300 * bools++) + ", " + op + "(load(b0, o0)))\n";
    texts.push_back("kernel floats(b0: " + type + " in, b1: " + type + " in, b2: " + type +
                    " out, b3: bool out) outer(o0 < 300) {\n" + stores + "}");
  }
  check_kernels(texts, {.special = true});
}

TEST(Pointwise, ConditionsAndMixedDtypes) {
  check_kernels({
      "kernel where(b0: bool in, b1: f32 in, b2: f32 out) outer(o0 < 45) {\n"
      " store(b2, o0, where(load(b0, o0), load(b1, o0), -inf:f32))\n}",
      "kernel mixed(b0: i64 in, b1: f32 in, b2: f64 out, b3: bool out, b4: f32 out) outer(o0 < 45) "
      "{\n"
      " store(b2, o0, add(f64(load(b0, o0)), f64(load(b1, o0))))\n"
      " store(b3, o0, and(lt(load(b0, o0), 3), lt(load(b1, o0), 0.5:f32)))\n"
      " store(b4, o0, where(lt(load(b0, o0), 3), load(b1, o0), f32(load(b0, o0))))\n}",
      "kernel causal(b0: f32 in, b1: f32 out) outer(o0 < 20, o1 < 20) {\n"
      " store(b1, o0*20 + o1, where(le(o1, o0), load(b0, o0*20 + o1), -inf:f32))\n}",
      "kernel logic(b0: bool in, b1: bool in, b2: bool out) outer(o0 < 100) {\n"
      " store(b2, o0, xor(and(load(b0, o0), not(load(b1, o0))), or(load(b0, o0), load(b1, "
      "o0))))\n}",
      "kernel arange(b0: i64 out) outer(o0 < 100) {\n store(b0, o0, o0*3 + 7)\n}",
      "kernel bits(b0: f32 in, b1: i32 out) outer(o0 < 33) {\n"
      " store(b1, o0, bitcast(i32, load(b0, o0)))\n}",
      "kernel halves(b0: f16 in, b1: bf16 in, b2: f16 out) outer(o0 < 50) {\n"
      " store(b2, o0, f16(add(f32(load(b0, o0)), f32(load(b1, o0)))))\n}",
  });
}

TEST(Pointwise, MaskedAndGather) {
  check_kernels({
      "kernel pad(b0: f32 in, b1: f32 out) outer(o0 < 6, o1 < 40) {\n"
      " store(b1, o0*40 + o1, masked(and(le(2, o1), lt(o1, 35)), load(b0, o0*33 + o1 + -2), "
      "9:f32))\n}",
      "kernel pad_rows(b0: f32 in, b1: f32 out) outer(o0 < 6, o1 < 40) {\n"
      " store(b1, o0*40 + o1, masked(lt(o0, 4), load(b0, o0*40 + o1), 9:f32))\n}",
      "kernel embedding(b0: i64 in, b1: f32 in, b2: f32 out) outer(o0 < 7, o1 < 64) {\n"
      " store(b2, o0*64 + o1, load(b1, check_index(load(b0, o0), 10)*64 + o1))\n}",
      "kernel gather(b0: i64 in, b1: f32 in, b2: f32 out) outer(o0 < 7, o1 < 45) {\n"
      " store(b2, o0*45 + o1, load(b1, check_index(load(b0, o0*45 + o1), 10) + o0*10))\n}",
      "kernel index_put(b0: i64 in, b1: f32 in, b2: f32 out) outer(o0 < 20) {\n"
      " store(b2, o0*10 + load(b0, o0), load(b1, o0))\n}",
      "kernel masked_gather(b0: i64 in, b1: f32 in, b2: f32 out) outer(o0 < 50) {\n"
      " store(b2, o0, masked(lt(load(b0, o0), 5), load(b1, check_index(load(b0, o0), 5)), "
      "0:f32))\n}",
      "kernel checked_only(b0: i64 in, b1: f32 in, b2: f32 out) outer(o0 < 7, o1 < 45) {\n"
      " store(b2, o0*45 + o1, after(check_index(load(b0, o0*45 + o1), 10), load(b1, o1)))\n}",
      "kernel checked_rows(b0: i64 in, b1: f32 in, b2: f32 out) outer(o0 < 7, o1 < 45) {\n"
      " store(b2, o0*45 + o1, after(check_index(load(b0, o0), 10), load(b1, o1)))\n}",
      "kernel checked_truth(b0: i64 in, b1: bool out) outer(o0 < 50) {\n"
      " store(b1, o0, after(check_index(load(b0, o0), 10), true))\n}",
      "kernel checked_value(b0: i64 in, b1: i64 out) outer(o0 < 50) {\n"
      " store(b1, o0, check_index(load(b0, o0), 10))\n}",
  });
}

// Rows of many vectors, where what a piece of a concatenation needs is skipped outside of it.
TEST(Pointwise, PiecesOfLongRows) {
  std::vector<std::string> texts;
  for (const std::string type : {"f32", "f16", "bf16", "i32"}) {
    const std::string two = type == "i32" ? "2:i32" : "2:f32";
    const auto wide = [&](const std::string& load) {
      return type.ends_with("f16") ? "f32(" + load + ")" : load;
    };
    const auto stored = [&](const std::string& value) {
      return type.ends_with("f16") ? type + "(" + value + ")" : value;
    };
    for (const auto& [first, second, width] :
         std::vector<std::array<int, 3>>{{256, 512, 768}, {250, 251, 777}, {16, 300, 301}}) {
      const std::string a = std::to_string(first), b = std::to_string(second),
                        c = std::to_string(width);
      texts.push_back("kernel joined(b0: " + type + " in, b1: " + type + " in, b2: " + type +
                      " in, b3: " + type + " out) outer(o0 < 3, o1 < " + c + ") {\n store(b3, o0*" +
                      c + " + o1, " +
                      stored("masked(lt(o1, " + a + "), " + wide("load(b0, o0*" + a + " + o1)") +
                             ", masked(and(le(" + a + ", o1), lt(o1, " + b + ")), mul(" +
                             wide("load(b1, o0*900 + o1 + -" + a + ")") + ", " + two + "), " +
                             wide("load(b2, o0*900 + o1)") + "))") +
                      ")\n}");
    }
  }
  texts.push_back(
      "kernel summed(b0: f32 in, b1: f32 out) outer(o0 < 3) inner(i0 < 500) {\n"
      " r0 = sum(masked(lt(i0, 130), masked(le(70, i0), load(b0, o0*500 + i0), 1:f32), "
      "masked(lt(490, i0), load(b0, i0), 0.5:f32))) inner\n"
      " store(b1, o0, r0)\n}");
  check_kernels(texts);
}

// Quotients and remainders along the lanes: by multiples of the lanes, where vectors are loaded
// whole, and by other numbers.
TEST(Pointwise, RunsWithinMergedAxes) {
  std::vector<std::string> texts;
  for (const std::string type : {"f32", "bf16", "i64", "u8"}) {
    const auto add = [&](const std::string& name, int length, const std::string& index) {
      texts.push_back("kernel " + name + "(b0: " + type + " in, b1: " + type +
                      " out) outer(o0 < 3, o1 < " + std::to_string(length) + ") {\n store(b1, o0*" +
                      std::to_string(length) + " + o1, load(b0, " + index + "))\n}");
    };
    add("heads", 256, "o0*64 + o1%64 + o1//64*256");
    add("shifted", 256, "o0*64 + (o1 + 64)%128 + (o1 + 64)//128*256 + 5");
    add("unaligned_shift", 256, "o0*64 + (o1 + 3)%64 + (o1 + 3)//64*256");
    add("uneven", 240, "o0*24 + o1%24 + o1//24*256");
    add("overlapping", 200, "o0*64 + o1%64 + o1//64*256");
    add("nested", 1024, "o0*64 + o1%64 + o1//64%4*512 + o1//256*2048");
    add("twice", 256, "o0*64 + o1%64 + o1");
    add("of_rows", 256, "(o0*64 + o1)%128 + (o0*64 + o1)//128*256");
    add("of_uneven_rows", 256, "(o0*24 + o1)%128 + (o0*24 + o1)//128*256");
  }
  texts.push_back(
      "kernel sums(b0: f16 in, b1: f32 out) outer(o0 < 5) inner(i0 < 512) {\n"
      " r0 = sum(f32(load(b0, o0*64 + i0%64 + i0//64*640))) inner\n store(b1, o0, r0)\n}");
  texts.push_back(
      "kernel of_reduced(b0: i64 in, b1: f32 in, b2: f32 out) outer(o0 < 64) inner(i0 < 3) {\n"
      " r0 = max(load(b0, i0*64 + o0)) inner\n"
      " store(b2, o0, add(load(b1, r0*64 + o0), load(b1, r0*64 + o0%32 + o0//32*256)))\n}");
  texts.push_back(
      "kernel guarded(b0: f32 in, b1: f32 out) outer(o0 < 3, o1 < 512) {\n store(b1, o0*512 + o1, "
      "masked(lt(o1, 300), load(b0, o0*64 + o1%64 + o1//64*256), 1:f32))\n}");
  check_kernels(texts);
}

TEST(Pointwise, FailingIndexIsReported) {
  loop::ExprPool pool;
  const std::string head = "(b0: i64 in, b1: f32 in, b2: f32 out) outer(o0 < 4, o1 < 32) {\n";
  std::vector<loop::Kernel> kernels;
  for (const char* value : {"load(b1, check_index(load(b0, o0), 3)*32 + o1)",
                            "after(check_index(load(b0, o0), 3), load(b1, o1))",
                            "after(check_index(load(b0, o0) + o1*0, 3), 1:f32)"})
    kernels.push_back(loop::parse_kernel(
        "kernel embedding" + head + " store(b2, o0*32 + o1, " + value + ")\n}", pool));
  // Without lanes a choice is one of C++, which evaluates one of its operands.
  kernels.push_back(loop::parse_kernel(
      "kernel chosen(b0: i64 in, b1: f32 in, b2: f32 out) inner(i0 < 4) {\n"
      " store_add(b2, 0, where(eq(load(b0, i0), 1), load(b1, check_index(load(b0, i0), 3)), 0:f32))"
      " inner\n}",
      pool));
  for (Isa isa : tested_isas()) {
    const GeneratedCode generated = generate(kernels, {.isa = isa});
    const auto library = toolchain::build(generated.text, compiler_flags(isa));
    for (const KernelCode& code : generated.kernels) {
      const auto run = reinterpret_cast<KernelFunction>(library->symbol(code.name));
      std::vector<float> table(96, 1.0f), out(128);
      std::vector<int64_t> ids = {0, 2, 1, 2};
      void* args[] = {ids.data(), table.data(), out.data()};
      EXPECT_EQ(run(args, nullptr, 0, code.extent.constant()), 0);
      for (int64_t bad : {int64_t{3}, int64_t{-1}, int64_t{1} << 62}) {
        ids[2] = bad;
        EXPECT_NE(run(args, nullptr, 0, code.extent.constant()), 0) << target::to_string(isa);
      }
    }
  }
}

}  // namespace
}  // namespace braze::codegen::cpp
