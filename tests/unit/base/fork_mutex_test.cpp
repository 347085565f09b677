#include "base/fork_mutex.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace braze {
namespace {

// 0: `work` was true in a forked child; 14: it hung.
template <class Work>
int in_child(Work&& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);
    ::_exit(work() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(ForkMutex, AChildFindsItFreeAndWhatItGuardsWhole) {
  ForkMutex first, second;
  int a = 0, b = 0;
  std::atomic<bool> stop = false;
  std::vector<std::jthread> threads;
  for (int k = 0; k < 3; ++k)
    threads.emplace_back([&, k] {
      while (!stop) {
        // Nested, in both orders at different times.
        std::unique_lock outer(k == 0 ? first : second, std::defer_lock);
        std::unique_lock inner(k == 0 ? second : first, std::defer_lock);
        outer.lock();
        if (!inner.try_lock()) continue;
        ++a;
        std::this_thread::yield();
        ++b;
      }
    });
  for (int i = 0; i < 30; ++i)
    EXPECT_EQ(in_child([&] {
                std::scoped_lock both(first, second);
                return a == b;
              }),
              0);
  stop = true;
}

TEST(ForkMutex, ThoseThatComeAndGoMeanwhile) {
  std::atomic<bool> stop = false;
  std::jthread thread([&] {
    while (!stop) {
      auto mutex = std::make_unique<ForkMutex>();
      std::lock_guard lock(*mutex);
    }
  });
  for (int i = 0; i < 30; ++i)
    EXPECT_EQ(in_child([] {
                ForkMutex mutex;
                std::lock_guard lock(mutex);
                return true;
              }),
              0);
  stop = true;
}

TEST(ForkMutex, OneThatIsNotGivenBackIsNewInTheChild) {
  ForkMutex mutex;
  std::atomic<bool> held = false, release = false;
  std::jthread thread([&] {
    std::lock_guard lock(mutex);
    held = true;
    while (!release) std::this_thread::yield();
  });
  while (!held) std::this_thread::yield();
  EXPECT_EQ(in_child([&] {
              std::lock_guard lock(mutex);
              return true;
            }),
            0);
  EXPECT_FALSE(mutex.try_lock());  // the parent's is as it was
  release = true;
}

TEST(ForkMutex, WhatMustStayWholeIsWaitedFor) {
  int a = 0, b = 0;
  std::atomic<bool> stop = false;
  std::jthread thread([&] {
    while (!stop) {
      enter_whole();
      enter_whole();
      ++a;
      std::this_thread::yield();
      leave_whole();
      ++b;
      leave_whole();
    }
  });
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(in_child([&] { return a == b; }), 0);
    // One's own stretch is not waited for, in the parent or the child.
    enter_whole();
    EXPECT_EQ(in_child([&] {
                leave_whole();
                return a == b && in_child([] { return true; }) == 0;
              }),
              0);
    leave_whole();
  }
  stop = true;
}

TEST(ForkMutex, WhoWaitsInsideOfAStretchIsNotWaitedFor) {
  std::atomic<bool> waits = false, stop = false;
  std::jthread thread([&] {
    const Whole outer, inner;
    const NotWhole waiting;
    const NotWhole still_waiting;
    waits = true;
    while (!stop) std::this_thread::yield();
  });
  while (!waits) std::this_thread::yield();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(in_child([] {
              const Whole whole;
              return true;
            }),
            0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(900));
  stop = true;
}

TEST(ForkMutex, BehindTheWaitItIsWholeAgain) {
  int a = 0, b = 0;
  std::atomic<bool> stop = false;
  std::jthread thread([&] {
    while (!stop) {
      const Whole whole;
      const Whole nested;
      { const NotWhole waiting; }
      ++a;
      std::this_thread::yield();
      ++b;
    }
  });
  for (int i = 0; i < 30; ++i) EXPECT_EQ(in_child([&] { return a == b; }), 0);
  stop = true;
}

TEST(ForkMutex, DepthGrowsInChildren) {
  const int here = fork_depth();
  EXPECT_EQ(in_child([&] {
              return fork_depth() == here + 1 &&
                     in_child([&] { return fork_depth() == here + 2; }) == 0;
            }),
            0);
  EXPECT_EQ(fork_depth(), here);
}

}  // namespace
}  // namespace braze
