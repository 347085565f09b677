// Index arithmetic over symbolic sizes.
#include <gtest/gtest.h>

#include "loop/linear_form.h"
#include "loop/program.h"

namespace braze::loop {
namespace {

struct Sizes : testing::Test {
  sym::ExprArena arena;
  sym::Int s{arena.symbol("s0", 128, {2, INT64_MAX})};
  sym::Int t{arena.symbol("s1", 12, {2, INT64_MAX})};
  ExprPool pool;
  ExprRef a = pool.axis(0, s), b = pool.axis(1, t), c = pool.axis(2, 64);

  ExprRef div(ExprRef x, sym::Int n) { return pool.binary(ExprKind::kFloorDiv, x, pool.index(n)); }
  ExprRef mod(ExprRef x, sym::Int n) { return pool.binary(ExprKind::kMod, x, pool.index(n)); }
  ExprRef lt(ExprRef x, ExprRef y) { return pool.binary(ExprKind::kLt, x, y); }
  // Row-major over [s, t, 64].
  ExprRef dense() { return pool.add(pool.add(pool.mul(a, t * 64), pool.mul(b, 64)), c); }
};

TEST_F(Sizes, SizesAreCoefficients) {
  EXPECT_EQ(to_string(dense()), "a0*{64*s1} + a1*64 + a2");
  EXPECT_EQ(pool.mul(pool.add(a, pool.index(s)), t), pool.add(pool.mul(a, t), pool.index(s * t)));
  EXPECT_EQ(pool.add(pool.mul(a, t), pool.mul(a, sym::Int(0) - t)), pool.integer(0));
  EXPECT_EQ(pool.index(sym::Int(7)), pool.integer(7));
}

TEST_F(Sizes, DivisionsOfDenseIndices) {
  EXPECT_EQ(div(dense(), t * 64), a);
  EXPECT_EQ(mod(dense(), t * 64), pool.add(pool.mul(b, 64), c));
  EXPECT_EQ(div(dense(), 64), pool.add(pool.mul(a, t), b));
  EXPECT_EQ(mod(div(dense(), 64), t), b);
  EXPECT_EQ(mod(dense(), 64), c);
  EXPECT_EQ(mod(b, t), b);
  EXPECT_EQ(div(b, t), pool.integer(0));
}

TEST_F(Sizes, SplitsComeTogetherAgain) {
  ExprRef flat = pool.axis(0, s * t);
  EXPECT_EQ(pool.add(pool.mul(div(flat, t), t), mod(flat, t)), flat);
}

TEST_F(Sizes, WhatIsNotKnownStays) {
  EXPECT_EQ(mod(a, t)->kind, ExprKind::kMod);
  EXPECT_EQ(div(a, t)->kind, ExprKind::kFloorDiv);
  EXPECT_EQ(mod(a, 2)->kind, ExprKind::kMod);
  EXPECT_EQ(lt(a, b)->kind, ExprKind::kLt);
}

TEST_F(Sizes, ComparisonsByRange) {
  EXPECT_EQ(lt(a, pool.index(s)), pool.integer(1, DType::kBool));
  EXPECT_EQ(lt(pool.add(a, pool.index(t)), pool.index(t)), pool.integer(0, DType::kBool));
  EXPECT_EQ(pool.binary(ExprKind::kCheckIndex, a, pool.index(s)), a);
}

TEST_F(Sizes, TextIsReadBack) {
  const char* text = R"(kernel k(b0: f32 in, b1: f32 out) outer(o0 < {s0*s1}, o1 < 8) {
  store(b1, o0*8 + o1, load(b0, o0 + o1*{s0*s1} + {s1}))
}
)";
  EXPECT_EQ(to_string(parse_kernel(text, pool, &arena)), text);
}

TEST_F(Sizes, Interpreter) {
  Kernel kernel = parse_kernel(
      "kernel k(b0: f32 in, b1: f32 out) outer(o0 < {s0}) inner(i0 < {s1}) {\n"
      "  r0 = sum(load(b0, o0*{s1} + i0)) inner\n  store(b1, o0, r0)\n}\n",
      pool, &arena);
  verify(kernel);
  std::vector<float> in = {1, 2, 3, 4, 5, 6}, out(2);
  void* params[] = {in.data(), out.data()};
  const int64_t values[] = {2, 3};
  ASSERT_TRUE(interpret(kernel, params, values));
  EXPECT_EQ(out, (std::vector<float>{6, 15}));
}

}  // namespace
}  // namespace braze::loop
