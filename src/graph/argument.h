// Arguments of ATen-level nodes, in schema order. `Ref` is what stands for a tensor:
// `Value*` in the graph, a slot number in a plan.
#pragma once

#include <complex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "graph/types.h"

namespace braze::graph {

struct None {
  friend bool operator==(None, None) { return true; }
};

// A Tensor?[] argument holds `Ref` elements of which some are absent.
template <class Ref>
struct OptionalRefs {
  std::vector<std::optional<Ref>> refs;
  friend bool operator==(const OptionalRefs&, const OptionalRefs&) = default;
};

template <class Ref>
using BasicArgument =
    std::variant<None, Ref, std::vector<Ref>, OptionalRefs<Ref>, sym::Int, double, bool,
                 std::complex<double>, std::string, std::vector<sym::Int>, std::vector<double>,
                 std::vector<bool>, DType, Device, MemoryFormat, Layout>;

// Calls `f(Ref)` for each tensor in an argument, in order; absent ones are left out.
template <class Ref, class F>
void for_each_value(const BasicArgument<Ref>& argument, F&& f) {
  if (auto* value = std::get_if<Ref>(&argument)) {
    f(*value);
  } else if (auto* list = std::get_if<std::vector<Ref>>(&argument)) {
    for (const Ref& value : *list) f(value);
  } else if (auto* optional = std::get_if<OptionalRefs<Ref>>(&argument)) {
    for (const std::optional<Ref>& value : optional->refs)
      if (value) f(*value);
  }
}

}  // namespace braze::graph
