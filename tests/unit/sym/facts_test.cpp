#include "sym/facts.h"

#include <gtest/gtest.h>

namespace braze::sym {
namespace {

struct Facts : testing::Test {
  ExprArena arena;
  Int s{arena.symbol("s0", 128, {2, INT64_MAX})};
  Int t{arena.symbol("s1", 12, {2, INT64_MAX})};
};

TEST_F(Facts, ExactDivision) {
  EXPECT_EQ(divide_exactly(s * t * 768, t * 64), s * 12);
  EXPECT_EQ(divide_exactly(s * 768, 64), s * 12);
  EXPECT_EQ(divide_exactly(s * t + s, s), t + Int(1));
  EXPECT_EQ(divide_exactly((s + t) * 8, s + t), Int(8));
  EXPECT_EQ(divide_exactly(s, s), Int(1));
  EXPECT_EQ(divide_exactly(12, 4), Int(3));
  EXPECT_EQ(divide_exactly(s, 2), std::nullopt);
  EXPECT_EQ(divide_exactly(s * 6, 4), std::nullopt);
  EXPECT_EQ(divide_exactly(8, s), std::nullopt);
  EXPECT_EQ(divide_exactly(s + t, s), std::nullopt);
  EXPECT_EQ(divide_exactly(13, 4), std::nullopt);
}

TEST_F(Facts, Bounds) {
  EXPECT_TRUE(known_positive(s));
  EXPECT_TRUE(known_at_least(s * t, 4));
  EXPECT_FALSE(known_at_least(s * t, 5));
  // A difference of two products: (s - 1) * t * 8 > 0.
  EXPECT_TRUE(known_positive(s * t * 8 - t * 8));
  EXPECT_TRUE(known_less((t - Int(1)) * 8 + Int(7), t * 8));
  EXPECT_FALSE(known_positive(s - t));
  EXPECT_FALSE(known_positive(s - Int(2)));
  EXPECT_TRUE(known_at_least(s - Int(2), 0));
}

}  // namespace
}  // namespace braze::sym
