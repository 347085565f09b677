#include <algorithm>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "codegen/cuda/codegen.h"
#include "codegen/cuda/kernel_writer.h"
#include "codegen/kernel_text.h"

namespace braze::codegen::cuda {
namespace {

constexpr int64_t kLeastAtomicBytes = 4;

}  // namespace

std::string why_unsupported(const loop::Kernel& kernel) {
  for (const loop::Statement& statement : kernel.body) {
    if (statement.is_recurrence()) return "it keeps a running value that has no parts";
    if (statement.accumulates_in_order()) return "points combine what they store in an order";
    if (statement.combines() && graph::size_of(statement.value->dtype) < kLeastAtomicBytes)
      return "several points combine elements of less than 32 bits";
  }
  return "";
}

std::vector<std::string> compiler_flags(const target::Cuda& cuda) {
  // Nothing is contracted, as eager rounds after each op. Where eager's own kernels contract within
  // an op, results differ in the last place.
  return {"--gpu-architecture=sm_" + std::to_string(cuda.sm), "--std=c++17", "--fmad=false",
          "--device-as-default-execution-space"};
}

KernelCode generate(const loop::Kernel& kernel, const target::Cuda& cuda) {
  return write_kernel(plan_nest(kernel, cuda), symbol_of(kernel.name));
}

std::vector<KernelCode> generate(std::span<const loop::Kernel> kernels, const target::Cuda& cuda) {
  std::vector<KernelCode> code;
  for (const loop::Kernel& kernel : kernels) code.push_back(generate(kernel, cuda));
  return code;
}

KernelCode generate_beside(const loop::Kernel& rows, const loop::Kernel& columns,
                           const target::Cuda& cuda) {
  return write_beside(rows, columns, cuda, symbol_of(rows.name) + "_beside");
}

std::vector<KernelCode> candidates(const loop::Kernel& kernel, const target::Cuda& cuda) {
  constexpr int kMostSharers = 1024;
  const Nest model = plan_nest(kernel, cuda);
  if (model.parts > 0) return {write_kernel(model, symbol_of(kernel.name))};
  std::vector<Wanted> wanted;
  for (int lanes = model.lanes / 2; lanes > 0; lanes /= 2) wanted.push_back({.most_lanes = lanes});
  if (model.shape == Shape::kRows && !model.shift)
    wanted.push_back({.shifts = Shifts::kWherePossible});
  if (!model.staged.empty()) wanted.push_back({.stages = false});
  if (model.shape != Shape::kPoints && model.scan_rounds == 0) {
    const bool rows = model.shape == Shape::kRows;
    const int own = model.sharers / model.cluster;
    const int most =
        rows ? kMostSharers : std::min(most_sharers(model), kMostSharers / model.width);
    for (int sharers = std::max(own / 4, 1); sharers <= std::min(4 * own, most); sharers *= 2)
      wanted.push_back({.sharers = sharers, .cluster = rows ? 1 : 0, .stages = false});
  }
  std::vector<KernelCode> ways = {write_kernel(model, symbol_of(kernel.name))};
  for (const Wanted& one : wanted) {
    KernelCode way = write_kernel(plan_nest(kernel, cuda, one), symbol_of(kernel.name));
    if (std::ranges::find(ways, way.text, &KernelCode::text) == ways.end())
      ways.push_back(std::move(way));
  }
  return ways;
}

// The extent of one axis is a symbol, which is all of them together for what is decided by it.
KernelCode generate_several(const loop::Kernel& kernel, std::span<const int64_t> extents,
                            const std::vector<bool>& common, const target::Cuda& cuda) {
  const std::string name = symbol_of(kernel.name) + "_of_" + std::to_string(extents.size());
  if (kernel.outer.size() != 1 || !kernel.inner.empty()) {
    BRAZE_CHECK(std::ranges::adjacent_find(extents, std::not_equal_to()) == extents.end(),
                "extents of several axes differ");
    target::Cuda share = cuda;  // of the device
    share.processors = std::max(cuda.processors / static_cast<int>(extents.size()), 1);
    return write_kernels(plan_nest(kernel, share, {.stages = false}), extents, common, name);
  }
  sym::ExprArena arena;
  const int64_t all = std::accumulate(extents.begin(), extents.end(), int64_t{0});
  loop::Kernel any = kernel;
  any.outer[0].extent = sym::Int(arena.symbol("n", all, {1, all}));
  return write_kernels(plan_nest(any, cuda, {.stages = false}), extents, common, name);
}

}  // namespace braze::codegen::cuda
