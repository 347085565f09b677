// What running a function needs that is the same for all sizes: functions and operators looked up,
// the slots sorted by how they get their memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <variant>
#include <vector>

#include "plan/binder.h"
#include "runtime/extern_call.h"
#include "runtime/loaded_kernels.h"

namespace braze::runtime {

using KernelFunction = int64_t (*)(void* const* args, const int64_t* sizes, int64_t begin,
                                   int64_t end);

struct PreparedFunction {
  // functions: by kernel, what its code object has under its name. constants: by input, undefined
  // where it is not one.
  PreparedFunction(plan::Function function, std::vector<at::Tensor> constants,
                   const std::vector<LoadedKernel>& functions);
  PreparedFunction(const PreparedFunction&) = delete;

  bool writes_inputs_early() const;

  struct CpuLaunch {
    KernelFunction function;
    std::vector<plan::SlotId> args;
    size_t first_size;  // into Numbers::kernel_sizes
  };
  struct GpuLaunch {
    struct Argument {
      plan::SlotId slot;
      bool by_value;  // what its pointer points to, on the CPU
      bool written;
      uint32_t alignment;  // bytes of which its address is to be a multiple
      bool is_aligned(const void* data) const {
        return (reinterpret_cast<uintptr_t>(data) & (alignment - 1)) == 0;
      }
    };
    LoadedKernel kernel;
    std::vector<Argument> args;
    size_t first_size, size_count;  // into Numbers::kernel_sizes
    size_t number;                  // into Numbers::launches
  };
  struct Copy {
    plan::SlotId target, source;
  };
  using Step = std::variant<CpuLaunch, GpuLaunch, std::unique_ptr<ExternCall>, Copy, plan::FreeStep,
                            plan::AllocateStep>;

  bool on_gpu() const { return device.is_cuda(); }

  const plan::Function function;
  const plan::Binder binder;
  const c10::Device device;
  void* const context;  // of a GPU
  const std::vector<at::Tensor> constants;
  std::vector<Step> steps;
  std::vector<const ExternCall*> sized_calls;  // those with arguments that depend on sizes
  std::vector<int> sized_call;                 // by step: its place there, -1: none

  // By slot.
  std::vector<at::ScalarType> dtype;
  std::vector<c10::Device> device_of_slot;
  std::vector<plan::SlotId> root;     // plan::root_of
  std::vector<uint8_t> survives;      // its memory is there for all calls of a context
  std::vector<uint8_t> needs_tensor;  // extern calls, copies or outputs take it as a tensor
  std::vector<std::vector<plan::SlotId>> views_of;  // those of input_views with that root

  std::vector<plan::SlotId> context_slots;  // arena and views that survive, bases first
  std::vector<plan::SlotId> moving_views;   // of them: views whose place depends on sizes
  std::vector<plan::SlotId> extern_inputs;  // inputs that are needed as tensors
  std::vector<plan::SlotId> numbers;        // inputs that are floats of the call
  std::vector<plan::SlotId> output_slots;   // kOutput, allocated on each call
  std::vector<plan::SlotId> first_outputs;  // of them: those that no step allocates
  std::vector<plan::SlotId> extern_slots;   // kExtern: what operators give on each call
  std::vector<plan::SlotId> input_views;    // kView of what only exists during a call
  std::vector<plan::SlotId> first_views;    // of them: those whose root is there from the start
  std::vector<uint8_t> written;             // by input: some step writes to it
  bool has_externs = false;                 // extern calls or copies

 private:
  void sort_slots();
  void prepare_steps(const std::vector<LoadedKernel>& functions);
  void prepare_kernel(const plan::KernelStep& step, const LoadedKernel& code, size_t& launches);
  void find_tensors();
  void need(plan::SlotId slot);
};

}  // namespace braze::runtime
