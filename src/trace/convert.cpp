#include "trace/fake_tensor.h"
#include "trace/sym_node.h"
#include "trace/tracer.h"

namespace braze::trace {

graph::TensorType type_of(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  graph::TensorType type;
  type.dtype = dtype_of(tensor.scalar_type());
  const FakeTensorImpl* fake = as_fake(tensor);
  type.device = graph_device(fake ? fake->fake_device() : tensor.device());
  if (impl.has_symbolic_sizes_strides()) {
    type.sizes = from_symints(impl.sym_sizes());
    type.strides = from_symints(impl.sym_strides());
    type.offset = from_symint(impl.sym_storage_offset());
  } else {
    type.sizes.assign(impl.sizes().begin(), impl.sizes().end());
    type.strides.assign(impl.strides().begin(), impl.strides().end());
    type.offset = impl.storage_offset();
  }
  return type;
}

}  // namespace braze::trace
