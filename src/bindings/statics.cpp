// Static variables of functions, and fork().
//
// A child of fork() finds a static variable that another thread was initialising in that state for
// good: whoever needs it there waits for a thread that is gone. The functions that the compiler
// calls around an initialisation (Itanium C++ ABI, 3.3.2) are wrapped when the module is linked
// (cmake/Braze.cmake), so that fork() waits for it; where that takes too long, as the thread waits
// for the GIL that the caller of fork() holds, the child initialises the variable anew.
#include <pthread.h>

#include <array>
#include <atomic>

#include "base/fork_mutex.h"

namespace {

using Guard = long long;

// Those under way, a place each; more than there are places are not reset in a child.
struct Initialisation {
  std::atomic<Guard*> guard = nullptr;
  std::atomic<pthread_t> thread{};
};
std::array<Initialisation, 128> g_under_way;

void add(Guard* guard) {
  for (Initialisation& place : g_under_way) {
    Guard* none = nullptr;
    if (place.guard.compare_exchange_strong(none, guard))
      return place.thread.store(::pthread_self());
  }
}

void remove(Guard* guard) {
  for (Initialisation& place : g_under_way) {
    Guard* expected = guard;
    if (place.guard.compare_exchange_strong(expected, nullptr)) return;
  }
}

}  // namespace

extern "C" {

int __real___cxa_guard_acquire(Guard* guard);
void __real___cxa_guard_release(Guard* guard);
void __real___cxa_guard_abort(Guard* guard);

int __wrap___cxa_guard_acquire(Guard* guard) {
  braze::enter_whole();
  const int mine = __real___cxa_guard_acquire(guard);
  if (mine)
    add(guard);
  else
    braze::leave_whole();
  return mine;
}

void __wrap___cxa_guard_release(Guard* guard) {
  remove(guard);
  __real___cxa_guard_release(guard);
  braze::leave_whole();
}

void __wrap___cxa_guard_abort(Guard* guard) {
  remove(guard);
  __real___cxa_guard_abort(guard);
  braze::leave_whole();
}

}  // extern "C"

namespace {

[[maybe_unused]] const int g_resetting = ::pthread_atfork(nullptr, nullptr, [] {
  for (Initialisation& place : g_under_way)
    if (place.guard.load() && !::pthread_equal(place.thread.load(), ::pthread_self()))
      __real___cxa_guard_abort(place.guard.exchange(nullptr));
});

}  // namespace
