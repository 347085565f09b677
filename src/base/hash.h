// Content hashes for cache keys.
//
// SipHash-2-4 with 128 bits of output and a fixed key (Aumasson and Bernstein, "SipHash: a fast
// short-input PRF", INDOCRYPT 2012, and the authors' 128-bit variant).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace braze {

struct Hash128 {
  uint64_t low = 0, high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};

// The key is the pair of 64-bit little-endian words of the paper.
Hash128 siphash128(std::string_view bytes, uint64_t key0, uint64_t key1);

// 128-bit hash of the bytes as 32 hexadecimal digits; for cache keys, not for security. The same on
// every machine and in every version of Braze.
std::string content_hash(std::string_view bytes);

}  // namespace braze
