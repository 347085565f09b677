// What every generated source begins with: types, conversions, arithmetic as eager has it,
// reductions and scans over the threads of a block, and sums that threads share.
#pragma once

#include <string_view>

namespace braze::codegen::cuda {

std::string_view prelude();
std::string_view prelude_of_scans();  // a part of it
std::string_view prelude_of_atomics();

}  // namespace braze::codegen::cuda
