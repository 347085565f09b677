#include "toolchain/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/fork_mutex.h"

extern char** environ;

namespace braze::toolchain {
namespace {

struct SpawnActions {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  SpawnActions() {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnActions() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnActions(const SpawnActions&) = delete;
};

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

bool has_ended(pid_t child) {
  siginfo_t info{};
  const int done = ::waitid(P_PID, child, &info, WEXITED | WNOHANG | WNOWAIT);
  return (done < 0 && errno != EINTR) || (done == 0 && info.si_pid == child);
}

// False where the child runs on after `limit`.
bool ends_within(pid_t child, milliseconds limit) {
  const auto end = Clock::now() + limit;
  File handle(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));  // none before Linux 5.3
  milliseconds pause(1);
  while (!has_ended(child)) {
    const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
    if (left <= milliseconds(0)) return false;
    pollfd event{handle.get(), POLLIN, 0};
    const auto wait = handle ? std::min(left, milliseconds(60'000)) : std::min(left, pause);
    ::poll(&event, handle ? 1 : 0, static_cast<int>(wait.count()));
    pause = std::min(2 * pause, milliseconds(50));
  }
  return true;
}

int exit_code_of(pid_t child) {
  int status = 0;
  pid_t done;
  do {
    done = ::waitpid(child, &status, 0);
  } while (done < 0 && errno == EINTR);
  // A program that ignores SIGCHLD gets no status (ECHILD). What the child made is looked at
  // anyway.
  if (done < 0) return 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The process; 0, with `error`: it could not be started.
pid_t spawn(const std::vector<std::string>& arguments, SpawnActions& actions, std::string& error) {
  std::vector<char*> pointers;
  for (const std::string& argument : arguments)
    pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  sigset_t none, defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  for (int signal : {SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGCHLD}) sigaddset(&defaults, signal);
  posix_spawnattr_setsigmask(&actions.attributes, &none);
  posix_spawnattr_setsigdefault(&actions.attributes, &defaults);
  posix_spawnattr_setpgroup(&actions.attributes, 0);
  posix_spawnattr_setflags(&actions.attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  pid_t child = 0;
  const int failure = ::posix_spawnp(&child, pointers[0], &actions.files, &actions.attributes,
                                     pointers.data(), environ);
  if (failure == 0) return child;
  error = std::strerror(failure);
  return 0;
}

}  // namespace

File::~File() { close(); }

bool File::close() {
  const int descriptor = std::exchange(descriptor_, -1);
  return descriptor < 0 || ::close(descriptor) == 0;
}

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = ENOSPC;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

std::optional<std::string> read_all(int descriptor) {
  struct stat status;
  if (::fstat(descriptor, &status) != 0) return std::nullopt;
  std::string bytes(static_cast<size_t>(status.st_size) + 1, '\0');  // room to see the end
  for (size_t filled = 0;;) {
    if (filled == bytes.size()) bytes.resize(2 * filled);
    const ssize_t count = ::read(descriptor, bytes.data() + filled, bytes.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    filled += static_cast<size_t>(count);
    if (count == 0) {
      bytes.resize(filled);
      return bytes;
    }
  }
}

std::optional<std::string> read_file(const std::string& path) {
  File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe is read as empty
  return file ? read_all(file.get()) : std::nullopt;
}

bool write_file(const std::string& path, std::string_view bytes) {
  File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  return file && write_all(file.get(), bytes) && file.close();
}

TemporaryFolder::TemporaryFolder() {
  std::error_code ignored;
  std::string place = std::filesystem::temp_directory_path(ignored).string();
  if (place.empty()) place = "/tmp";
  // A place that is a folder, but none for files, is no reason to do without.
  for (const std::string& folder : {place, std::string("/tmp")}) {
    path_ = folder + "/braze-XXXXXX";
    if (::mkdtemp(path_.data())) return;
  }
  throw UserError("cannot make a temporary folder in " + place + ": " + std::strerror(errno) +
                  "; set TMPDIR to a folder that can be written to");
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::file(std::string_view name) const {
  return (path_ + "/").append(name);
}

RunResult run(const std::vector<std::string>& arguments, const std::string& output,
              milliseconds limit) {
  SpawnActions actions;
  posix_spawn_file_actions_addopen(&actions.files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions.files, STDOUT_FILENO, output.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions.files, STDOUT_FILENO, STDERR_FILENO);
  RunResult result;
  const pid_t child = spawn(arguments, actions, result.error);
  if (child == 0) return result;
  result.started = true;
  const NotWhole waiting;
  if (limit > milliseconds(0) && !ends_within(child, limit)) {
    result.timed_out = true;
    ::kill(-child, SIGKILL);
  }
  result.exit_code = exit_code_of(child);
  return result;
}

pid_t start(const std::vector<std::string>& arguments, int input, std::string& error) {
  SpawnActions actions;
  posix_spawn_file_actions_adddup2(&actions.files, input, STDIN_FILENO);
  posix_spawn_file_actions_addopen(&actions.files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions.files, STDOUT_FILENO, STDERR_FILENO);
  return spawn(arguments, actions, error);
}

void end(pid_t child, milliseconds limit) {
  const NotWhole waiting;
  if (!ends_within(child, limit)) ::kill(-child, SIGKILL);
  exit_code_of(child);
}

}  // namespace braze::toolchain
