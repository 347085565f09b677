// Errors of writes in place that PyTorch's kernels for metadata let pass.
#include <ATen/MemoryOverlap.h>
#include <c10/core/DefaultDtype.h>

#include "trace/break.h"
#include "trace/rules/rules.h"
#include "trace/shapes/common.h"

namespace braze::trace {
// PyTorch's kernel for metadata does not look whether the two overlap.
bool metadata::copy_in_place(const ShapeCall& call) {
  const at::Tensor self = call.tensor(0), source = call.tensor(1);
  if (self.is_same(source) || self.unsafeGetTensorImpl()->has_symbolic_sizes_strides() ||
      source.unsafeGetTensorImpl()->has_symbolic_sizes_strides())
    return false;
  at::assert_no_partial_overlap(self, source);
  return false;
}

// PyTorch's kernel for metadata does not look whether the result fits.
bool metadata::logit_in_place(const ShapeCall& call) {
  const at::ScalarType dtype = call.tensor(0).scalar_type();
  if (!c10::isIntegralType(dtype, /*includeBool=*/true)) return false;
  raise_break({graph_name(call.info.handle.operator_name()),
               "its result does not fit the dtype that it is written to", kMoveOut});
}

}  // namespace braze::trace
