#include "toolchain/side_by_side.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#include "base/fork_mutex.h"

namespace braze::toolchain {

void side_by_side(size_t count, const std::function<void(size_t)>& work) {
  std::vector<std::exception_ptr> errors(count);
  std::atomic<size_t> next = 0;
  const auto take = [&] {
    for (size_t i; (i = next++) < count;) {
      try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  {
    const NotWhole waiting;  // for threads of which each is by itself
    std::vector<std::jthread> helpers;
    const size_t at_once = std::max(1u, std::thread::hardware_concurrency());
    try {
      while (helpers.size() + 1 < std::min(at_once, count)) helpers.emplace_back(take);
    } catch (const std::system_error&) {
      // No more threads to be had: those that run do the work.
    }
    take();
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace braze::toolchain
