#include "toolchain/disk_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "base/environment.h"
#include "base/error.h"
#include "toolchain/scratch.h"

namespace braze::toolchain {
namespace {

using test::files_under;
using test::kPlenty;
using test::ScopedEnvironment;
using test::Scratch;
using test::slurp;
using test::spill;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

int mode_of(const std::string& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 ? static_cast<int>(status.st_mode & 0777) : -1;
}

void set_age(const std::string& path, time_t seconds) {
  const timespec then{::time(nullptr) - seconds, 0};
  const timespec times[2] = {then, then};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

TEST(DiskCache, GivesBackWhatWasPut) {
  Scratch scratch;
  DiskCache cache(scratch / "cache", kPlenty);
  EXPECT_EQ(cache.get("plans", "key"), std::nullopt);
  const std::string bytes("with\0zero", 9);
  cache.put("plans", "key", bytes);
  EXPECT_EQ(cache.get("plans", "key"), bytes);
  EXPECT_EQ(cache.get("kernels", "key"), std::nullopt);
  EXPECT_EQ(cache.get("plans", "other"), std::nullopt);
  cache.put("plans", "key", "");
  EXPECT_EQ(cache.get("plans", "key"), "");
  EXPECT_EQ(DiskCache(scratch / "cache", kPlenty).get("plans", "key"), "");
}

TEST(DiskCache, PathHoldsTheBytesFirst) {
  Scratch scratch;
  DiskCache cache(scratch.path(), kPlenty);
  EXPECT_EQ(cache.path("kernels", "k"), std::nullopt);
  cache.put("kernels", "k", "payload");
  const auto path = cache.path("kernels", "k");
  ASSERT_TRUE(path);
  EXPECT_TRUE(slurp(*path).starts_with("payload"));
}

TEST(DiskCache, KindIsAPlainName) {
  Scratch scratch;
  DiskCache cache(scratch.path(), kPlenty);
  EXPECT_THROW(cache.get("../up", "k"), InternalError);
  EXPECT_THROW(cache.put("", "k", "v"), InternalError);
}

TEST(DiskCache, IsTheUsersAlone) {
  Scratch scratch;
  const mode_t umask_before = ::umask(0);
  DiskCache cache(scratch / "a/b", kPlenty);
  cache.put("plans", "k", "v");
  ::umask(umask_before);
  for (const char* folder : {"a", "a/b", "a/b/v1", "a/b/v1/plans"})
    EXPECT_EQ(mode_of(scratch / folder), 0700) << folder;
  const auto files = files_under(scratch.path());
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(mode_of(files[0]), 0600);
}

TEST(DiskCache, EveryDamageIsAMissAndIsCleared) {
  Scratch scratch;
  const std::string value = "some bytes that matter";
  std::string file;
  {
    DiskCache cache(scratch.path(), kPlenty);
    cache.put("plans", "k", value);
    file = *cache.path("plans", "k");
  }
  const std::string whole = slurp(file);
  for (size_t i = 0; i <= whole.size(); ++i) {
    DiskCache cache(scratch.path(), kPlenty);
    std::string flipped = whole;
    if (i < whole.size()) flipped[i] = static_cast<char>(flipped[i] ^ 0x10);
    for (const std::string& damaged :
         {flipped, whole.substr(0, i) + (i == whole.size() ? "x" : "")}) {
      if (damaged == whole) continue;
      cache.put("plans", "k", value);
      spill(file, damaged);
      EXPECT_EQ(cache.get("plans", "k"), std::nullopt) << i;
      EXPECT_FALSE(std::filesystem::exists(file));
      spill(file, damaged);
      EXPECT_EQ(cache.path("plans", "k"), std::nullopt) << i;
    }
  }
  DiskCache cache(scratch.path(), kPlenty);
  cache.put("plans", "k", value);
  EXPECT_EQ(cache.get("plans", "k"), value);
}

TEST(DiskCache, TheLongestUnusedGoFirst) {
  Scratch scratch;
  DiskCache cache(scratch.path(), 10'000);
  const std::string kilobyte(1000 - 32, 'x');
  std::vector<std::string> paths;
  for (int i = 0; i < 10; ++i) {
    cache.put("plans", std::to_string(i), kilobyte);
    const auto path = cache.path("plans", std::to_string(i));
    ASSERT_TRUE(path);
    paths.push_back(*path);
    set_age(*path, 1000 - i);
  }
  EXPECT_TRUE(cache.get("plans", "0"));  // used now: the youngest
  cache.put("plans", "10", kilobyte);    // 11,000 bytes: down to 8,000
  for (int i : {1, 2, 3}) EXPECT_FALSE(std::filesystem::exists(paths[i])) << i;
  for (int i : {0, 4, 5, 6, 7, 8, 9}) EXPECT_TRUE(std::filesystem::exists(paths[i])) << i;
  EXPECT_TRUE(cache.get("plans", "10"));
}

TEST(DiskCache, SeesWhatOtherProcessesWrote) {
  Scratch scratch;
  const std::string kilobyte(1000 - 32, 'x');
  for (int i = 0; i < 40; ++i) {
    DiskCache another(scratch.path(), 10'000);
    another.put(i % 2 ? "plans" : "kernels", std::to_string(i), kilobyte);
  }
  EXPECT_LE(files_under(scratch.path()).size(), 10u);
}

TEST(DiskCache, AnEntryLargerThanTheLimitIsNotKept) {
  Scratch scratch;
  DiskCache cache(scratch.path(), 100);
  cache.put("plans", "small", "s");
  cache.put("plans", "large", std::string(200, 'x'));
  EXPECT_TRUE(cache.get("plans", "small"));
  EXPECT_FALSE(cache.get("plans", "large"));
}

TEST(DiskCache, LeftoversOfKilledProcessesGo) {
  Scratch scratch;
  {
    DiskCache cache(scratch.path(), kPlenty);
    cache.put("plans", "k", "v");
  }
  const std::string old = scratch / "v1/plans/.tmp-1-1", fresh = scratch / "v1/plans/.tmp-1-2";
  spill(old, "half");
  spill(fresh, "half");
  set_age(old, 7200);
  DiskCache cache(scratch.path(), kPlenty);
  cache.put("plans", "k2", "v");
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_TRUE(std::filesystem::exists(fresh));
}

TEST(DiskCache, ClearRemovesEntriesOnly) {
  Scratch scratch;
  DiskCache cache(scratch.path(), kPlenty);
  cache.put("plans", "k", "v");
  cache.put("kernels", "k", "v");
  spill(scratch / "mine.txt", "keep");
  spill(scratch / "v1/plans/mine.txt", "keep");
  cache.clear();
  EXPECT_FALSE(cache.get("plans", "k"));
  EXPECT_FALSE(cache.get("kernels", "k"));
  EXPECT_TRUE(std::filesystem::exists(scratch / "mine.txt"));
  EXPECT_TRUE(std::filesystem::exists(scratch / "v1/plans/mine.txt"));
  cache.put("plans", "k", "again");
  EXPECT_EQ(cache.get("plans", "k"), "again");
}

TEST(DiskCache, AFolderRemovedMeanwhileIsMadeAgain) {
  Scratch scratch;
  DiskCache cache(scratch / "cache", kPlenty);
  cache.put("plans", "k", "v");
  std::filesystem::remove_all(scratch / "cache");
  EXPECT_FALSE(cache.get("plans", "k"));
  cache.put("plans", "k", "v");
  EXPECT_TRUE(cache.get("plans", "k"));
}

// A place that cannot hold folders stands for read-only media too, and works for root as well.
TEST(DiskCache, AnUnusableFolderIsNamedOnceAndIsAMiss) {
  Scratch scratch;
  spill(scratch / "file", "not a folder");
  DiskCache cache(scratch / "file/cache", kPlenty);
  CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    cache.put("plans", "k", "v");
    EXPECT_FALSE(cache.get("plans", "k"));
    EXPECT_FALSE(cache.path("plans", "k"));
  }
  EXPECT_EQ(GetCapturedStderr(), "[braze] warning: the disk cache in " + (scratch / "file/cache") +
                                     " cannot be used: Not a directory; compiled kernels are not "
                                     "kept (BRAZE_CACHE_DIR names another folder)\n");
}

bool read_only_still_gives_what_it_has() {
  Scratch scratch;
  DiskCache cache(scratch.path(), kPlenty);
  cache.put("plans", "k", "v");
  ::chmod((scratch / "v1/plans").c_str(), 0500);
  CaptureStderr();
  cache.put("plans", "other", "v");
  const bool named = GetCapturedStderr().find("Permission denied") != std::string::npos;
  const bool right = cache.get("plans", "k") == "v" && !cache.get("plans", "other");
  ::chmod((scratch / "v1/plans").c_str(), 0700);
  return named && right;
}

// Root writes anywhere, so that root's child becomes an ordinary user first.
TEST(DiskCache, ReadOnlyStillGivesWhatItHas) {
  if (::geteuid() != 0) {
    EXPECT_TRUE(read_only_still_gives_what_it_has());
    return;
  }
  constexpr int kCannotChangeUser = 77;
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(kCannotChangeUser);
    ::_exit(read_only_still_gives_what_it_has() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotChangeUser)
    GTEST_SKIP() << "root that may not change its user writes anywhere; an ordinary user lifts it";
  EXPECT_EQ(status, 0);
}

// A limit on file sizes makes write() fail half way, as a full disk does.
TEST(DiskCache, AFullDiskLeavesNothingBehind) {
  Scratch scratch;
  DiskCache cache(scratch.path(), kPlenty);
  cache.put("plans", "before", "v");
  rlimit saved;
  ::getrlimit(RLIMIT_FSIZE, &saved);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, saved.rlim_max};
  CaptureStderr();
  ::setrlimit(RLIMIT_FSIZE, &small);
  cache.put("plans", "k", std::string(100'000, 'x'));
  ::setrlimit(RLIMIT_FSIZE, &saved);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(GetCapturedStderr().find("File too large"), std::string::npos);
  EXPECT_FALSE(cache.get("plans", "k"));
  EXPECT_TRUE(cache.get("plans", "before"));
  EXPECT_EQ(files_under(scratch.path()).size(), 1u);
}

TEST(DiskCache, WhatOthersMayWriteToIsNotTrusted) {
  Scratch scratch;
  std::string file;
  {
    DiskCache cache(scratch.path(), kPlenty);
    cache.put("plans", "k", "v");
    file = *cache.path("plans", "k");
  }
  ::chmod(file.c_str(), 0666);
  EXPECT_FALSE(DiskCache(scratch.path(), kPlenty).get("plans", "k"));
  ::chmod(file.c_str(), 0600);
  EXPECT_TRUE(DiskCache(scratch.path(), kPlenty).get("plans", "k"));
  ::chmod((scratch / "v1/plans").c_str(), 0777);
  CaptureStderr();
  EXPECT_FALSE(DiskCache(scratch.path(), kPlenty).path("plans", "k"));
  EXPECT_NE(GetCapturedStderr().find("somebody else"), std::string::npos);
}

TEST(DiskCache, ManyProcessesAndThreadsAtOnce) {
  Scratch scratch;
  const auto work = [&](unsigned seed) {
    DiskCache cache(scratch.path(), 64'000);
    for (int i = 0; i < 400; ++i) {
      seed = seed * 1664525 + 1013904223;
      const std::string key = std::to_string(seed >> 16 & 31);
      const std::string value(500 + 100 * std::stoi(key), static_cast<char>('a' + std::stoi(key)));
      if (seed & 1 << 24) cache.put("plans", key, value);
      const auto found = cache.get("plans", key);
      if (found && *found != value) return false;
    }
    return true;
  };
  std::vector<pid_t> children;
  for (unsigned i = 0; i < 4; ++i) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(work(i) ? 0 : 1);
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  DiskCache shared(scratch.path(), kPlenty);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const std::string value(1000 + i, 'y');
        shared.put("kernels", std::to_string(i), value);
        EXPECT_EQ(shared.get("kernels", std::to_string(i)), value) << t;
      }
    });
}

TEST(DiskCache, WhereItLies) {
  using Value = std::optional<std::string>;
  const auto folder = [](Value own, Value xdg, Value home) {
    ScopedEnvironment environment{
        {"BRAZE_CACHE_DIR", own}, {"XDG_CACHE_HOME", xdg}, {"HOME", home}, {"BRAZE_CACHE", {}}};
    return DiskCache::instance().folder();
  };
  EXPECT_EQ(folder("/own", "/xdg", "/home/me"), "/own");
  EXPECT_EQ(folder({}, "/xdg", "/home/me"), "/xdg/braze");
  EXPECT_EQ(folder({}, "relative", "/home/me"), "/home/me/.cache/braze");
  EXPECT_EQ(folder({}, {}, "/home/me"), "/home/me/.cache/braze");
  EXPECT_TRUE(folder({}, {}, {}).ends_with("/.cache/braze"));  // of the user database
  EXPECT_TRUE(folder("here", {}, {}).starts_with("/"));
}

TEST(DiskCache, CanBeSwitchedOff) {
  Scratch scratch;
  ScopedEnvironment environment{{"BRAZE_CACHE", "0"}, {"BRAZE_CACHE_DIR", scratch.path()}};
  DiskCache& cache = DiskCache::instance();
  cache.put("plans", "k", "v");
  EXPECT_FALSE(cache.get("plans", "k"));
  cache.clear();
  EXPECT_TRUE(files_under(scratch.path()).empty());
}

TEST(DiskCache, TheInstanceFollowsTheOptions) {
  Scratch scratch;
  ScopedEnvironment environment{{"BRAZE_CACHE", {}}, {"BRAZE_CACHE_DIR", scratch.path()}};
  DiskCache& first = DiskCache::instance();
  reload_options();
  EXPECT_EQ(&first, &DiskCache::instance());
  ScopedEnvironment other{{"BRAZE_CACHE_DIR", scratch / "other"}};
  EXPECT_NE(&first, &DiskCache::instance());
}

}  // namespace
}  // namespace braze::toolchain
