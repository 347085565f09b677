#include "base/hash.h"

#include <bit>
#include <cstring>

namespace braze {
namespace {

// "Braze content", in no other use.
constexpr uint64_t kKey0 = 0x6f63'2065'7a61'7242;
constexpr uint64_t kKey1 = 0x0000'0074'6e65'746e;

struct State {
  uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }

  void absorb(uint64_t word) {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }

  uint64_t squeeze() {
    for (int i = 0; i < 4; ++i) round();
    return v0 ^ v1 ^ v2 ^ v3;
  }
};

uint64_t little_endian(const char* bytes, size_t count) {
  unsigned char buffer[8] = {};
  std::memcpy(buffer, bytes, count);
  uint64_t word = 0;
  for (int i = 7; i >= 0; --i) word = word << 8 | buffer[i];
  return word;
}

void append_hex(std::string& out, uint64_t word) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (int shift = 60; shift >= 0; shift -= 4) out += kDigits[word >> shift & 15];
}

}  // namespace

Hash128 siphash128(std::string_view bytes, uint64_t key0, uint64_t key1) {
  State state{key0 ^ 0x736f'6d65'7073'6575, key1 ^ 0x646f'7261'6e64'6f6d ^ 0xee,
              key0 ^ 0x6c79'6765'6e65'7261, key1 ^ 0x7465'6462'7974'6573};
  const size_t whole = bytes.size() / 8 * 8;
  for (size_t i = 0; i < whole; i += 8) state.absorb(little_endian(bytes.data() + i, 8));
  const uint64_t length_byte = static_cast<uint64_t>(bytes.size()) << 56;
  const size_t rest = bytes.size() - whole;
  state.absorb(length_byte | (rest ? little_endian(bytes.data() + whole, rest) : 0));
  Hash128 hash;
  state.v2 ^= 0xee;
  hash.low = state.squeeze();
  state.v1 ^= 0xdd;
  hash.high = state.squeeze();
  return hash;
}

std::string content_hash(std::string_view bytes) {
  const Hash128 hash = siphash128(bytes, kKey0, kKey1);
  std::string text;
  text.reserve(32);
  append_hex(text, hash.high);
  append_hex(text, hash.low);
  return text;
}

}  // namespace braze
