#include "base/fork_mutex.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

namespace braze {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<int> g_fork_depth = 0;
[[maybe_unused]] const int g_counting = ::pthread_atfork(
    nullptr, nullptr, [] { g_fork_depth.fetch_add(1, std::memory_order_relaxed); });

std::atomic<bool> g_forking = false;   // a thread waits to fork, or forks
std::atomic<int> g_threads_whole = 0;  // threads in stretches that must stay whole

// Every compiled call looks at these: the model spares it the loader's function for their address.
[[gnu::tls_model("initial-exec")]] thread_local int t_whole = 0;  // this thread's stretches
[[gnu::tls_model("initial-exec")]] thread_local int t_held = 0;   // this thread's mutexes

// Whoever holds nothing that fork() waits for lets it go first: it would starve otherwise.
void let_fork_go_first() {
  while (g_forking.load() && t_held == 0 && t_whole == 0) std::this_thread::yield();
}

}  // namespace

// All that there are, in a list.
class ForkMutexes {
 public:
  // Never destroyed: threads may still lock while the process ends.
  static ForkMutexes& instance() {
    static auto& instance = *std::make_unique<ForkMutexes>().release();
    return instance;
  }

  static int watch_forks() {
    return ::pthread_atfork([] { instance().prepare(); }, [] { instance().in_parent(); },
                            [] { instance().in_child(); });
  }

  void add(ForkMutex* mutex) {
    std::lock_guard lock(*list_mutex_);
    mutex->next_ = first_;
    if (first_) first_->previous_ = mutex;
    first_ = mutex;
  }

  void remove(ForkMutex* mutex) {
    std::lock_guard lock(*list_mutex_);
    (mutex->previous_ ? mutex->previous_->next_ : first_) = mutex->next_;
    if (mutex->next_) mutex->next_->previous_ = mutex->previous_;
  }

 private:
  // Whoever holds one may want another, in any order: if one is not to be had, all are given back.
  void prepare() {
    const auto end = Clock::now() + std::chrono::seconds(1);
    for (;;) {
      list_mutex_->lock();
      g_forking.store(true);
      const bool all = take_all() && g_threads_whole.load() == own_whole();
      if (all || Clock::now() > end) return;
      give_back();
      list_mutex_->unlock();
      std::this_thread::yield();
    }
  }

  static int own_whole() { return t_whole > 0 ? 1 : 0; }

  bool take_all() {
    bool all = true;
    for (ForkMutex* mutex = first_; mutex; mutex = mutex->next_)
      all = (mutex->taken_ = mutex->mutex_->try_lock()) && all;
    return all;
  }

  void give_back() {
    for (ForkMutex* mutex = first_; mutex; mutex = mutex->next_)
      if (std::exchange(mutex->taken_, false)) mutex->mutex_->unlock();
  }

  void in_parent() {
    give_back();
    g_forking.store(false);
    list_mutex_->unlock();
  }

  void in_child() {
    for (ForkMutex* mutex = first_; mutex; mutex = mutex->next_)
      if (!mutex->taken_) mutex->mutex_.emplace();
    g_threads_whole.store(own_whole());
    in_parent();
  }

  std::optional<std::mutex> list_mutex_{std::in_place};
  ForkMutex* first_ = nullptr;
};

[[maybe_unused]] static const int g_watching = ForkMutexes::watch_forks();

ForkMutex::ForkMutex() { ForkMutexes::instance().add(this); }
ForkMutex::~ForkMutex() { ForkMutexes::instance().remove(this); }

void ForkMutex::lock() {
  let_fork_go_first();
  mutex_->lock();
  ++t_held;
}

bool ForkMutex::try_lock() {
  let_fork_go_first();
  const bool locked = mutex_->try_lock();
  t_held += locked;
  return locked;
}

void ForkMutex::unlock() {
  --t_held;
  mutex_->unlock();
}

void enter_whole() {
  if (t_whole++ > 0) return;
  for (;;) {
    g_threads_whole.fetch_add(1);
    if (!g_forking.load() || t_held > 0) return;
    g_threads_whole.fetch_sub(1);
    while (g_forking.load()) std::this_thread::yield();
  }
}

void leave_whole() {
  if (--t_whole == 0) g_threads_whole.fetch_sub(1);
}

NotWhole::NotWhole() : stretches_(t_whole) {
  if (stretches_ == 0) return;
  t_whole = 1;
  leave_whole();
}

NotWhole::~NotWhole() {
  if (stretches_ == 0) return;
  enter_whole();
  t_whole = stretches_;
}

int fork_depth() { return g_fork_depth.load(std::memory_order_relaxed); }

}  // namespace braze
