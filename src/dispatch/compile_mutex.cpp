#include "dispatch/compile_mutex.h"

#include <unistd.h>

namespace braze::dispatch {

bool CompileMutex::try_lock() {
  const pid_t self = ::getpid();
  pid_t holder = holder_.load(std::memory_order_relaxed);
  return holder != self && holder_.compare_exchange_strong(holder, self, std::memory_order_acquire);
}

void CompileMutex::unlock() { holder_.store(0, std::memory_order_release); }

CompileMutex& compile_mutex() {
  static auto* mutex = new CompileMutex;
  return *mutex;
}

}  // namespace braze::dispatch
