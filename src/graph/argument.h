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

}  // namespace braze::graph
