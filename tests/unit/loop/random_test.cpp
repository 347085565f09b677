#include "loop/random.h"

#include <gtest/gtest.h>

#include <set>

#include "base/philox.h"
#include "loop/program.h"

namespace braze::loop {
namespace {

using Words = std::array<uint32_t, 4>;

// The vectors of Random123, the library of the paper (tests/kat_vectors).
struct Known {
  uint64_t key, offset, subsequence;
  Words words;
};
constexpr Known kKnown[] = {
    {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {~0ull, ~0ull, ~0ull, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {0x299f31d0a4093822,
     0x85a308d3243f6a88,
     0x0370734413198a2e,
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

TEST(Philox, GivesTheKnownAnswers) {
  for (const Known& known : kKnown)
    EXPECT_EQ(philox(known.key, known.offset, known.subsequence), known.words);
}

TEST(Random, InterpretsAndFoldsToTheKnownAnswers) {
  const std::string text =
      "kernel words(b0: i64 in, b1: i32 out) outer(o0 < 4) {\n"
      "  store(b1, o0, random(load(b0, 0), load(b0, 1), load(b0, 2), o0))\n}\n";
  for (const Known& known : kKnown) {
    ExprPool pool;
    const Kernel kernel = parse_kernel(text, pool);
    verify(kernel);
    EXPECT_EQ(to_string(kernel), text);
    int64_t operands[] = {static_cast<int64_t>(known.key), static_cast<int64_t>(known.offset),
                          static_cast<int64_t>(known.subsequence)};
    Words words = {};
    void* const params[] = {operands, words.data()};
    ASSERT_TRUE(interpret(kernel, params));
    EXPECT_EQ(words, known.words);
    for (int word = 0; word < 4; ++word) {
      ExprRef folded = pool.make(ExprKind::kRandom, DType::kInt32,
                                 {pool.integer(operands[0]), pool.integer(operands[1]),
                                  pool.integer(operands[2]), pool.integer(word)});
      ASSERT_TRUE(folded->is_constant());
      EXPECT_EQ(static_cast<uint32_t>(folded->ival), known.words[word]);
    }
  }
}

TEST(Random, TakesIntegersOf64BitsAlone) {
  ExprPool pool;
  ExprRef narrow = pool.load(0, DType::kInt32, pool.integer(0));
  EXPECT_THROW(pool.make(ExprKind::kRandom, DType::kInt32, {narrow, narrow, narrow, narrow}),
               InternalError);
  ExprRef wide = pool.load(0, DType::kInt64, pool.integer(0));
  EXPECT_THROW(pool.make(ExprKind::kRandom, DType::kInt64, {wide, wide, wide, wide}),
               InternalError);
}

TEST(Random, ElementsTakeEachWordOnce) {
  ExprPool pool;
  ExprRef key = pool.load(0, DType::kInt64, pool.integer(0));
  ExprRef element = pool.add(pool.mul(pool.axis(0, 7), 96), pool.axis(1, 96));
  ExprRef random = random_word(pool, key, pool.integer(5), element);
  EXPECT_EQ(element_of_random(random), element);
  std::set<std::pair<int64_t, int64_t>> taken;
  for (int64_t e = 0; e < 640; ++e) {
    Substitution memo;
    const auto with_key = [&](ExprRef expr) { return expr == key ? pool.integer(77) : nullptr; };
    ExprRef word =
        rewrite(pool, random_word(pool, key, pool.integer(5), pool.integer(e)), memo, with_key);
    ASSERT_TRUE(word->is_constant());
    const int64_t counter = e / 64 * 16 + e % 16, which = e / 16 % 4;
    EXPECT_EQ(static_cast<uint32_t>(word->ival), philox(77, 5, counter)[which]) << e;
    EXPECT_TRUE(taken.emplace(counter, which).second);
  }
  EXPECT_EQ(element_of_random(
                pool.make(ExprKind::kRandom, DType::kInt32, {key, key, element, pool.integer(0)})),
            nullptr);
}

}  // namespace
}  // namespace braze::loop
