// What changes while a function runs: the tensors and addresses of its slots.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <vector>

#include "runtime/memory.h"
#include "runtime/prepared_function.h"

namespace braze::runtime {

class BoundFunction;

// A launch in a CUDA graph of a kernel that takes numbers of the call.
struct RecordedLaunch {
  const PreparedFunction::GpuLaunch* launch;
  void* node;  // CUgraphNode
};

class RunContext {
 public:
  explicit RunContext(const PreparedFunction& prepared);

  // Lays the slots whose memory is there for all calls out as `bound` has it, in an arena of at
  // least its size. Next to nothing if they lie there already, little if only sizes differ.
  void attach(const BoundFunction& bound, std::unique_ptr<Arena> arena);
  // The slot's address, and its tensor where one is needed, from those of its base.
  void bind_view(plan::SlotId slot, const BoundFunction& bound);
  // Drops what belongs to the caller.
  void forget_call();
  // Drops all memory. Addresses stay.
  void keep_addresses();

  const PreparedFunction& prepared;
  // Null while the context is idle, if it is of symbolic sizes or holds memory of a GPU.
  std::unique_ptr<Arena> arena;
  std::vector<at::Tensor> tensors;  // by slot
  std::vector<void*> pointers;      // by slot
  std::vector<void*> kernel_args;
  void* stream = nullptr;             // of a GPU, during a run: the user's current one
  std::span<at::Tensor> handed_over;  // during a run: as Executable::run
  std::vector<RecordedLaunch>* recorded = nullptr;  // during a run that is recorded

 private:
  // A tensor of memory that is there for all calls. Slots of one type at one place share it:
  // repeated layers have few.
  struct Cell {
    plan::SlotId slot;  // one of them
    at::Tensor tensor;
    size_t users = 0;
  };

  void lay_out(const BoundFunction& bound);
  // For other sizes in the same layout. False, nothing changed, if somebody holds a tensor.
  bool resize(const BoundFunction& bound);
  void resize(Cell& cell, const BoundFunction& bound);
  at::Tensor make_tensor(plan::SlotId slot, const BoundFunction& bound) const;
  int64_t view_offset(plan::SlotId slot, const BoundFunction& bound) const;

  std::vector<Cell> cells_;
  uint64_t serial_ = 0;  // of the BoundFunction that the slots are laid out for; 0: none
  std::shared_ptr<const plan::Layout> layout_;
  char* address_ = nullptr;    // of its arena
  std::vector<int64_t> dims_;  // its Numbers::dims
};

}  // namespace braze::runtime
