#include "schedule/follow.h"

#include <algorithm>

#include "loop/effects.h"
#include "loop/linear_form.h"
#include "schedule/kernel_edit.h"
#include "sym/facts.h"

namespace braze::schedule {
namespace {

using loop::ExprKind;
using loop::ExprRef;
using loop::Kernel;
using loop::Statement;

bool scans_in_parts(const Kernel& kernel) {
  return std::ranges::any_of(kernel.body,
                             [](const Statement& s) { return s.is_scan() && !s.is_recurrence(); });
}

sym::Dims all_extents(const Kernel& kernel) {
  sym::Dims all = extents(kernel.outer), inner = extents(kernel.inner);
  all.insert(all.end(), inner.begin(), inner.end());
  return all;
}

// An index that is a sum over axes: the coefficient of each.
std::optional<sym::Dims> coefficients(ExprRef index, size_t axes) {
  sym::Dims result(axes, 0);
  for (const loop::LinearForm::Term& term : loop::linear_form(index).terms) {
    if (term.atom->kind != ExprKind::kAxis) return std::nullopt;
    result[term.atom->ival] = term.coefficient;
  }
  return result;
}

bool is_down(sym::Int coefficient) { return coefficient.hint() < 0; }
sym::Int magnitude(sym::Int coefficient) {
  return is_down(coefficient) ? sym::Int(0) - coefficient : coefficient;
}

// The first index at which the kernel loads the buffer of a program, or stores to it.
ExprRef index_of(const Kernel& kernel, int buffer, bool stored) {
  ExprRef index = nullptr;
  if (stored) {
    for (const Statement& s : kernel.body)
      if (!index && s.is_store() && kernel.params[s.buffer].buffer == buffer) index = s.index;
    return index;
  }
  for_each_expr(kernel, [&](ExprRef e) {
    if (!index && e->kind == ExprKind::kLoad && kernel.params[e->ival].buffer == buffer)
      index = e->args[0];
  });
  return index;
}

// The axes of a kernel with index `theirs`, over the axes of one with index `ours` of the same
// memory.
std::optional<std::vector<ExprRef>> axes_over(loop::ExprPool& pool, const sym::Dims& our_extents,
                                              ExprRef ours, const sym::Dims& their_extents,
                                              ExprRef theirs) {
  const auto own = coefficients(ours, our_extents.size());
  const auto other = coefficients(theirs, their_extents.size());
  if (!own || !other) return std::nullopt;
  std::vector<bool> taken(our_extents.size(), false);
  std::vector<ExprRef> axes;
  for (size_t t = 0; t < their_extents.size(); ++t) {
    ExprRef axis = pool.integer(0);
    sym::Int left = their_extents[t], step = 1;
    while (left != sym::Int(1)) {
      size_t o = 0;
      while (o < taken.size() && (taken[o] || our_extents[o] == sym::Int(1) ||
                                  magnitude((*own)[o]) != magnitude((*other)[t]) * step))
        ++o;
      if (o == taken.size() || (*other)[t] == sym::Int(0)) return std::nullopt;
      const auto rest = sym::divide_exactly(left, our_extents[o]);
      if (!rest || our_extents[o] == sym::Int(0)) return std::nullopt;
      taken[o] = true;
      ExprRef part = pool.axis(static_cast<int>(o), our_extents[o]);
      if (is_down((*own)[o]) != is_down((*other)[t]))
        part = pool.add(pool.index(our_extents[o] - sym::Int(1)), pool.mul(part, sym::Int(-1)));
      axis = pool.add(axis, pool.mul(part, step));
      step = step * our_extents[o];
      left = *rest;
    }
    axes.push_back(axis);
  }
  for (size_t o = 0; o < taken.size(); ++o)
    if (!taken[o] && our_extents[o] != sym::Int(1)) return std::nullopt;
  return axes;
}

}  // namespace

bool may_follow(const Kernel& first, const Kernel& second) {
  if (scans_in_parts(first) == scans_in_parts(second)) return false;
  const Kernel& scans = scans_in_parts(first) ? first : second;
  const Kernel& points = scans_in_parts(first) ? second : first;
  return points.inner.empty() && !loop::walks_once(points) &&
         sym::product(all_extents(scans)) == sym::product(extents(points.outer));
}

bool may_follow_sums(const Kernel& sums, const Kernel& points) {
  return !sums.inner.empty() && points.inner.empty() && !loop::walks_once(points) &&
         std::ranges::any_of(sums.body, &Statement::is_reduction) &&
         std::ranges::none_of(sums.body, &Statement::is_scan) &&
         sym::product(all_extents(sums)) == sym::product(extents(points.outer));
}

std::optional<Kernel> following(loop::ExprPool& pool, const Kernel& lines, const Kernel& points) {
  const sym::Dims ours = all_extents(lines), theirs = extents(points.outer);
  const bool scans = scans_in_parts(lines);
  for (const loop::BufferParam& own : lines.params)
    for (const loop::BufferParam& other : points.params) {
      if (own.buffer != other.buffer || (scans && own.written == other.written)) continue;
      const ExprRef index = index_of(lines, own.buffer, own.written);
      const ExprRef counterpart = index_of(points, own.buffer, other.written);
      if (!index || !counterpart) continue;
      const auto axes = axes_over(pool, ours, index, theirs, counterpart);
      if (!axes) continue;
      Kernel result = points;
      result.outer.clear();
      for (sym::Int extent : ours) result.outer.push_back({extent});
      Rewriter rewriter(pool);
      rewriter.axes = *axes;
      for (Statement& statement : result.body) statement = rewriter(statement);
      return result;
    }
  return std::nullopt;
}

}  // namespace braze::schedule
