// Inside of runtime/: kernels on PyTorch's threads.
#pragma once

#include <cstdint>
#include <functional>

namespace braze::runtime {

// How many a kernel may use: PyTorch's number of them, one inside of a parallel region and in the
// child of a fork() whose parent has run kernels on several.
int usable_threads();

// at::parallel_for.
void for_ranges(int64_t extent, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

// A kernels::OnThreads.
void on_torch_threads(int count, const std::function<void()>& body);

}  // namespace braze::runtime
