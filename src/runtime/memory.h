// Memory of compiled code: output tensors from a pool of freed blocks, arenas for intermediates.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/fork_mutex.h"
#include "graph/types.h"

namespace braze::runtime {

// A new CPU tensor, uninitialised, with these sizes and strides (elements) over `bytes` of memory.
// Its memory comes from a list of freed blocks of the same size class where it is small, else from
// `Regions` (glibc maps and faults in large blocks anew each time, which costs more than small
// kernels do), and goes back there when the last tensor that uses it dies.
at::Tensor allocate_tensor(c10::IntArrayRef sizes, c10::IntArrayRef strides, at::ScalarType dtype,
                           int64_t bytes);

// So much of that memory, to be owned; and whether that comes from `Regions`.
c10::DataPtr allocate_data(int64_t bytes);
bool is_pooled_size(int64_t bytes);
// Frees what `allocate_data` gave for such a size. False: it is none of that.
bool release_data(void* data);

// f64[] with this value.
at::Tensor number_tensor(double value);

// The same on any device, by PyTorch's allocator for it; the device has to be the current one.
at::Tensor allocate_tensor_on(c10::Device device, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                              at::ScalarType dtype, int64_t bytes);

// A tensor over memory that somebody else owns and keeps alive.
at::Tensor borrow_tensor(void* data, c10::Device device, c10::IntArrayRef sizes,
                         c10::IntArrayRef strides, at::ScalarType dtype, int64_t bytes);

// One with the layout and dtype of `tensor` over `data`, which is as large as its memory.
at::Tensor tensor_like(const at::Tensor& tensor, c10::DataPtr data);

// 64-byte aligned; null for 0 bytes. On the CPU, huge pages are not asked for: no model here ran
// faster with them, and on a virtual machine whose host takes idle memory back the first touch of
// one costs several milliseconds, that of as many small pages, which the system has at hand, a
// quarter.
class Arena {
 public:
  explicit Arena(int64_t bytes);
  // Of another device, by PyTorch's allocator for it; the device has to be the current one.
  Arena(int64_t bytes, c10::Device device);
  ~Arena();
  Arena(Arena&& other) = delete;
  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  char* data_ = nullptr;
  int64_t bytes_ = 0;
  c10::DataPtr on_device_;  // owns it there
};

// From so many bytes on an arena is not kept between runs: its memory may serve others.
constexpr int64_t kLargeArena = 1 << 20;

// Arenas that runs of different sizes share. Thread-safe.
class ArenaPool {
 public:
  // Of at least that size, for the caller alone until it is given back.
  std::unique_ptr<Arena> take(int64_t bytes);
  void give(std::unique_ptr<Arena> arena);

 private:
  ForkMutex mutex_;
  std::vector<std::unique_ptr<Arena>> idle_;
};

// Gives the pool's idle blocks back to the system; bytes released.
int64_t release_pooled_memory();

}  // namespace braze::runtime
