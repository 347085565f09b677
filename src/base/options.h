// The one table of settings that come from the environment. No other getenv in the code base.
#pragma once

#include <cstdint>
#include <string>

namespace braze {

// member, environment variable, type, default, help
#define BRAZE_OPTIONS(X)                                                                           \
  X(log, "BRAZE_LOG", std::string, "",                                                             \
    "comma-separated: graph, guards, breaks, recompiles, code, timing, schedule, all")             \
  X(cache_dir, "BRAZE_CACHE_DIR", std::string, "",                                                 \
    "where compiled kernels are kept; empty: the user's cache folder")                             \
  X(cache, "BRAZE_CACHE", bool, true, "0 turns the disk cache off")                                \
  X(cache_limit_mb, "BRAZE_CACHE_LIMIT_MB", int64_t, 2048,                                         \
    "size above which old entries are removed")                                                    \
  X(disable, "BRAZE_DISABLE", bool, false, "1 makes compile() return its argument")                \
  X(strict, "BRAZE_STRICT", bool, false, "1 raises internal errors instead of running in eager")   \
  X(recompile_limit, "BRAZE_RECOMPILE_LIMIT", int64_t, 8,                                          \
    "entries kept per function before it stays in eager")                                          \
  X(isa, "BRAZE_ISA", std::string, "", "generic, avx2 or avx512; empty: what the CPU has")         \
  X(verify, "BRAZE_VERIFY", bool, false,                                                           \
    "1 checks every extern result against its traced metadata on every call")                      \
  X(cxx, "CXX", std::string, "",                                                                   \
    "the host C++ compiler, arguments allowed; empty: g++, clang++ or c++ from the PATH")          \
  X(compiler_timeout, "BRAZE_COMPILER_TIMEOUT", int64_t, 300,                                      \
    "seconds that one run of the C++ compiler may take before it is killed; 0: no limit")          \
  X(nvrtc, "BRAZE_NVRTC", std::string, "",                                                         \
    "path of libnvrtc; empty: that of PyTorch's packages, then the loader's")                      \
  X(path, "PATH", std::string, "", "where programs are looked for")                                \
  X(xdg_cache_home, "XDG_CACHE_HOME", std::string, "", "the user's cache folder; empty: ~/.cache") \
  X(home, "HOME", std::string, "", "the user's home folder; empty: that of the user database")

struct Options {
#define X(member, env, type, value, help) type member = value;
  BRAZE_OPTIONS(X)
#undef X

  bool operator==(const Options&) const = default;
};

// Read once at first use; `reload_options` reads the environment again (tests). A value that does
// not fit (BRAZE_CACHE_LIMIT_MB=many) is named in one line on stderr and the default taken.
// References stay valid for the whole process. Thread-safe.
const Options& options();
void reload_options();

// Grows with every reload that changes one, so that what is derived from the options can be kept.
uint64_t options_generation();

}  // namespace braze
