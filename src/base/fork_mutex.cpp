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

}  // namespace

// All that there are, in a list.
class ForkMutexes {
 public:
  // Never destroyed: threads may still lock while the process ends.
  static ForkMutexes& instance() {
    static auto& instance = *std::make_unique<ForkMutexes>().release();
    return instance;
  }

  ForkMutexes() {
    ::pthread_atfork([] { instance().prepare(); }, [] { instance().in_parent(); },
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
      if (take_all() || Clock::now() > end) return;
      give_back();
      list_mutex_->unlock();
      std::this_thread::yield();
    }
  }

  bool take_all() {
    bool all = true;
    for (ForkMutex* mutex = first_; mutex; mutex = mutex->next_)
      all = (mutex->taken_ = mutex->try_lock()) && all;
    return all;
  }

  void give_back() {
    for (ForkMutex* mutex = first_; mutex; mutex = mutex->next_)
      if (std::exchange(mutex->taken_, false)) mutex->unlock();
  }

  void in_parent() {
    give_back();
    list_mutex_->unlock();
  }

  void in_child() {
    for (ForkMutex* mutex = first_; mutex; mutex = mutex->next_)
      if (!mutex->taken_) mutex->mutex_.emplace();
    in_parent();
  }

  std::optional<std::mutex> list_mutex_{std::in_place};
  ForkMutex* first_ = nullptr;
};

ForkMutex::ForkMutex() { ForkMutexes::instance().add(this); }
ForkMutex::~ForkMutex() { ForkMutexes::instance().remove(this); }

int fork_depth() { return g_fork_depth.load(std::memory_order_relaxed); }

}  // namespace braze
