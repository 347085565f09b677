// In-place ops of PyTorch and the functional ones of the same arguments, by their names in graphs.
#pragma once

#include <string>
#include <string_view>

namespace braze::graph {

// The op that gives in a new tensor what an in-place op writes: "aten.add.Tensor" of
// "aten.add_.Tensor". Empty: the name is not that of an in-place op, or there is none.
std::string functional_name(std::string_view name);
// The op that draws for a new tensor what an in-place op draws: "aten.uniform" of "aten.uniform_".
// Empty: there is none, or it draws nothing.
std::string_view drawing_name(std::string_view name);

}  // namespace braze::graph
