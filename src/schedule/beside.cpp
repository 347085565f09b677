#include "schedule/beside.h"

#include <algorithm>
#include <unordered_map>

#include "loop/linear_form.h"
#include "schedule/aliases.h"
#include "schedule/directions.h"
#include "schedule/kernel_edit.h"
#include "schedule/touches.h"
#include "target/costs.h"

namespace braze::schedule {
namespace {

using loop::Kernel;

// By buffer that is loaded in the order of the first outer axis: the elements that this walks over.
std::unordered_map<int, sym::Int> walked_by(const Kernel& kernel, const Aliases& aliases) {
  std::unordered_map<int, sym::Int> walked;
  if (kernel.outer.empty()) return walked;
  for_each_expr(kernel, [&](loop::ExprRef e) {
    if (e->kind != loop::ExprKind::kLoad) return;
    const loop::BufferParam& param = kernel.params[e->ival];
    const auto stride = loop::IndexInfo(e->args[0]).stride(0);
    if (!param.written && stride && *stride != sym::Int(0))
      walked[aliases.root(param.buffer)] = *stride * kernel.outer[0].extent;
  });
  return walked;
}

// Whether parts are all of what rows walk over, but for a small rest.
bool is_most_of(sym::Int parts, sym::Int all) {
  return parts.is_constant() && all.is_constant() && parts.constant() <= all.constant() &&
         parts.constant() >= all.constant() - all.constant() / 8;
}

// Bytes that both read in the same order.
int64_t shared_bytes(const loop::Program& program, const Aliases& aliases, const Kernel& rows,
                     const Kernel& columns) {
  const auto by_rows = walked_by(rows, aliases);
  int64_t bytes = 0;
  for (const auto& [buffer, elements] : walked_by(columns, aliases)) {
    const auto found = by_rows.find(buffer);
    if (found != by_rows.end() && is_most_of(elements, found->second))
      bytes += bytes_of(program.buffers[buffer]);
  }
  return bytes;
}

// 1: rows, -1: columns, in several parts; 0: neither.
int direction_of(const Kernel& kernel) {
  if (kernel.inner.empty() || !has_fixed_sizes(kernel)) return 0;
  const Directions directions = directions_of(kernel);
  if (directions.both()) return 0;
  if (directions.rows) return 1;
  return directions.columns && kernel.outer.size() > 1 && kernel.outer[0].extent.hint() > 1 ? -1
                                                                                            : 0;
}

}  // namespace

std::vector<int> sharing_launches(const loop::Program& program, const MemoryPlan& memory,
                                  const std::vector<int>& first, const target::Target& target,
                                  const std::function<bool(const Kernel&, const Kernel&)>& fits) {
  constexpr size_t kFarthest = 8;  // items
  const target::Costs costs = target::costs_of(target);
  const auto count = program.items.size();
  std::vector<int> partner(count, -1);
  if (costs.bytes_read_beside == 0) return partner;
  const Aliases aliases(program);
  std::vector<int> launched(count);  // how many kernels a launch has
  for (const int item : first) ++launched[item];
  const auto kernel_of = [&](size_t item) -> const Kernel* {
    const auto* scheduled = std::get_if<loop::ScheduledKernel>(&program.items[item]);
    return scheduled ? &scheduled->kernel : nullptr;
  };
  const auto is_alone = [&](size_t item) {
    return first[item] == static_cast<int>(item) && launched[item] == 1 && partner[item] < 0;
  };
  for (size_t i = 0; i < count; ++i) {
    const Kernel* earlier = kernel_of(i);
    const int direction = earlier && is_alone(i) ? direction_of(*earlier) : 0;
    if (direction == 0) continue;
    std::vector<Touch> between = touches_of(*earlier, program, aliases, memory);
    for (size_t j = i + 1; j < std::min(count, i + kFarthest) && partner[i] < 0; ++j) {
      const Kernel* later = kernel_of(j);
      if (!later) break;
      const std::vector<Touch> touches = touches_of(*later, program, aliases, memory);
      const Kernel& rows = direction > 0 ? *earlier : *later;
      const Kernel& columns = direction > 0 ? *later : *earlier;
      if (is_alone(j) && direction_of(*later) == -direction && !collide(between, touches) &&
          shared_bytes(program, aliases, rows, columns) >= costs.bytes_read_beside &&
          fits(rows, columns)) {
        partner[i] = static_cast<int>(j);
        partner[j] = static_cast<int>(i);
      }
      between.insert(between.end(), touches.begin(), touches.end());
    }
  }
  return partner;
}

}  // namespace braze::schedule
