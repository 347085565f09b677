// Source to machine code, and the disk cache that keeps it.
//
// Kernels are header-free C++, so that a compile is dominated by starting processes: g++ is run
// directly (posix_spawn), without the standard library to link, and several sources at once.
// Compilers run in a process group of their own: Ctrl-C in the terminal does not cut one off half
// way; Python sees it when the build is done.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "toolchain/disk_cache.h"

namespace braze::toolchain {

// A host C++ compiler: $CXX, then g++, clang++, c++ on the PATH; looked for once in a process.
struct Compiler {
  std::string path;     // a program, found on the PATH, and its first arguments: "ccache g++"
  std::string version;  // first line of --version: part of cache keys
};
// Empty when there is none: the caller says so once and runs through ATen.
const std::optional<Compiler>& host_compiler();
// Looks again at each call. A $CXX that does not run is named in a warning and passed over.
std::optional<Compiler> find_compiler();

// A loaded shared library; unloaded with the last owner.
class Library {
 public:
  Library(const Library&) = delete;
  ~Library();
  void* symbol(const std::string& name) const;  // InternalError if absent
  bool has(const std::string& name) const;

 private:
  friend std::shared_ptr<Library> load(const std::string&);
  explicit Library(void* handle) : handle_(handle) {}
  void* handle_;
};
std::shared_ptr<Library> load(const std::string& path);  // InternalError with the loader's words

// Compiles (or takes from the cache) and loads. `flags` come after our own (-shared, -fPIC, ...)
// and must say what they mean without regard to the machine (-mavx2, not -march=native), as they
// are part of the cache key. The code may call what libm and libc have. Throws InternalError with
// the compiler's output; UserError, with the way out, when there is no compiler or no place for
// temporary files. A library that is damaged or lacks one of `symbols` is not kept, and built again
// where it was.
std::shared_ptr<Library> build(const std::string& source, const std::vector<std::string>& flags,
                               std::span<const std::string> symbols = {});
std::shared_ptr<Library> build(const std::string& source, const std::vector<std::string>& flags,
                               const Compiler& compiler, DiskCache& cache,
                               std::span<const std::string> symbols = {});

struct LibrarySource {
  std::string text;
  std::vector<std::string> flags, symbols;
};
// The same for several sources, as many compilers at once as the machine has threads. result[i]
// belongs to sources[i]. All are tried; then the first failure in order is thrown.
std::vector<std::shared_ptr<Library>> build_all(std::span<const LibrarySource> sources);
std::vector<std::shared_ptr<Library>> build_all(std::span<const LibrarySource> sources,
                                                const Compiler& compiler, DiskCache& cache);

}  // namespace braze::toolchain
