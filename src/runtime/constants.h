// The constants of a module as tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "plan/module.h"

namespace braze::runtime {

// By input, undefined where it is no constant: what the module holds is made, the rest is taken
// from `bound`. Internal error where one of these is missing or of another type.
std::vector<at::Tensor> all_constants(const plan::Module& module, std::vector<at::Tensor> bound);

}  // namespace braze::runtime
