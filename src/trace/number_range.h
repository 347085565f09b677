// Numbers that PyTorch's kernels refuse, and dtypes that they are not made for. Kernels for
// metadata look at neither, so the error would not come before the compiled code runs, which knows
// none.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>

#include "trace/operator.h"

namespace braze::trace {

// Whether PyTorch converts the number to the dtype without an error.
bool fits(const c10::Scalar& number, at::ScalarType dtype);
// Whether it does so for every number of `source`.
bool all_fit(at::ScalarType source, at::ScalarType dtype);

// What of the call is refused; empty if all is taken. A call of a kernel that takes it after all
// may be refused: that costs a break.
std::string refused_by_kernel(const OperatorInfo& info, const c10::IValue* arguments);

}  // namespace braze::trace
