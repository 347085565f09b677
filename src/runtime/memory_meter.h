// How much memory tensors take while something runs: what `explain` measures.
#pragma once

#include <cstdint>
#include <memory>

namespace braze::runtime {

// While it lives, counts what is allocated and freed on this thread by compiled code and by
// PyTorch's allocators, in bytes on all devices together. Of what was there before, PyTorch's
// blocks are not seen to go. The innermost of several counts. Under a profiler of the user's what
// PyTorch's allocators do is not counted.
class MemoryMeter {
 public:
  MemoryMeter();
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;

  int64_t peak() const;  // at one time, at most
  int64_t held() const;  // now

  // Compiled code has taken so many bytes from its pool; negative: given back.
  static void note(int64_t bytes) {
    if (current) note_in(*current, bytes);
  }

 private:
  struct Impl;
  static void note_in(MemoryMeter& meter, int64_t bytes);
  static constinit thread_local MemoryMeter* current;

  std::unique_ptr<Impl> impl_;
};

}  // namespace braze::runtime
