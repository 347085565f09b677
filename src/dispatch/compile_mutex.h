// One capture at a time in the process: the capture's frame hook belongs to the interpreter.
#pragma once

#include <sys/types.h>

#include <atomic>

namespace braze::dispatch {

// Whoever finds it taken (another thread, or a call from inside a capture) runs eagerly this time,
// so that no two threads can wait for each other: there is no `lock()`. A child of fork() does not
// have the thread that may have held it, so what a parent holds is free there.
class CompileMutex {
 public:
  bool try_lock();
  void unlock();

 private:
  std::atomic<pid_t> holder_ = 0;  // the process, 0: nobody
};

CompileMutex& compile_mutex();

}  // namespace braze::dispatch
