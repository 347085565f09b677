// A plan of numbers made ready to run: kernels looked up, extern calls converted, memory prepared.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <variant>
#include <vector>

#include "plan/plan.h"
#include "runtime/extern_call.h"
#include "runtime/memory.h"

namespace braze::runtime {

using KernelFunction = int64_t (*)(void* const* args, const int64_t* sizes, int64_t begin,
                                   int64_t end);

class BoundPlan {
 public:
  // functions: by kernel. `arenas`: where runs get their arena from; null: each keeps its own.
  // `like`: the same plan bound to other sizes, whose look-ups are taken over; or null.
  BoundPlan(plan::Plan plan, std::vector<at::Tensor> constants,
            std::vector<KernelFunction> functions, ArenaPool* arenas, const BoundPlan* like);
  ~BoundPlan();
  BoundPlan(const BoundPlan&) = delete;

  // As Executable::run.
  void run(std::span<c10::TensorImpl* const> inputs, std::vector<at::Tensor>& outputs);
  bool writes_inputs_early() const;
  const plan::Plan& plan() const { return plan_; }

 private:
  struct Geometry {  // of a slot, as PyTorch takes it
    std::vector<int64_t> sizes, strides;
    at::ScalarType dtype;
  };
  struct PreparedKernel {
    KernelFunction function;
    std::vector<plan::SlotId> args;
    std::vector<int64_t> sizes;
    int64_t extent, grain;
  };
  struct PreparedCopy {
    plan::SlotId target, source;
    int64_t bytes;  // both dense and laid out alike: one memcpy; else -1
  };
  using PreparedStep =
      std::variant<PreparedKernel, std::unique_ptr<ExternCall>, PreparedCopy, plan::FreeStep>;
  struct Context;  // what changes during a run

  void prepare(const BoundPlan* like);
  std::unique_ptr<Context> take_context();
  void return_context(std::unique_ptr<Context> context);
  void run(Context& context, std::span<c10::TensorImpl* const> inputs,
           std::vector<at::Tensor>& outputs);
  void run_kernel(const PreparedKernel& kernel, Context& context);
  void run_copy(const PreparedCopy& copy, Context& context);
  void bind_view(plan::SlotId slot, Context& context);
  at::Tensor make_output(plan::SlotId slot, const Context& context) const;
  plan::SlotId root_of(plan::SlotId slot) const { return plan::root_of(plan_, slot); }

  plan::Plan plan_;
  std::vector<at::Tensor> constants_;
  std::vector<KernelFunction> functions_;
  ArenaPool* arenas_;
  std::vector<Geometry> geometry_;  // by slot
  std::vector<PreparedStep> steps_;
  std::vector<plan::SlotId> extern_inputs_;          // inputs that steps need as tensors
  std::vector<plan::SlotId> output_slots_;           // kOutput, allocated on each call
  std::vector<plan::SlotId> input_views_;            // kView of what only exists during a call
  std::vector<std::vector<plan::SlotId>> views_of_;  // by slot: input_views_ with that root
  std::vector<uint8_t> survives_;  // by slot: prepared once for all calls of a context
  std::vector<uint8_t> written_;   // by input: some step writes to it
  bool has_externs_ = false;
  std::atomic<bool> checked_{false};  // extern results compared with the trace once
  std::mutex mutex_;
  std::vector<std::unique_ptr<Context>> idle_;
};

}  // namespace braze::runtime
