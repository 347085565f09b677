#include "codegen/run_kernels.h"

namespace braze::codegen::cpp {
namespace {

TEST(Reduction, AllOpsOverRowsAndColumns) {
  std::vector<std::string> texts;
  const int lengths[] = {1, 5, 16, 70};
  const auto add = [&](const std::string& op, const std::string& type, const std::string& out,
                       int n, bool rows) {
    texts.push_back("kernel " + op + "(b0: " + type + " in, b1: " + out +
                    " out) outer(o0 < 21) inner(i0 < " + number(n) + ") {\n r0 = " + op +
                    "(load(b0, " + (rows ? "o0*" + number(n) + " + i0" : "i0*21 + o0") +
                    ")) inner\n store(b1, o0, r0)\n}");
  };
  // Each op with several types and lengths; all of them only in the exhaustive tier.
  const auto add_lengths = [&](const std::string& op, const std::string& type,
                               const std::string& out, size_t place) {
    for (size_t i = 0; i < 4; ++i) {
      if (exhaustive() || i == place % 4) add(op, type, out, lengths[i], true);
      if (exhaustive() || i == (place + 2) % 4) add(op, type, out, lengths[i], false);
    }
  };
  size_t op_place = 0;
  for (const std::string op : {"sum", "prod", "max", "min", "argmax", "argmin"}) {
    size_t place = op_place++;
    for (const std::string type : {"f32", "i64", "i32", "f64"}) {
      if (!exhaustive() && type == (op_place % 2 ? "f64" : "i32")) continue;
      add_lengths(op, type, op.starts_with("arg") ? "i64" : type, place++);
    }
  }
  for (const std::string op : {"any", "all"})
    for (size_t i = 0; i < 4; ++i) {
      add(op, "bool", "bool", lengths[i], true);
      if (exhaustive() || i % 2) add(op, "bool", "bool", lengths[i], false);
    }
  check_kernels(texts, {.tolerance = 1e-4, .magnitude = 1e-2});
}

TEST(Reduction, SeveralInnerAxes) {
  std::vector<std::string> texts;
  for (const std::string op : {"sum", "max", "argmax", "argmin"}) {
    const std::string out = op.starts_with("arg") ? "i64" : "f32";
    const std::string head = "kernel pool(b0: f32 in, b1: " + out + " out) ";
    const std::string tail = ")) inner\n store(b1, o0*5 + o1, r0)\n}";
    // Two axes that merge, two that do not, and a column-like pair.
    texts.push_back(head + "outer(o0 < 3, o1 < 5) inner(i0 < 7, i1 < 9) {\n r0 = " + op +
                    "(load(b0, o0*315 + o1*63 + i0*9 + i1" + tail);
    texts.push_back(head + "outer(o0 < 3, o1 < 5) inner(i0 < 7, i1 < 9) {\n r0 = " + op +
                    "(load(b0, o0*500 + o1*100 + i0*14 + i1" + tail);
    texts.push_back(head + "outer(o0 < 3, o1 < 5) inner(i0 < 7, i1 < 19) {\n r0 = " + op +
                    "(load(b0, o0*5 + o1 + i0*15 + i1*105" + tail);
    texts.push_back(head + "outer(o0 < 3, o1 < 5) inner(i0 < 17, i1 < 4) {\n r0 = " + op +
                    "(load(b0, o0*5 + o1 + i0 + i1*200" + tail);
  }
  check_kernels(texts, {.tolerance = 1e-5, .magnitude = 1});
  check_kernels(texts, {.tolerance = 1e-5, .magnitude = 1, .special = true});
}

// Of equal ones the first in the order of the axes, in whatever order they are walked.
TEST(Reduction, PlacesOfEqualOnes) {
  std::vector<std::string> texts;
  for (const std::string op : {"argmax", "argmin"})
    for (const std::string type : {"f32", "f16", "f64", "i64", "i32", "bool"}) {
      const bool is_float = type.starts_with("f");
      const auto element = [&](const std::string& at) {
        const std::string load = "load(b0, " + at + ")";
        return is_float ? "floor(" + (type == "f16" ? "f32(" + load + ")" : load) + ")" : load;
      };
      for (const std::string at : {"o0*2000 + i0 + i1*50", "o0*2000 + 39 + i0*40 + i1*-1"})
        texts.push_back("kernel place(b0: " + type + " in, b1: i64 out) outer(o0 < 3) " +
                        "inner(i0 < 50, i1 < 40) {\n r0 = " + op + "(" + element(at) +
                        ") inner\n store(b1, o0, r0)\n}");
      texts.push_back("kernel place(b0: " + type + " in, b1: i64 out) outer(o0 < 20) " +
                      "inner(i0 < 7, i1 < 9) {\n r0 = " + op + "(" +
                      element("o0 + i0*20 + i1*140") + ") inner\n store(b1, o0, r0)\n}");
    }
  check_kernels(texts, {.magnitude = 1});
  check_kernels(texts, {.magnitude = 1, .special = true});
}

TEST(Reduction, EmptyAndFull) {
  check_kernels(
      {
          "kernel empty(b0: f32 in, b1: f32 out, b2: f32 out) outer(o0 < 9) inner(i0 < 0) {\n"
          " r0 = sum(load(b0, i0)) inner\n r1 = prod(load(b0, i0)) inner\n"
          " store(b1, o0, r0)\n store(b2, o0, r1)\n}",
          "kernel full(b0: f32 in, b1: f32 out) inner(i0 < 10000) {\n"
          " r0 = sum(load(b0, i0)) inner\n store(b1, 0, mul(r0, 0.5:f32))\n}",
      },
      {.tolerance = 1e-4, .magnitude = 1e-2});
}

std::string softmax(int rows, int n) {
  const std::string at = "o0*" + number(n) + " + i0";
  return "kernel softmax(b0: f32 in, b1: f32 out) outer(o0 < " + number(rows) + ") inner(i0 < " +
         number(n) + ") {\n r0 = max(load(b0, " + at + ")) inner\n t0 = exp(sub(load(b0, " + at +
         "), r0))\n r1 = sum(t0) inner\n store(b1, " + at + ", div(t0, r1)) inner\n}";
}

std::string layer_norm(int rows, int n) {
  const std::string at = "o0*" + number(n) + " + i0";
  return "kernel layer_norm(b0: f32 in, b1: f32 in, b2: f32 in, b3: f32 in, b4: f32 out, b5: f32 "
         "out) outer(o0 < " +
         number(rows) + ") inner(i0 < " + number(n) + ") {\n t0 = add(load(b0, " + at +
         "), load(b1, " + at + "))\n store(b5, " + at +
         ", t0) inner\n r0 = welford(t0) inner\n t1 = rsqrt(add(div(r0.1, " + number(n) +
         ":f32), 1e-05:f32))\n store(b4, " + at +
         ", add(mul(mul(sub(t0, r0), t1), load(b2, i0)), load(b3, i0))) inner\n}";
}

TEST(Reduction, Cascades) {
  std::vector<std::string> texts;
  for (int n : {1, 3, 16, 24, 37, 64, 100, 128, 500}) {
    if (!exhaustive() && n != 1 && n != 37 && n != 64) continue;
    texts.push_back(softmax(9, n));
    texts.push_back(layer_norm(5, n));
  }
  texts.push_back(
      "kernel column_softmax(b0: f32 in, b1: f32 out) outer(o0 < 3, o1 < 21) inner(i0 < 12) {\n"
      " r0 = max(load(b0, o0*252 + o1 + i0*21)) inner\n"
      " t0 = exp(sub(load(b0, o0*252 + o1 + i0*21), r0))\n"
      " r1 = sum(t0) inner\n store(b1, o0*252 + o1 + i0*21, div(t0, r1)) inner\n}");
  texts.push_back(
      "kernel column_norm(b0: f32 in, b1: f32 out, b2: f32 out) outer(o0 < 37) inner(i0 < 40) {\n"
      " r0 = welford(load(b0, o0 + i0*37)) inner\n"
      " store(b1, o0, r0)\n store(b2, o0, div(r0.1, r0.2))\n}");
  texts.push_back(
      "kernel gelu_norm(b0: f32 in, b1: f32 out) outer(o0 < 6) inner(i0 < 50) {\n"
      " t0 = mul(erf(load(b0, o0*50 + i0)), load(b0, i0))\n r0 = welford(t0) inner\n"
      " store(b1, o0*50 + i0, mul(sub(t0, r0), rsqrt(r0.1))) inner\n}");
  texts.push_back(
      "kernel argmax_value(b0: f32 in, b1: i64 out, b2: f32 out) outer(o0 < 6) inner(i0 < 50) {\n"
      " r0 = argmax(load(b0, o0*50 + i0)) inner\n store(b1, o0, r0)\n store(b2, o0, r0.1)\n}");
  check_kernels(texts, {.tolerance = 1e-4, .magnitude = 1e-2});
}

// Several vectors of columns side by side, parts of long sums, and what is left over of both.
TEST(Reduction, WideColumnsAndLongSums) {
  std::vector<std::string> texts;
  for (int n : {64, 128, 130, 512, 600}) {
    if (!exhaustive() && n != 64 && n != 130) continue;
    const std::string at = "i0*" + number(n) + " + o0";
    texts.push_back("kernel columns(b0: f32 in, b1: f32 out, b2: f32 out) outer(o0 < " + number(n) +
                    ") inner(i0 < 19) {\n r0 = sum(load(b0, " + at +
                    ")) inner\n r1 = max(load(b0, " + at +
                    ")) inner\n store(b1, o0, mul(r0, 2:f32))\n store(b2, o0, add(r0, r1))\n}");
    texts.push_back("kernel variance(b0: f32 in, b1: f32 out) outer(o0 < " + number(n) +
                    ") inner(i0 < 19) {\n r0 = welford(load(b0, " + at +
                    ")) inner\n store(b1, o0, div(r0.1, r0.2))\n}");
  }
  for (int n : {600, 2048, 2500}) {
    texts.push_back("kernel long(b0: f32 in, b1: f32 out) outer(o0 < 4) inner(i0 < " + number(n) +
                    ") {\n r0 = sum(load(b0, o0 + i0*4)) inner\n store(b1, o0, r0)\n}");
    texts.push_back("kernel long_full(b0: f32 in, b1: f32 out) inner(i0 < " + number(6 * n) +
                    ") {\n r0 = sum(load(b0, i0)) inner\n r1 = welford(load(b0, i0)) inner\n"
                    " store(b1, 0, r0)\n store(b1, 1, r1.1)\n}");
  }
  check_kernels(texts, {.tolerance = 1e-5, .magnitude = 100});
}

}  // namespace
}  // namespace braze::codegen::cpp
