#include "schedule/narrow.h"

#include <functional>
#include <optional>

#include "schedule/kernel_edit.h"

namespace braze::schedule {
namespace {

using graph::DType;
using loop::ExprKind;
using loop::ExprRef;
using loop::Kernel;
using loop::Statement;

bool is_narrower(DType narrow, DType wide) {
  return graph::is_float(narrow) && graph::is_float(wide) &&
         graph::size_of(narrow) < graph::size_of(wide);
}

class Narrower {
 public:
  Narrower(loop::Program& program, const Aliases& aliases)
      : program_(program), dtype_(program.buffers.size()), stays_(needed_at_end(program, aliases)) {
    for (size_t i = 0; i < program.buffers.size(); ++i) {
      const loop::Buffer& buffer = program.buffers[i];
      // With another's memory a buffer is of that one's dtype: both stay.
      if (buffer.kind != loop::Buffer::Kind::kComputed)
        stays_[i] = stays_[aliases.root(static_cast<int>(i))] = true;
    }
    for (const loop::Item& item : program.items) {
      if (const auto* scheduled = std::get_if<loop::ScheduledKernel>(&item)) {
        look_at(scheduled->kernel);
        continue;
      }
      const Access access = access_of(item, aliases);
      for (const auto& roots : {access.reads, access.writes})
        for (int root : roots) stays_[root] = true;
    }
  }

  void run() {
    bool any = false;
    for (size_t i = 0; i < dtype_.size(); ++i) {
      if (!dtype_[i] || stays_[i]) continue;
      program_.buffers[i].type.dtype = *dtype_[i];
      any = true;
    }
    if (!any) return;
    for (loop::Item& item : program_.items)
      if (auto* scheduled = std::get_if<loop::ScheduledKernel>(&item)) rewrite(scheduled->kernel);
  }

 private:
  void look_at(const Kernel& kernel) {
    const auto stays = [&](ExprRef expr) {
      if (expr && expr->kind == ExprKind::kLoad) stays_[kernel.params[expr->ival].buffer] = true;
    };
    for (const Statement& statement : kernel.body) {
      stays(statement.value);
      stays(statement.index);
      if (statement.accumulates()) stays_[kernel.params[statement.buffer].buffer] = true;
    }
    for_each_expr(kernel, [&](ExprRef expr) {
      for (ExprRef arg : expr->args) {
        if (arg->kind != ExprKind::kLoad) continue;
        const int buffer = kernel.params[arg->ival].buffer;
        std::optional<DType>& dtype = dtype_[buffer];
        if (expr->kind != ExprKind::kCast || !is_narrower(expr->dtype, arg->dtype) ||
            (dtype && *dtype != expr->dtype))
          stays_[buffer] = true;
        dtype = expr->dtype;
      }
    });
  }

  bool is_narrowed(const Kernel& kernel, int64_t param) const {
    const int buffer = kernel.params[param].buffer;
    return dtype_[buffer] && !stays_[buffer];
  }

  void rewrite(Kernel& kernel) {
    loop::Substitution memo;
    const std::function<ExprRef(ExprRef)> replace = [&](ExprRef expr) -> ExprRef {
      if (expr->kind != ExprKind::kCast) return nullptr;
      const ExprRef load = expr->args[0];
      if (load->kind != ExprKind::kLoad || !is_narrowed(kernel, load->ival)) return nullptr;
      loop::Substitution of_index;
      const ExprRef index = loop::rewrite(program_.pool, load->args[0], of_index, replace);
      return program_.pool.load(static_cast<int>(load->ival), expr->dtype, index);
    };
    for (Statement& statement : kernel.body) {
      statement.value = loop::rewrite(program_.pool, statement.value, memo, replace);
      if (!statement.is_store()) continue;
      statement.index = loop::rewrite(program_.pool, statement.index, memo, replace);
      if (!is_narrowed(kernel, statement.buffer)) continue;
      const DType dtype = *dtype_[kernel.params[statement.buffer].buffer];
      statement.value = program_.pool.cast(statement.value, dtype);
    }
    for (size_t i = 0; i < kernel.params.size(); ++i)
      if (is_narrowed(kernel, static_cast<int64_t>(i)))
        kernel.params[i].dtype = *dtype_[kernel.params[i].buffer];
  }

  loop::Program& program_;
  std::vector<std::optional<DType>> dtype_;  // by buffer: what its loads are rounded to
  std::vector<bool> stays_;                  // by buffer
};

}  // namespace

void narrow_stores(loop::Program& program, const Aliases& aliases) {
  Narrower(program, aliases).run();
}

}  // namespace braze::schedule
