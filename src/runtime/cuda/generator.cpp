#include "runtime/cuda/generator.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/cuda/PhiloxCudaState.h>
#include <ATen/ops/empty.h>
#include <dlfcn.h>

#include <map>
#include <memory>
#include <mutex>

#include "base/fork_mutex.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/stream.h"

namespace braze::runtime::cuda {
namespace {

// at::CUDAGeneratorImpl::philox_cuda_state. It is in PyTorch's library for CUDA, which a build for
// CPUs does not have, so it is looked up. What it returns is handed back in memory, and so has the
// same calling convention as a function that is no member.
using Advance = at::PhiloxCudaState (*)(c10::GeneratorImpl* generator, uint64_t increment);

Advance find_advance() {
  void* library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return nullptr;
  return reinterpret_cast<Advance>(
      dlsym(library, "_ZN2at17CUDAGeneratorImpl17philox_cuda_stateEm"));
}

Advance advance() {
  static const Advance found = find_advance();
  return found;
}

// Seed and offset are numbers, or, of a graph under recording, stand where pointers say.
constexpr char kStateKernel[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry braze_philox_state(.param .u64 state, .param .u64 seed, .param .u64 offset,
                                   .param .u64 further, .param .u32 recorded) {
  .reg .u64 %address, %seed, %offset, %further;
  .reg .u32 %recorded;
  .reg .pred %known;
  ld.param.u64 %address, [state];
  ld.param.u64 %seed, [seed];
  ld.param.u64 %offset, [offset];
  ld.param.u64 %further, [further];
  ld.param.u32 %recorded, [recorded];
  setp.eq.u32 %known, %recorded, 0;
  @%known bra store;
  ld.u64 %seed, [%seed];
  ld.u64 %offset, [%offset];
  add.u64 %offset, %offset, %further;
store:
  st.u64 [%address], %seed;
  st.u64 [%address + 8], %offset;
  ret;
}
)";

// Loaded for as long as the process lives.
void* state_kernel(int device) {
  static ForkMutex mutex;
  static auto* kernels = new std::map<int, void*>;
  std::lock_guard lock(mutex);
  void*& kernel = (*kernels)[device];
  if (!kernel) kernel = (new LoadedCode(device, kStateKernel))->kernel("braze_philox_state");
  return kernel;
}

}  // namespace

bool knows_generator() { return advance() != nullptr; }

at::Tensor advance_generator(int64_t increment, at::Device device) {
  TORCH_CHECK_NOT_IMPLEMENTED(device.is_cuda() && knows_generator(),
                              "braze::philox_state: no generator of ", device, " is known");
  const at::Generator& generator = at::globalContext().defaultGenerator(device);
  at::PhiloxCudaState now;
  {
    std::lock_guard lock(generator.unsafeGetGeneratorImpl()->mutex_);
    now = advance()(generator.unsafeGetGeneratorImpl(), static_cast<uint64_t>(increment));
  }
  at::Tensor state = at::empty({2}, at::TensorOptions(at::kLong).device(device));
  void* address = state.mutable_data_ptr();
  uint64_t seed = now.seed_.val, offset = now.offset_.val, further = now.offset_intragraph_;
  uint32_t recorded = now.captured_;
  void* arguments[] = {&address, &seed, &offset, &further, &recorded};
  const CurrentContext current(primary_context(device.index()));
  launch({state_kernel(device.index()), {1, 1, 1}, {1, 1, 1}, 0, arguments},
         current_stream(device));
  return state;
}

}  // namespace braze::runtime::cuda
