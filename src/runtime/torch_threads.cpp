#include "runtime/torch_threads.h"

#include <ATen/Parallel.h>

#include <atomic>

#include "base/fork_mutex.h"

#ifndef _OPENMP
#error "at::parallel_for runs on one thread without -fopenmp (CMakeLists.txt)"
#endif

namespace braze::runtime {

namespace {

// The fork_depth() where kernels have run on several threads; -1: nowhere. libgomp's threads are
// not there in a child, and it would wait for them for ever.
std::atomic<int> g_threads_at = -1;

bool has_lost_threads() {
  const int depth = g_threads_at.load(std::memory_order_relaxed);
  return depth >= 0 && depth != fork_depth();
}

void note_threads() {
  if (at::get_num_threads() > 1) g_threads_at.store(fork_depth(), std::memory_order_relaxed);
}

}  // namespace

int usable_threads() {
  return at::in_parallel_region() || has_lost_threads() ? 1 : at::get_num_threads();
}

void for_ranges(int64_t extent, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  note_threads();
  at::parallel_for(0, extent, grain, [&](int64_t begin, int64_t end) { body(begin, end); });
}

void on_torch_threads(int count, const std::function<void()>& body) {
  if (has_lost_threads()) return body();
  note_threads();
  at::parallel_for(0, count, 1, [&](int64_t, int64_t) { body(); });
}

}  // namespace braze::runtime
