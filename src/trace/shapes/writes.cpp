// Errors of writes in place that PyTorch's kernels for metadata let pass.
#include <ATen/MemoryOverlap.h>
#include <c10/core/DefaultDtype.h>

#include "trace/break.h"
#include "trace/shapes/families.h"

namespace braze::trace {
namespace {

// PyTorch's kernel for metadata does not look whether the two overlap.
bool copy_in_place(const ShapeCall& call) {
  const at::Tensor self = call.tensor(0), source = call.tensor(1);
  if (self.is_same(source) || self.unsafeGetTensorImpl()->has_symbolic_sizes_strides() ||
      source.unsafeGetTensorImpl()->has_symbolic_sizes_strides())
    return false;
  at::assert_no_partial_overlap(self, source);
  return false;
}

// PyTorch's kernel for metadata does not look whether the result fits.
bool logit_in_place(const ShapeCall& call) {
  const at::ScalarType dtype = call.tensor(0).scalar_type();
  if (!c10::isIntegralType(dtype, /*includeBool=*/true)) return false;
  raise_break({"aten.logit_", "its result does not fit the dtype that it is written to", kMoveOut});
}

constexpr NamedShape kShapes[] = {{"copy_", copy_in_place}, {"logit_", logit_in_place}};

}  // namespace

std::span<const NamedShape> write_shapes() { return kShapes; }

}  // namespace braze::trace
