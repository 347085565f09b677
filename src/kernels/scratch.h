// Memory of a thread that its next call uses again.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace braze::kernels {

class Scratch {
 public:
  ~Scratch() { std::free(data_); }
  // 64-byte aligned.
  float* of(size_t count) {
    if (count > count_) {
      std::free(data_);
      data_ = nullptr;
      count_ = 0;
      void* memory = nullptr;
      if (posix_memalign(&memory, 64, count * sizeof(float)) != 0) throw std::bad_alloc();
      data_ = static_cast<float*>(memory);
      count_ = count;
    }
    return data_;
  }

 private:
  float* data_ = nullptr;
  size_t count_ = 0;
};

}  // namespace braze::kernels
