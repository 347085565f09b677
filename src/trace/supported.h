// Which real tensors can be traced.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace braze::trace {

// Empty if the tensor is supported. `check_type`: its Python type too, for which the GIL is needed.
std::string why_unsupported(const at::Tensor& tensor, bool check_type);

}  // namespace braze::trace
