// Content hashes for cache keys.
#pragma once

#include <string>
#include <string_view>

namespace braze {

// 128-bit hash of the bytes as 32 hexadecimal digits; for cache keys, not for security.
std::string content_hash(std::string_view bytes);

}  // namespace braze
