// Philox 4x32-10, a random function of a counter: 128 bits of counter and 64 bits of key give four
// words of 32 bits, the same wherever and in whatever order they are asked for. (Salmon, Moraes,
// Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 3.3.)
#pragma once

#include <array>
#include <cstdint>

namespace braze {

// The four words. The counter's words, lowest first, are `offset` and then `subsequence`.
constexpr std::array<uint32_t, 4> philox(uint64_t key, uint64_t offset, uint64_t subsequence) {
  constexpr uint64_t kMultiplier0 = 0xd2511f53, kMultiplier1 = 0xcd9e8d57;
  constexpr uint32_t kStep0 = 0x9e3779b9, kStep1 = 0xbb67ae85;
  auto key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  std::array<uint32_t, 4> word = {
      static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32),
      static_cast<uint32_t>(subsequence), static_cast<uint32_t>(subsequence >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = kMultiplier0 * word[0], second = kMultiplier1 * word[2];
    word = {static_cast<uint32_t>(second >> 32) ^ word[1] ^ key0, static_cast<uint32_t>(second),
            static_cast<uint32_t>(first >> 32) ^ word[3] ^ key1, static_cast<uint32_t>(first)};
    key0 += kStep0;
    key1 += kStep1;
  }
  return word;
}

}  // namespace braze
