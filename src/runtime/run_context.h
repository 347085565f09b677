// What changes during a run of a plan: the tensors and addresses of its slots.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "runtime/memory.h"
#include "runtime/prepared_plan.h"

namespace braze::runtime {

class BoundPlan;

struct RunContext {
  explicit RunContext(const PreparedPlan& plan);

  // Lays the slots whose memory is there for all calls out as `bound` has it, in an arena of at
  // least its size. Next to nothing if they lie there already.
  void attach(const BoundPlan& bound, std::unique_ptr<Arena> arena);
  // The slot's address, and its tensor where one is needed, from those of its base.
  void bind_view(plan::SlotId slot, const BoundPlan& bound);
  // Drops what belongs to the caller.
  void forget_call();

  const PreparedPlan& plan;
  std::unique_ptr<Arena> arena;     // null while the context of a symbolic plan is idle
  std::vector<at::Tensor> tensors;  // by slot
  std::vector<void*> pointers;      // by slot
  std::vector<void*> kernel_args;
  uint64_t attached_to = 0;  // BoundPlan::serial; 0: to none
  char* attached_at = nullptr;

 private:
  void bind_arena_slot(plan::SlotId slot, const BoundPlan& bound);
};

}  // namespace braze::runtime
