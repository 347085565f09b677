// What every generated source begins with: types, conversions, arithmetic as eager has it, and
// reductions over the threads of a block.
#pragma once

#include <string_view>

namespace braze::codegen::cuda {

std::string_view prelude();

}  // namespace braze::codegen::cuda
