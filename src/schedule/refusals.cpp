#include "schedule/refusals.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>

#include "graph/data_errors.h"
#include "loop/checks.h"
#include "schedule/kernel_edit.h"
#include "sym/facts.h"

namespace braze::schedule {
namespace {

using loop::ExprKind;
using loop::ExprRef;

// Spells an index check so that equal texts are checks of the same numbers: buffers by their number
// in the program, axes by their extent, numbered in the order of their first use.
class CheckText {
 public:
  // `settled`, by root: whether its memory has the same contents whenever it is read.
  CheckText(const loop::Kernel& kernel, const Aliases& aliases, const std::vector<bool>& settled)
      : kernel_(kernel), aliases_(aliases), settled_(settled) {}

  // Nothing for what is too long, or depends on more than axes and settled memory.
  std::optional<std::string> of(ExprRef check) {
    text_.clear();
    axes_.clear();
    left_ = kMostNodes;
    return append(check) ? std::optional(text_) : std::nullopt;
  }

 private:
  static constexpr int kMostNodes = 64;

  bool append(ExprRef expr) {
    if (--left_ < 0) return false;
    text_ += '(' + std::to_string(static_cast<int>(expr->kind)) + ' ' +
             std::to_string(static_cast<int>(expr->dtype)) + ' ';
    switch (expr->kind) {
      case ExprKind::kReduced:
      case ExprKind::kScanned:
      case ExprKind::kRandom:
        return false;
      case ExprKind::kAxis: {
        const auto [axis, is_new] = axes_.try_emplace(expr->ival, axes_.size());
        text_ += std::to_string(axis->second) + '<' + sym::to_string(expr->size);
        break;
      }
      case ExprKind::kSize:
        text_ += sym::to_string(expr->size);
        break;
      case ExprKind::kConst:
        text_ +=
            std::to_string(expr->ival) + ' ' + std::to_string(std::bit_cast<uint64_t>(expr->fval));
        break;
      case ExprKind::kLoad: {
        const int buffer = kernel_.params[expr->ival].buffer;
        if (!settled_[aliases_.root(buffer)]) return false;
        text_ += std::to_string(buffer);
        break;
      }
      default:
        break;
    }
    for (ExprRef operand : expr->args)
      if (!append(operand)) return false;
    text_ += ')';
    return true;
  }

  const loop::Kernel& kernel_;
  const Aliases& aliases_;
  const std::vector<bool>& settled_;
  std::string text_;
  std::map<int64_t, size_t> axes_;
  int left_ = 0;
};

std::vector<bool> settled_memory(const loop::Program& program, const Aliases& aliases) {
  std::vector<int> writers(program.buffers.size(), 0);
  for (const loop::Item& item : program.items)
    for (int root : access_of(item, aliases).writes) ++writers[root];
  std::vector<bool> settled;
  for (size_t root = 0; root < writers.size(); ++root) {
    const bool is_input = program.buffers[root].kind == loop::Buffer::Kind::kInput;
    settled.push_back(writers[root] <= (is_input ? 0 : 1));
  }
  return settled;
}

bool known_nonempty(const std::vector<loop::Axis>& axes) {
  return std::ranges::all_of(axes,
                             [](const auto& axis) { return sym::known_positive(axis.extent); });
}

class Finder {
 public:
  Finder(const loop::Program& program, const Aliases& aliases)
      : aliases_(aliases), settled_(settled_memory(program, aliases)) {}

  bool refuses(const loop::Item& item) {
    if (const auto* call = std::get_if<loop::ExternCall>(&item))
      return graph::may_refuse_data(graph::find_or_add_op(call->op, call->effects));
    const loop::Kernel& kernel = std::get<loop::ScheduledKernel>(item).kernel;
    CheckText text(kernel, aliases_, settled_);
    bool refuses = false;
    for_each_expr(kernel, [&](ExprRef expr) {
      if (refuses || expr->kind != ExprKind::kCheckIndex) return;
      const std::optional<std::string> check = text.of(expr);
      refuses = !check || !made_.contains(*check);
    });
    if (refuses) remember(kernel, text);
    return refuses;
  }

 private:
  // What the kernel has checked for all points, once it has run.
  void remember(const loop::Kernel& kernel, CheckText& text) {
    if (!known_nonempty(kernel.outer)) return;
    const bool inner_runs = known_nonempty(kernel.inner);
    for (const loop::Statement& statement : kernel.body) {
      if (statement.inner && !inner_runs) continue;
      for (ExprRef part : {statement.value, statement.index}) {
        if (!part) continue;
        for (ExprRef check : loop::checks_in(part)) {
          if (check->kind != ExprKind::kCheckIndex) continue;
          if (std::optional<std::string> made = text.of(check)) made_.insert(std::move(*made));
        }
      }
    }
  }

  const Aliases& aliases_;
  const std::vector<bool> settled_;
  std::unordered_set<std::string> made_;
};

}  // namespace

std::vector<bool> refusals(const loop::Program& program, const Aliases& aliases) {
  Finder finder(program, aliases);
  std::vector<bool> refuses;
  refuses.reserve(program.items.size());
  for (const loop::Item& item : program.items) refuses.push_back(finder.refuses(item));
  return refuses;
}

}  // namespace braze::schedule
