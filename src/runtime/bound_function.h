// A prepared function with the numbers for one list of sizes: ready to run.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "runtime/prepared_function.h"
#include "runtime/run_context.h"

namespace braze::runtime {

class BoundFunction {
 public:
  // symbols: the values of the function's symbols. layout: one that is taken where there is room
  // enough in it, or null. Throws plan::Unbindable. Refers to `prepared`.
  BoundFunction(const PreparedFunction& prepared, std::span<const int64_t> symbols,
                std::shared_ptr<const plan::Layout> layout);
  BoundFunction(const BoundFunction&) = delete;

  // As Executable::run, in a context that is attached to this function.
  void run(RunContext& context, std::span<c10::TensorImpl* const> inputs,
           std::span<const double> numbers, std::vector<at::Tensor>& outputs);

  // An output as the caller gets it, from the tensors and addresses of the context.
  at::Tensor make_output(plan::SlotId slot, const RunContext& context) const;
  // The launch of a recorded call that has run in `context` takes other numbers from now on.
  void set_numbers(void* graph, const RecordedLaunch& launch, RunContext& context,
                   std::span<const double> numbers) const;

  const PreparedFunction& prepared() const { return prepared_; }
  const plan::Numbers& numbers() const { return numbers_; }
  Shapes shapes() const { return {prepared_.binder, numbers_}; }
  // Memory that a slot of this type takes.
  int64_t bytes(plan::SlotId slot) const {
    return numbers_.type_bytes[prepared_.binder.type_of(slot)];
  }
  uint64_t serial() const { return serial_; }  // no other bound function has it

 private:
  void bind_inputs(RunContext& context, std::span<c10::TensorImpl* const> inputs) const;
  void allocate(plan::SlotId slot, RunContext& context) const;  // a kOutput slot
  void free(plan::SlotId slot, RunContext& context) const;
  void bind_numbers(RunContext& context, std::span<const double> numbers) const;
  void run_steps(RunContext& context, bool check) const;
  void run_kernel(size_t step, const PreparedFunction::CpuLaunch& launch,
                  RunContext& context) const;
  void run_kernel(const PreparedFunction::GpuLaunch& launch, RunContext& context) const;
  void run_extern(size_t step, const ExternCall& call, RunContext& context, bool check) const;
  void run_copy(const PreparedFunction::Copy& copy, RunContext& context) const;
  bool is_plain(const PreparedFunction::Copy& copy) const;
  void set_arguments(const PreparedFunction::GpuLaunch& launch, RunContext& context) const;

  const PreparedFunction& prepared_;
  const plan::Numbers numbers_;
  const uint64_t serial_;
  std::vector<std::vector<c10::IValue>> symbolic_arguments_;  // by PreparedFunction::sized_calls
  std::atomic<bool> has_run_{false};  // extern results are compared with the trace once
};

}  // namespace braze::runtime
