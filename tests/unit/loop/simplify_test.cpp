#include <gtest/gtest.h>

#include <random>

#include "loop/linear_form.h"
#include "loop/program.h"
#include "loop/scalar.h"

namespace braze::loop {
namespace {

class Simplify : public ::testing::Test {
 protected:
  ExprRef axis(int number, int64_t extent) { return pool.axis(number, extent); }
  ExprRef div(ExprRef x, int64_t n) { return pool.binary(ExprKind::kFloorDiv, x, pool.integer(n)); }
  ExprRef mod(ExprRef x, int64_t n) { return pool.binary(ExprKind::kMod, x, pool.integer(n)); }
  ExprRef plus(ExprRef x, int64_t n) { return pool.add(x, pool.integer(n)); }

  ExprPool pool;
};

TEST_F(Simplify, EqualSumsAreOnePointer) {
  ExprRef a = axis(0, 64), b = axis(1, 8);
  ExprRef x = pool.add(pool.mul(a, 8), b);
  EXPECT_EQ(x, pool.add(b, pool.mul(a, 8)));
  EXPECT_EQ(x, pool.add(pool.add(pool.mul(a, 3), b), pool.mul(a, 5)));
  EXPECT_EQ(x, pool.binary(ExprKind::kSub, plus(x, 4), pool.integer(4)));
  EXPECT_EQ(to_string(x), "a0*8 + a1");
  EXPECT_EQ(pool.mul(plus(a, 2), 3), plus(pool.mul(a, 3), 6));
  EXPECT_EQ(pool.binary(ExprKind::kSub, x, x), pool.integer(0));
}

TEST_F(Simplify, AxisOfExtentOneIsZero) { EXPECT_EQ(axis(3, 1), pool.integer(0)); }

TEST_F(Simplify, DivisionUndoesFlattening) {
  ExprRef a = axis(0, 64), b = axis(1, 8);
  ExprRef flat = pool.add(pool.mul(a, 8), b);
  EXPECT_EQ(div(flat, 8), a);
  EXPECT_EQ(mod(flat, 8), b);
  EXPECT_EQ(div(plus(flat, 16), 8), plus(a, 2));
  EXPECT_EQ(to_string(div(flat, 16)), "a0//2");
  EXPECT_EQ(to_string(mod(flat, 16)), "a1 + a0%2*8");
  EXPECT_EQ(to_string(div(flat, 4)), "a0*2 + a1//4");
  EXPECT_EQ(div(flat, 512), pool.integer(0));
  EXPECT_EQ(mod(flat, 512), flat);
}

TEST_F(Simplify, NestedDivisions) {
  ExprRef x = axis(0, 4096);
  EXPECT_EQ(div(div(x, 8), 4), div(x, 32));
  EXPECT_EQ(mod(mod(x, 32), 8), mod(x, 8));
  EXPECT_EQ(div(mod(x, 32), 8), mod(div(x, 8), 4));
}

TEST_F(Simplify, SplittingAndMergingIsTheIdentity) {
  ExprRef x = axis(0, 4096);
  EXPECT_EQ(pool.add(pool.mul(div(x, 64), 64), mod(x, 64)), x);
  ExprRef parts =
      pool.add(pool.mul(div(x, 64), 64), pool.add(pool.mul(mod(div(x, 8), 8), 8), mod(x, 8)));
  EXPECT_EQ(parts, x);
}

TEST_F(Simplify, UnknownValuesAreNotSplit) {
  ExprRef value = pool.load(0, DType::kInt64, pool.integer(0));
  ExprRef sum = plus(pool.mul(value, 8), 16);
  EXPECT_EQ(to_string(div(sum, 8)), "(load(b0, 0)*8 + 16)//8");
  ExprRef narrow = pool.cast(pool.load(1, DType::kInt32, pool.integer(0)), DType::kInt64);
  EXPECT_EQ(div(pool.mul(narrow, 8), 8), narrow);
}

TEST_F(Simplify, RangesDecideComparisons) {
  ExprRef a = axis(0, 10);
  EXPECT_EQ(pool.binary(ExprKind::kLt, a, pool.integer(10)), pool.integer(1, DType::kBool));
  EXPECT_EQ(pool.binary(ExprKind::kLe, pool.integer(10), a), pool.integer(0, DType::kBool));
  EXPECT_EQ(pool.binary(ExprKind::kEq, a, pool.integer(11)), pool.integer(0, DType::kBool));
  EXPECT_FALSE(pool.binary(ExprKind::kLt, a, pool.integer(9))->is_constant());
  EXPECT_EQ(pool.binary(ExprKind::kCheckIndex, a, pool.integer(10)), a);
  EXPECT_NE(pool.binary(ExprKind::kCheckIndex, a, pool.integer(9)), a);
  EXPECT_EQ(pool.binary(ExprKind::kMin, a, pool.integer(9)), a);
}

TEST_F(Simplify, FloatIdentitiesAreExact) {
  ExprRef x = pool.load(0, DType::kFloat32, pool.integer(0));
  auto number = [&](double v) { return pool.constant(DType::kFloat32, v); };
  EXPECT_EQ(pool.mul(x, number(1)), x);
  EXPECT_EQ(pool.binary(ExprKind::kSub, x, number(0.0)), x);
  EXPECT_NE(pool.binary(ExprKind::kSub, x, number(-0.0)), x);
  EXPECT_NE(pool.add(x, number(0.0)), x);
  EXPECT_EQ(pool.add(x, number(-0.0)), x);
  EXPECT_NE(pool.mul(x, number(0)), number(0));
  EXPECT_EQ(pool.add(number(0.1), number(0.2)), number(0.1f + 0.2f));
}

TEST_F(Simplify, CastsOfWiderTypesVanish) {
  ExprRef half = pool.load(0, DType::kFloat16, pool.integer(0));
  ExprRef single = pool.cast(half, DType::kFloat32);
  EXPECT_EQ(pool.cast(single, DType::kFloat16), half);
  ExprRef x = pool.load(1, DType::kFloat32, pool.integer(0));
  EXPECT_NE(pool.cast(pool.cast(x, DType::kFloat16), DType::kFloat32), x);
  EXPECT_EQ(pool.cast(pool.cast(x, DType::kFloat64), DType::kFloat32), x);
  EXPECT_EQ(pool.cast(pool.constant(DType::kFloat32, 2.7), DType::kInt32),
            pool.integer(2, DType::kInt32));
}

TEST_F(Simplify, StrideOfAnAxis) {
  ExprRef a = axis(0, 64), b = axis(1, 64);
  IndexInfo info(pool.add(pool.mul(a, 8), mod(b, 16)));
  EXPECT_EQ(info.stride(0), 8);
  EXPECT_EQ(info.stride(1), std::nullopt);
  EXPECT_EQ(info.stride(2), 0);
  EXPECT_TRUE(info.depends_on(1));
  EXPECT_FALSE(info.depends_on(2));
  EXPECT_EQ(info.range(), (Range{0, 63 * 8 + 15}));
}

TEST_F(Simplify, SameFormInAnyPool) {
  ExprPool other;
  auto form = [](ExprPool& p, bool swapped) {
    ExprRef x = p.binary(ExprKind::kMod, p.axis(0, 100), p.integer(7));
    ExprRef y = p.binary(ExprKind::kFloorDiv, p.axis(1, 100), p.integer(9));
    if (swapped) std::swap(x, y);
    return to_string(p.add(x, y));
  };
  EXPECT_EQ(form(pool, false), form(other, true));
}

// The same random arithmetic without any simplification, and through the pool.
struct RandomIndex {
  std::mt19937& random;
  ExprPool& pool;
  const std::vector<int64_t>& extents;
  const std::vector<int64_t>& point;

  int64_t pick(int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); }

  std::pair<ExprRef, int64_t> make(int depth) {
    if (depth == 0 || pick(8) == 0) {
      if (pick(6) == 0) {
        int64_t value = pick(40) - 10;
        return {pool.integer(value), value};
      }
      int64_t i = pick(static_cast<int64_t>(extents.size()));
      return {pool.axis(static_cast<int>(i), extents[i]), point[i]};
    }
    auto [a, x] = make(depth - 1);
    int64_t n = int64_t{1} << pick(6);
    if (pick(4) == 0) n = 1 + pick(12);
    auto floor = [](int64_t p, int64_t q) { return p >= 0 ? p / q : -((-p + q - 1) / q); };
    switch (pick(6)) {
      case 0:
        return {pool.mul(a, n), x * n};
      case 1:
        return {pool.binary(ExprKind::kFloorDiv, a, pool.integer(n)), floor(x, n)};
      case 2:
        return {pool.binary(ExprKind::kMod, a, pool.integer(n)), x - floor(x, n) * n};
      case 3: {
        auto [b, y] = make(depth - 1);
        return {pool.binary(ExprKind::kSub, a, b), x - y};
      }
      case 4: {  // split and merge
        ExprRef q = pool.binary(ExprKind::kFloorDiv, a, pool.integer(n));
        ExprRef r = pool.binary(ExprKind::kMod, a, pool.integer(n));
        return {pool.add(pool.mul(q, n), r), x};
      }
      default: {
        auto [b, y] = make(depth - 1);
        return {pool.add(a, b), x + y};
      }
    }
  }
};

TEST_F(Simplify, FuzzAgainstPlainArithmetic) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    std::vector<int64_t> extents, point;
    for (int i = 0; i < 3; ++i) {
      extents.push_back(1 + static_cast<int64_t>(random() % 40));
      point.push_back(static_cast<int64_t>(random() % static_cast<uint32_t>(extents.back())));
    }
    auto [expr, expected] = RandomIndex{random, pool, extents, point}.make(5);
    EXPECT_LE(expr->range.lo, expected) << "seed " << seed << ": " << to_string(expr);
    EXPECT_GE(expr->range.hi, expected) << "seed " << seed << ": " << to_string(expr);
    // Evaluated by a kernel with one point at the given axes.
    Kernel kernel;
    for (int64_t extent : extents) kernel.outer.push_back({extent});
    kernel.params = {{DType::kInt64, true}};
    ExprRef at = pool.integer(0);
    for (int i = 0; i < 3; ++i) at = pool.add(pool.mul(at, extents[i]), axis(i, extents[i]));
    Statement store;
    store.buffer = 0;
    store.index = at;
    store.value = expr;
    kernel.body = {store};
    verify(kernel);
    std::vector<int64_t> out(extents[0] * extents[1] * extents[2]);
    if (out.size() > 4000) continue;
    void* params[] = {out.data()};
    ASSERT_TRUE(interpret(kernel, params));
    int64_t index = (point[0] * extents[1] + point[1]) * extents[2] + point[2];
    EXPECT_EQ(out[index], expected) << "seed " << seed << ": " << to_string(expr);
  }
}

}  // namespace
}  // namespace braze::loop
