// Conversions between PyTorch's and the graph's notions.
#include "trace/fake_tensor.h"
#include "trace/sym_node.h"
#include "trace/tracer.h"

namespace braze::trace {
namespace {

// graph's name, PyTorch's
#define BRAZE_DTYPE_PAIRS(X) \
  X(Bool, Bool)              \
  X(UInt8, Byte)             \
  X(Int8, Char)              \
  X(Int16, Short)            \
  X(Int32, Int)              \
  X(Int64, Long)             \
  X(Float16, Half)           \
  X(BFloat16, BFloat16)      \
  X(Float32, Float)          \
  X(Float64, Double)         \
  X(Complex64, ComplexFloat) \
  X(Complex128, ComplexDouble)

}  // namespace

graph::Device graph_device(c10::Device device) {
  graph::Device result;
  result.index = device.index();
  if (device.is_cuda())
    result.type = graph::Device::Type::kCUDA;
  else
    BRAZE_CHECK(device.is_cpu(), "device ", device.str());
  return result;
}

std::optional<graph::DType> try_dtype_of(at::ScalarType type) {
  switch (type) {
#define X(ours, theirs)        \
  case at::ScalarType::theirs: \
    return graph::DType::k##ours;
    BRAZE_DTYPE_PAIRS(X)
#undef X
    default:  // PyTorch's list grows; what is not listed above is not supported
      return std::nullopt;
  }
}

graph::DType dtype_of(at::ScalarType type) {
  auto dtype = try_dtype_of(type);
  BRAZE_CHECK(dtype, "no dtype for ", c10::toString(type));
  return *dtype;
}

at::ScalarType scalar_type_of(graph::DType dtype) {
  switch (dtype) {
#define X(ours, theirs)       \
  case graph::DType::k##ours: \
    return at::ScalarType::theirs;
    BRAZE_DTYPE_PAIRS(X)
#undef X
  }
  BRAZE_UNREACHABLE("dtype");
}

at::Device device_of(graph::Device device) {
  switch (device.type) {
    case graph::Device::Type::kCPU:
      return at::Device(at::kCPU, device.index);
    case graph::Device::Type::kCUDA:
      return at::Device(at::kCUDA, device.index);
    case graph::Device::Type::kMeta:
      return at::Device(at::kMeta, device.index);
  }
  BRAZE_UNREACHABLE("device");
}

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
