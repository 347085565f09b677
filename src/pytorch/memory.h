// Where tensors lie in memory, whatever storages PyTorch has made over it: NumPy, DLPack, buffers
// and memory-mapped files bring memory that several storages have in common.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <cstdint>

namespace braze::pytorch {

// Addresses [begin, end); of what has no bytes both are 0.
struct Extent {
  uintptr_t begin = 0, end = 0;
  bool empty() const { return begin == end; }
};

inline bool overlap(const Extent& a, const Extent& b) { return a.begin < b.end && b.begin < a.end; }

inline Extent extent_of(const c10::StorageImpl& storage) {
  const auto begin = reinterpret_cast<uintptr_t>(storage.data());
  return begin == 0 || storage.nbytes() == 0 ? Extent{} : Extent{begin, begin + storage.nbytes()};
}

// The address of element 0 of a dense tensor with storage and without symbols.
inline uintptr_t address_of(const c10::TensorImpl& tensor) {
  const c10::StorageImpl* storage = tensor.unsafe_storage().unsafeGetStorageImpl();
  return reinterpret_cast<uintptr_t>(storage->data()) +
         static_cast<uintptr_t>(tensor.storage_offset()) * tensor.dtype().itemsize();
}

// From its first to behind its last element, with the gaps that it has.
inline Extent extent_of(const c10::TensorImpl& tensor) {
  const c10::IntArrayRef sizes = tensor.sizes(), strides = tensor.strides();
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return {};
    last += (sizes[i] - 1) * strides[i];
  }
  const uintptr_t begin = address_of(tensor);
  if (begin == 0) return {};
  return {begin, begin + static_cast<uintptr_t>(last + 1) * tensor.dtype().itemsize()};
}

}  // namespace braze::pytorch
