#include "base/log.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "base/environment.h"

namespace braze {
namespace {

using log::Component;
using test::ScopedEnvironment;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

TEST(Log, ComponentsAreSwitchedByName) {
  {
    ScopedEnvironment environment{{"BRAZE_LOG", "graph, timing"}};
    EXPECT_TRUE(log::enabled(Component::kGraph));
    EXPECT_TRUE(log::enabled(Component::kTiming));
    EXPECT_FALSE(log::enabled(Component::kCode));
  }
  {
    ScopedEnvironment environment{{"BRAZE_LOG", "all"}};
    EXPECT_TRUE(log::enabled(Component::kSchedule));
    EXPECT_TRUE(log::enabled(Component::kBreaks));
  }
  ScopedEnvironment environment{{"BRAZE_LOG", std::nullopt}};
  EXPECT_FALSE(log::enabled(Component::kGraph));
}

TEST(Log, UnknownComponentsAreNamedOnceWithTheValidOnes) {
  ScopedEnvironment environment{{"BRAZE_LOG", "graf,,code,breks"}};
  CaptureStderr();
  EXPECT_TRUE(log::enabled(Component::kCode));
  EXPECT_FALSE(log::enabled(Component::kGraph));
  EXPECT_EQ(GetCapturedStderr(),
            "[braze] warning: BRAZE_LOG: unknown component graf, breks; there are graph, guards, "
            "breaks, recompiles, code, timing, schedule, cuda_graphs, all\n");
}

TEST(Log, PrefixesEachLine) {
  CaptureStderr();
  log::write(Component::kGraph, "one");
  log::write(Component::kCode, "a\n\nb\n");
  log::warning("careful");
  EXPECT_EQ(GetCapturedStderr(),
            "[braze:graph] one\n[braze:code] a\n[braze:code] \n[braze:code] b\n"
            "[braze] warning: careful\n");
}

// A datagram socket keeps the borders between writes.
TEST(Log, OneWritePerMessage) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
  const int saved = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  log::write(Component::kTiming, "first\nsecond");
  log::write(Component::kTiming, "third");
  ::dup2(saved, STDERR_FILENO);
  char buffer[256];
  ssize_t count = ::recv(ends[0], buffer, sizeof buffer, 0);
  EXPECT_EQ(std::string(buffer, count), "[braze:timing] first\n[braze:timing] second\n");
  count = ::recv(ends[0], buffer, sizeof buffer, 0);
  EXPECT_EQ(std::string(buffer, count), "[braze:timing] third\n");
  for (int fd : {ends[0], ends[1], saved}) ::close(fd);
}

TEST(Log, ThreadsMayAskAtOnce) {
  ScopedEnvironment environment{{"BRAZE_LOG", "guards,nope"}};
  CaptureStderr();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([] { EXPECT_TRUE(log::enabled(Component::kGuards)); });
  threads.clear();
  const std::string text = GetCapturedStderr();
  EXPECT_EQ(text.find("nope"), text.rfind("nope"));
}

}  // namespace
}  // namespace braze
