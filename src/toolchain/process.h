// Small tools for running a program and for files, private to this folder.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace braze::toolchain {

// A file descriptor that closes itself.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(const File&) = delete;
  ~File();
  explicit operator bool() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }
  // Closes now; false with errno set where a delayed write failed (full disk, quota).
  bool close();

 private:
  int descriptor_;
};

bool write_all(int descriptor, std::string_view bytes);            // errno on false
std::optional<std::string> read_all(int descriptor);               // errno on nullopt
std::optional<std::string> read_file(const std::string& path);     // errno on nullopt
bool write_file(const std::string& path, std::string_view bytes);  // errno on false

// A fresh folder, readable by the user alone; gone with its contents at the end of the scope.
class TemporaryFolder {
 public:
  TemporaryFolder();  // UserError where none can be made
  TemporaryFolder(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  std::string file(std::string_view name) const;

 private:
  std::string path_;
};

struct RunResult {
  bool started = false;
  bool timed_out = false;  // and was killed
  int exit_code = -1;      // 128 + n when killed by signal n
  std::string error;       // why it could not be started
  bool ok() const { return started && exit_code == 0; }
};
// Runs arguments[0], looked for on the PATH, waits for it, and leaves what it printed (stdout and
// stderr) in the file `output`. Its signals are at their defaults, its process group is its own.
// What has not ended after `limit` (0: there is none) is killed with its process group.
RunResult run(const std::vector<std::string>& arguments, const std::string& output,
              std::chrono::milliseconds limit);

// Starts arguments[0] as `run` does, but goes on beside it: its standard input is the socket
// `input`, what it prints is dropped. The process, to be given to `end`; 0, with `error`: it could
// not be started.
pid_t start(const std::vector<std::string>& arguments, int input, std::string& error);
// Waits until it has ended; what has not after `limit` is killed.
void end(pid_t child, std::chrono::milliseconds limit);

}  // namespace braze::toolchain
