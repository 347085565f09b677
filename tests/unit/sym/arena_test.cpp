#include <gtest/gtest.h>

#include <random>

#include "sym/expr.h"
#include "sym/facts.h"

namespace braze::sym {
namespace {

struct Arena : testing::Test {
  ExprArena arena;
  Int s{arena.symbol("s0", 128, {2, INT64_MAX})};
  Int t{arena.symbol("s1", 12, {2, INT64_MAX})};
};

TEST_F(Arena, WhatIsThereIsNotMadeAgain) {
  auto make = [&] { return floordiv(s * t * 3 + s * 5 + 7, 4) + max(s, t) * mod(s, 3); };
  const Int first = make();
  const int count = arena.expression_count();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(make(), first);
  EXPECT_EQ(arena.expression_count(), count);
}

TEST_F(Arena, ConclusionsFollowTheRanges) {
  EXPECT_EQ(arena.range_of(s * t).low, 4);
  const Int smaller = min(s, 64);
  EXPECT_NE(smaller, s);
  EXPECT_FALSE(known_at_least(s - t, 1));
  EXPECT_EQ(to_string(mod(s, 1000)), "s0 % 1000");

  arena.set_range(0, {20, 60});
  arena.set_range(1, {2, 19});
  EXPECT_EQ(arena.range_of(s * t).low, 40);
  EXPECT_EQ(min(s, 64), s);
  EXPECT_TRUE(known_at_least(s - t, 1));
  EXPECT_EQ(mod(s, 1000), s);
}

TEST_F(Arena, ManyExpressionsStayApart) {
  std::vector<Int> all;
  for (int i = 1; i < 40; ++i)
    for (int j = 0; j < 40; ++j) all.push_back(s * i + t * j + s * t * (i + j) + i * j);
  const std::vector<int64_t> values{7, 3};
  size_t at = 0;
  for (int i = 1; i < 40; ++i)
    for (int j = 0; j < 40; ++j, ++at) {
      EXPECT_EQ(evaluate(all[at], values), 7 * i + 3 * j + 21 * (i + j) + i * j);
      EXPECT_EQ(all[at], s * i + t * j + s * t * (i + j) + i * j);
    }
}

TEST_F(Arena, ReplacementIsReplace) {
  std::mt19937 random(5);
  ExprArena other;
  const Int x(other.symbol("x", 9, {2, 100}));
  const std::vector<Int> values{x * 2, Int(6)};
  std::vector<Int> made{s, t};
  for (int i = 0; i < 200; ++i) {
    const Int a = made[random() % made.size()], b = made[random() % made.size()];
    switch (random() % 5) {
      case 0:
        made.push_back(a + b);
        break;
      case 1:
        if (i < 6) made.push_back(a * b);
        break;
      case 2:
        made.push_back(max(a, b));
        break;
      case 3:
        made.push_back(floordiv(a, 3));
        break;
      default:
        made.push_back(mod(a, 7) - b);
    }
  }
  Replacement replacement(values);
  for (const Int& value : made) {
    EXPECT_EQ(replacement(value), replace(value, values));
    EXPECT_EQ(replacement(value), replacement(value));
  }
}

}  // namespace
}  // namespace braze::sym
