#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "loop/checks.h"
#include "loop/kernel_errors.h"
#include "loop/program.h"
#include "loop/scalar.h"

namespace braze::loop {
namespace {

constexpr const char* kSoftmax =
    R"(kernel softmax(b0: f32 in, b1: f32 out) outer(o0 < 2) inner(i0 < 3) {
  r0 = max(load(b0, o0*3 + i0)) inner
  t0 = exp(sub(load(b0, o0*3 + i0), r0))
  r1 = sum(t0) inner
  store(b1, o0*3 + i0, div(t0, r1)) inner
}
)";

std::string round_trip(const std::string& text) {
  ExprPool pool;
  Kernel kernel = parse_kernel(text, pool);
  verify(kernel);
  return to_string(kernel);
}

TEST(KernelText, RoundTrip) {
  EXPECT_EQ(round_trip(kSoftmax), kSoftmax);
  for (std::string text : {
           "kernel k(b0: f16 in, b1: bf16 out) outer(o0 < 4) {\n"
           "  store(b1, o0, bf16(mul(f32(load(b0, o0)), 0.1:f32)))\n}\n",
           "kernel (b0: i64 in, b1: bool out) {\n"
           "  store(b1, 0, le(load(b0, check_index(load(b0, 0), 7)), -3))\n}\n",
           "kernel k(b0: f64 out) outer(o0 < 4, o1 < 5) {\n"
           "  store(b0, o0*5 + o1, where(lt(o1, 2), -inf:f64, nan:f64))\n}\n",
           "kernel k(b0: i32 in, b1: i64 out) inner(i0 < 9) {\n"
           "  r0 = argmin(load(b0, i0)) inner\n"
           "  store(b1, 0, r0)\n"
           "  store(b1, 1, i64(r0.1))\n}\n",
           "kernel k(b0: u8 in, b1: f32 out) outer(o0 < 64) {\n"
           "  store(b1, o0, masked(lt(o0//8%4, 3), bitcast(f32, i32(load(b0, (o0 + 1)//2))), "
           "-0:f32))\n}\n",
       })
    EXPECT_EQ(round_trip(text), text);
}

TEST(KernelText, NamesAndBuffersAreNotIdentity) {
  ExprPool pool;
  Kernel a = parse_kernel(kSoftmax, pool), b = a;
  b.name = "other";
  b.params[0].buffer = 12;
  EXPECT_EQ(to_string(a, false), to_string(b, false));
  EXPECT_EQ(to_string(parse_kernel(to_string(a, false), pool), false), to_string(a, false));
}

TEST(KernelText, SharedExpressionsStaySmall) {
  ExprPool pool;
  ExprRef x = pool.load(0, DType::kFloat32, pool.integer(0));
  for (int i = 0; i < 200; ++i) x = pool.mul(x, x);
  EXPECT_LT(to_string(x).size(), 8000u);
}

TEST(KernelText, Errors) {
  expect_message("kernel k(b0: f33 in) {}", "unknown dtype f33");
  expect_message("kernel k(b0: f32 out) { store(b0, 0, exq(1:f32)) }", "unknown op exq");
  expect_message("kernel k(b0: f32 out) { store(b0, 0, t3) }", "undefined t3");
  expect_message("kernel k(b0: f32 out) { store(b0, o0, 1:f32) }", "no such axis");
  expect_message("kernel k(b0: f32 out) { store(b0, 0, add(1:f32)) }", "operands of add");
  expect_message("kernel k(b0: f32 out) { store(b0, 0, 1.5) }", "a float needs a dtype");
}

TEST(KernelVerify, Errors) {
  expect_message("kernel k(b0: f32 in) { store(b0, 0, 1:f32) }", "store to the input b0");
  expect_message("kernel k(b0: f32 out) { store(b0, 0, 1:f64) }", "store of f64 to b0 of f32");
  expect_message("kernel k(b0: f32 out) inner(i0 < 4) { store(b0, i0, 1:f32) }",
                 "inner axis 0 in an outer statement");
  expect_message("kernel k(b0: f32 out, b1: f32 out) outer(o0 < 4) { store(b0, o0, load(b1, o0)) }",
                 "an index that was not stored before");
  expect_message(
      "kernel k(b0: f16 in, b1: f16 out) outer(o0 < 4) { "
      "store(b1, o0, exp(load(b0, o0))) }",
      "exp computed in f16");
  ExprPool pool;
  EXPECT_THROW(pool.add(pool.integer(1), pool.constant(DType::kFloat32, 1)), InternalError);
}

TEST(Interpret, Softmax) {
  ExprPool pool;
  Kernel kernel = parse_kernel(kSoftmax, pool);
  float in[6] = {1, 2, 3, -1, 0, NAN}, out[6];
  void* params[] = {in, out};
  ASSERT_TRUE(interpret(kernel, params));
  double total = std::exp(-2.0) + std::exp(-1.0) + 1;
  EXPECT_NEAR(out[0], std::exp(-2.0) / total, 1e-7);
  EXPECT_NEAR(out[2], 1 / total, 1e-7);
  EXPECT_TRUE(std::isnan(out[3]));
}

TEST(Interpret, ArgmaxTakesTheFirstAndNan) {
  ExprPool pool;
  Kernel kernel = parse_kernel(
      "kernel k(b0: f32 in, b1: i64 out) inner(i0 < 5) {\n"
      "  r0 = argmax(load(b0, i0)) inner\n  store(b1, 0, r0)\n}\n",
      pool);
  int64_t out = -1;
  float ties[5] = {1, 7, 3, 7, 7}, nan[5] = {1, NAN, 9, NAN, 0};
  void* params[] = {ties, &out};
  ASSERT_TRUE(interpret(kernel, params));
  EXPECT_EQ(out, 1);
  params[0] = nan;
  ASSERT_TRUE(interpret(kernel, params));
  EXPECT_EQ(out, 1);
}

TEST(Interpret, Welford) {
  ExprPool pool;
  Kernel kernel = parse_kernel(
      "kernel k(b0: f32 in, b1: f32 out) inner(i0 < 4) {\n"
      "  r0 = welford(load(b0, i0)) inner\n"
      "  store(b1, 0, r0)\n  store(b1, 1, r0.1)\n  store(b1, 2, r0.2)\n}\n",
      pool);
  float in[4] = {1, 2, 3, 6}, out[3];
  void* params[] = {in, out};
  ASSERT_TRUE(interpret(kernel, params));
  EXPECT_EQ(out[0], 3);
  EXPECT_EQ(out[1], 14);
  EXPECT_EQ(out[2], 4);
}

TEST(Interpret, ChecksCountWhereTheirIndexDoesNot) {
  ExprPool pool;
  const std::string text =
      "kernel k(b0: i64 in, b1: f32 out) outer(o0 < 2) {\n"
      "  store(b1, o0, after(check_index(load(b0, o0), 3), 7:f32))\n}\n";
  const Kernel kernel = parse_kernel(text, pool);
  EXPECT_EQ(to_string(kernel), text);
  int64_t index[2] = {2, 0};
  float out[2] = {};
  void* params[] = {index, out};
  ASSERT_TRUE(interpret(kernel, params));
  EXPECT_EQ(out[1], 7);
  index[1] = 3;
  EXPECT_FALSE(interpret(kernel, params));
}

TEST(Checks, AreThoseThatAreMadeInAnyCase) {
  ExprPool pool;
  const Kernel kernel = parse_kernel(
      "kernel k(b0: i64 in, b1: f32 out) outer(o0 < 2) {\n"
      "  store(b1, o0, add(load(b1, check_index(check_index(load(b0, o0), 3) + 1, 3)), "
      "masked(lt(load(b0, o0), 5), load(b1, check_index(load(b0, o0), 7)), 0:f32)))\n}\n",
      pool);
  EXPECT_EQ(checks_in(kernel.body[0].value).size(), 3u);  // two, and the mask around the third
  ExprRef check = pool.binary(ExprKind::kCheckIndex, pool.load(0, DType::kInt64, pool.axis(0, 2)),
                              pool.integer(3));
  EXPECT_EQ(pool.after(check, check), check);
  ExprRef half = pool.after(check, pool.constant(DType::kFloat16, 1));
  EXPECT_EQ(half->dtype, DType::kFloat16);
}

TEST(Interpret, FailedIndexCheckStops) {
  ExprPool pool;
  Kernel kernel = parse_kernel(
      "kernel k(b0: i64 in, b1: f32 in, b2: f32 out) outer(o0 < 2) {\n"
      "  store(b2, o0, masked(lt(o0, 1), load(b1, check_index(load(b0, o0), 3)), 9:f32))\n}\n",
      pool);
  int64_t index[2] = {2, 100};
  float table[3] = {5, 6, 7}, out[2];
  void* params[] = {index, table, out};
  ASSERT_TRUE(interpret(kernel, params));  // the second index is masked out
  EXPECT_EQ(out[0], 7);
  EXPECT_EQ(out[1], 9);
  index[0] = 3;
  EXPECT_FALSE(interpret(kernel, params));
  index[0] = -1;
  EXPECT_FALSE(interpret(kernel, params));
}

TEST(Interpret, IntegersWrap) {
  ExprPool pool;
  Kernel kernel = parse_kernel(
      "kernel k(b0: u8 in, b1: u8 out) {\n"
      "  store(b1, 0, add(load(b0, 0), load(b0, 0)))\n"
      "  store(b1, 1, bitnot(load(b0, 0)))\n"
      "  store(b1, 2, shl(load(b0, 0), 8:u8))\n}\n",
      pool);
  uint8_t in[1] = {200}, out[3];
  void* params[] = {in, out};
  ASSERT_TRUE(interpret(kernel, params));
  EXPECT_EQ(out[0], 144);
  EXPECT_EQ(out[1], 55);
  EXPECT_EQ(out[2], 0);
}

TEST(Interpret, NothingIsReadForAnEmptyAxis) {
  ExprPool pool;
  Kernel kernel = parse_kernel(
      "kernel k(b0: f32 in, b1: f32 out) outer(o0 < 2) inner(i0 < 0) {\n"
      "  r0 = sum(load(b0, o0*7 + i0)) inner\n  store(b1, o0, r0)\n}\n",
      pool);
  float out[2] = {1, 2};
  void* params[] = {nullptr, out};
  ASSERT_TRUE(interpret(kernel, params));
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[1], 0);
}

TEST(Scalar, HalfRoundsToNearestEven) {
  auto half = [](double v) { return round_to(DType::kFloat16, v); };
  EXPECT_EQ(half(1.0 + 1.0 / 2048), 1.0);
  EXPECT_EQ(half(1.0 + 3.0 / 2048), 1.0 + 2.0 / 1024);
  EXPECT_EQ(half(65519), 65504);
  EXPECT_TRUE(std::isinf(half(65520)));
  EXPECT_EQ(half(std::ldexp(1.0, -24)), std::ldexp(1.0, -24));
  EXPECT_EQ(half(std::ldexp(1.0, -25)), 0);
  EXPECT_EQ(half(std::ldexp(3.0, -26)), std::ldexp(1.0, -24));
  EXPECT_EQ(round_to(DType::kBFloat16, 1.0 + 1.0 / 256), 1.0);
  EXPECT_EQ(round_to(DType::kBFloat16, 1.0 + 3.0 / 256), 1.0 + 1.0 / 64);
}

TEST(Scalar, Division) {
  auto of = [](ExprKind kind, int64_t a, int64_t b) {
    Scalar args[] = {{a, 0}, {b, 0}};
    return apply(kind, DType::kInt64, args).i;
  };
  EXPECT_EQ(of(ExprKind::kFloorDiv, -7, 2), -4);
  EXPECT_EQ(of(ExprKind::kTruncDiv, -7, 2), -3);
  EXPECT_EQ(of(ExprKind::kMod, -7, 2), 1);
  EXPECT_EQ(of(ExprKind::kMod, 7, -2), -1);
  EXPECT_EQ(of(ExprKind::kFmod, -7, 2), -1);
  EXPECT_EQ(of(ExprKind::kFloorDiv, INT64_MIN, -1), INT64_MIN);
}

}  // namespace
}  // namespace braze::loop
