#include "loop/checks.h"

#include <unordered_set>

namespace braze::loop {
namespace {

class Collector {
 public:
  std::vector<ExprRef> found;

  void visit(ExprRef expr) {
    if (expr->args.empty() || !seen_.insert(expr).second) return;
    const bool masked = expr->kind == ExprKind::kMasked;
    if (expr->kind == ExprKind::kCheckIndex || (masked && !checks_in(expr->args[1]).empty()))
      found.push_back(expr);
    for (size_t i = 0; i < expr->args.size(); ++i)
      if (!masked || i != 1) visit(expr->args[i]);
  }

 private:
  std::unordered_set<ExprRef> seen_;
};

}  // namespace

std::vector<ExprRef> checks_in(ExprRef expr) {
  Collector collector;
  collector.visit(expr);
  return std::move(collector.found);
}

}  // namespace braze::loop
