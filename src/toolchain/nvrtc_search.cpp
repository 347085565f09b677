#include "toolchain/nvrtc_search.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "base/options.h"

namespace braze::toolchain {
namespace {

namespace fs = std::filesystem;

// More of them than that have too little to do each, and take 100 MB of memory.
constexpr size_t kMostProcesses = 16;

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

struct Found {
  const NvrtcLibrary* library = nullptr;
  std::string why;  // there is none
};

Found search() {
  Found found;
  for (const std::string& path : candidates()) {
    std::string why;
    found.library = NvrtcLibrary::open(path, why);
    if (found.library) return {found.library, ""};
    found.why = "NVRTC cannot be opened (" + path + ": " + why +
                "); install the package nvidia-cuda-nvrtc, or name the library in BRAZE_NVRTC";
  }
  return found;
}

const Found& found() {
  static const Found& found = *std::make_unique<Found>(search()).release();
  return found;
}

// It lies beside the shared object, or the program, that this code is in.
std::string program_beside() {
  Dl_info info{};
  if (!::dladdr(reinterpret_cast<const void*>(&program_beside), &info) || !info.dli_fname)
    return "";
  std::error_code error;
  const fs::path self = fs::canonical(info.dli_fname, error);
  return error ? "" : (self.parent_path() / "braze_nvrtc_process").string();
}

}  // namespace

const NvrtcLibrary& nvrtc() {
  if (found().library) return *found().library;
  throw UserError(found().why);
}

NvrtcSetup usual_setup() {
  const size_t processors = std::max(1u, std::thread::hardware_concurrency());
  return {.library = nvrtc(),
          .program = program_beside(),
          .most_processes = std::min(processors, kMostProcesses),
          .limit = std::chrono::seconds(options().compiler_timeout)};
}

const std::string& why_no_nvrtc() { return found().why; }

std::string nvrtc_version() { return nvrtc().version(); }

}  // namespace braze::toolchain
