// Types of tensor values: dtype, device, sizes, strides. PyTorch's notions without PyTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sym/int.h"

namespace braze::graph {

enum class DTypeKind : uint8_t { kBool, kUnsigned, kSigned, kFloat, kComplex };

// name, text form, bytes, kind
#define BRAZE_DTYPES(X)            \
  X(Bool, "bool", 1, kBool)        \
  X(UInt8, "u8", 1, kUnsigned)     \
  X(Int8, "i8", 1, kSigned)        \
  X(Int16, "i16", 2, kSigned)      \
  X(Int32, "i32", 4, kSigned)      \
  X(Int64, "i64", 8, kSigned)      \
  X(Float16, "f16", 2, kFloat)     \
  X(BFloat16, "bf16", 2, kFloat)   \
  X(Float32, "f32", 4, kFloat)     \
  X(Float64, "f64", 8, kFloat)     \
  X(Complex64, "c64", 8, kComplex) \
  X(Complex128, "c128", 16, kComplex)

enum class DType : uint8_t {
#define X(name, text, bytes, kind) k##name,
  BRAZE_DTYPES(X)
#undef X
};

constexpr int64_t size_of(DType dtype) {
  constexpr int64_t table[] = {
#define X(name, text, bytes, kind) bytes,
      BRAZE_DTYPES(X)
#undef X
  };
  return table[static_cast<int>(dtype)];
}
constexpr DTypeKind kind_of(DType dtype) {
  constexpr DTypeKind table[] = {
#define X(name, text, bytes, kind) DTypeKind::kind,
      BRAZE_DTYPES(X)
#undef X
  };
  return table[static_cast<int>(dtype)];
}
constexpr bool is_float(DType d) { return kind_of(d) == DTypeKind::kFloat; }
constexpr bool is_half(DType d) { return d == DType::kFloat16 || d == DType::kBFloat16; }
constexpr bool is_complex(DType d) { return kind_of(d) == DTypeKind::kComplex; }
constexpr bool is_integral(DType d, bool include_bool) {
  return kind_of(d) == DTypeKind::kUnsigned || kind_of(d) == DTypeKind::kSigned ||
         (include_bool && d == DType::kBool);
}
std::string_view to_string(DType dtype);
std::optional<DType> parse_dtype(std::string_view text);

struct Device {
  enum class Type : uint8_t { kCPU, kCUDA, kMeta };
  Type type = Type::kCPU;
  int8_t index = -1;
  friend bool operator==(const Device&, const Device&) = default;
};
std::string to_string(Device device);

enum class MemoryFormat : uint8_t { kContiguous, kPreserve, kChannelsLast, kChannelsLast3d };
enum class Layout : uint8_t { kStrided };

// Metadata of a strided tensor. Strides and offset are in elements. The offset is that of the
// tensor in its storage; kernels get the address of element 0, so only views care.
struct TensorType {
  DType dtype = DType::kFloat32;
  Device device;
  sym::Dims sizes;
  sym::Dims strides;
  sym::Int offset = 0;

  int64_t rank() const { return static_cast<int64_t>(sizes.size()); }
  sym::Int numel() const { return sym::product(sizes); }
  bool is_contiguous() const;  // row-major dense; size-1 dims may have any stride
  friend bool operator==(const TensorType&, const TensorType&) = default;
};
// Bytes from element 0 to the end of the last element; 0 for an empty tensor. Sizes and strides are
// numbers. Internal error where one is negative, or the number does not fit.
int64_t extent_bytes(const TensorType& type);
// "f32[4, 128]" for contiguous, "f32[4, 128]{1, 4}" otherwise, "+8" appended for an offset,
// "@cuda:0" appended when not on the CPU.
std::string to_string(const TensorType& type);

}  // namespace braze::graph
