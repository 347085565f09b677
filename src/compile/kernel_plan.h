// From a fused program to a plan.
#pragma once

#include "codegen/cpp/codegen.h"
#include "loop/program.h"
#include "plan/plan.h"
#include "schedule/schedule.h"

namespace braze::compile {

// The kernels of a program, each different one once. Kernels are the same when they are the same
// but for their names and program buffers (repeated layers).
struct DistinctKernels {
  std::vector<loop::Kernel> kernels;
  std::vector<int> of_item;  // by item; -1: an extern call
};
DistinctKernels distinct_kernels(const loop::Program& program);

plan::Plan kernel_plan(const loop::Program& program, const schedule::MemoryPlan& memory,
                       const DistinctKernels& kernels, codegen::cpp::Source source);

}  // namespace braze::compile
