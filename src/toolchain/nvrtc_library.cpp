#include "toolchain/nvrtc_library.h"

#include <dlfcn.h>

#include <filesystem>
#include <type_traits>

namespace braze::toolchain {
namespace {

namespace fs = std::filesystem;

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

// NVRTC opens its companion by name, which the loader knows once it is there.
void open_companion(const fs::path& library) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(library.parent_path(), error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("libnvrtc-builtins.so")) dlopen(entry.path().c_str(), RTLD_NOW);
  }
}

}  // namespace

struct NvrtcLibrary::Functions {
#define X(name, type) std::type_identity_t<type> name = nullptr;
  BRAZE_NVRTC_FUNCTIONS(X)
#undef X

  bool take_from(void* library) {
#define X(name, type) \
  if (!(name = reinterpret_cast<type>(dlsym(library, "nvrtc" #name)))) return false;
    BRAZE_NVRTC_FUNCTIONS(X)
#undef X
    return true;
  }

  NvrtcResult failure(int result, const std::string& messages) const {
    return {.text =
                std::string(GetErrorString(result)) + (messages.empty() ? "" : ": ") + messages};
  }

  std::string messages(void* program) const {
    size_t size = 0;
    if (GetProgramLogSize(program, &size) != 0) return "";
    std::string text(size, '\0');
    if (GetProgramLog(program, text.data()) != 0) return "";
    return text.substr(0, kMostMessages);
  }

  NvrtcResult compile(void* program, const std::vector<std::string>& flags) const {
    std::vector<const char*> arguments;
    for (const std::string& flag : flags) arguments.push_back(flag.c_str());
    int result = CompileProgram(program, static_cast<int>(arguments.size()), arguments.data());
    if (result != 0) return failure(result, messages(program));
    size_t size = 0;
    if ((result = GetCUBINSize(program, &size)) != 0) return failure(result, "");
    NvrtcResult done{.compiled = true, .text = std::string(size, '\0')};
    if ((result = GetCUBIN(program, done.text.data())) != 0) return failure(result, "");
    return done;
  }
};

const NvrtcLibrary* NvrtcLibrary::open(const std::string& path, std::string& why) {
  if (path.starts_with('/')) open_companion(path);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* words = dlerror();
    why = words ? words : "";
    return nullptr;
  }
  auto functions = std::make_unique<Functions>();
  int major = 0, minor = 0;
  if (!functions->take_from(library) || functions->Version(&major, &minor) != 0) {
    why = "it lacks functions of NVRTC";
    return nullptr;
  }
  std::unique_ptr<NvrtcLibrary> opened(new NvrtcLibrary);
  opened->functions_ = std::move(functions);
  opened->path_ = path;
  opened->version_ = std::to_string(major) + "." + std::to_string(minor);
  return opened.release();
}

NvrtcResult NvrtcLibrary::compile(const CudaSource& source) const {
  void* program = nullptr;
  const int result =
      functions_->CreateProgram(&program, source.text.c_str(), "kernels.cu", 0, nullptr, nullptr);
  if (result != 0) return functions_->failure(result, "");
  NvrtcResult done = functions_->compile(program, source.flags);
  functions_->DestroyProgram(&program);
  return done;
}

}  // namespace braze::toolchain
