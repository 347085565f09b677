#include "toolchain/nvrtc.h"

#include <dlfcn.h>
#include <link.h>

#include <chrono>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "toolchain/side_by_side.h"

namespace braze::toolchain {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kKind = "cubins";
constexpr size_t kMostMessages = 8000;  // characters of them that an error shows

// NVIDIA, NVRTC documentation. Results are nvrtcResult, 0 for success.
#define BRAZE_NVRTC_FUNCTIONS(X)                                                            \
  X(Version, int (*)(int*, int*))                                                           \
  X(CreateProgram,                                                                          \
    int (*)(void**, const char*, const char*, int, const char* const*, const char* const*)) \
  X(CompileProgram, int (*)(void*, int, const char* const*))                                \
  X(GetProgramLogSize, int (*)(void*, size_t*))                                             \
  X(GetProgramLog, int (*)(void*, char*))                                                   \
  X(GetCUBINSize, int (*)(void*, size_t*))                                                  \
  X(GetCUBIN, int (*)(void*, char*))                                                        \
  X(DestroyProgram, int (*)(void**))                                                        \
  X(GetErrorString, const char* (*)(int))

struct Nvrtc {
#define X(name, type) std::type_identity_t<type> name = nullptr;
  BRAZE_NVRTC_FUNCTIONS(X)
#undef X
  std::string version;
  std::string why;  // there is none

  bool take_functions(void* library) {
#define X(name, type) \
  if (!(name = reinterpret_cast<type>(dlsym(library, "nvrtc" #name)))) return false;
    BRAZE_NVRTC_FUNCTIONS(X)
#undef X
    int major = 0, minor = 0;
    if (Version(&major, &minor) != 0) return false;
    version = std::to_string(major) + "." + std::to_string(minor);
    return true;
  }
};

// The folder of the package that the process has loaded this library of; empty: it has not.
std::string folder_of_loaded(std::string_view library) {
  struct Search {
    std::string_view library;
    std::string folder;
  } search{library, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto& search = *static_cast<Search*>(data);
        const fs::path path = info->dlpi_name;
        if (path.filename() != search.library) return 0;
        search.folder = path.parent_path();
        return 1;
      },
      &search);
  return search.folder;
}

void add_libraries_in(const fs::path& folder, std::vector<std::string>& found) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    const bool helper = name.find("builtins") != name.npos || name.find(".alt.") != name.npos;
    if (name.starts_with("libnvrtc") && name.find(".so") != name.npos && !helper)
      found.push_back(entry.path());
  }
}

// Beside torch/lib there are nvidia/cu13/lib, and with CUDA 12 nvidia/cuda_nvrtc/lib.
std::vector<std::string> candidates() {
  if (!options().nvrtc.empty()) return {options().nvrtc};
  std::vector<std::string> found;
  if (const fs::path torch = folder_of_loaded("libc10.so"); !torch.empty()) {
    std::error_code error;
    const fs::path packages = torch.parent_path().parent_path() / "nvidia";
    for (const fs::directory_entry& package : fs::directory_iterator(packages, error))
      add_libraries_in(package.path() / "lib", found);
    add_libraries_in(torch, found);
  }
  for (const char* beside : {"libcudart.so.13", "libcudart.so.12"})
    if (const fs::path folder = folder_of_loaded(beside); !folder.empty())
      add_libraries_in(folder, found);
  for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"})
    found.emplace_back(name);
  return found;
}

// NVRTC opens its companion by name, which the loader knows once it is there.
void open_companion(const fs::path& library) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(library.parent_path(), error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("libnvrtc-builtins.so")) dlopen(entry.path().c_str(), RTLD_NOW);
  }
}

Nvrtc open_nvrtc() {
  Nvrtc nvrtc;
  for (const std::string& path : candidates()) {
    if (path.starts_with('/')) open_companion(path);
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library && nvrtc.take_functions(library)) return nvrtc;
    const char* why = library ? "it lacks functions of NVRTC" : dlerror();
    nvrtc.why = "NVRTC cannot be opened (" + path + ": " + (why ? why : "") +
                "); install the package nvidia-cuda-nvrtc, or name the library in BRAZE_NVRTC";
  }
  return nvrtc;
}

// Never closed: threads may still compile while the process ends.
const Nvrtc& nvrtc_or_why() {
  static const Nvrtc& nvrtc = *std::make_unique<Nvrtc>(open_nvrtc()).release();
  return nvrtc;
}

const Nvrtc& nvrtc() {
  const Nvrtc& found = nvrtc_or_why();
  if (!found.version.empty()) return found;
  throw UserError(found.why);
}

// Every part with its length, so that no two lists of parts give the same text.
std::string cache_key(const Nvrtc& nvrtc, const CudaSource& source) {
  std::string key = "nvrtc " + nvrtc.version + "\n";
  for (const std::string& flag : source.flags) key += std::to_string(flag.size()) + ":" + flag;
  return key + "\n" + source.text;
}

class Program {
 public:
  Program(const Nvrtc& nvrtc, const CudaSource& source) : nvrtc_(nvrtc) {
    check(nvrtc.CreateProgram(&program_, source.text.c_str(), "kernel.cu", 0, nullptr, nullptr));
  }
  Program(const Program&) = delete;
  ~Program() { nvrtc_.DestroyProgram(&program_); }

  std::string compile(const std::vector<std::string>& flags) {
    std::vector<const char*> arguments;
    for (const std::string& flag : flags) arguments.push_back(flag.c_str());
    const int result =
        nvrtc_.CompileProgram(program_, static_cast<int>(arguments.size()), arguments.data());
    if (result != 0)
      throw InternalError(__FILE__, __LINE__,
                          detail::concat("NVRTC ", nvrtc_.version, " failed (",
                                         nvrtc_.GetErrorString(result), "): ", messages()));
    size_t size = 0;
    check(nvrtc_.GetCUBINSize(program_, &size));
    std::string code(size, '\0');
    check(nvrtc_.GetCUBIN(program_, code.data()));
    return code;
  }

 private:
  void check(int result) const {
    if (result != 0)
      throw InternalError(__FILE__, __LINE__,
                          detail::concat("NVRTC: ", nvrtc_.GetErrorString(result)));
  }
  std::string messages() const {
    size_t size = 0;
    if (nvrtc_.GetProgramLogSize(program_, &size) != 0) return "";
    std::string text(size, '\0');
    if (nvrtc_.GetProgramLog(program_, text.data()) != 0) return "";
    return text.substr(0, kMostMessages);
  }

  const Nvrtc& nvrtc_;
  void* program_ = nullptr;
};

std::string cubin(const CudaSource& source, const Nvrtc& nvrtc, DiskCache& cache) {
  const std::string key = cache_key(nvrtc, source);
  if (std::optional<std::string> known = cache.get(kKind, key)) return *std::move(known);
  const auto begin = std::chrono::steady_clock::now();
  std::string code = Program(nvrtc, source).compile(source.flags);
  if (log::enabled(log::Component::kTiming)) {
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - begin;
    log::write(log::Component::kTiming, detail::concat("NVRTC ", spent.count(), " ms, ",
                                                       source.text.size(), " bytes of source"));
  }
  cache.put(kKind, key, code);
  return code;
}

}  // namespace

const std::string& why_no_nvrtc() {
  static const std::string none;
  const Nvrtc& found = nvrtc_or_why();
  return found.version.empty() ? found.why : none;
}

std::string nvrtc_version() { return nvrtc().version; }

std::vector<std::string> cubins(std::span<const CudaSource> sources, DiskCache& cache) {
  const Nvrtc& compiler = nvrtc();
  std::vector<std::string> code(sources.size());
  side_by_side(sources.size(), [&](size_t i) { code[i] = cubin(sources[i], compiler, cache); });
  return code;
}

std::vector<std::string> cubins(std::span<const CudaSource> sources) {
  return cubins(sources, DiskCache::instance());
}

}  // namespace braze::toolchain
