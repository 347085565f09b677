#include "schedule/checks.h"

#include <algorithm>

#include "loop/checks.h"
#include "sym/facts.h"

namespace braze::schedule {

using loop::ExprRef;
using loop::Statement;

namespace {

std::vector<ExprRef> checks_of(const Statement& statement) {
  std::vector<ExprRef> checks = loop::checks_in(statement.value);
  if (!statement.index) return checks;
  const std::vector<ExprRef> more = loop::checks_in(statement.index);
  checks.insert(checks.end(), more.begin(), more.end());
  return checks;
}

}  // namespace

bool checks_stay_without(const loop::Kernel& kernel, size_t number, const std::vector<bool>& gone) {
  const Statement& statement = kernel.body[number];
  std::vector<ExprRef> missing = checks_of(statement);
  const bool inner_runs = std::ranges::all_of(
      kernel.inner, [](const loop::Axis& axis) { return sym::known_positive(axis.extent); });
  for (size_t i = 0; i < kernel.body.size() && !missing.empty(); ++i) {
    const Statement& other = kernel.body[i];
    const bool same_points = other.inner == statement.inner || (other.inner && inner_runs);
    if (i == number || gone[i] || !same_points) continue;
    const std::vector<ExprRef> made = checks_of(other);
    std::erase_if(missing,
                  [&](ExprRef check) { return std::ranges::find(made, check) != made.end(); });
  }
  return missing.empty();
}

bool has_checks(const loop::Kernel& kernel) {
  return std::ranges::any_of(
      kernel.body, [](const Statement& statement) { return !checks_of(statement).empty(); });
}

}  // namespace braze::schedule
