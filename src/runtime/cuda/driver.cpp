#include "runtime/cuda/driver.h"

#include <dlfcn.h>

#include <memory>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/fork_mutex.h"

namespace braze::runtime::cuda {
namespace {

// CUDA_KERNEL_NODE_PARAMS_v1
struct KernelNode {
  void* kernel;
  unsigned blocks[3], threads[3];
  unsigned shared_bytes;
  void** arguments;
  void** extra;
};

// NVIDIA, CUDA Driver API. Results are CUresult, 0 for success; devices are numbers, contexts,
// modules, functions and streams addresses.
#define BRAZE_DRIVER_FUNCTIONS(X)                                                                \
  X(init, "cuInit", int (*)(unsigned))                                                           \
  X(device_count, "cuDeviceGetCount", int (*)(int*))                                             \
  X(device_get, "cuDeviceGet", int (*)(int*, int))                                               \
  X(device_attribute, "cuDeviceGetAttribute", int (*)(int*, int, int))                           \
  X(retain_context, "cuDevicePrimaryCtxRetain", int (*)(void**, int))                            \
  X(current_context, "cuCtxGetCurrent", int (*)(void**))                                         \
  X(push_context, "cuCtxPushCurrent_v2", int (*)(void*))                                         \
  X(pop_context, "cuCtxPopCurrent_v2", int (*)(void**))                                          \
  X(capture_mode, "cuThreadExchangeStreamCaptureMode", int (*)(int*))                            \
  X(load_module, "cuModuleLoadData", int (*)(void**, const void*))                               \
  X(unload_module, "cuModuleUnload", int (*)(void*))                                             \
  X(get_function, "cuModuleGetFunction", int (*)(void**, void*, const char*))                    \
  X(set_attribute, "cuFuncSetAttribute", int (*)(void*, int, int))                               \
  X(error_text, "cuGetErrorString", int (*)(int, const char**))                                  \
  X(copy, "cuMemcpyDtoDAsync_v2", int (*)(uint64_t, uint64_t, size_t, void*))                    \
  X(is_capturing, "cuStreamIsCapturing", int (*)(void*, int*))                                   \
  X(capture_info, "cuStreamGetCaptureInfo_v2",                                                   \
    int (*)(void*, int*, uint64_t*, void**, void* const**, size_t*))                             \
  X(set_kernel_node, "cuGraphExecKernelNodeSetParams", int (*)(void*, void*, const KernelNode*)) \
  X(launch_kernel, "cuLaunchKernel",                                                             \
    int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,  \
            void**, void**))

enum Attribute : int {
  kProcessors = 16,
  kMemoryClock = 36,  // kHz
  kMemoryBus = 37,    // bits
  kMajor = 75,
  kMinor = 76,
};

struct Driver {
#define X(member, name, type) std::type_identity_t<type> member = nullptr;
  BRAZE_DRIVER_FUNCTIONS(X)
#undef X
  std::string why;              // there is none
  std::vector<void*> contexts;  // by device, once asked for
  ForkMutex mutex;

  Driver() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char* error = dlerror();
      why = std::string("there is no CUDA driver (") + (error ? error : "libcuda.so.1") + ")";
      return;
    }
#define X(member, name, type)                            \
  member = reinterpret_cast<type>(dlsym(library, name)); \
  if (!member) why = std::string("the CUDA driver lacks ") + name;
    BRAZE_DRIVER_FUNCTIONS(X)
#undef X
    if (!why.empty()) return;
    int count = 0;
    int result = init(0);
    if (result == 0) result = device_count(&count);
    if (result != 0) why = "the CUDA driver cannot be used: " + text_of(result);
    contexts.resize(count);
  }

  std::string text_of(int result) const {
    const char* text = nullptr;
    if (error_text(result, &text) != 0 || !text) return "error " + std::to_string(result);
    return text;
  }
  void check(int result, const char* what) const {
    if (result == 0) [[likely]]
      return;
    throw InternalError(__FILE__, __LINE__, detail::concat(what, ": ", text_of(result)));
  }
};

// Never destroyed: kernels may be unloaded while the process ends.
Driver& driver_or_why() {
  static Driver& driver = *std::make_unique<Driver>().release();
  return driver;
}

Driver& driver() {
  Driver& found = driver_or_why();
  if (!found.why.empty()) throw UserError(found.why);
  return found;
}

int attribute(int device, Attribute which) {
  int value = 0;
  driver().check(driver().device_attribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

// Loading code is no part of what a stream on this thread may be recording.
class OutsideOfCaptures {
 public:
  OutsideOfCaptures() { exchange(); }
  ~OutsideOfCaptures() { exchange(); }
  OutsideOfCaptures(const OutsideOfCaptures&) = delete;

 private:
  void exchange() { driver().capture_mode(&mode_); }
  int mode_ = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
};

}  // namespace

const std::string& why_no_driver() { return driver_or_why().why; }

void* primary_context(int device) {
  Driver& d = driver();
  std::lock_guard lock(d.mutex);
  BRAZE_CHECK(device >= 0 && device < static_cast<int>(d.contexts.size()), "CUDA device ", device);
  void*& context = d.contexts[device];
  if (context) return context;
  int handle = 0;
  d.check(d.device_get(&handle, device), "cuDeviceGet");
  d.check(d.retain_context(&context, handle), "cuDevicePrimaryCtxRetain");
  return context;
}

target::Cuda describe(int device) {
  int handle = 0;
  driver().check(driver().device_get(&handle, device), "cuDeviceGet");
  const int sm = 10 * attribute(handle, kMajor) + attribute(handle, kMinor);
  // Two transfers in each cycle of the memory's clock.
  const int64_t cycles_per_millisecond = attribute(handle, kMemoryClock);
  const int64_t bandwidth = 2 * cycles_per_millisecond * (attribute(handle, kMemoryBus) / 8) / 1000;
  constexpr int64_t kUnknownBandwidth = 1'000'000;
  return target::cuda(sm, attribute(handle, kProcessors),
                      bandwidth > 0 ? bandwidth : kUnknownBandwidth);
}

CurrentContext::CurrentContext(void* context) : pushed_(false) {
  const Driver& d = driver_or_why();
  void* current = nullptr;
  d.check(d.current_context(&current), "cuCtxGetCurrent");
  if (current == context) return;
  d.check(d.push_context(context), "cuCtxPushCurrent");
  pushed_ = true;
}

CurrentContext::~CurrentContext() {
  void* popped = nullptr;
  if (pushed_) driver_or_why().pop_context(&popped);
}

LoadedCode::LoadedCode(int device, const std::string& cubin) : context_(primary_context(device)) {
  const CurrentContext current(context_);
  const OutsideOfCaptures outside;
  driver().check(driver().load_module(&module_, cubin.data()), "cuModuleLoadData");
}

LoadedCode::~LoadedCode() {
  const CurrentContext current(context_);
  const OutsideOfCaptures outside;
  driver_or_why().unload_module(module_);
}

void* LoadedCode::kernel(const std::string& name) const {
  const CurrentContext current(context_);
  const OutsideOfCaptures outside;
  void* kernel = nullptr;
  driver().check(driver().get_function(&kernel, module_, name.c_str()), "cuModuleGetFunction");
  return kernel;
}

void allow_shared(int device, void* kernel, uint32_t bytes) {
  constexpr uint32_t kUnasked = 48 << 10;
  constexpr int kMostShared = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
  if (bytes <= kUnasked) return;
  const CurrentContext current(primary_context(device));
  driver().check(driver().set_attribute(kernel, kMostShared, static_cast<int>(bytes)),
                 "cuFuncSetAttribute");
}

void launch(const Launch& launch, void* stream) {
  const Driver& d = driver_or_why();
  const auto& [kernel, blocks, threads, shared_bytes, arguments] = launch;
  d.check(d.launch_kernel(kernel, blocks[0], blocks[1], blocks[2], threads[0], threads[1],
                          threads[2], shared_bytes, stream, arguments, nullptr),
          "cuLaunchKernel");
}

void copy(void* target, const void* source, int64_t bytes, void* stream) {
  if (bytes == 0) return;
  const Driver& d = driver_or_why();
  d.check(d.copy(reinterpret_cast<uint64_t>(target), reinterpret_cast<uint64_t>(source),
                 static_cast<size_t>(bytes), stream),
          "cuMemcpyDtoDAsync");
}

bool is_recording(void* stream) {
  int status = 0;  // CU_STREAM_CAPTURE_STATUS_NONE
  const Driver& d = driver_or_why();
  return d.is_capturing(stream, &status) != 0 || status != 0;
}

void* last_node(void* stream) {
  const Driver& d = driver_or_why();
  int status = 0;
  uint64_t id = 0;
  void* graph = nullptr;
  void* const* nodes = nullptr;
  size_t count = 0;
  d.check(d.capture_info(stream, &status, &id, &graph, &nodes, &count), "cuStreamGetCaptureInfo");
  BRAZE_CHECK(status == 1 && count == 1, "a stream that is recorded, status ", status, ", ", count,
              " nodes");
  return nodes[0];
}

void set_arguments(void* graph, void* node, const Launch& launch) {
  const Driver& d = driver_or_why();
  const auto& [kernel, blocks, threads, shared_bytes, arguments] = launch;
  const KernelNode changed{kernel,
                           {blocks[0], blocks[1], blocks[2]},
                           {threads[0], threads[1], threads[2]},
                           shared_bytes,
                           arguments,
                           nullptr};
  d.check(d.set_kernel_node(graph, node, &changed), "cuGraphExecKernelNodeSetParams");
}

}  // namespace braze::runtime::cuda
