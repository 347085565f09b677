// Order and merging of a kernel's axes.
#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "base/error.h"
#include "loop/effects.h"
#include "loop/linear_form.h"
#include "schedule/kernel_edit.h"

namespace braze::schedule {
namespace {

using loop::ExprKind;
using loop::ExprRef;
using loop::Statement;

bool is_index_arithmetic(ExprRef expr) {
  if (expr->dtype != graph::DType::kInt64) return false;
  switch (expr->kind) {
    case ExprKind::kAxis:
    case ExprKind::kAdd:
    case ExprKind::kSub:
    case ExprKind::kMul:
    case ExprKind::kNeg:
      return true;
    default:
      return false;
  }
}

// Calls `visit(form)` for every maximal sum over axes in the kernel, also inside divisions, masks
// and indices of indirect loads. Every occurrence of an axis is a term of one of these forms.
template <class Visit>
void for_each_linear_form(const loop::Kernel& kernel, Visit&& visit) {
  std::unordered_set<ExprRef> seen;
  std::vector<ExprRef> stack;
  for (const Statement& statement : kernel.body) {
    if (statement.index != nullptr) stack.push_back(statement.index);
    stack.push_back(statement.value);
  }
  while (!stack.empty()) {
    ExprRef expr = stack.back();
    stack.pop_back();
    if (!seen.insert(expr).second) continue;
    if (!is_index_arithmetic(expr)) {
      stack.insert(stack.end(), expr->args.begin(), expr->args.end());
      continue;
    }
    loop::LinearForm form = loop::linear_form(expr);
    visit(form);
    for (const loop::LinearForm::Term& term : form.terms) {
      if (term.atom->kind == ExprKind::kAxis) continue;
      // An atom is no sum but, say, a product of two atoms or a division: its operands hold other
      // sums.
      stack.insert(stack.end(), term.atom->args.begin(), term.atom->args.end());
    }
  }
}

class AxisNormaliser {
 public:
  AxisNormaliser(loop::Kernel& kernel, loop::ExprPool& pool)
      : kernel_(kernel),
        pool_(pool),
        outer_(extents(kernel.outer)),
        inner_(extents(kernel.inner)),
        outer_count_(static_cast<int>(outer_.size())) {}

  void run() {
    std::vector<int> order = sorted_axes();
    std::vector<bool> joined = mergeable(order);
    apply(order, joined);
  }

 private:
  int axis_count() const { return outer_count_ + static_cast<int>(inner_.size()); }
  sym::Int extent(int axis) const {
    return axis < outer_count_ ? outer_[axis] : inner_[axis - outer_count_];
  }
  bool is_inner(int axis) const { return axis >= outer_count_; }

  // Axis numbers in the wanted order, outer ones first, those of extent 1 left out.
  std::vector<int> sorted_axes() const {
    std::vector<int> order;
    for (int axis = 0; axis < axis_count(); ++axis) {
      if (extent(axis) != sym::Int(1)) order.push_back(axis);
    }
    auto boundary = std::find_if(order.begin(), order.end(), [&](int a) { return is_inner(a); });
    sort_by_stride(order.begin(), boundary, last_store_index(false));
    if (!loop::keeps_inner_order(kernel_))
      sort_by_stride(boundary, order.end(), last_store_index(true));
    return order;
  }

  // The index of the last store, or of the last one that runs over inner points.
  ExprRef last_store_index(bool inner_only) const {
    for (auto statement = kernel_.body.rbegin(); statement != kernel_.body.rend(); ++statement) {
      if (!statement->is_store()) continue;
      if (!inner_only || statement->inner) return statement->index;
    }
    return nullptr;
  }

  void sort_by_stride(std::vector<int>::iterator begin, std::vector<int>::iterator end,
                      ExprRef index) const {
    if (index == nullptr || end - begin < 2) return;
    std::vector<int64_t> stride(axis_count(), 0);
    for (const loop::LinearForm::Term& term : loop::linear_form(index).terms) {
      if (term.atom->kind != ExprKind::kAxis) return;
      stride[term.atom->ival] = term.coefficient.hint();
    }
    if (std::any_of(begin, end, [&](int axis) { return stride[axis] <= 0; })) return;
    std::stable_sort(begin, end, [&](int a, int b) { return stride[a] > stride[b]; });
  }

  // Whether order[i] and order[i + 1] are one axis as far as every index can tell.
  std::vector<bool> mergeable(const std::vector<int>& order) const {
    std::vector<bool> joined(order.size(), false);
    for (size_t i = 0; i + 1 < order.size(); ++i) {
      joined[i] = is_inner(order[i]) == is_inner(order[i + 1]);
    }
    sym::Dims coefficient(axis_count());
    for_each_linear_form(kernel_, [&](const loop::LinearForm& form) {
      std::fill(coefficient.begin(), coefficient.end(), sym::Int(0));
      for (const loop::LinearForm::Term& term : form.terms) {
        if (term.atom->kind == ExprKind::kAxis) coefficient[term.atom->ival] = term.coefficient;
      }
      for (size_t i = 0; i + 1 < order.size(); ++i) {
        if (coefficient[order[i]] != coefficient[order[i + 1]] * extent(order[i + 1])) {
          joined[i] = false;
        }
      }
    });
    return joined;
  }

  void apply(const std::vector<int>& order, const std::vector<bool>& joined) {
    std::vector<loop::Axis> outer, inner;
    Rewriter rewriter(pool_);
    rewriter.axes.assign(axis_count(), pool_.integer(0));
    bool changed = false;
    int number = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      sym::Int size = extent(order[i]);
      // The last axis of a run stands for the merged one; every index has it with the stride of the
      // whole run, so that the others are 0.
      while (i + 1 < order.size() && joined[i]) size = size * extent(order[++i]);
      (is_inner(order[i]) ? inner : outer).push_back({size});
      changed |= number != order[i];
      rewriter.axes[order[i]] = pool_.axis(number++, size);
    }
    changed |= number != axis_count();
    if (inner.empty() && has_inner_results()) {
      changed |= kernel_.inner.size() != 1 || number + 1 != axis_count();
      inner.push_back({1});
    }
    if (!changed) return;
    kernel_.outer = std::move(outer);
    kernel_.inner = std::move(inner);
    for (Statement& statement : kernel_.body) {
      statement = rewriter(statement);
      if (kernel_.inner.empty()) statement.inner = false;
    }
  }

  // Reductions and scans.
  bool has_inner_results() const {
    return std::any_of(kernel_.body.begin(), kernel_.body.end(),
                       [](const Statement& statement) { return !statement.is_store(); });
  }

  loop::Kernel& kernel_;
  loop::ExprPool& pool_;
  sym::Dims outer_, inner_;
  int outer_count_;
};

// What a load or store of a kernel does along its last two axes.
enum class AlongRows : uint8_t { kWhole, kRowOrColumn, kElse };

AlongRows along_rows(ExprRef index, int row, int column, sym::Int length) {
  sym::Int by_row = 0, by_column = 0;
  for (const loop::LinearForm::Term& term : loop::linear_form(index).terms) {
    if (term.atom->kind != ExprKind::kAxis) return AlongRows::kElse;
    if (term.atom->ival == row) by_row = term.coefficient;
    if (term.atom->ival == column) by_column = term.coefficient;
  }
  if (by_column == sym::Int(1) && by_row == length) return AlongRows::kWhole;
  const bool repeats = by_row == sym::Int(0) || by_column == sym::Int(0);
  return repeats ? AlongRows::kRowOrColumn : AlongRows::kElse;
}

// The least bytes of an element that lies in one piece with its neighbours; 0: rows are to stay.
int64_t least_element(const loop::Kernel& kernel, int row, int column, sym::Int length) {
  int64_t least = 0;
  bool fits = true;
  const auto look_at = [&](ExprRef index, graph::DType dtype, bool is_store) {
    const AlongRows along = along_rows(index, row, column, length);
    const int64_t bytes = graph::size_of(dtype);
    fits &= along == AlongRows::kWhole || (!is_store && along == AlongRows::kRowOrColumn);
    if (along == AlongRows::kWhole) least = least == 0 ? bytes : std::min(least, bytes);
  };
  for (const Statement& statement : kernel.body) {
    fits &= statement.is_store() && !statement.combines();
    if (statement.is_store()) look_at(statement.index, kernel.params[statement.buffer].dtype, true);
  }
  for_each_expr(kernel, [&](ExprRef expr) {
    if (expr->kind == ExprKind::kLoad)
      look_at(expr->args[0], kernel.params[expr->ival].dtype, false);
  });
  return fits ? least : 0;
}

}  // namespace

void flatten_rows(loop::Kernel& kernel, loop::ExprPool& pool, int64_t bytes) {
  constexpr int64_t kLeastPoints = 1 << 16;
  const int count = static_cast<int>(kernel.outer.size());
  if (!kernel.inner.empty() || count < 2) return;
  const int row = count - 2, column = count - 1;
  const sym::Int length = kernel.outer[column].extent;
  if (!length.is_constant() || points(kernel.outer) < kLeastPoints) return;
  const int64_t element = least_element(kernel, row, column, length);
  if (element == 0 || length.constant() * element % bytes == 0) return;
  Rewriter rewriter(pool);
  const sym::Int size = kernel.outer[row].extent * length;
  for (int axis = 0; axis < row; ++axis)
    rewriter.axes.push_back(pool.axis(axis, kernel.outer[axis].extent));
  ExprRef place = pool.axis(row, size);
  rewriter.axes.push_back(pool.binary(ExprKind::kFloorDiv, place, pool.index(length)));
  rewriter.axes.push_back(pool.binary(ExprKind::kMod, place, pool.index(length)));
  kernel.outer.pop_back();
  kernel.outer.back().extent = size;
  for (Statement& statement : kernel.body) statement = rewriter(statement);
}

void normalise_axes(loop::Kernel& kernel, loop::ExprPool& pool) {
  AxisNormaliser(kernel, pool).run();
}

}  // namespace braze::schedule
