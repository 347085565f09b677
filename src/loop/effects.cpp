#include "loop/effects.h"

#include <algorithm>
#include <unordered_set>

namespace braze::loop {
namespace {

void sort_unique(std::vector<int>& values) {
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace

Effects effects_of(const Statement& statement) {
  Effects effects;
  std::unordered_set<ExprRef> seen;
  std::vector<ExprRef> stack = {statement.value};
  if (statement.index) stack.push_back(statement.index);
  while (!stack.empty()) {
    ExprRef expr = stack.back();
    stack.pop_back();
    if (!seen.insert(expr).second) continue;
    const auto number = static_cast<int>(expr->ival);
    if (expr->kind == ExprKind::kLoad) effects.loads.push_back(number);
    if (expr->kind == ExprKind::kReduced || expr->kind == ExprKind::kScanned)
      effects.results.push_back(number);
    stack.insert(stack.end(), expr->args.begin(), expr->args.end());
  }
  sort_unique(effects.loads);
  sort_unique(effects.results);
  switch (statement.kind) {
    case Statement::Kind::kReduce:
    case Statement::Kind::kScan:
      effects.defines = statement.reduced;
      break;
    case Statement::Kind::kStore:
      (statement.accumulates() && !statement.is_part() ? effects.accumulates : effects.overwrites) =
          statement.buffer;
      break;
  }
  return effects;
}

std::vector<bool> accumulated_params(const Kernel& kernel) {
  std::vector<bool> result(kernel.params.size(), false);
  for (const Statement& s : kernel.body)
    if (s.accumulates() && !s.is_part()) result[s.buffer] = true;
  return result;
}

bool keeps_inner_order(const Kernel& kernel) {
  return std::ranges::any_of(kernel.body, [](const Statement& s) {
    const bool finds_place =
        s.is_reduction() && (s.op == ReduceOp::kArgMax || s.op == ReduceOp::kArgMin);
    return s.is_scan() || s.accumulates() || finds_place;
  });
}

bool walks_once(const Kernel& kernel) {
  return std::ranges::any_of(kernel.body,
                             [](const Statement& s) { return s.is_scan() || s.accumulates(); });
}

}  // namespace braze::loop
