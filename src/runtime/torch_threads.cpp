#include "runtime/torch_threads.h"

#include <ATen/Parallel.h>

#ifndef _OPENMP
#error "at::parallel_for runs on one thread without -fopenmp (CMakeLists.txt)"
#endif

namespace braze::runtime {

int usable_threads() { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

void for_ranges(int64_t extent, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  at::parallel_for(0, extent, grain, [&](int64_t begin, int64_t end) { body(begin, end); });
}

void on_torch_threads(int count, const std::function<void()>& body) {
  at::parallel_for(0, count, 1, [&](int64_t, int64_t) { body(); });
}

}  // namespace braze::runtime
