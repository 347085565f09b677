// What sources of all languages have of a kernel's text and name.
#pragma once

#include <string>
#include <string_view>

namespace braze::codegen {

// A kernel's text (loop::to_string) as lines behind `comment`; very long ones are cut, and what is
// behind the sixteenth is left out.
std::string description(const std::string& text, std::string_view comment);

// A symbol for a kernel whose name is descriptive, and may hold anything.
std::string symbol_of(std::string_view name);

}  // namespace braze::codegen
