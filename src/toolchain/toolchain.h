// Source to machine code, and the disk cache that keeps it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace braze::toolchain {

// A host C++ compiler: $CXX, then g++, clang++, c++ on the PATH; looked for once in a process.
struct Compiler {
  std::string path;
  std::string version;  // first line of --version: part of cache keys
};
// Empty when there is none: the caller says so once and runs through ATen.
const std::optional<Compiler>& host_compiler();

// A loaded shared library; unloaded with the last owner.
class Library {
 public:
  Library(const Library&) = delete;
  ~Library();
  void* symbol(const std::string& name) const;  // InternalError if absent

 private:
  friend std::shared_ptr<Library> load(const std::string&);
  explicit Library(void* handle) : handle_(handle) {}
  void* handle_;
};
std::shared_ptr<Library> load(const std::string& path);

// Compiles (or takes from the cache) and loads. Throws InternalError with the compiler's output.
std::shared_ptr<Library> build(const std::string& source, const std::vector<std::string>& flags);

// Content-addressed files under $BRAZE_CACHE_DIR (default $XDG_CACHE_HOME/braze or ~/.cache/braze):
// atomic writes (temporary file, rename), a checksum at the end of each entry, a size limit with
// oldest-use eviction, safe under many processes. Anything wrong (damage, read-only, full disk) is a
// miss, never an error.
class DiskCache {
 public:
  static DiskCache& instance();
  std::optional<std::string> get(std::string_view kind, std::string_view key);
  void put(std::string_view kind, std::string_view key, std::string_view bytes);
  // A path to the entry's bytes for dlopen; empty: not there.
  std::optional<std::string> path(std::string_view kind, std::string_view key);
  void clear();
};

}  // namespace braze::toolchain
