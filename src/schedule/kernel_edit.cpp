#include "schedule/kernel_edit.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "base/error.h"
#include "loop/checks.h"

namespace braze::schedule {

using loop::ExprKind;
using loop::ExprRef;
using loop::Statement;

ExprRef Rewriter::operator()(ExprRef expr) {
  if (expr == nullptr) return nullptr;
  if (auto found = memo_.find(expr); found != memo_.end()) return found->second;
  ExprRef result = rebuild(expr);
  memo_.emplace(expr, result);
  return result;
}

ExprRef Rewriter::rebuild(ExprRef expr) {
  switch (expr->kind) {
    case ExprKind::kConst:
      return expr;
    case ExprKind::kAxis:
      return axes.empty() ? expr : axes.at(expr->ival);
    case ExprKind::kReduced:
      if (reduced.empty()) return expr;
      return pool_.reduced(reduced.at(expr->ival), expr->dtype, expr->component);
    case ExprKind::kScanned: {
      if (reduced.empty()) return expr;
      const int number = reduced.at(expr->ival);
      if (expr->component == 2) return pool_.scanned_place(number);
      return expr->component == 0 ? pool_.scanned(number, expr->dtype)
                                  : pool_.scanned_before(number, expr->dtype);
    }
    case ExprKind::kLoad: {
      ExprRef index = moved(expr->ival, (*this)(expr->args[0]));
      int number = param(expr->ival);
      if (forward) {
        if (ExprRef value = forward(number, expr->dtype, index)) return value;
      }
      return pool_.load(number, expr->dtype, index);
    }
    default: {
      std::vector<ExprRef> args;
      args.reserve(expr->args.size());
      for (ExprRef arg : expr->args) args.push_back((*this)(arg));
      return pool_.with_args(expr, args);
    }
  }
}

Statement Rewriter::operator()(const Statement& statement) {
  Statement result = statement;
  result.value = (*this)(statement.value);
  if (statement.is_store()) {
    result.index = moved(statement.buffer, (*this)(statement.index));
    result.buffer = param(statement.buffer);
  }
  keep_checks(statement.value, result);
  if (statement.is_store()) keep_checks(statement.index, result);
  return result;
}

void Rewriter::keep_checks(ExprRef before, Statement& after) {
  for (ExprRef check : loop::checks_in(before)) {
    for (ExprRef now : loop::checks_in((*this)(check))) {
      const std::vector<ExprRef> of_index =
          after.is_store() ? loop::checks_in(after.index) : std::vector<ExprRef>();
      if (std::ranges::find(of_index, now) == of_index.end())
        after.value = pool_.after(now, after.value);
    }
  }
}

sym::Dims extents(const std::vector<loop::Axis>& axes) {
  sym::Dims result;
  result.reserve(axes.size());
  for (const loop::Axis& axis : axes) result.push_back(axis.extent);
  return result;
}

int64_t points(const std::vector<loop::Axis>& axes) {
  int64_t product = 1;
  for (const loop::Axis& axis : axes) product *= axis.extent.hint();
  return product;
}

void for_each_expr(const loop::Kernel& kernel, const std::function<void(ExprRef)>& visit) {
  std::unordered_set<ExprRef> seen;
  std::vector<ExprRef> stack;
  for (const Statement& statement : kernel.body) {
    // Operands of earlier statements come first, as in the text form.
    if (statement.index != nullptr) stack.push_back(statement.index);
    stack.push_back(statement.value);
    while (!stack.empty()) {
      ExprRef expr = stack.back();
      stack.pop_back();
      if (!seen.insert(expr).second) continue;
      visit(expr);
      for (auto arg = expr->args.rbegin(); arg != expr->args.rend(); ++arg) stack.push_back(*arg);
    }
  }
}

bool has_fixed_sizes(const loop::Kernel& kernel) {
  const auto is_number = [](const loop::Axis& axis) { return axis.extent.is_constant(); };
  bool fixed =
      std::ranges::all_of(kernel.outer, is_number) && std::ranges::all_of(kernel.inner, is_number);
  for_each_expr(kernel, [&](loop::ExprRef e) { fixed &= e->kind != loop::ExprKind::kSize; });
  return fixed;
}

int node_count(const loop::Kernel& kernel) {
  int count = 0;
  for_each_expr(kernel, [&](ExprRef) { ++count; });
  return count;
}

void resolve_views(loop::Kernel& kernel, const loop::Program& program, loop::ExprPool& pool) {
  Rewriter rewriter(pool);
  std::map<int, int> param_of_buffer;
  std::vector<loop::BufferParam> params;
  bool changed = false;
  for (const loop::BufferParam& param : kernel.params) {
    int buffer = param.buffer;
    sym::Int offset = 0;
    while (program.buffers[buffer].kind == loop::Buffer::Kind::kView) {
      offset = offset + program.buffers[buffer].view_offset;
      buffer = program.buffers[buffer].base;
    }
    const loop::Buffer& base = program.buffers[buffer];
    if (base.kind != loop::Buffer::Kind::kComputed || base.type.dtype != param.dtype) {
      buffer = param.buffer;
      offset = 0;
    }
    auto [found, fresh] = param_of_buffer.emplace(buffer, static_cast<int>(params.size()));
    if (fresh) {
      params.push_back({.dtype = param.dtype,
                        .written = param.written,
                        .by_value = param.by_value,
                        .aliased = param.aliased,
                        .buffer = buffer});
    } else {
      params[found->second].written |= param.written;
    }
    rewriter.params.push_back(found->second);
    rewriter.offsets.push_back(offset);
    changed |= buffer != param.buffer || !fresh;
  }
  if (!changed) return;
  kernel.params = std::move(params);
  for (Statement& statement : kernel.body) statement = rewriter(statement);
}

void renumber(loop::Kernel& kernel, loop::ExprPool& pool) {
  Rewriter rewriter(pool);
  rewriter.params.assign(kernel.params.size(), -1);
  std::vector<loop::BufferParam> params;
  auto use = [&](int64_t number) {
    if (rewriter.params[number] >= 0) return;
    rewriter.params[number] = static_cast<int>(params.size());
    params.push_back(kernel.params[number]);
  };
  for_each_expr(kernel, [&](ExprRef expr) {
    if (expr->kind == ExprKind::kLoad) use(expr->ival);
  });
  int highest = -1;
  for (const Statement& statement : kernel.body) {
    if (statement.is_store()) use(statement.buffer);
    highest = std::max(highest, statement.reduced);
  }
  rewriter.reduced.assign(highest + 1, -1);
  int next = 0;
  for (const Statement& statement : kernel.body) {
    if (!statement.is_store()) rewriter.reduced[statement.reduced] = next++;
  }
  for (int& number : rewriter.params) number = std::max(number, 0);  // unused ones occur nowhere
  for (Statement& statement : kernel.body) {
    statement = rewriter(statement);
    if (!statement.is_store()) statement.reduced = rewriter.reduced[statement.reduced];
  }
  kernel.params = std::move(params);
  for (loop::BufferParam& param : kernel.params) param.written = false;
  for (const Statement& statement : kernel.body) {
    if (statement.is_store()) kernel.params[statement.buffer].written = true;
  }
}

}  // namespace braze::schedule
