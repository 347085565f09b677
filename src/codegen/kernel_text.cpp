#include "codegen/kernel_text.h"

#include <cctype>
#include <sstream>

namespace braze::codegen {

std::string description(const std::string& text, std::string_view comment) {
  constexpr size_t kWidth = 160;
  constexpr int kLines = 16;
  std::istringstream lines(text);
  std::string result, line;
  for (int n = 0; std::getline(lines, line); ++n) {
    result.append(comment).append(" ");
    if (n == kLines) return result + "...\n";
    if (line.size() > kWidth) line = line.substr(0, kWidth) + " ...";
    result += line + "\n";
  }
  return result;
}

std::string symbol_of(std::string_view name) {
  std::string symbol = "k_";
  for (char c : name) symbol += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return symbol;
}

}  // namespace braze::codegen
