#include <unordered_set>

#include "codegen/cuda/codegen.h"
#include "codegen/triton/codegen.h"
#include "codegen/triton/kernel_writer.h"

namespace braze::codegen::triton {
namespace {

bool draws(loop::ExprRef expr, std::unordered_set<loop::ExprRef>& seen) {
  if (!expr || !seen.insert(expr).second) return false;
  if (expr->kind == loop::ExprKind::kRandom) return true;
  for (loop::ExprRef arg : expr->args)
    if (draws(arg, seen)) return true;
  return false;
}

// Triton's masks need no packs that begin at boundaries.
cuda::Nest nest_of(const loop::Kernel& kernel, const target::Cuda& cuda) {
  return cuda::plan_nest(kernel, cuda, {.shifts = cuda::Shifts::kNone, .stages = false});
}

}  // namespace

std::string why_unsupported(const loop::Kernel& kernel, const target::Cuda& cuda) {
  if (std::string why = cuda::why_unsupported(kernel); !why.empty()) return why;
  std::unordered_set<loop::ExprRef> seen;
  for (const loop::Statement& s : kernel.body) {
    if (s.is_scan()) return "it keeps running values";
    if (s.accumulates()) return "several points store to one element";
    if (draws(s.value, seen) || draws(s.index, seen)) return "it draws random numbers";
  }
  for (const loop::BufferParam& param : kernel.params)
    if (param.by_value && graph::size_of(param.dtype) < 4)
      return "it takes a short number by value";
  if (nest_of(kernel, cuda).cluster > 1) return "blocks of a cluster share its rows";
  return "";
}

KernelCode generate(const loop::Kernel& kernel, const target::Cuda& cuda) {
  const cuda::Nest nest = nest_of(kernel, cuda);
  return write_kernel(nest, plan_tile(nest), cuda);
}

}  // namespace braze::codegen::triton
