// Pieces of the text form that the printer and the parser share.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "graph/types.h"
#include "sym/expr.h"

namespace braze::graph {

// The shortest text that reads back as the same double; always with '.', 'e', "inf" or "nan".
std::string number_text(double value);
std::string quoted(std::string_view text);
std::string_view to_string(MemoryFormat format);
// Two digits for each byte, the first the higher one; nothing for a text that is no such digits.
std::string hexadecimal(std::string_view bytes);
std::optional<std::string> bytes_of(std::string_view digits);

// The range of a symbol that the text form leaves out: sizes 0 and 1 are specialised.
inline constexpr sym::Range kDefaultRange{2, INT64_MAX};

constexpr bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.';
}

}  // namespace braze::graph
