#include "sym/int.h"

#include <gtest/gtest.h>

#include <random>

#include "sym/expr.h"
#include "sym/shape_env.h"

namespace braze::sym {
namespace {

TEST(Int, ConstantsFold) {
  EXPECT_EQ(Int(2) + Int(3), Int(5));
  EXPECT_EQ(Int(2) - Int(3), Int(-1));
  EXPECT_EQ(Int(2) * Int(3), Int(6));
  EXPECT_EQ(floordiv(Int(-7), Int(2)), Int(-4));
  EXPECT_EQ(mod(Int(-7), Int(2)), Int(1));
  EXPECT_EQ(mod(Int(7), Int(-2)), Int(-1));
  EXPECT_EQ(min(Int(2), Int(3)), Int(2));
  EXPECT_EQ(max(Int(2), Int(3)), Int(3));
}

TEST(Int, ContiguousStridesCountEmptyDimsAsOne) {
  EXPECT_EQ(contiguous_strides(Dims{2, 0, 3}), (Dims{3, 3, 1}));
  EXPECT_EQ(contiguous_strides(Dims{}), Dims{});
  EXPECT_EQ(product(Dims{2, 3, 4}), Int(24));
  EXPECT_EQ(constants(Dims{2, 3}), (std::vector<int64_t>{2, 3}));
}

TEST(Int, ConstantOfAnExpressionIsAnError) {
  ShapeEnv env;
  const Int s0 = env.symbol("s0", 8, false);
  EXPECT_THROW(s0.constant(), InternalError);
  EXPECT_EQ(s0.hint(), 8);
}

TEST(Int, ExpressionsAreInternedInCanonicalForm) {
  ShapeEnv env;
  const Int a = env.symbol("a", 8, false), b = env.symbol("b", 5, false);
  EXPECT_EQ(a + b, b + a);
  EXPECT_EQ((a + 1) * (a - 1), a * a - 1);
  EXPECT_EQ(a - a, Int(0));
  EXPECT_EQ(floordiv(a * b, b), a);
  EXPECT_EQ(floordiv(a * 6 + 3, 3), a * 2 + 1);
  EXPECT_EQ(mod(a * 6 + b, 3), mod(b, 3));
  EXPECT_EQ(mod(a * b, a), Int(0));
  EXPECT_EQ(floordiv(a + b, a + b), Int(1));
  EXPECT_EQ(max(a, 1), a);
  EXPECT_EQ(min(a + 1, a), a);
}

TEST(Int, PrintsAsPeopleWrite) {
  ShapeEnv env;
  const Int a = env.symbol("s0", 8, false), b = env.symbol("s1", 5, false);
  EXPECT_EQ(to_string(a * 2 + 1), "2*s0 + 1");
  EXPECT_EQ(to_string(b - a), "-s0 + s1");
  EXPECT_EQ(to_string(a * b), "s0*s1");
  EXPECT_EQ(to_string(floordiv(a + 1, 2) * 4), "4*((s0 + 1) // 2)");
  EXPECT_EQ(to_string(mod(a, 4)), "s0 % 4");
  EXPECT_EQ(to_string(min(a, b)), "min(s0, s1)");
  EXPECT_EQ(to_string(Int(-3)), "-3");
}

// Every operation agrees with plain integers on random values of the symbols.
TEST(Int, AgreesWithPlainArithmetic) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto pick = [&](int n) { return static_cast<int>(random() % n); };
    ShapeEnv env;
    std::vector<Int> values;
    for (int i = 0; i < 3; ++i)
      values.push_back(env.symbol("s" + std::to_string(i), 2 + pick(9), false));
    const std::vector<int64_t> other = {2 + pick(30), 2 + pick(30), 2 + pick(30)};
    std::vector<int64_t> expected = other;
    for (int step = 0; step < 12; ++step) {
      const size_t i = pick(static_cast<int>(values.size())),
                   j = pick(static_cast<int>(values.size()));
      const int64_t c = pick(9) - 3;
      Int a = values[i], b = values[j];
      int64_t x = expected[i], y = expected[j];
      if (pick(3) == 0) b = c, y = c;
      if (std::abs(x) > 10000 || std::abs(y) > 10000) continue;
      const int op = pick(7);
      const bool positive = b.is_constant() ? y > 0 : j < 3;
      if ((op == 3 || op == 4) && !positive) continue;
      switch (op) {
        case 0:
          values.push_back(a + b);
          expected.push_back(x + y);
          break;
        case 1:
          values.push_back(a - b);
          expected.push_back(x - y);
          break;
        case 2:
          values.push_back(a * b);
          expected.push_back(x * y);
          break;
        case 3:
          values.push_back(floordiv(a, b));
          expected.push_back(floordiv(x, y));
          break;
        case 4:
          values.push_back(mod(a, b));
          expected.push_back(mod(x, y));
          break;
        case 5:
          values.push_back(min(a, b));
          expected.push_back(std::min(x, y));
          break;
        case 6:
          values.push_back(max(a, b));
          expected.push_back(std::max(x, y));
          break;
      }
      ASSERT_EQ(evaluate(values.back(), other), expected.back())
          << to_string(values.back()) << " op " << op;
    }
  }
}

}  // namespace
}  // namespace braze::sym
