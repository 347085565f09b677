#include "schedule/sweeps.h"

#include <algorithm>
#include <functional>

namespace braze::schedule {
namespace {

using loop::ExprKind;
using loop::ExprRef;
using loop::Statement;

// Calls `visit` for the expression and all below it, each once, but not below where it gives false.
void walk(ExprRef expr, std::unordered_map<ExprRef, bool>& seen,
          const std::function<bool(ExprRef)>& visit) {
  if (!seen.emplace(expr, true).second || !visit(expr)) return;
  for (ExprRef arg : expr->args) walk(arg, seen, visit);
}

bool contains(ExprRef expr, ExprRef part) {
  bool found = false;
  std::unordered_map<ExprRef, bool> seen;
  walk(expr, seen, [&](ExprRef e) {
    found |= e == part;
    return !found;
  });
  return found;
}

// Whether `part` stands below a mask in `value`: computed everywhere it could read out of bounds.
bool is_guarded(ExprRef value, ExprRef part) {
  bool guarded = false;
  std::unordered_map<ExprRef, bool> seen;
  walk(value, seen, [&](ExprRef e) {
    if (e->kind == ExprKind::kMasked) guarded |= contains(e->args[1], part);
    return true;
  });
  return guarded;
}

bool varies_inside(ExprRef expr, int outer_count) {
  bool varies = false;
  std::unordered_map<ExprRef, bool> seen;
  walk(expr, seen, [&](ExprRef e) {
    varies |= e->kind == ExprKind::kAxis && e->ival >= outer_count;
    varies |= e->kind == ExprKind::kScanned;
    return !varies;
  });
  return varies;
}

}  // namespace

int Sweeps::of(ExprRef expr) {
  if (auto found = memo_.find(expr); found != memo_.end()) return found->second;
  int sweep = 0;
  if (expr->kind == ExprKind::kReduced) sweep = of_result_.at(expr->ival) + 1;
  if (expr->kind == ExprKind::kScanned) sweep = of_result_[expr->ival];  // 0 in its own value
  for (ExprRef arg : expr->args) sweep = std::max(sweep, of(arg));
  memo_.emplace(expr, sweep);
  return sweep;
}

void Sweeps::add(const Statement& statement) {
  of_result_[statement.reduced] = of(statement.value);
  if (statement.is_scan()) memo_.clear();
}

bool is_expensive(ExprRef expr) {
  bool expensive = false;
  std::unordered_map<ExprRef, bool> seen;
  walk(expr, seen, [&](ExprRef e) {
    expensive |= loop::cost_of(e->kind) >= loop::kExpensive && graph::is_float(e->dtype);
    expensive |= e->kind == ExprKind::kScanned;
    return !expensive && e->kind != ExprKind::kLoad;
  });
  return expensive;
}

void keep_between_sweeps(loop::Kernel& kernel, loop::ExprPool& pool) {
  if (kernel.inner.empty() || kernel.body.empty()) return;
  Statement& last = kernel.body.back();
  if (!last.overwrites() || !last.inner) return;
  std::unordered_map<ExprRef, bool> seen;
  bool touched = false;
  Sweeps sweeps;
  for (const Statement& statement : kernel.body) {
    if (&statement != &last && statement.is_store()) {
      touched |= statement.buffer == last.buffer;
    }
    if (!statement.is_store()) sweeps.add(statement);
    walk(statement.value, seen, [&](ExprRef e) {
      touched |= e->kind == ExprKind::kLoad && e->ival == last.buffer;
      return true;
    });
  }
  if (touched) return;

  // The largest part of the last value that is expensive, known a sweep earlier and needed there.
  int last_sweep = sweeps.of(last.value);
  int outer_count = static_cast<int>(kernel.outer.size());
  ExprRef kept = nullptr;
  size_t user = 0;
  seen.clear();
  walk(last.value, seen, [&](ExprRef e) {
    if (kept != nullptr || e->kind == ExprKind::kLoad) return false;
    if (e->dtype != last.value->dtype || sweeps.of(e) >= last_sweep || !is_expensive(e) ||
        !varies_inside(e, outer_count) || is_guarded(last.value, e)) {
      return true;
    }
    for (size_t i = 0; i + 1 < kernel.body.size(); ++i) {
      const Statement& statement = kernel.body[i];
      if (!statement.is_reduction() || !contains(statement.value, e)) continue;
      if (sweeps.of(statement.value) >= last_sweep) continue;
      kept = e;
      user = i;
      return false;
    }
    return true;
  });
  if (kept == nullptr) return;
  Statement store = last;
  store.value = kept;
  ExprRef loaded = pool.load(last.buffer, last.value->dtype, last.index);
  loop::Substitution memo;
  last.value = loop::rewrite(pool, last.value, memo,
                             [&](ExprRef e) { return e == kept ? loaded : nullptr; });
  kernel.body.insert(kernel.body.begin() + static_cast<std::ptrdiff_t>(user) + 1, store);
}

}  // namespace braze::schedule
