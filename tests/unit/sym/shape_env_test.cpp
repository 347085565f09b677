#include "sym/shape_env.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace braze::sym {
namespace {

std::vector<std::string> texts(const ShapeEnv& env) {
  std::vector<std::string> all;
  for (const ShapeEnv::Guard& guard : env.guards()) all.push_back(guard.text);
  return all;
}

bool holds(const ShapeEnv& env, std::vector<int64_t> values) { return env.holds(values); }

TEST(ShapeEnv, SpecialisedSymbolIsItsConstant) {
  ShapeEnv env;
  EXPECT_EQ(env.symbol("s0", 128, true), Int(128));
  EXPECT_EQ(texts(env), std::vector<std::string>{"s0 == 128"});
  EXPECT_TRUE(holds(env, {128}));
  EXPECT_FALSE(holds(env, {127}));
}

TEST(ShapeEnv, ZeroAndOneAreSpecialised) {
  ShapeEnv env;
  EXPECT_EQ(env.symbol("s0", 1, false), Int(1));
  EXPECT_EQ(env.symbol("s1", 0, false), Int(0));
  const Int s2 = env.symbol("s2", 7, false);
  EXPECT_FALSE(s2.is_constant());
  EXPECT_EQ(env.symbol_count(), 3);
  EXPECT_EQ(texts(env), (std::vector<std::string>{"s0 == 1", "s1 == 0", "s2 >= 2"}));
}

TEST(ShapeEnv, DecidedQuestionsNeedNoGuard) {
  ShapeEnv env;
  const Int s0 = env.symbol("s0", 8, false);
  EXPECT_FALSE(env.guard_eq(s0, 1));
  EXPECT_TRUE(env.guard_lt(0, s0));
  EXPECT_TRUE(env.guard_eq(s0 + 1, 1 + s0));
  EXPECT_EQ(env.guards().size(), 1u);  // s0 >= 2
}

TEST(ShapeEnv, HintsDecideAndAreGuarded) {
  ShapeEnv env;
  const Int a = env.symbol("s0", 8, false), b = env.symbol("s1", 8, false);
  EXPECT_TRUE(env.guard_eq(a, b));
  EXPECT_TRUE(env.guard_lt(a, 10));
  EXPECT_FALSE(env.guard_lt(5, 4 + a - a));
  EXPECT_FALSE(env.guard_lt(a, 4));
  EXPECT_EQ(texts(env),
            (std::vector<std::string>{"s0 >= 2", "s1 >= 2", "s0 == s1", "s0 < 10", "s0 >= 4"}));
  EXPECT_TRUE(env.guard_eq(a, b));   // known
  EXPECT_TRUE(env.guard_lt(a, 12));  // implied
  EXPECT_EQ(env.guards().size(), 5u);
  EXPECT_TRUE(holds(env, {4, 4}));
  EXPECT_FALSE(holds(env, {4, 5}));
  EXPECT_FALSE(holds(env, {10, 10}));
  EXPECT_FALSE(holds(env, {3, 3}));
}

TEST(ShapeEnv, ConstantOnTheLeftIsTurnedRound) {
  ShapeEnv env;
  const Int s0 = env.symbol("s0", 8, false);
  EXPECT_TRUE(env.guard_lt(3, s0));
  EXPECT_EQ(env.guards().back().text, "s0 > 3");
}

TEST(ShapeEnv, GuardIntSpecialises) {
  ShapeEnv env;
  const Int s0 = env.symbol("s0", 8, false);
  EXPECT_EQ(env.guard_int(s0 * 2), 16);
  EXPECT_EQ(env.guards().back().text, "2*s0 == 16");
  EXPECT_TRUE(env.guard_eq(s0 * 2, 16));
  EXPECT_EQ(env.guards().size(), 2u);
}

TEST(ShapeEnv, TwoEnvironmentsDoNotMix) {
  ShapeEnv first, second;
  const Int a = first.symbol("a", 3, false), b = second.symbol("b", 3, false);
  EXPECT_THROW(a + b, InternalError);
}

TEST(ShapeEnv, EqualitiesDetermineSymbols) {
  ShapeEnv env;
  const Int past = env.symbol("s0", 7, false), mask = env.symbol("s1", 8, false);
  EXPECT_TRUE(env.guard_eq(mask, past + 1));
  EXPECT_EQ(env.normal(2 * mask), 2 * past + 2);
  EXPECT_TRUE(env.guard_lt(past, mask));
  EXPECT_FALSE(env.guard_eq(mask, past));
  EXPECT_EQ(env.guards().size(), 3u);
  EXPECT_EQ(env.guard_int(past), 7);
  EXPECT_EQ(env.normal(mask), Int(8));
}

TEST(ShapeEnv, RangesBecomeConditions) {
  ShapeEnv env;
  const Int a = env.symbol("s0", 8, Range{2, 64});
  EXPECT_TRUE(env.guard_lt(a, 65));
  EXPECT_FALSE(env.guard_lt(a, 2));
  EXPECT_EQ(texts(env), (std::vector<std::string>{"s0 >= 2", "s0 < 65"}));
  EXPECT_THROW(env.symbol("s1", 8, Range{9, 10}), InternalError);
}

TEST(ShapeEnv, DivisibilityIsUsed) {
  ShapeEnv env;
  const Int a = env.symbol("s0", 24, false);
  EXPECT_TRUE(env.guard_eq(mod(a, 8), 0));
  EXPECT_TRUE(env.guard_eq(8 * floordiv(a, 8), a));
  EXPECT_TRUE(env.guard_eq(16 * floordiv(a, 8), 2 * a));
  EXPECT_EQ(texts(env), (std::vector<std::string>{"s0 >= 2", "s0 % 8 == 0"}));
}

TEST(ShapeEnv, SettlingLeavesWhatIsFree) {
  ShapeEnv env;
  const Int a = env.symbol("s0", 7, false), b = env.symbol("s1", 8, false),
            c = env.symbol("s2", 5, false), d = env.symbol("s3", 30, false);
  env.guard_eq(b, a + 1);
  env.guard_int(c);
  env.guard_lt(d, 100);
  env.guard_lt(d, 50);
  env.guard_eq(mod(d, 3), 0);
  const ShapeEnv::Settled settled = env.settle();
  EXPECT_EQ(settled.kept, (std::vector<int>{0, 3}));
  const Int s0(settled.arena->symbol_expr(0)), s1(settled.arena->symbol_expr(1));
  EXPECT_EQ(settled.values, (std::vector<Int>{s0, s0 + 1, 5, s1}));
  std::vector<std::string> conditions;
  for (const Condition& condition : settled.conditions) conditions.push_back(to_string(condition));
  EXPECT_EQ(conditions,
            (std::vector<std::string>{"s0 >= 2", "s1 >= 2", "s1 <= 49", "s1 % 3 == 0"}));
  EXPECT_EQ(replace(b * c, settled.values), 5 * s0 + 5);
}

TEST(ShapeEnv, TheGuardThatMadeANumberIsKnown) {
  ShapeEnv env;
  int line = 0;
  env.set_observer([&] { return "line " + std::to_string(++line); });
  const Int a = env.symbol("s0", 7, false), b = env.symbol("s1", 8, false);
  EXPECT_EQ(env.why_constant(a), nullptr);
  env.guard_eq(b, a + 1);
  env.guard_int(b);
  ASSERT_NE(env.why_constant(2 * a), nullptr);
  EXPECT_EQ(env.why_constant(2 * a)->place, "line 4");
}

// --- Symbols whose values come from data

TEST(ShapeEnv, AHintOfDataDecidesNothing) {
  ShapeEnv env;
  const Int u = env.unbacked("u0", 4096, {0, 1 << 20});
  EXPECT_TRUE(env.is_unbacked(0));
  EXPECT_TRUE(env.guard_lt(-1, u));  // by its range
  EXPECT_THROW(env.guard_lt(u, 5), Undecidable);
  EXPECT_THROW(env.guard_int(u), Undecidable);
  EXPECT_EQ(env.known(Relation::kEqual, u, 3), std::nullopt);
  EXPECT_TRUE(env.guards().empty());
}

TEST(ShapeEnv, AValueOfTheCallDecidesOnlyWhetherAnExpectationHolds) {
  ShapeEnv env;
  const Int u = env.unbacked("u0", 64, {0, INT64_MAX}, 3);
  EXPECT_THROW(env.guard_lt(u, 5), Undecidable);
  EXPECT_FALSE(env.expect(Relation::kNotLess, u, 4));
  EXPECT_TRUE(env.expect(Relation::kNotLess, u, 2));
  EXPECT_FALSE(env.guard_eq(u, 1));
}

TEST(ShapeEnv, AssertionsAreKnownFromThenOn) {
  ShapeEnv env;
  const Int s = env.symbol("s0", 8, false), u = env.unbacked("u1", 4096, {});
  EXPECT_TRUE(env.expect(Relation::kNotLess, u, 0));
  EXPECT_TRUE(env.expect(Relation::kNotLess, s, u));
  EXPECT_FALSE(env.guard_lt(u, 0));
  EXPECT_FALSE(env.guard_lt(s, u));
  EXPECT_FALSE(env.guard_eq(u, s + 1));
  EXPECT_THROW(env.guard_eq(u, s), Undecidable);
  EXPECT_TRUE(env.expect(Relation::kNotEqual, u, 5));
  EXPECT_FALSE(env.guard_eq(u, 5));
  EXPECT_FALSE(env.expect(Relation::kLess, u, 0));
  const ShapeEnv::Settled settled = env.settle();
  std::vector<std::string> assertions;
  for (const Condition& assertion : settled.assertions) assertions.push_back(to_string(assertion));
  EXPECT_EQ(assertions, (std::vector<std::string>{"s1 >= 0", "s0 >= s1", "s1 != 5"}));
  EXPECT_EQ(settled.conditions.size(), 1u);  // s0 >= 2: none that asks for data
}

TEST(ShapeEnv, NumbersFromDataHaveNoValue) {
  ShapeEnv env;
  const Int u = env.unbacked("u0", 4096, {0, 1 << 20});
  EXPECT_TRUE(env.expect(Relation::kLess, u, 10));  // the hint is out of range from here on
  EXPECT_THROW(env.guard_int(u + 1), Undecidable);
  EXPECT_TRUE(env.expect(Relation::kEqual, u, 7));
  EXPECT_EQ(env.guard_int(u + 1), 8);
}

TEST(ShapeEnv, HintsOfNumbersFromDataFitTheAssertions) {
  ShapeEnv env;
  const Int s = env.symbol("s0", 8, false);
  const Int u = env.unbacked("u1", 4096, {0, 1 << 20}), v = env.unbacked("u2", 4096, {0, 1 << 20});
  EXPECT_TRUE(env.expect(Relation::kNotLess, s, u));
  EXPECT_TRUE(env.expect(Relation::kEqual, u + v, s));
  const ShapeEnv::Settled settled = env.settle();
  const auto hint = [&](int symbol) { return settled.arena->symbol_expr(symbol)->hint; };
  EXPECT_LE(hint(1), hint(0));
  EXPECT_EQ(hint(1) + hint(2), hint(0));
  EXPECT_GE(std::min(hint(1), hint(2)), 0);
}

TEST(ShapeEnv, ProductsOfAnyIntegersAreBounded) {
  ShapeEnv env;
  const Int n = env.symbol("s0", 5, Range{}), large = env.symbol("s1", int64_t{1} << 40, Range{});
  EXPECT_TRUE(env.may_multiply(n, n));
  const size_t guards = env.guards().size();
  EXPECT_EQ(guards, 2u);  // from both sides
  EXPECT_TRUE(env.may_add(n, n + 1));
  EXPECT_EQ(env.guards().size(), guards);  // follows from the range
  EXPECT_TRUE(env.may_multiply(n * n, n));
  EXPECT_GT(env.guards().size(), guards);
  EXPECT_FALSE(env.may_multiply(large, n));
  EXPECT_TRUE(env.may_multiply(large, 1000));
  EXPECT_FALSE(env.may_multiply(large, int64_t{1} << 40));
  EXPECT_FALSE(env.may_multiply(n, std::numeric_limits<int64_t>::min()));
}

TEST(ShapeEnv, ProductsOfSizesNeedNoBounds) {
  ShapeEnv env;
  const Int s = env.symbol("s0", 8, false), t = env.symbol("s1", 9, false);
  const size_t guards = env.guards().size();
  EXPECT_TRUE(env.may_multiply(s, s));
  EXPECT_TRUE(env.may_multiply(s * s, t));
  EXPECT_TRUE(env.may_multiply(s, 4096));
  EXPECT_EQ(env.guards().size(), guards);
}

TEST(ShapeEnv, PowersOfSizesAreBounded) {
  ShapeEnv env;
  const Int s = env.symbol("s0", 8, false), large = env.symbol("s1", 70'000, false);
  const size_t guards = env.guards().size();
  EXPECT_TRUE(env.may_multiply(s * s, s));
  EXPECT_GT(env.guards().size(), guards);
  EXPECT_FALSE(env.may_multiply(large * large, large * large));
  EXPECT_FALSE(env.may_multiply(large, 1'000'000'000'000'000));
}

TEST(ShapeEnv, TheLowestIntegerIsAFactorLikeAnyOther) {
  ShapeEnv env;
  const Int n = env.symbol("s0", 5, Range{});
  EXPECT_FALSE(env.may_multiply(n, INT64_MIN));
  EXPECT_FALSE(env.may_multiply(INT64_MIN, n));
  EXPECT_FALSE(env.may_add(n, INT64_MIN));
}

}  // namespace
}  // namespace braze::sym
