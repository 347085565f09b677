// A mutex that a child of fork() finds free, and what it guards whole.
//
// A child has a copy of the parent's memory, but of its threads only the one that called fork(): a
// lock that another thread held at that moment would never be given back. So fork() takes all of
// these before and gives them back afterwards, in the parent and in the child. A thread that calls
// fork() may hold the GIL: whoever holds one of these must not wait for the GIL, nor for another
// thread. Where that takes longer than a second all the same, the child gets fresh mutexes.
#pragma once

#include <mutex>
#include <optional>

namespace braze {

class ForkMutex {
 public:
  ForkMutex();
  ~ForkMutex();
  ForkMutex(const ForkMutex&) = delete;

  void lock();
  bool try_lock();
  void unlock();

 private:
  friend class ForkMutexes;
  std::optional<std::mutex> mutex_{std::in_place};
  bool taken_ = false;  // by the fork under way
  ForkMutex* next_ = nullptr;
  ForkMutex* previous_ = nullptr;
};

// A stretch of work that fork() waits for as it does for a ForkMutex that is held. Any number of
// threads may be in one at a time, and one thread several times over.
void enter_whole();
void leave_whole();

class Whole {
 public:
  Whole() { enter_whole(); }
  ~Whole() { leave_whole(); }
  Whole(const Whole&) = delete;
};

// Inside of such stretches: the thread waits for another thread or process, and fork() does not.
class NotWhole {
 public:
  NotWhole();
  ~NotWhole();
  NotWhole(const NotWhole&) = delete;

 private:
  const int stretches_;
};

// How many calls of fork() lie between the first process and this one: for what belongs to a
// process, threads of its own above all.
int fork_depth();

}  // namespace braze
