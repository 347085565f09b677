// From a fused program to a function of a module.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "compile/candidates.h"
#include "loop/program.h"
#include "plan/function.h"
#include "schedule/schedule.h"

namespace braze::compile {

// A kernel, or several in one launch that differ from it in the extent of their one axis, or a
// kernel of rows with one of columns (schedule/beside.h).
struct LaunchedKernel {
  loop::Kernel kernel;
  std::vector<int64_t> extents = {};  // of each of several
  std::vector<bool> common = {};      // by parameter, of several: whether all are given the same
  std::optional<loop::Kernel> columns = {};         // its parameters come behind those of the rows
  std::vector<CandidateParameter> parameters = {};  // where ways to spread it may be tried
};

// The kernels of a program, each different one once. Kernels that differ in nothing but their names
// and the buffers of the program that they take are the same (repeated layers).
struct DistinctKernels {
  std::vector<LaunchedKernel> kernels;
  std::vector<int> of_item;  // by item; -1: an extern call, or launched with an earlier kernel
  // By item: the kernels that it is launched with, itself first, or that of rows; empty where it is
  // alone.
  std::vector<std::vector<int>> launched_with;
};
// `first`: as schedule::launched_together gives it; `partner`: as schedule::sharing_launches does.
DistinctKernels distinct_kernels(const loop::Program& program, const std::vector<int>& first,
                                 const std::vector<int>& partner);

// What was generated for a kernel.
struct KernelCode {
  std::string name;  // its symbol in the code object
  int32_t code = 0;  // index into Module::code
  plan::Launch launch;
  std::vector<sym::Int> sizes;          // what a call gives it
  std::vector<sym::Int> limits;         // must fit 32 bits, or the function does not hold
  std::vector<int32_t> alignment = {};  // as plan::KernelSignature
};

// `code`: of the kernels, in order. `device`: where the kernels run.
plan::Function kernel_function(const loop::Program& program, const schedule::MemoryPlan& memory,
                               const DistinctKernels& kernels, std::span<const KernelCode> code,
                               graph::Device device);

}  // namespace braze::compile
