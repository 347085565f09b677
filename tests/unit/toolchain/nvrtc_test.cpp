// NVRTC in processes, with a library in its place that does what the source says.
#include "toolchain/nvrtc.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/options.h"
#include "toolchain/messages.h"
#include "toolchain/nvrtc_process.h"
#include "toolchain/nvrtc_search.h"
#include "toolchain/scratch.h"
#include "toolchain/toolchain.h"

namespace braze::toolchain {
namespace {

using std::chrono::milliseconds;
using test::kPlenty;
using test::Scratch;
using test::slurp;

using Clock = std::chrono::steady_clock;

// The "machine code" is the process that made it and the source. Words of a source: fails: as for
// an error in it; dies, hangs, garbles: the process does, unless it is the caller's.
constexpr const char* kStub = R"(
extern "C" {
int getpid(); void _exit(int); int pause(); long write(int, const void*, unsigned long);
int open(const char*, int, ...); long read(int, void*, unsigned long); int close(int);
char* strstr(const char*, const char*); unsigned long strlen(const char*);
char* strcpy(char*, const char*); char* strcat(char*, const char*);
void* malloc(unsigned long); void free(void*); int sprintf(char*, const char*, ...);
struct Program { char* text; };
static bool is_beside() {
  char name[64] = {};
  const int file = open("/proc/self/comm", 0);
  read(file, name, 63);
  close(file);
  return strstr(name, "braze_nvrtc") != nullptr;
}
int nvrtcVersion(int* major, int* minor) { *major = 99; *minor = 1; return 0; }
int nvrtcCreateProgram(void** p, const char* text, const char*, int, const char* const*,
                       const char* const*) {
  auto* made = (Program*)malloc(sizeof(Program));
  made->text = (char*)malloc(strlen(text) + 64);
  sprintf(made->text, "%s %d: ", is_beside() ? "beside" : "caller", getpid());
  strcat(made->text, text);
  *p = made;
  return 0;
}
int nvrtcCompileProgram(void* p, int, const char* const*) {
  const char* text = ((Program*)p)->text;
  if (strstr(text, "fails")) return 6;
  if (!is_beside()) return 0;
  if (strstr(text, "dies")) _exit(3);
  if (strstr(text, "garbles")) write(0, "0123456789abcdef0123456789abcdef", 32);
  while (strstr(text, "hangs")) pause();
  return 0;
}
int nvrtcGetProgramLogSize(void*, unsigned long* size) { *size = 9; return 0; }
int nvrtcGetProgramLog(void*, char* text) { strcpy(text, "so it is"); return 0; }
int nvrtcGetCUBINSize(void* p, unsigned long* size) {
  *size = strlen(((Program*)p)->text);
  return 0;
}
int nvrtcGetCUBIN(void* p, char* code) {
  for (char* c = ((Program*)p)->text; *c; ++c) *code++ = *c;
  return 0;
}
int nvrtcDestroyProgram(void** p) { free(((Program*)*p)->text); free(*p); return 0; }
const char* nvrtcGetErrorString(int) { return "the stub says no"; }
}
)";

std::string program() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "braze_nvrtc_process";
}

// Path of the library, built once in a process.
const std::string& stub() {
  static const Scratch& scratch = *new Scratch;
  static const std::string path = [] {
    DiskCache cache(scratch / "cache", kPlenty);
    build(kStub, {}, *host_compiler(), cache);
    const std::string copy = scratch / "libnvrtc.so";
    std::filesystem::copy_file(test::files_under(scratch / "cache").at(0), copy);
    return copy;
  }();
  return path;
}

NvrtcSetup setup(size_t processes = 2) {
  static const NvrtcLibrary* library = [] {
    std::string why;
    const NvrtcLibrary* opened = NvrtcLibrary::open(stub(), why);
    EXPECT_EQ(why, "");
    return opened;
  }();
  return {.library = *library,
          .program = program(),
          .most_processes = processes,
          .limit = milliseconds(30'000)};
}

std::vector<CudaSource> sources(const std::vector<std::string>& texts) {
  std::vector<CudaSource> sources;
  for (const std::string& text : texts) sources.push_back({"[" + text + "]", {"--flag"}});
  return sources;
}

// The code of each source.
std::vector<std::string> codes(const std::vector<std::string>& texts, DiskCache& cache,
                               const NvrtcSetup& with) {
  const Cubins made = cubins(sources(texts), cache, with);
  std::vector<std::string> codes;
  for (size_t place : made.of_source) codes.push_back(made.code.at(place));
  for (size_t i = 0; i < texts.size(); ++i)
    EXPECT_NE(codes.at(i).find("[" + texts[i] + "]"), std::string::npos) << codes[i];
  return codes;
}

std::vector<std::string> codes(const std::vector<std::string>& texts, const NvrtcSetup& with) {
  DiskCache none("", 0);
  return codes(texts, none, with);
}

std::string error_of(const std::vector<std::string>& texts, const NvrtcSetup& with) {
  try {
    codes(texts, with);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "no error";
}

std::set<std::string> different(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

bool by_caller(const std::string& code) {
  return code.starts_with("caller " + std::to_string(::getpid()) + ":");
}

// Processes of this program's that run beside this one, or have not been waited for.
int processes_beside() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string status = slurp(entry.path() / "status");
    count += status.starts_with("Name:\tbraze_nvrtc") &&
             status.find("PPid:\t" + std::to_string(::getpid()) + "\n") != status.npos;
  }
  return count;
}

// A process has the program's name a moment after it was started.
int processes_beside(int expected) {
  const auto until = Clock::now() + std::chrono::seconds(5);
  while (processes_beside() != expected && Clock::now() < until)
    std::this_thread::sleep_for(milliseconds(5));
  return processes_beside();
}

bool runs(pid_t process) {
  const std::string status = slurp("/proc/" + std::to_string(process) + "/status");
  return !status.empty() && status.find("State:\tZ") == status.npos;
}

TEST(Nvrtc, SourcesArePutTogetherAndCompiledInProcesses) {
  const std::vector<std::string> made = codes({"a", "b", "c", "d", "e"}, setup());
  EXPECT_EQ(different(made).size(), 2u);
  for (const std::string& code : made) EXPECT_TRUE(code.starts_with("beside ")) << code;
  EXPECT_EQ(processes_beside(), 0);  // they have ended
}

TEST(Nvrtc, LargeSourcesAreByThemselves) {
  const std::string large(1000, 'x');
  const std::vector<std::string> made = codes({"a", large, "b", "c"}, setup());
  EXPECT_EQ(made[0], made[2]);
  EXPECT_EQ(made[0], made[3]);
  EXPECT_NE(made[0], made[1]);
}

TEST(Nvrtc, SourcesWithDifferentFlagsAreNotPutTogether) {
  std::vector<CudaSource> two = sources({"a", "b"});
  two[1].flags = {"--other"};
  DiskCache none("", 0);
  const Cubins made = cubins(two, none, setup(1));
  EXPECT_EQ(made.code.size(), 2u);
  EXPECT_EQ(made.of_source, (std::vector<size_t>{0, 1}));
}

TEST(Nvrtc, WhatIsTheSameIsCompiledOnce) {
  const std::vector<std::string> made = codes({"a", "a", "a"}, setup());
  EXPECT_EQ(different(made).size(), 1u);
  EXPECT_EQ(made[0].find("[a]"), made[0].rfind("[a]")) << made[0];
}

TEST(Nvrtc, OneRunIsMadeInThisProcess) {
  EXPECT_TRUE(by_caller(codes({"a"}, setup())[0]));
  EXPECT_TRUE(by_caller(codes({"a", "b"}, setup(1))[0]));
}

TEST(Nvrtc, TheCacheKnowsWhereASourceIs) {
  Scratch scratch;
  DiskCache cache(scratch / "cache", kPlenty);
  const std::vector<std::string> first = codes({"a", "b", "c", "d"}, cache, setup());
  DiskCache again(scratch / "cache", kPlenty);
  EXPECT_EQ(codes({"d", "a"}, again, setup()), (std::vector{first[3], first[0]}));
  const std::vector<std::string> more = codes({"a", "new"}, again, setup());
  EXPECT_EQ(more[0], first[0]);
  EXPECT_TRUE(by_caller(more[1]));  // it is the only one that is missing
  again.clear();
  EXPECT_NE(codes({"a", "b"}, again, setup(1))[0], first[0]);
}

TEST(Nvrtc, ACacheThatHasLostTheCodeCompilesAgain) {
  Scratch scratch;
  DiskCache cache(scratch / "cache", kPlenty);
  codes({"a", "b"}, cache, setup(1));
  std::filesystem::remove_all(scratch / "cache/v1/cubins");
  DiskCache again(scratch / "cache", kPlenty);
  EXPECT_TRUE(by_caller(codes({"a", "b"}, again, setup(1))[0]));
}

TEST(Nvrtc, WordsOfAFailure) {
  for (size_t processes : {1, 2}) {
    const std::string error = error_of({"a", "fails"}, setup(processes));
    EXPECT_NE(error.find("NVRTC 99.1 failed (the stub says no: so it is"), std::string::npos)
        << error;
  }
}

TEST(Nvrtc, WhatAProcessIsLostWithIsCompiledInThisOne) {
  for (const char* fate : {"dies", "garbles"}) {
    const std::vector<std::string> made = codes({"a", fate}, setup());
    EXPECT_TRUE(made[0].starts_with("beside ")) << made[0];
    EXPECT_TRUE(by_caller(made[1])) << made[1];
    EXPECT_EQ(processes_beside(), 0);
  }
}

TEST(Nvrtc, AProcessThatHangsIsNotWaitedFor) {
  NvrtcSetup with = setup();
  with.limit = milliseconds(300);
  const auto begin = Clock::now();
  const std::string error = error_of({"a", "hangs"}, with);
  EXPECT_NE(error.find("NVRTC did not come to an end in 300 ms (BRAZE_COMPILER_TIMEOUT)"),
            std::string::npos)
      << error;
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(4));
  EXPECT_EQ(processes_beside(), 0);
}

TEST(Nvrtc, AProgramThatDoesNotServe) {
  for (const char* other : {"/nowhere/braze_nvrtc_process", "/bin/true", "/bin/cat"}) {
    NvrtcSetup with = setup();
    with.program = other;
    for (const std::string& code : codes({"a", "b", "c"}, with)) EXPECT_TRUE(by_caller(code));
  }
}

TEST(NvrtcDeathTest, ThatThereIsNoProgramIsToldOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a fresh process, which has told nothing
  const auto twice = [] {
    NvrtcSetup with = setup();
    with.program = "/nowhere/program";
    testing::internal::CaptureStderr();
    for (int i = 0; i < 2; ++i) codes({"a", "b"}, with);
    const std::string told = testing::internal::GetCapturedStderr();
    const std::string words =
        "kernels for GPUs are compiled one after another: the program that compiles them cannot "
        "be started (/nowhere/program: No such file or directory)";
    const size_t first = told.find(words);
    ::_exit(first != told.npos && told.find(words, first + 1) == told.npos ? 0 : 1);
  };
  EXPECT_EXIT(twice(), testing::ExitedWithCode(0), "");
}

TEST(NvrtcProcess, EndsWithItsChannelAlsoWhileItCompiles) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  std::string why;
  const pid_t process = start({program(), stub()}, ends[1], why);
  ASSERT_NE(process, 0) << why;
  ::close(ends[1]);
  ASSERT_EQ(send_message(ends[0], {"hangs"}, milliseconds(1000)), Exchange::kDone);
  Message none;
  EXPECT_EQ(receive_message(ends[0], none, milliseconds(200)), Exchange::kLate);
  EXPECT_TRUE(runs(process));
  ::close(ends[0]);
  const auto begin = Clock::now();
  end(process, milliseconds(10'000));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
}

// The process that started it is gone, but a child of it has a copy of the channel.
TEST(NvrtcProcess, EndsWithTheProcessThatStartedIt) {
  setup();
  int numbers[2];
  ASSERT_EQ(::pipe(numbers), 0);
  const pid_t starter = ::fork();
  if (starter == 0) {
    int ends[2];
    std::string why;
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) ::_exit(1);
    const pid_t process = start({program(), stub()}, ends[1], why);
    const pid_t copy = ::fork();
    if (copy == 0) {
      ::sleep(20);
      ::_exit(0);
    }
    const pid_t both[] = {process, copy};
    // It is there when it answers.
    Message answer;
    send_message(ends[0], {"a"}, milliseconds(10'000));
    receive_message(ends[0], answer, milliseconds(10'000));
    ::_exit(answer.size() == 2 && ::write(numbers[1], both, sizeof both) == sizeof both ? 0 : 1);
  }
  pid_t both[2] = {};
  ASSERT_EQ(::read(numbers[0], both, sizeof both), static_cast<ssize_t>(sizeof both));
  int status = 0;
  ::waitpid(starter, &status, 0);
  EXPECT_EQ(status, 0);
  const auto until = Clock::now() + std::chrono::seconds(10);
  while (runs(both[0]) && Clock::now() < until) std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(runs(both[0]));
  EXPECT_TRUE(runs(both[1]));
  ::kill(both[1], SIGKILL);
  ::close(numbers[0]);
  ::close(numbers[1]);
}

TEST(NvrtcAhead, ProcessesAreThereAndAreTheParentsAlone) {
  ::setenv("BRAZE_NVRTC", stub().c_str(), 1);
  reload_options();
  ASSERT_EQ(why_no_nvrtc(), "");
  EXPECT_EQ(nvrtc_version(), "99.1");
  const auto most = static_cast<int>(usual_setup().most_processes);
  if (most < 2) GTEST_SKIP() << "a second processor lifts it";
  {
    const NvrtcAhead none(1);
    EXPECT_EQ(processes_beside(), 0);
  }
  {
    const NvrtcAhead ahead(2);
    EXPECT_EQ(processes_beside(2), 2);
    const pid_t child = ::fork();
    if (child == 0) {  // which has processes of its own
      bool fine = true;
      for (const std::string& code : codes({"a", "b"}, setup()))
        fine = fine && code.starts_with("beside ");
      ::_exit(fine ? 0 : 1);
    }
    int status = 1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(processes_beside(2), 2);
    for (const std::string& code : codes({"a", "b"}, setup()))
      EXPECT_TRUE(code.starts_with("beside ")) << code;
    EXPECT_EQ(processes_beside(), 0);
  }
  {
    const NvrtcAhead unused(2);
    EXPECT_EQ(processes_beside(2), 2);
  }
  EXPECT_EQ(processes_beside(), 0);
}

TEST(Messages, ArriveWhole) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const Message large = {std::string(3'000'000, 'x'), "", std::string("\0\n", 2)};
  std::jthread sender([&] {
    EXPECT_EQ(send_message(ends[0], large, milliseconds(10'000)), Exchange::kDone);
    EXPECT_EQ(send_message(ends[0], {}, milliseconds(0)), Exchange::kDone);
  });
  Message got;
  EXPECT_EQ(receive_message(ends[1], got, milliseconds(10'000)), Exchange::kDone);
  EXPECT_EQ(got, large);
  EXPECT_EQ(receive_message(ends[1], got, milliseconds(0)), Exchange::kDone);
  EXPECT_TRUE(got.empty());
  EXPECT_EQ(receive_message(ends[1], got, milliseconds(20)), Exchange::kLate);
  sender.join();
  ::close(ends[0]);
  EXPECT_EQ(receive_message(ends[1], got, milliseconds(0)), Exchange::kEnd);
  EXPECT_EQ(send_message(ends[1], large, milliseconds(0)), Exchange::kEnd);
  ::close(ends[1]);
}

// A process that is stopped reads nothing.
TEST(Messages, ASenderDoesNotWaitForEver) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  EXPECT_EQ(send_message(ends[0], {std::string(10'000'000, 'x')}, milliseconds(50)),
            Exchange::kLate);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Messages, WhatIsNoneIsGarbage) {
  const auto received = [](const std::string& bytes) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    EXPECT_TRUE(write_all(ends[0], bytes));
    ::close(ends[0]);
    Message message;
    const Exchange done = receive_message(ends[1], message, milliseconds(1000));
    ::close(ends[1]);
    return done;
  };
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  ASSERT_EQ(send_message(ends[0], {"text"}, milliseconds(0)), Exchange::kDone);
  std::string bytes(28, '\0');
  ASSERT_EQ(::read(ends[1], bytes.data(), bytes.size()), 28);
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_EQ(received(bytes), Exchange::kDone);
  EXPECT_EQ(received(bytes.substr(0, 27)), Exchange::kEnd);
  EXPECT_EQ(received(""), Exchange::kEnd);
  EXPECT_EQ(received("This is what a program prints."), Exchange::kGarbage);
  std::string larger = bytes;
  larger[16] = 5;  // the text's length, of which 4 are there
  EXPECT_EQ(received(larger), Exchange::kGarbage);
  larger = bytes;
  larger[15] = 127;  // the message's length
  EXPECT_EQ(received(larger), Exchange::kGarbage);
}

}  // namespace
}  // namespace braze::toolchain
