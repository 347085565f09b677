// The text of the small functions that generated kernels call: loads and stores, conversions,
// integer arithmetic as Python and ATen define it.
#pragma once

#include <string_view>
#include <vector>

namespace braze::codegen::cpp {

struct Helper {
  std::string_view name;                // as kernels call it
  std::vector<std::string_view> needs;  // other helpers
  std::string_view text;                // templates over V take scalars and vectors alike
};
const std::vector<Helper>& helper_table();

}  // namespace braze::codegen::cpp
