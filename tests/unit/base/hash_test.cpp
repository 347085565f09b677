#include "base/hash.h"

#include <gtest/gtest.h>

#include <set>

namespace braze {
namespace {

constexpr uint64_t kPaperKey0 = 0x0706'0504'0302'0100;
constexpr uint64_t kPaperKey1 = 0x0f0e'0d0c'0b0a'0908;

std::string counting(size_t length) {
  std::string bytes;
  for (size_t i = 0; i < length; ++i) bytes += static_cast<char>(i);
  return bytes;
}

// The authors' vectors: key 00..0f, input 00, 01, ... of each length, output bytes in order.
TEST(Hash, PublishedVectors) {
  EXPECT_EQ(siphash128("", kPaperKey0, kPaperKey1),
            (Hash128{0xe6a8'25ba'047f'81a3, 0x9302'55c7'1472'f66d}));
  EXPECT_EQ(siphash128(counting(1), kPaperKey0, kPaperKey1),
            (Hash128{0x44af'996b'd8c1'87da, 0x45fc'229b'1159'7634}));
}

TEST(Hash, TextIsStable) {
  EXPECT_EQ(content_hash("").size(), 32u);
  EXPECT_EQ(content_hash("braze"), content_hash(std::string("bra") + "ze"));
  EXPECT_EQ(content_hash("abc").find_first_not_of("0123456789abcdef"), std::string::npos);
}

TEST(Hash, EveryLengthAndEveryBitCounts) {
  std::set<std::string> seen;
  for (size_t length = 0; length < 100; ++length)
    seen.insert(content_hash(std::string(length, '\0')));
  EXPECT_EQ(seen.size(), 100u);
  const std::string text = counting(37);
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string changed = text;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
    seen.insert(content_hash(changed));
  }
  EXPECT_EQ(seen.size(), 100u + text.size() * 8);
}

TEST(Hash, OneBitChangesHalfOfTheOutput) {
  const std::string text = counting(64);
  const Hash128 base = siphash128(text, 1, 2);
  int flipped = 0;
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string changed = text;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
    const Hash128 other = siphash128(changed, 1, 2);
    flipped +=
        __builtin_popcountll(base.low ^ other.low) + __builtin_popcountll(base.high ^ other.high);
  }
  EXPECT_NEAR(flipped / 512.0, 64, 2);
}

}  // namespace
}  // namespace braze
