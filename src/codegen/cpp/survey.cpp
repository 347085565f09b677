#include "codegen/cpp/survey.h"

#include <functional>
#include <unordered_set>

#include "loop/effects.h"
#include "loop/random.h"

namespace braze::codegen::cpp {

using loop::ExprKind;
using loop::ExprRef;
using loop::Kernel;
using loop::ReduceOp;
using loop::Statement;

void note_axes(ExprRef expr, bool through_loads, std::vector<bool>& axes) {
  if (expr->kind == ExprKind::kAxis) axes[expr->ival] = true;
  if (expr->kind == ExprKind::kLoad && !through_loads) return;
  for (ExprRef arg : expr->args) note_axes(arg, through_loads, axes);
}

Survey survey(const Kernel& kernel, const sym::Dims& extent) {
  Survey result;
  result.used_as_value.resize(extent.size());
  std::unordered_set<ExprRef> seen;
  std::unordered_set<ExprRef> seen_index;
  std::function<void(ExprRef, bool, bool, bool)> visit = [&](ExprRef expr, bool as_index,
                                                             bool inner, bool guarded) {
    if (!(as_index ? seen_index : seen).insert(expr).second) return;
    if (expr->kind == ExprKind::kLoad) {
      result.accesses.push_back(
          {static_cast<int>(expr->ival), false, inner, guarded, affine_of(expr->args[0], extent)});
      if (!as_index) result.values.push_back(expr);
      visit(expr->args[0], true, inner, guarded);
      return;
    }
    if (!as_index) {
      result.values.push_back(expr);
      if (expr->kind == ExprKind::kAxis) result.used_as_value[expr->ival] = true;
      result.operations += loop::cost_of(expr->kind);
    }
    if (ExprRef element = loop::element_of_random(expr)) {
      // The operands say which word is taken; no lane needs their width.
      result.elements.push_back(affine_of(element, extent));
      for (ExprRef arg : {expr->args[0], expr->args[1], element}) visit(arg, true, inner, guarded);
      return;
    }
    for (ExprRef arg : expr->args)
      visit(arg, as_index || (expr->kind == ExprKind::kAfter && arg == expr->args[0]), inner,
            guarded || expr->kind == ExprKind::kMasked);
  };
  for (const Statement& s : kernel.body) {
    switch (s.kind) {
      case Statement::Kind::kStore:
        result.accesses.push_back({s.buffer, true, s.inner, false, affine_of(s.index, extent)});
        if (s.accumulates())
          result.accesses.push_back({s.buffer, false, s.inner, false, affine_of(s.index, extent)});
        visit(s.index, true, s.inner, false);
        break;
      case Statement::Kind::kReduce:
        result.operations += s.op == ReduceOp::kWelford ? 3 : 1;
        break;
      case Statement::Kind::kScan:
        break;
    }
    visit(s.value, false, s.inner, false);
  }
  return result;
}

bool opaque_along(const Affine& index, int axis, size_t axes) {
  for (const auto& [term, factor] : index.terms) {
    std::vector<bool> used(axes);
    note_axes(term, true, used);
    if (used[axis]) return true;
  }
  return false;
}

int64_t product(const sym::Dims& extent, int first, int last) {
  int64_t result = 1;
  for (int a = first; a < last; ++a) result *= extent[a].hint();
  return result;
}

}  // namespace braze::codegen::cpp
