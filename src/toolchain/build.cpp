#include <dlfcn.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "base/fork_mutex.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/options.h"
#include "toolchain/command.h"
#include "toolchain/process.h"
#include "toolchain/shared_object.h"
#include "toolchain/side_by_side.h"
#include "toolchain/toolchain.h"

namespace braze::toolchain {
namespace {

constexpr std::string_view kKind = "kernels";
constexpr size_t kMaxCompilerOutput = 8000;  // characters of it that an error shows

bool is_clang(const Compiler& compiler) {
  return compiler.version.find("clang") != std::string::npos;
}

// Leaving out the standard libraries takes a third off the time of a g++ run. What the code may
// still need is named: libm, and libgcc for the helpers that the compiler calls by itself.
std::vector<std::string> command_line(const Compiler& compiler,
                                      const std::vector<std::string>& flags,
                                      const std::string& source, const std::string& output) {
  std::vector<std::string> line = split_command(compiler.path);
  for (const char* flag : {"-shared", "-fPIC", "-pipe", "-g0", "-std=c++20", "-fno-exceptions",
                           "-fno-rtti", "-fno-stack-protector"})
    line.push_back(flag);
  if (!is_clang(compiler)) line.push_back("-nostdlib");
  line.insert(line.end(), flags.begin(), flags.end());
  line.insert(line.end(), {"-x", "c++", source, "-o", output, "-lm"});
  if (!is_clang(compiler)) line.push_back("-lgcc");
  return line;
}

// Every part with its length, so that no two lists of parts give the same text.
std::string cache_key(const Compiler& compiler, const std::vector<std::string>& flags,
                      const std::string& source) {
  std::string key;
  for (const std::string& part : command_line(compiler, flags, "", ""))
    key += std::to_string(part.size()) + ":" + part;
  key += std::to_string(compiler.version.size()) + ":" + compiler.version;
  return key + source;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : " ").append(word);
  return text;
}

[[noreturn]] void fail(const std::string& what) { throw InternalError(__FILE__, __LINE__, what); }

// A compiler that has not come back twice in a row is not waited for a third time.
class Patience {
 public:
  static Patience& instance() {
    static auto& instance = *std::make_unique<Patience>().release();
    return instance;
  }
  bool is_over(const Compiler& compiler) {
    std::lock_guard lock(mutex_);
    return timeouts_[compiler.path] >= 2;
  }
  void note(const Compiler& compiler, bool timed_out) {
    std::lock_guard lock(mutex_);
    int& count = timeouts_[compiler.path];
    count = timed_out ? count + 1 : 0;
  }

 private:
  ForkMutex mutex_;
  std::map<std::string, int> timeouts_;
};

RunResult run_compiler(const Compiler& compiler, const std::vector<std::string>& line,
                       const std::string& messages) {
  if (Patience::instance().is_over(compiler))
    fail("the host compiler did not come to an end twice and is not run any more: " +
         compiler.path);
  const std::chrono::seconds limit(options().compiler_timeout);
  const RunResult result = run(line, messages, limit);
  Patience::instance().note(compiler, result.timed_out);
  if (result.timed_out)
    fail(detail::concat("the host compiler did not come to an end in ", limit.count(),
                        " s (BRAZE_COMPILER_TIMEOUT) and was killed: ", joined(line)));
  return result;
}

// The compiled library's path in `folder`.
std::string compile(const std::string& source, const std::vector<std::string>& flags,
                    const Compiler& compiler, const TemporaryFolder& folder) {
  const std::string input = folder.file("kernels.cpp");
  const std::string output = folder.file("kernels.so");
  const std::string messages = folder.file("messages");
  if (!write_file(input, source))
    throw UserError("cannot write " + input + ": " + std::strerror(errno) +
                    "; set TMPDIR to a folder with room");
  const std::vector<std::string> line = command_line(compiler, flags, input, output);
  const auto begin = std::chrono::steady_clock::now();
  const RunResult result = run_compiler(compiler, line, messages);
  if (!result.ok()) {
    const std::string text = result.started ? read_file(messages).value_or("") : result.error;
    fail(detail::concat("the host compiler failed (exit code ", result.exit_code,
                        "): ", joined(line), "\n", text.substr(0, kMaxCompilerOutput)));
  }
  if (const std::string damage = damage_of(output); !damage.empty())
    fail(detail::concat("the host compiler ended without an error, but what it wrote is damaged (",
                        damage, "): ", joined(line)));
  if (log::enabled(log::Component::kTiming)) {
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - begin;
    log::write(log::Component::kTiming, detail::concat("host compiler ", spent.count(), " ms, ",
                                                       source.size(), " bytes of source"));
  }
  return output;
}

// Null where the entry is not there, or has gone since, or lies where nothing may be executed.
std::shared_ptr<Library> load_cached(DiskCache& cache, const std::string& key) {
  const std::optional<std::string> path = cache.path(kKind, key);
  if (!path) return nullptr;
  try {
    return load(*path);
  } catch (const InternalError& error) {
    if (log::enabled(log::Component::kTiming)) log::write(log::Component::kTiming, error.what());
    return nullptr;
  }
}

// The first of `symbols` that is not there; empty: all are.
std::string missing_in(const Library& library, std::span<const std::string> symbols) {
  for (const std::string& symbol : symbols)
    if (!library.has(symbol)) return symbol;
  return "";
}

const Compiler& required_compiler() {
  const std::optional<Compiler>& compiler = host_compiler();
  if (!compiler)
    throw UserError(
        "no C++ compiler: $CXX, g++, clang++ and c++ were tried; install one or set CXX");
  return *compiler;
}

}  // namespace

// The loader's lock, and its lists, are not the child's of a fork to mend.
Library::~Library() {
  const Whole whole;
  ::dlclose(handle_);
}

bool Library::has(const std::string& name) const { return ::dlsym(handle_, name.c_str()); }

void* Library::symbol(const std::string& name) const {
  void* address = ::dlsym(handle_, name.c_str());
  BRAZE_CHECK(address, "no symbol '", name, "' in a compiled library");
  return address;
}

std::shared_ptr<Library> load(const std::string& path) {
  if (const std::string damage = damage_of(path); !damage.empty())
    fail("cannot load " + path + ": " + damage);
  const Whole whole;
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* why = ::dlerror();
    fail(detail::concat("cannot load ", path, ": ", why ? why : "unknown"));
  }
  return std::shared_ptr<Library>(new Library(handle));
}

std::shared_ptr<Library> build(const std::string& source, const std::vector<std::string>& flags,
                               const Compiler& compiler, DiskCache& cache,
                               std::span<const std::string> symbols) {
  const std::string key = cache_key(compiler, flags, source);
  if (auto library = load_cached(cache, key); library && missing_in(*library, symbols).empty())
    return library;
  TemporaryFolder folder;
  const std::string path = compile(source, flags, compiler, folder);
  if (const std::optional<std::string> bytes = read_file(path))
    cache.put(kKind, key, *bytes, DiskCache::Use::kMapped);
  std::shared_ptr<Library> library = load_cached(cache, key);
  if (!library) library = load(path);
  if (const std::string missing = missing_in(*library, symbols); !missing.empty()) {
    cache.remove(kKind, key);
    fail("the host compiler ended without an error, but there is no symbol '" + missing +
         "' in what it wrote: " + compiler.path);
  }
  return library;
}

std::shared_ptr<Library> build(const std::string& source, const std::vector<std::string>& flags,
                               std::span<const std::string> symbols) {
  return build(source, flags, required_compiler(), DiskCache::instance(), symbols);
}

std::vector<std::shared_ptr<Library>> build_all(std::span<const LibrarySource> sources,
                                                const Compiler& compiler, DiskCache& cache) {
  std::vector<std::shared_ptr<Library>> libraries(sources.size());
  side_by_side(sources.size(), [&](size_t i) {
    libraries[i] = build(sources[i].text, sources[i].flags, compiler, cache, sources[i].symbols);
  });
  return libraries;
}

std::vector<std::shared_ptr<Library>> build_all(std::span<const LibrarySource> sources) {
  if (sources.empty()) return {};
  return build_all(sources, required_compiler(), DiskCache::instance());
}

}  // namespace braze::toolchain
