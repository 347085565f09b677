#include "codegen/cuda/accesses.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace braze::codegen::cuda {

using loop::ExprKind;
using loop::ExprRef;

namespace {

// About how far integer expressions move for a step along an axis; each is looked at once.
class SpeedAlong {
 public:
  explicit SpeedAlong(int axis) : axis_(axis) {}
  double operator()(ExprRef expr) {
    if (const auto found = known_.find(expr); found != known_.end()) return found->second;
    const double speed = work_out(expr);
    return known_[expr] = speed;
  }

 private:
  double work_out(ExprRef expr);

  const int axis_;
  std::unordered_map<ExprRef, double> known_;
};

double SpeedAlong::work_out(ExprRef expr) {
  const auto of = [this](ExprRef arg) { return (*this)(arg); };
  const auto constant = [](ExprRef arg) {
    return arg->is_constant() && !graph::is_float(arg->dtype) ? static_cast<double>(arg->ival)
           : arg->is_constant()                               ? arg->fval
                                                              : 1;
  };
  switch (expr->kind) {
    case ExprKind::kAxis:
      return expr->ival == axis_ ? 1 : 0;
    case ExprKind::kMul:
      return of(expr->args[0]) * constant(expr->args[1]) +
             of(expr->args[1]) * constant(expr->args[0]);
    case ExprKind::kFloorDiv:
    case ExprKind::kDiv:
      return of(expr->args[0]) / constant(expr->args[1]);
    case ExprKind::kAdd:
      return of(expr->args[0]) + of(expr->args[1]);
    case ExprKind::kSub:
      return of(expr->args[0]) - of(expr->args[1]);
    case ExprKind::kLoad:
      return 0;
    default: {
      double most = 0;
      for (ExprRef arg : expr->args) most = std::max(most, std::abs(of(arg)));
      return most;
    }
  }
}

}  // namespace

Accesses::Accesses(const Nest& nest) : nest_(nest) {
  for (const loop::Statement& statement : nest.kernel->body) {
    inner_ = statement.inner;
    collect(statement.value);
    if (statement.index) collect(statement.index);
    if (statement.is_store()) add(all, statement.index, statement.value->dtype);
  }
}

void Accesses::add(std::vector<Access>& list, ExprRef index, graph::DType dtype) {
  list.push_back({affine_of(index, nest_.extent), graph::size_of(dtype), inner_});
}

void Accesses::collect(ExprRef expr) {
  if (!seen_.insert(expr).second) return;
  if (expr->kind == ExprKind::kLoad) add(all, expr->args[0], expr->dtype);
  if (expr->kind == ExprKind::kMasked) {
    collect(expr->args[0]);
    collect(expr->args[2]);
    collect_masked(expr->args[1]);
    return;
  }
  for (ExprRef arg : expr->args) collect(arg);
}

void Accesses::collect_masked(ExprRef expr) {
  if (!masked_.insert(expr).second) return;
  if (expr->kind == ExprKind::kLoad) add(under_masks, expr->args[0], expr->dtype);
  for (ExprRef arg : expr->args) collect_masked(arg);
}

int lanes_of_windows(const Accesses& accesses, int axis, int lanes) {
  constexpr int64_t kLeastLoads = 4;
  constexpr double kMostBytesApart = 8;
  int64_t loads = 0;
  double fastest = 0;
  SpeedAlong speed_of(axis);
  const auto look_at = [&](const Access& access) {
    double speed = access.index.stride(axis).is_constant()
                       ? static_cast<double>(access.index.stride(axis).constant())
                       : 1;
    for (const auto& [term, factor] : access.index.terms)
      if (factor.is_constant()) speed += speed_of(term) * static_cast<double>(factor.constant());
    if (speed == 0 || is_pack(access.index, axis, lanes)) return;
    ++loads;
    fastest = std::max(fastest, std::abs(speed) * static_cast<double>(access.bytes));
  };
  for (const auto* some : {&accesses.all, &accesses.under_masks})
    for (const Access& access : *some) look_at(access);
  if (loads < kLeastLoads) return lanes;
  while (lanes > 1 && fastest * lanes > kMostBytesApart) lanes /= 2;
  return lanes;
}

bool is_of_axes(ExprRef expr) {
  switch (expr->kind) {
    case ExprKind::kLoad:
    case ExprKind::kReduced:
    case ExprKind::kScanned:
    case ExprKind::kRandom:
    case ExprKind::kCheckIndex:
    case ExprKind::kAfter:
      return false;
    default:
      return std::ranges::all_of(expr->args, is_of_axes);
  }
}

}  // namespace braze::codegen::cuda
