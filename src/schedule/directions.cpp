#include "schedule/directions.h"

#include <algorithm>

#include "loop/linear_form.h"
#include "schedule/kernel_edit.h"

namespace braze::schedule {
namespace {

// The number of the last axis of [begin, end) that is no single point; -1: there is none.
int last_axis(const std::vector<loop::Axis>& axes, int begin) {
  for (size_t i = axes.size(); i-- > 0;)
    if (axes[i].extent.hint() > 1) return begin + static_cast<int>(i);
  return -1;
}

}  // namespace

Directions directions_of(const loop::Kernel& kernel) {
  Directions directions;
  const auto outer_count = static_cast<int>(kernel.outer.size());
  const int outer = last_axis(kernel.outer, 0), inner = last_axis(kernel.inner, outer_count);
  if (outer < 0 || inner < 0) return directions;
  const auto add = [&](loop::ExprRef index) {
    const loop::IndexInfo info(index);
    if (!info.depends_on(outer) || !info.depends_on(inner)) return;
    directions.rows |= info.stride(inner) == sym::Int(1);
    directions.columns |= info.stride(outer) == sym::Int(1);
  };
  for_each_expr(kernel, [&](loop::ExprRef expr) {
    if (expr->kind == loop::ExprKind::kLoad) add(expr->args[0]);
  });
  for (const loop::Statement& statement : kernel.body)
    if (statement.is_store()) add(statement.index);
  return directions;
}

}  // namespace braze::schedule
