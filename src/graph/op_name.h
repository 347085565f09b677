// The parts of an op's name.
#pragma once

#include <string_view>

namespace braze::graph {

struct OpName {
  // Of "aten.add_.Tensor": "aten.add_" and "Tensor", which is empty where there is no overload.
  explicit constexpr OpName(std::string_view name) : base(name) {
    const size_t space = name.find('.');
    const size_t dot = space == name.npos ? name.npos : name.find('.', space + 1);
    if (dot == name.npos) return;
    base = name.substr(0, dot);
    overload = name.substr(dot + 1);
  }

  // By the naming rule of ATen: "aten.add_" is in place and "aten.__and__" is not.
  constexpr bool in_place() const {
    return base.size() > 1 && base.ends_with('_') && !base.ends_with("__") && !base.ends_with("._");
  }
  // "aten.add" of "aten.add_.Tensor" and of "aten.add.Tensor".
  constexpr std::string_view functional_base() const {
    return in_place() ? base.substr(0, base.size() - 1) : base;
  }

  std::string_view base, overload;
};

}  // namespace braze::graph
