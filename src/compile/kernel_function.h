// From a fused program to a function of a module.
#pragma once

#include <span>
#include <vector>

#include "codegen/cpp/codegen.h"
#include "loop/program.h"
#include "plan/function.h"
#include "schedule/schedule.h"

namespace braze::compile {

// The kernels of a program, each different one once. Kernels are the same when they are the same
// but for their names and program buffers (repeated layers).
struct DistinctKernels {
  std::vector<loop::Kernel> kernels;
  std::vector<int> of_item;  // by item; -1: an extern call
};
DistinctKernels distinct_kernels(const loop::Program& program);

// `code`: what was generated for the kernels, in order; they are of the module's code object 0.
plan::Function kernel_function(const loop::Program& program, const schedule::MemoryPlan& memory,
                               const DistinctKernels& kernels,
                               std::span<const codegen::cpp::KernelCode> code);

}  // namespace braze::compile
