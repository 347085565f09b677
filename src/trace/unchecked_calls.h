// Calls that PyTorch's kernels refuse for what its functions for metadata do not look at: windows,
// numbers of dimensions, words. The error would come only with the result, or never where nobody
// uses that.
#pragma once

#include <string>

#include "trace/shapes/shapes.h"

namespace braze::trace {

// What of the call is refused; empty if nothing of what is looked at here.
std::string refused_unchecked(const ShapeCall& call);

}  // namespace braze::trace
