// From kernels to code objects, in the language of the target.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compile/compile.h"
#include "compile/kernel_function.h"
#include "graph/graph.h"
#include "plan/module.h"
#include "target/target.h"

namespace braze::compile {

// Why there is no code for one of the kernels; empty: there is for all.
std::string why_no_code(std::span<const LaunchedKernel> kernels, const target::Target& target);

// Whether there is code for a kernel of rows and one of columns in one launch.
bool share_launch(const loop::Kernel& rows, const loop::Kernel& columns,
                  const target::Target& target);

// Fills in what the kernels are given, so that ways to spread them can be tried; not of those that
// share a launch or whose sizes are symbols.
void note_parameters(const loop::Program& program, std::vector<LaunchedKernel>& kernels);

// Adds the code of the kernels to the module, if there are any: on a CPU one source, or several of
// which each is worth another start of the compiler, if there are threads to compile them side by
// side; on a GPU one for each kernel, in the language that is asked for. What Triton is not for is
// CUDA C++, which begins with the reason; BRAZE_LOG=schedule tells it. CUDA C++ alone is spread as
// the tuner says, if there is one.
std::vector<KernelCode> generate_code(std::span<const LaunchedKernel> kernels,
                                      const Options& options, plan::Module& module);

// The device of the graph that kernels for the target run on.
graph::Device kernel_device(const graph::Graph& graph, const target::Target& target);

}  // namespace braze::compile
