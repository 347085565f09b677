// Compilers that lie or hang, libraries that are not whole.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>

#include "base/environment.h"
#include "base/error.h"
#include "toolchain/process.h"
#include "toolchain/scratch.h"
#include "toolchain/shared_object.h"
#include "toolchain/toolchain.h"

namespace braze::toolchain {
namespace {

using std::chrono::milliseconds;
using test::files_under;
using test::kPlenty;
using test::ScopedEnvironment;
using test::Scratch;
using test::slurp;
using test::spill;

constexpr const char* kSource = "extern \"C\" long answer() { return 42; }";

Compiler scripted(const Scratch& scratch, const std::string& script) {
  const std::string path = scratch / "compiler";
  spill(path, "#!/bin/sh\nfor a in \"$@\"; do [ \"$p\" = -o ] && out=\"$a\"; p=\"$a\"; done\n" +
                  script + "\n");
  ::chmod(path.c_str(), 0700);
  return {path, "scripted 1"};
}

std::string error_of(const Compiler& compiler, DiskCache& cache) {
  try {
    build(kSource, {}, compiler, cache);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "no error";
}

TEST(SharedObject, EveryShorterFileIsDamaged) {
  Scratch scratch;
  DiskCache cache(scratch / "cache", kPlenty);
  build(kSource, {}, *host_compiler(), cache);
  std::string bytes = slurp(files_under(scratch / "cache").at(0));
  EXPECT_EQ(damage_of(files_under(scratch / "cache").at(0)), "");  // with the trailer
  bytes.resize(bytes.size() - 32);
  const std::string path = scratch / "library.so";
  spill(path, bytes);
  EXPECT_EQ(damage_of(path), "");
  for (size_t size = 0; size < bytes.size(); size += size < 200 ? 1 : 97) {
    spill(path, bytes.substr(0, size));
    EXPECT_NE(damage_of(path), "") << size;
    EXPECT_THROW(load(path), InternalError) << size;
  }
  spill(path, bytes.substr(0, bytes.size() - 1));
  EXPECT_NE(damage_of(path).find("it ends after"), std::string::npos) << damage_of(path);
}

TEST(SharedObject, OthersAreNone) {
  Scratch scratch;
  spill(scratch / "text", std::string(1000, 'x'));
  EXPECT_EQ(damage_of(scratch / "text"), "it is no shared library");
  EXPECT_EQ(damage_of(scratch.path()), "it is no file");
  EXPECT_EQ(damage_of(scratch / "missing"), "No such file or directory");
  ASSERT_EQ(::mkfifo((scratch / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(damage_of(scratch / "pipe"), "it is no file");  // without waiting for a writer
}

TEST(Faults, ALibraryThatWasCutShortIsNeitherLoadedNorKept) {
  Scratch scratch;
  DiskCache cache(scratch / "cache", kPlenty);
  for (const char* size : {"0", "63", "64", "4096", "8192", "-1"}) {
    const Compiler compiler = scripted(
        scratch, host_compiler()->path + " \"$@\" || exit 1\ntruncate -s " + size + " \"$out\"");
    EXPECT_NE(error_of(compiler, cache).find("what it wrote is damaged"), std::string::npos)
        << size << ": " << error_of(compiler, cache);
  }
  EXPECT_TRUE(files_under(scratch / "cache").empty());
}

// What a version without the check has kept.
TEST(Faults, AShortLibraryInTheCacheIsBuiltAgain) {
  Scratch scratch;
  DiskCache cache(scratch / "cache", kPlenty);
  build(kSource, {}, *host_compiler(), cache);
  const std::string file = files_under(scratch / "cache").at(0);
  const std::string whole = slurp(file);
  cache.put("kernels", "elsewhere", std::string_view(whole).substr(0, 4096));
  std::filesystem::rename(*cache.path("kernels", "elsewhere"), file);
  const auto library = build(kSource, {}, *host_compiler(), cache);
  EXPECT_EQ(reinterpret_cast<long (*)()>(library->symbol("answer"))(), 42);
  EXPECT_EQ(slurp(file), whole);
}

TEST(Faults, APipeInTheCacheIsNotWaitedFor) {
  Scratch scratch;
  DiskCache cache(scratch / "cache", kPlenty);
  cache.put("kernels", "key", "bytes");
  const std::string file = *cache.path("kernels", "key");
  std::filesystem::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_EQ(cache.get("kernels", "key"), std::nullopt);
  cache.put("kernels", "key", "bytes");
  EXPECT_EQ(cache.get("kernels", "key"), "bytes");
}

TEST(Faults, ALibraryWithoutItsSymbolsIsNotKept) {
  Scratch scratch;
  DiskCache cache(scratch / "cache", kPlenty);
  const std::vector<std::string> symbols = {"answer", "question"};
  EXPECT_THROW(build(kSource, {}, *host_compiler(), cache, symbols), InternalError);
  EXPECT_TRUE(files_under(scratch / "cache").empty());
  // One that was kept for whoever asked for less is built again, in vain.
  build(kSource, {}, *host_compiler(), cache);
  EXPECT_THROW(build(kSource, {}, *host_compiler(), cache, symbols), InternalError);
  const auto library = build(kSource, {}, *host_compiler(), cache, std::span(symbols).first(1));
  EXPECT_TRUE(library->has("answer"));
  EXPECT_FALSE(library->has("question"));
}

TEST(Faults, AHangingCompilerIsKilledWithItsChildren) {
  Scratch scratch;
  ScopedEnvironment environment{{"BRAZE_COMPILER_TIMEOUT", "1"}};
  DiskCache cache(scratch / "cache", kPlenty);
  const std::string log = scratch / "late";
  const Compiler compiler =
      scripted(scratch, "trap '' TERM INT\n(sleep 2; echo late > " + log + ") &\nwait");
  EXPECT_NE(error_of(compiler, cache).find("did not come to an end in 1 s"), std::string::npos);
  ::usleep(1'500'000);
  EXPECT_EQ(slurp(log), "");
  EXPECT_NE(error_of(compiler, cache).find("did not come to an end in 1 s"), std::string::npos);
  EXPECT_NE(error_of(compiler, cache).find("is not run any more"), std::string::npos);
}

TEST(Process, WhatKeepsALimitIsLeftAlone) {
  Scratch scratch;
  const RunResult result =
      run({"sh", "-c", "sleep 0.2; exit 3"}, scratch / "out", milliseconds(9000));
  EXPECT_TRUE(result.started);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(run({"sh", "-c", "exit 4"}, scratch / "out", milliseconds(0)).exit_code, 4);
  EXPECT_FALSE(run({"/no/such/program"}, scratch / "out", milliseconds(100)).started);
}

TEST(Process, AStoppedProgramIsKilled) {
  Scratch scratch;
  const RunResult result = run({"sh", "-c", "kill -STOP $$"}, scratch / "out", milliseconds(100));
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.exit_code, 128 + 9);
}

TEST(Process, WritingToAFullDeviceIsAnError) {
  EXPECT_FALSE(write_file("/dev/full", "text"));
  EXPECT_EQ(errno, ENOSPC);
}

}  // namespace
}  // namespace braze::toolchain
