#include "graph/types.h"

#include <algorithm>

namespace braze::graph {

std::string_view to_string(DType dtype) {
  constexpr std::string_view table[] = {
#define X(name, text, bytes, kind) text,
      BRAZE_DTYPES(X)
#undef X
  };
  return table[static_cast<int>(dtype)];
}

std::optional<DType> parse_dtype(std::string_view text) {
#define X(name, spelling, bytes, kind) \
  if (text == spelling) return DType::k##name;
  BRAZE_DTYPES(X)
#undef X
  return std::nullopt;
}

std::string to_string(Device device) {
  std::string text;
  switch (device.type) {
    case Device::Type::kCPU:
      text = "cpu";
      break;
    case Device::Type::kCUDA:
      text = "cuda";
      break;
    case Device::Type::kMeta:
      text = "meta";
      break;
  }
  return device.index < 0 ? text : text + ":" + std::to_string(device.index);
}

bool TensorType::is_contiguous() const {
  if (std::find(sizes.begin(), sizes.end(), sym::Int(0)) != sizes.end()) return true;
  sym::Int expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == sym::Int(1)) continue;
    if (strides[i] != expected) return false;
    expected = expected * sizes[i];
  }
  return true;
}

namespace {
std::string join(std::span<const sym::Int> dims) {
  std::string text;
  for (size_t i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + sym::to_string(dims[i]);
  return text;
}
}  // namespace

std::string to_string(const TensorType& type) {
  std::string text = std::string(to_string(type.dtype)) + "[" + join(type.sizes) + "]";
  if (type.strides != sym::contiguous_strides(type.sizes)) text += "{" + join(type.strides) + "}";
  if (type.offset != sym::Int(0)) text += "+" + sym::to_string(type.offset);
  if (type.device != Device{}) text += "@" + to_string(type.device);
  return text;
}

}  // namespace braze::graph
