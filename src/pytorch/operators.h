// PyTorch's operators by their names in graphs.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <string_view>

namespace braze::pytorch {

// "aten.add.Tensor" of aten::add.Tensor.
std::string graph_name(const c10::OperatorName& name);
// Nothing: this PyTorch has no operator of that name.
std::optional<c10::OperatorHandle> find_operator(std::string_view graph_name);

}  // namespace braze::pytorch
