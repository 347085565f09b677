#include "pytorch/convert.h"

#include "base/error.h"

namespace braze::pytorch {

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

c10::Device device_of(graph::Device device) {
  switch (device.type) {
    case graph::Device::Type::kCPU:
      return c10::Device(c10::kCPU, device.index);
    case graph::Device::Type::kCUDA:
      return c10::Device(c10::kCUDA, device.index);
    case graph::Device::Type::kMeta:
      return c10::Device(c10::kMeta, device.index);
  }
  BRAZE_UNREACHABLE("device");
}

graph::Device graph_device(c10::Device device) {
  graph::Device result;
  result.index = device.index();
  if (device.is_cuda())
    result.type = graph::Device::Type::kCUDA;
  else
    BRAZE_CHECK(device.is_cpu(), "device ", device.str());
  return result;
}

}  // namespace braze::pytorch
