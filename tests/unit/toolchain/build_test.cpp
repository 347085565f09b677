#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "base/environment.h"
#include "base/error.h"
#include "toolchain/process.h"
#include "toolchain/scratch.h"
#include "toolchain/toolchain.h"

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

using Function = long (*)();

std::string returning(int value) {
  return "extern \"C\" long answer() { return " + std::to_string(value) + "; }";
}

long call(const std::shared_ptr<Library>& library) {
  return reinterpret_cast<Function>(library->symbol("answer"))();
}

// A compiler that counts its runs in a file.
struct Counting {
  explicit Counting(const Scratch& scratch, const std::string& before = "")
      : log(scratch / "runs"), script(scratch / "compiler") {
    spill(script, "#!/bin/sh\n" + before + "\necho run >> " + log + "\nexec " +
                      host_compiler()->path + " \"$@\"\n");
    ::chmod(script.c_str(), 0700);
    compiler = {script, host_compiler()->version};
  }
  size_t runs() const { return slurp(log).size() / 4; }
  std::string log, script;
  Compiler compiler;
};

TEST(Compiler, IsFoundAndKnowsItsVersion) {
  ASSERT_TRUE(host_compiler());
  EXPECT_FALSE(host_compiler()->version.empty());
  EXPECT_EQ(&host_compiler(), &host_compiler());
}

TEST(Compiler, CxxComesFirstAndMayHaveArguments) {
  Scratch scratch;
  spill(scratch / "mine", "#!/bin/sh\n[ \"$1\" = -x ] && echo mine 1.2\n");
  ::chmod((scratch / "mine").c_str(), 0700);
  ScopedEnvironment environment{{"CXX", (scratch / "mine") + " -x"}};
  const auto compiler = find_compiler();
  ASSERT_TRUE(compiler);
  EXPECT_EQ(compiler->version, "mine 1.2");
  EXPECT_EQ(compiler->path, (scratch / "mine") + " -x");
}

TEST(Compiler, IsAskedForItsVersionOnceAsLongAsItIsTheSame) {
  Scratch scratch, caches;
  ScopedEnvironment environment{{"BRAZE_CACHE_DIR", caches / "cache"}};
  const Counting counting(scratch);
  ScopedEnvironment chosen{{"CXX", counting.script}};
  const auto first = find_compiler(), second = find_compiler();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->version, host_compiler()->version);
  EXPECT_EQ(second->version, first->version);
  EXPECT_EQ(counting.runs(), 1u);
  spill(counting.script, "#!/bin/sh\necho another 2\n");
  EXPECT_EQ(find_compiler()->version, "another 2");
  std::filesystem::remove(counting.script);
  CaptureStderr();
  EXPECT_NE(find_compiler()->path, counting.script);
  EXPECT_NE(GetCapturedStderr().find("does not run"), std::string::npos);
}

TEST(Compiler, ABadCxxIsNamedAndPassedOver) {
  ScopedEnvironment environment{{"CXX", "/no/such/compiler"}};
  CaptureStderr();
  EXPECT_TRUE(find_compiler());
  EXPECT_EQ(GetCapturedStderr(),
            "[braze] warning: CXX='/no/such/compiler' does not run; looking for g++, clang++ and "
            "c++\n");
}

TEST(Compiler, NoneIsAValue) {
  Scratch scratch;
  ScopedEnvironment environment{{"CXX", {}}, {"PATH", scratch.path()}};
  EXPECT_FALSE(find_compiler());
}

TEST(Compiler, OneThatFailsItsVersionIsNone) {
  Scratch scratch;
  spill(scratch / "g++", "#!/bin/sh\nexit 1\n");
  ::chmod((scratch / "g++").c_str(), 0700);
  ScopedEnvironment environment{{"CXX", {}}, {"PATH", scratch.path()}};
  EXPECT_FALSE(find_compiler());
}

TEST(Build, CompilesOnceAndThenTakesTheCache) {
  Scratch scratch;
  const Counting counting(scratch);
  DiskCache cache(scratch / "cache", kPlenty);
  EXPECT_EQ(call(build(returning(7), {}, counting.compiler, cache)), 7);
  EXPECT_EQ(call(build(returning(7), {}, counting.compiler, cache)), 7);
  DiskCache of_another_process(scratch / "cache", kPlenty);
  EXPECT_EQ(call(build(returning(7), {}, counting.compiler, of_another_process)), 7);
  EXPECT_EQ(counting.runs(), 1u);
}

TEST(Build, SourceFlagsAndVersionAreInTheKey) {
  Scratch scratch;
  const Counting counting(scratch);
  DiskCache cache(scratch / "cache", kPlenty);
  const std::string source = "extern \"C\" long answer() { return VALUE; }";
  EXPECT_EQ(call(build(source, {"-DVALUE=1"}, counting.compiler, cache)), 1);
  EXPECT_EQ(call(build(source, {"-DVALUE=2"}, counting.compiler, cache)), 2);
  EXPECT_EQ(call(build(source + " ", {"-DVALUE=1"}, counting.compiler, cache)), 1);
  Compiler newer = counting.compiler;
  newer.version += ".1";
  EXPECT_EQ(call(build(source, {"-DVALUE=1"}, newer, cache)), 1);
  EXPECT_EQ(counting.runs(), 4u);
}

TEST(Build, ADamagedEntryIsBuiltAgain) {
  Scratch scratch;
  const Counting counting(scratch);
  DiskCache cache(scratch / "cache", kPlenty);
  build(returning(3), {}, counting.compiler, cache);
  const auto files = files_under(scratch / "cache");
  ASSERT_EQ(files.size(), 1u);
  std::string bytes = slurp(files[0]);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  spill(files[0], bytes);
  EXPECT_EQ(call(build(returning(3), {}, counting.compiler, cache)), 3);
  EXPECT_EQ(counting.runs(), 2u);
  EXPECT_EQ(call(build(returning(3), {}, counting.compiler, cache)), 3);
  EXPECT_EQ(counting.runs(), 2u);
}

TEST(Build, AnEntryThatIsNoLibraryIsBuiltAgain) {
  Scratch scratch;
  const Counting counting(scratch);
  DiskCache cache(scratch / "cache", kPlenty);
  build(returning(3), {}, counting.compiler, cache);
  const auto files = files_under(scratch / "cache");
  ASSERT_EQ(files.size(), 1u);
  cache.put("kernels", "elsewhere", "no library");
  std::filesystem::rename(*cache.path("kernels", "elsewhere"), files[0]);
  EXPECT_EQ(call(build(returning(3), {}, counting.compiler, cache)), 3);
}

TEST(Build, WorksWithoutAUsableCache) {
  Scratch scratch;
  spill(scratch / "file", "");
  DiskCache unusable(scratch / "file/cache", kPlenty), off("", kPlenty);
  CaptureStderr();
  EXPECT_EQ(call(build(returning(5), {}, *host_compiler(), unusable)), 5);
  EXPECT_EQ(call(build(returning(6), {}, *host_compiler(), off)), 6);
  EXPECT_NE(GetCapturedStderr().find("cannot be used"), std::string::npos);
}

TEST(Build, LeavesNoTemporaryFilesBehind) {
  Scratch scratch;
  ScopedEnvironment environment{{"TMPDIR", scratch.path()}};
  DiskCache off("", kPlenty);
  const auto library = build(returning(5), {}, *host_compiler(), off);
  EXPECT_THROW(build("nonsense", {}, *host_compiler(), off), InternalError);
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
  EXPECT_EQ(call(library), 5);
}

TEST(Build, TheCompilersWordsAreInTheError) {
  DiskCache off("", kPlenty);
  try {
    build("extern \"C\" long answer() { return undeclared_name; }", {}, *host_compiler(), off);
    FAIL();
  } catch (const InternalError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("the host compiler failed (exit code 1)"), std::string::npos) << text;
    EXPECT_NE(text.find("undeclared_name"), std::string::npos) << text;
    EXPECT_NE(text.find("-shared"), std::string::npos) << text;
  }
}

TEST(Build, ACompilerThatHasGoneIsAnError) {
  DiskCache off("", kPlenty);
  try {
    build(returning(1), {}, {"/no/such/compiler", "1"}, off);
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("No such file"), std::string::npos) << error.what();
  }
}

// Nobody can make a folder in /proc.
TEST(Build, TemporaryFilesGoWhereTheyCan) {
  ScopedEnvironment environment{{"TMPDIR", "/proc"}};
  const TemporaryFolder folder;
  EXPECT_EQ(folder.file("x").find("/tmp/braze-"), 0u) << folder.file("x");
  EXPECT_TRUE(write_file(folder.file("x"), "y"));
}

TEST(Build, MathAndCompilerHelpersAreThere) {
  DiskCache off("", kPlenty);
  const auto library = build(
      "extern \"C\" double fmod(double, double);\n"
      "extern \"C\" long answer() {\n"
      "  volatile __int128 big = __int128(1) << 100;\n"
      "  volatile double x = 17.5;\n"
      "  return long(big / (__int128(1) << 98)) + long(fmod(x, 4.0));\n"
      "}\n"
      "extern \"C\" void fill(char* p, long n) { for (long i = 0; i < n; ++i) p[i] = 3; }\n",
      {"-O2"}, *host_compiler(), off);
  EXPECT_EQ(call(library), 5);
  char bytes[100] = {};
  reinterpret_cast<void (*)(char*, long)>(library->symbol("fill"))(bytes, 100);
  EXPECT_EQ(bytes[99], 3);
}

TEST(Build, AMissingSymbolIsAnInternalError) {
  DiskCache off("", kPlenty);
  const auto library = build(returning(1), {}, *host_compiler(), off);
  EXPECT_THROW(library->symbol("question"), InternalError);
  EXPECT_THROW(load("/no/such/library.so"), InternalError);
}

// Ctrl-C reaches every process of the terminal's foreground group; the compiler is not in ours.
TEST(Build, CtrlCDoesNotCutACompileOff) {
  Scratch scratch;
  const Counting slow(scratch, "kill -INT " + std::to_string(::getpid()) + "; sleep 0.05\n" +
                                   "test $(ps -o pgid= -p $$) != " + std::to_string(::getpgrp()) +
                                   " || exit 9");
  static volatile sig_atomic_t interrupted = 0;
  struct sigaction action = {}, before;
  action.sa_handler = [](int) { interrupted = 1; };
  ::sigaction(SIGINT, &action, &before);
  DiskCache cache(scratch / "cache", kPlenty);
  const auto library = build(returning(4), {}, slow.compiler, cache);
  ::sigaction(SIGINT, &before, nullptr);
  EXPECT_TRUE(interrupted);
  EXPECT_EQ(call(library), 4);
  EXPECT_EQ(files_under(scratch / "cache").size(), 1u);
}

TEST(Build, WorksWhereChildrenAreNotWaitedFor) {
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  DiskCache off("", kPlenty);
  EXPECT_EQ(call(build(returning(8), {}, *host_compiler(), off)), 8);
  EXPECT_THROW(build("nonsense", {}, *host_compiler(), off), InternalError);
  ::signal(SIGCHLD, before);
}

std::vector<LibrarySource> sources_of(const std::vector<std::string>& texts) {
  std::vector<LibrarySource> sources;
  for (const std::string& text : texts) sources.push_back({.text = text, .flags = {"-O1"}});
  return sources;
}

TEST(BuildAll, KeepsTheOrder) {
  Scratch scratch;
  DiskCache cache(scratch.path(), kPlenty);
  std::vector<std::string> texts;
  for (int i = 0; i < 6; ++i) texts.push_back(returning(i % 4));
  const auto libraries = build_all(sources_of(texts), *host_compiler(), cache);
  ASSERT_EQ(libraries.size(), 6u);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(call(libraries[i]), i % 4);
  EXPECT_TRUE(build_all({}, *host_compiler(), cache).empty());
}

TEST(BuildAll, ALibraryThatLacksASymbolIsAFailure) {
  DiskCache off("", kPlenty);
  std::vector<LibrarySource> sources = sources_of({returning(1), returning(2)});
  sources[1].symbols = {"question"};
  EXPECT_THROW(build_all(sources, *host_compiler(), off), InternalError);
}

TEST(BuildAll, RunsCompilersAtOnce) {
  if (std::thread::hardware_concurrency() < 2)
    GTEST_SKIP() << "one thread: nothing can run at once; a machine with two lifts it";
  Scratch scratch;
  // Each waits for the other, and fails alone.
  const std::string here = scratch / "here";
  const Counting meeting(scratch, "echo >> " + here + "\nfor i in $(seq 200); do [ $(wc -l < " +
                                      here + ") -ge 2 ] && break; sleep 0.05; done\n[ $(wc -l < " +
                                      here + ") -ge 2 ] || exit 1");
  DiskCache off("", kPlenty);
  const auto sources = sources_of({returning(1), returning(2)});
  EXPECT_EQ(build_all(sources, meeting.compiler, off).size(), 2u);
}

TEST(BuildAll, ThrowsTheFirstFailureInOrderAndKeepsTheRest) {
  Scratch scratch;
  DiskCache cache(scratch.path(), kPlenty);
  const auto sources = sources_of({returning(1), "bad_one", "bad_two", returning(2)});
  try {
    build_all(sources, *host_compiler(), cache);
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("bad_one"), std::string::npos);
  }
  EXPECT_EQ(files_under(scratch.path()).size(), 2u);
}

}  // namespace
}  // namespace braze::toolchain
