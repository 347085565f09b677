// Calls that PyTorch's kernels refuse for what its functions for metadata do not look at: windows,
// numbers of dimensions, words. The error would come only with the result, or never where nobody
// uses that.
#pragma once

#include <string_view>

#include "trace/operator.h"

namespace braze::trace {

// What looks at the calls of an operator ("aten::gelu"); null: nothing has to.
UncheckedCall find_unchecked_call(std::string_view name);

}  // namespace braze::trace
