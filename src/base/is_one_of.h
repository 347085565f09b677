// Whether a name is one of a few.
#pragma once

#include <initializer_list>
#include <string_view>

namespace braze {

inline bool is_one_of(std::string_view name, std::initializer_list<std::string_view> list) {
  for (const std::string_view entry : list)
    if (name == entry) return true;
  return false;
}

}  // namespace braze
