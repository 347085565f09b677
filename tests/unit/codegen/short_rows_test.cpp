// Rows whose length is not known when the kernel is compiled: there are versions for few vectors.
#include "codegen/run_kernels.h"

namespace braze::codegen::cpp {
namespace {

// One compile, every length around the ends of vectors.
std::vector<std::vector<int64_t>> lengths() {
  std::vector<std::vector<int64_t>> result;
  for (int64_t n = 2; n <= 36; ++n) result.push_back({7, n});
  for (int64_t n : {47, 48, 49, 63, 64, 65, 80, 96, 127, 128, 129, 200}) result.push_back({3, n});
  return result;
}

std::string row_kernel(const std::string& type, const std::string& body) {
  return "kernel rows(b0: " + type + " in, b1: " + type + " in, b2: " + type +
         " out, b3: i64 out)" + " outer(o0 < {s0}) inner(i0 < {s1}) {\n" + body + "}";
}

const std::string kAt = "o0*{s1} + i0";

TEST(ShortRows, Reductions) {
  std::vector<std::string> texts;
  for (const std::string type : {"f32", "f64", "i32"})
    for (const std::string op : {"sum", "max", "min", "argmax"}) {
      if (!exhaustive() && (type != "f32" || op == "max" || op == "min")) continue;
      texts.push_back(row_kernel(type, " r0 = " + op + "(load(b0, " + kAt + ")) inner\n store(" +
                                           (op == "argmax" ? "b3" : "b2") + ", o0, r0)\n"));
    }
  check_kernels(texts, {.tolerance = 1e-5, .magnitude = 1e-2}, {7, 40}, lengths());
}

TEST(ShortRows, SoftmaxAndLayerNorm) {
  const std::string x = "load(b0, " + kAt + ")";
  check_kernels(
      {row_kernel("f32", " r0 = max(" + x + ") inner\n t0 = exp(sub(" + x +
                             ", r0))\n r1 = sum(t0) inner\n store(b2, " + kAt +
                             ", div(t0, r1)) inner\n"),
       row_kernel("f32", " r0 = welford(" + x + ") inner\n t1 = rsqrt(add(r0.1, 1:f32))\n" +
                             " store(b2, " + kAt + ", add(mul(sub(" + x +
                             ", r0), t1), load(b1, i0))) inner\n")},
      {.tolerance = 1e-5, .magnitude = 1e-2}, {7, 40}, lengths());
}

TEST(ShortRows, Pointwise) {
  const std::string head =
      "kernel bias(b0: f32 in, b1: f32 in, b2: f32 out, b3: bool out, b4: i64 in) outer(o0 < {s0}, "
      "o1 < {s1}) {\n";
  const std::string at = "o0*{s1} + o1";
  std::vector<std::string> texts = {
      head + " store(b2, " + at + ", tanh(add(load(b0, " + at + "), load(b1, o1))))\n store(b3, " +
          at + ", lt(load(b0, " + at + "), load(b1, o1)))\n}",
      // Padded on both sides, and a gather.
      head + " store(b2, " + at +
          ", masked(and(le(2, o1), lt(o1, {s1 - 1})), load(b0, o0*{s1} + o1 + -2), 0.5:f32))\n}",
      head + " store(b2, " + at + ", load(b0, check_index(load(b4, o1), 20)*3 + o0))\n}"};
  // An axis as a value.
  if (exhaustive())
    texts.push_back(head + " store(b2, " + at + ", add(load(b0, o1), f32(o1 + o0)))\n}");
  check_kernels(texts, {}, {7, 40}, lengths());
}

// Two axes of work items around short rows: calls begin and end in the middle of either.
TEST(ShortRows, PermutedAxes) {
  const std::string head =
      "kernel heads(b0: f32 in, b1: f32 in, b2: f32 out) outer(o0 < {s0}, o1 < {s1}, o2 < 24) {\n";
  const std::string from = "o1*{24*s0} + o0*24 + o2", to = "o0*{24*s1} + o1*24 + o2";
  check_kernels({head + " store(b2, " + to + ", mul(load(b0, " + from + "), 2:f32))\n}",
                 head + " store(b2, " + to + ", add(load(b0, " + from + "), load(b1, o0)))\n}"},
                {}, {7, 40}, lengths());
}

}  // namespace
}  // namespace braze::codegen::cpp
