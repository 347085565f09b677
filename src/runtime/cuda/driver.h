// The CUDA driver, opened when it is first asked for: no CUDA headers or libraries are needed to
// build, and none to run on a machine without a GPU.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "target/target.h"

namespace braze::runtime::cuda {

// Why there is no driver; empty: there is one.
const std::string& why_no_driver();

// A device by its number, described by the driver. UserError for one that no kernels can be made
// for, and where there is no driver.
target::Cuda describe(int device);

// The device's primary context, which is PyTorch's.
void* primary_context(int device);

// The context is current on this thread while it lives.
class CurrentContext {
 public:
  explicit CurrentContext(void* context);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;

 private:
  bool pushed_;
};

// Machine code that is loaded on a device, for as long as it lives.
class LoadedCode {
 public:
  LoadedCode(int device, const std::string& cubin);  // InternalError with the driver's word
  ~LoadedCode();
  LoadedCode(const LoadedCode&) = delete;
  void* kernel(const std::string& name) const;  // InternalError if absent

 private:
  void* context_;
  void* module_ = nullptr;
};

// Launches of the kernel may have so many bytes of shared memory beside what it declares itself.
void allow_shared(int device, void* kernel, uint32_t bytes);

// A kernel and all that it takes.
struct Launch {
  void* kernel;
  std::array<uint32_t, 3> blocks, threads;
  uint32_t shared_bytes;
  void** arguments;  // addresses of what it takes, in order
};

// Puts a kernel on a stream of the current device. InternalError with the driver's word, as of
// those below.
void launch(const Launch& launch, void* stream);
// Copies within the device, behind what the stream has to do.
void copy(void* target, const void* source, int64_t bytes, void* stream);

// Whether what the stream is given is recorded.
bool is_recording(void* stream);
// The node of a graph under recording (CUgraphNode) that the stream has got last.
void* last_node(void* stream);
// `node` of an executable graph (CUgraphExec): the same kernel with other arguments.
void set_arguments(void* graph, void* node, const Launch& launch);

}  // namespace braze::runtime::cuda
