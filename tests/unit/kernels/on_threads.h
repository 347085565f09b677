// Threads for kernels under test.
#pragma once

#include <functional>
#include <thread>
#include <vector>

namespace braze::kernels {

inline void on_threads(int threads, const std::function<void()>& body) {
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(body);
  body();
  for (std::thread& thread : others) thread.join();
}

}  // namespace braze::kernels
