#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <sstream>

#include "base/fork_mutex.h"
#include "base/log.h"
#include "base/options.h"
#include "toolchain/command.h"
#include "toolchain/process.h"
#include "toolchain/toolchain.h"

namespace braze::toolchain {
namespace {

std::optional<Compiler> probe(const std::string& command) {
  std::vector<std::string> arguments = split_command(command);
  if (arguments.empty()) return std::nullopt;
  arguments.push_back("--version");
  TemporaryFolder folder;
  const std::string output = folder.file("version");
  constexpr int64_t kMostSeconds = 10;
  const int64_t seconds = options().compiler_timeout;
  const std::chrono::seconds limit(seconds == 0 ? kMostSeconds : std::min(seconds, kMostSeconds));
  if (!run(arguments, output, limit).ok()) return std::nullopt;
  const std::string text = read_file(output).value_or("");
  if (text.empty()) return std::nullopt;
  return Compiler{command, text.substr(0, text.find('\n'))};
}

// The file that a word of a command names, looked for as the shell does; empty: none.
std::string file_of(const std::string& word) {
  if (word.find('/') != std::string::npos) return word;
  std::istringstream folders(options().path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = (folder.empty() ? "." : folder) + "/" + word;
    if (::access(file.c_str(), X_OK) == 0 && !std::filesystem::is_directory(file)) return file;
  }
  return "";
}

// What changes when the program behind a command does: its files, as far as they can be seen (what
// a wrapper calls is found on the PATH). Empty: it names no program.
std::string identity_of(const std::string& command) {
  std::string text = options().path + "\n" + command;
  bool is_program = false;
  for (const std::string& word : split_command(command)) {
    struct stat status;
    const std::string file = file_of(word);
    if (file.empty() || ::stat(file.c_str(), &status) != 0) {
      if (!is_program) return "";
      continue;  // an option
    }
    is_program = true;
    std::ostringstream numbers;
    numbers << '\n'
            << file << ' ' << status.st_dev << ' ' << status.st_ino << ' ' << status.st_size;
    for (const timespec& time : {status.st_mtim, status.st_ctim})
      numbers << ' ' << time.tv_sec << '.' << time.tv_nsec;
    text += numbers.str();
  }
  return text;
}

// Asking a compiler for its version takes 2 ms; where it was asked before, the disk cache knows.
std::optional<Compiler> remembered(const std::string& command) {
  constexpr std::string_view kKind = "compilers";
  DiskCache& cache = DiskCache::instance();
  const std::string identity = identity_of(command);
  if (identity.empty()) return probe(command);
  if (auto version = cache.get(kKind, identity)) return Compiler{command, *version};
  auto compiler = probe(command);
  if (compiler) cache.put(kKind, identity, compiler->version);
  return compiler;
}

}  // namespace

std::vector<std::string> split_command(const std::string& command) {
  std::istringstream words(command);
  std::vector<std::string> arguments;
  for (std::string word; words >> word;) arguments.push_back(word);
  return arguments;
}

std::optional<Compiler> find_compiler() {
  if (const std::string& chosen = options().cxx; !chosen.empty()) {
    if (auto compiler = remembered(chosen)) return compiler;
    log::warning("CXX='" + chosen + "' does not run; looking for g++, clang++ and c++");
  }
  for (const char* name : {"g++", "clang++", "c++"})
    if (auto compiler = remembered(name)) return compiler;
  return std::nullopt;
}

const std::optional<Compiler>& host_compiler() {
  static auto& mutex = *std::make_unique<ForkMutex>().release();
  static const std::optional<Compiler>* known = nullptr;  // never destroyed
  {
    std::lock_guard lock(mutex);
    if (known) return *known;
  }
  // Not under the lock: it may take seconds, and a fork() waits for the lock.
  auto found = std::make_unique<const std::optional<Compiler>>(find_compiler());
  std::lock_guard lock(mutex);
  if (!known) known = found.release();
  return *known;
}

}  // namespace braze::toolchain
