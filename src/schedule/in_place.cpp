#include "schedule/in_place.h"

#include <algorithm>

#include "loop/effects.h"
#include "schedule/aliases.h"
#include "schedule/kernel_edit.h"
#include "schedule/refusals.h"
#include "sym/facts.h"
#include "target/costs.h"

namespace braze::schedule {

using loop::Statement;

bool is_dense(const graph::TensorType& type) {
  const sym::Int elements = type.numel();
  if (elements == sym::Int(0)) return true;
  sym::Int last = 0;
  for (size_t i = 0; i < type.sizes.size(); ++i) {
    last = last + (type.sizes[i] - sym::Int(1)) * type.strides[i];
  }
  return last + sym::Int(1) == elements;
}

loop::ExprRef only_index(const loop::Kernel& kernel, int param, bool stored, size_t* store) {
  loop::ExprRef index = nullptr;
  bool same = true;
  auto touch = [&](loop::ExprRef at) {
    if (index == nullptr) index = at;
    same &= index == at;
  };
  for (size_t i = 0; i < kernel.body.size(); ++i) {
    const Statement& statement = kernel.body[i];
    loop::Kernel one;
    one.body = {statement};
    for_each_expr(one, [&](loop::ExprRef expr) {
      if (expr->kind != loop::ExprKind::kLoad || expr->ival != param) return;
      touch(expr->args[0]);
      if (stored || i > *store) same = false;
    });
    if (statement.is_store() && statement.buffer == param) {
      touch(statement.index);
      *store = std::min(*store, i);
    }
  }
  return same ? index : nullptr;
}

bool may_run_in_place(const loop::Kernel& kernel, int64_t multiple) {
  const sym::Dims outer = extents(kernel.outer);
  return kernel.inner.empty() && !loop::walks_once(kernel) &&
         std::all_of(outer.begin(), outer.end(), [&](sym::Int extent) {
           return sym::divide_exactly(extent, multiple).has_value();
         });
}

bool may_run_in_place_beside_reductions(const loop::Kernel& kernel, int stored) {
  if (kernel.inner.empty() || loop::walks_once(kernel)) return false;
  std::vector<loop::ExprRef> places;
  bool fits = true;
  for (const Statement& s : kernel.body) {
    if (!s.is_store()) continue;
    fits &= s.inner || s.buffer != stored;
    places.push_back(s.index);
  }
  for_each_expr(kernel, [&](loop::ExprRef expr) {
    fits &= expr->kind != loop::ExprKind::kCheckIndex;
    if (expr->kind == loop::ExprKind::kLoad) places.push_back(expr->args[0]);
  });
  loop::Kernel all;
  for (loop::ExprRef place : places) all.body.push_back({.value = place});
  for_each_expr(all, [&](loop::ExprRef expr) {
    fits &= expr->kind != loop::ExprKind::kLoad && expr->kind != loop::ExprKind::kReduced;
  });
  return fits;
}

namespace {

class InputWriter {
 public:
  InputWriter(loop::Program& program, const target::Target& target)
      : program_(program),
        multiple_(target::costs_of(target).in_place_multiple),
        beside_reductions_(target::costs_of(target).in_place_beside_reductions),
        aliases_(program),
        writers_(program.buffers.size()),
        last_read_(program.buffers.size(), -1),
        readers_(program.buffers.size()),
        ends_(program.buffers.size(), 0) {
    const std::vector<bool> refuses = refusals(program, aliases_);
    for (size_t i = 0; i < program.items.size(); ++i) {
      if (refuses[i]) last_refusal_ = static_cast<int>(i);
      const Access access = access_of(program.items[i], aliases_);
      for (int root : access.reads) {
        last_read_[root] = static_cast<int>(i);
        readers_[root].push_back(static_cast<int>(i));
      }
      for (int root : access.writes) writers_[root].push_back(static_cast<int>(i));
    }
    for (int output : program.outputs) ++ends_[aliases_.root(output)];
    for (const auto& [target, source] : program.mutations) {
      ++ends_[aliases_.root(source)];
      ++ends_[aliases_.root(target)];
    }
  }

  // Whether the kernels that compute `source` store it into `input` from now on.
  bool write(int input, int source) {
    const loop::Buffer &from = program_.buffers[source], &to = program_.buffers[input];
    const std::vector<int>& writers = writers_[source];
    if (from.kind != loop::Buffer::Kind::kComputed || aliases_.root(source) != source ||
        ends_[source] != 1 || ends_[input] != 1 || writers.empty() || last_read_[source] >= 0 ||
        !writers_[input].empty() || from.type != to.type || !is_dense(to.type))
      return false;
    if (last_refusal_ >= writers.front() || is_read_behind(input, writers)) return false;
    std::vector<loop::Kernel*> kernels;
    for (int at : writers) {
      auto* scheduled = std::get_if<loop::ScheduledKernel>(&program_.items[at]);
      if (!scheduled) return false;
      kernels.push_back(&scheduled->kernel);
    }
    if (!may_run(kernels, source, to.type.numel())) return false;
    std::vector<std::vector<Statement>> before;
    for (const loop::Kernel* kernel : kernels) before.push_back(kernel->body);
    for (loop::Kernel* kernel : kernels) {
      const int stored = param_of(*kernel, source);
      if (overwrites_what_it_reads(*kernel, stored, input) ||
          (store_last(*kernel, stored) && overwrites_what_it_reads(*kernel, stored, input)))
        continue;
      for (size_t i = 0; i < kernels.size(); ++i) kernels[i]->body = before[i];
      return false;
    }
    for (loop::Kernel* kernel : kernels) {
      kernel->params[param_of(*kernel, source)].buffer = input;
      if (!kernel->inner.empty()) note_aliases(*kernel, input);
    }
    return true;
  }

 private:
  static int param_of(const loop::Kernel& kernel, int buffer) {
    const auto param = std::ranges::find(kernel.params, buffer, &loop::BufferParam::buffer);
    return static_cast<int>(param - kernel.params.begin());
  }

  // Whether others read the input behind the first of its writers.
  bool is_read_behind(int input, const std::vector<int>& writers) const {
    return std::ranges::any_of(readers_[input], [&](int item) {
      return item > writers.front() && std::ranges::find(writers, item) == writers.end();
    });
  }

  // Whether kernels that store all elements may do so in place: beside reductions where there are
  // as many points as elements, so that each has one of its own.
  bool may_run(const std::vector<loop::Kernel*>& kernels, int source, sym::Int elements) const {
    if (kernels.size() == 1 && may_run_in_place(*kernels[0], multiple_)) return true;
    if (!beside_reductions_) return false;
    sym::Int stored = 0;
    for (const loop::Kernel* kernel : kernels) {
      const sym::Int points =
          sym::product(extents(kernel->outer)) * sym::product(extents(kernel->inner));
      if (!may_run_in_place_beside_reductions(*kernel, param_of(*kernel, source))) return false;
      stored = stored + points;
    }
    return stored == elements;
  }

  static void note_aliases(loop::Kernel& kernel, int input) {
    const auto is_it = [&](const loop::BufferParam& param) { return param.buffer == input; };
    if (std::ranges::count_if(kernel.params, is_it) < 2) return;
    for (loop::BufferParam& param : kernel.params) param.aliased |= is_it(param);
  }

  // Moves the one store to that parameter behind all other statements; false where one of them
  // stores what it loads.
  bool store_last(loop::Kernel& kernel, int stored) const {
    const auto is_it = [&](const Statement& s) { return s.is_store() && s.buffer == stored; };
    const auto store = std::ranges::find_if(kernel.body, is_it);
    if (std::count_if(kernel.body.begin(), kernel.body.end(), is_it) != 1) return false;
    loop::Kernel alone;
    alone.body = {*store};
    bool moves = true;
    for_each_expr(alone, [&](loop::ExprRef expr) {
      if (expr->kind != loop::ExprKind::kLoad) return;
      const int loaded = kernel.params[expr->ival].buffer;
      for (auto later = store + 1; later != kernel.body.end(); ++later)
        moves &= !later->is_store() || kernel.params[later->buffer].buffer != loaded;
    });
    if (moves) std::rotate(store, store + 1, kernel.body.end());
    return moves;
  }

  bool overwrites_what_it_reads(const loop::Kernel& kernel, int stored, int input) const {
    size_t store = kernel.body.size();
    const loop::ExprRef index = only_index(kernel, stored, true, &store);
    if (!index) return false;
    for (size_t in = 0; in < kernel.params.size(); ++in) {
      if (aliases_.root(kernel.params[in].buffer) != input) continue;
      if (kernel.params[in].buffer != input || kernel.params[in].by_value ||
          only_index(kernel, static_cast<int>(in), false, &store) != index)
        return false;
    }
    return true;
  }

  loop::Program& program_;
  const int64_t multiple_;
  const bool beside_reductions_;
  const Aliases aliases_;
  std::vector<std::vector<int>> writers_;  // by root: items
  std::vector<int> last_read_;             // by root: item
  std::vector<std::vector<int>> readers_;  // by root: items
  std::vector<int> ends_;                  // by root: outputs, and mutations on either side
  int last_refusal_ = -1;                  // item
};

}  // namespace

void write_inputs_in_place(loop::Program& program, const target::Target& target,
                           const std::vector<bool>& alone) {
  if (program.mutations.empty()) return;
  InputWriter writer(program, target);
  std::erase_if(program.mutations, [&](const std::pair<int, int>& mutation) {
    const int input = program.buffers[mutation.first].input;
    return program.buffers[mutation.first].kind == loop::Buffer::Kind::kInput && alone[input] &&
           writer.write(mutation.first, mutation.second);
  });
}

}  // namespace braze::schedule
