// NVRTC as a library of one process, private to this folder and to the program that compiles
// beside.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace braze::toolchain {

struct CudaSource {
  std::string text;
  std::vector<std::string> flags;  // with the device's architecture: --gpu-architecture=sm_90
};

// What came of a source: its machine code (a cubin), or the messages that say why there is none.
struct NvrtcResult {
  bool compiled = false;
  std::string text;
};

class NvrtcLibrary {
 public:
  // Opens what the loader finds under this name, with its companion beside it. Empty, and the
  // loader's words in `why`: it cannot be opened, or is something else. Never closed: threads may
  // still compile while the process ends.
  static const NvrtcLibrary* open(const std::string& path, std::string& why);

  const std::string& path() const { return path_; }
  const std::string& version() const { return version_; }  // "13.0"
  // Thread-safe, but threads of one process mostly wait for each other in it.
  NvrtcResult compile(const CudaSource& source) const;

 private:
  struct Functions;
  NvrtcLibrary() = default;

  std::unique_ptr<Functions> functions_;
  std::string path_, version_;
};

}  // namespace braze::toolchain
