// Inside of runtime/: kernels compiled ahead on PyTorch's threads.
#pragma once

#include <ATen/Parallel.h>

#include <functional>

#ifndef _OPENMP
#error "at::parallel_for runs on one thread without -fopenmp (CMakeLists.txt)"
#endif

namespace braze::runtime {

// How many a kernel may use: PyTorch's number of them, one inside of a parallel region.
inline int usable_threads() { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

// A kernels::OnThreads.
inline void on_torch_threads(int count, const std::function<void()>& body) {
  at::parallel_for(0, count, 1, [&](int64_t, int64_t) { body(); });
}

}  // namespace braze::runtime
