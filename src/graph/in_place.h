// In-place ops of PyTorch and the functional ones of the same arguments, by their names in graphs.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace braze::graph {

// The op that gives in a new tensor what an in-place op writes: "aten.add.Tensor" of
// "aten.add_.Tensor". Empty: the name is not that of an in-place op, or there is none.
std::string functional_name(std::string_view name);
// The op that draws for a new tensor what an in-place op draws: "aten.uniform" of "aten.uniform_".
// Empty: there is none, or it draws nothing.
std::string_view drawing_name(std::string_view name);

// The op (value, history): the value, whose gradient flows to where that of `history` comes from.
inline constexpr std::string_view kWithHistory = "braze.with_history";

// The argument that `value`, its node's result, is a view of or the same tensor as. Null: it is a
// tensor of its own.
const Value* aliased_by(const Value* value);
// The tensor that `value`, a view of it or the result of an in-place op on it, shares eager's
// counter of versions with.
const Value* counted_with(const Graph& graph, const Value* value);

}  // namespace braze::graph
