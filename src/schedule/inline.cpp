#include "schedule/inline.h"

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "loop/checks.h"
#include "loop/linear_form.h"
#include "schedule/checks.h"
#include "schedule/kernel_edit.h"
#include "schedule/merge.h"
#include "schedule/sweeps.h"
#include "sym/facts.h"

namespace braze::schedule {
namespace {

using loop::ExprKind;
using loop::ExprRef;
using loop::Kernel;
using loop::Statement;

int division_count(const Kernel& kernel) {
  int count = 0;
  for_each_expr(kernel, [&](ExprRef expr) {
    count += expr->kind == ExprKind::kFloorDiv || expr->kind == ExprKind::kMod;
  });
  return count;
}

int operation_count(const Kernel& kernel) {
  int count = 0;
  for_each_expr(kernel, [&](ExprRef expr) {
    bool leaf = expr->args.empty() || expr->kind == ExprKind::kLoad;
    count += !leaf && expr->dtype != graph::DType::kInt64;
  });
  return count;
}

// A kernel that stores one value at every point, at an index from which the point can be told: the
// strides are those of a dense tensor.
class Producer {
 public:
  static std::optional<Producer> of(const Kernel& kernel, int most_nodes) {
    if (!kernel.inner.empty() || kernel.body.size() != 1 || !kernel.body[0].overwrites())
      return std::nullopt;
    const Statement& store = kernel.body[0];
    if (node_count(kernel) > most_nodes || is_expensive(store.value)) return std::nullopt;
    Producer result(kernel);
    loop::LinearForm index = loop::linear_form(store.index);
    if (index.constant != 0) return std::nullopt;
    for (const loop::LinearForm::Term& term : index.terms) {
      if (term.atom->kind != ExprKind::kAxis || !sym::known_positive(term.coefficient))
        return std::nullopt;
      result.strides_[term.atom->ival] = term.coefficient;
    }
    return result.is_dense() ? std::optional(result) : std::nullopt;
  }

  const Kernel& kernel() const { return *kernel_; }
  int buffer() const { return kernel_->params[kernel_->body[0].buffer].buffer; }
  sym::Int points() const { return sym::product(extents_); }

  // The axes at the point that stored to this index.
  std::vector<ExprRef> axes_at(loop::ExprPool& pool, ExprRef index) const {
    std::vector<ExprRef> axes;
    for (size_t i = 0; i < extents_.size(); ++i) {
      ExprRef axis = pool.binary(ExprKind::kFloorDiv, index, pool.index(strides_[i]));
      bool outermost = strides_[i] * extents_[i] == points();
      if (!outermost) axis = pool.binary(ExprKind::kMod, axis, pool.index(extents_[i]));
      axes.push_back(axis);
    }
    return axes;
  }

 private:
  explicit Producer(const Kernel& kernel)
      : kernel_(&kernel), extents_(extents(kernel.outer)), strides_(extents_.size(), 0) {}

  // Sorted by stride, each axis begins where the ones below it end.
  bool is_dense() const {
    std::vector<size_t> order(extents_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return strides_[a].hint() < strides_[b].hint(); });
    sym::Int expected = 1;
    for (size_t i : order) {
      if (strides_[i] != expected || !sym::known_positive(extents_[i])) return false;
      expected = expected * extents_[i];
    }
    return true;
  }

  const Kernel* kernel_;
  sym::Dims extents_;
  sym::Dims strides_;
};

// Whether the index, which is not under a mask, runs over all of [0, points).
bool runs_over(ExprRef index, const sym::Dims& extents, sym::Int points) {
  loop::LinearForm form = loop::linear_form(index);
  std::sort(form.terms.begin(), form.terms.end(), [](const auto& a, const auto& b) {
    return a.coefficient.hint() < b.coefficient.hint();
  });
  sym::Int expected = 1;
  for (const loop::LinearForm::Term& term : form.terms) {
    if (term.atom->kind != ExprKind::kAxis || term.coefficient != expected) return false;
    expected = expected * extents[term.atom->ival];
  }
  return form.constant == sym::Int(0) && expected == points;
}

// Whether `merged`, the consumer with the producer's value in place of its loads, makes the
// producer's index checks for all its elements.
bool makes_checks(const Kernel& consumer, const Kernel& merged, const Producer& producer) {
  const size_t checks = loop::checks_in(producer.kernel().body[0].value).size();
  sym::Dims all = extents(consumer.outer), inner = extents(consumer.inner);
  all.insert(all.end(), inner.begin(), inner.end());
  for (size_t i = 0; i < consumer.body.size(); ++i) {
    if (loop::checks_in(merged.body[i].value).size() < checks) continue;
    bool complete = false;
    std::unordered_set<ExprRef> seen;
    std::function<void(ExprRef)> visit = [&](ExprRef expr) {
      if (!seen.insert(expr).second) return;
      if (expr->kind == ExprKind::kLoad && consumer.params[expr->ival].buffer == producer.buffer())
        complete |= runs_over(expr->args[0], all, producer.points());
      for (size_t a = 0; a < expr->args.size(); ++a)
        if (expr->kind != ExprKind::kMasked || a != 1) visit(expr->args[a]);
    };
    visit(consumer.body[i].value);
    if (complete) return true;
  }
  return false;
}

// How often an expression of this index is computed by code that hoists out of loops what it can.
int64_t evaluations(const Kernel& kernel, ExprRef index) {
  sym::Dims all = extents(kernel.outer), inner = extents(kernel.inner);
  all.insert(all.end(), inner.begin(), inner.end());
  size_t deepest = 0;
  for (size_t axis = 0; axis < all.size(); ++axis) {
    if (loop::depends_on(index, static_cast<int>(axis))) deepest = axis + 1;
  }
  all.resize(deepest);
  return sym::product(all).hint();
}

std::optional<Kernel> inlined(loop::ExprPool& pool, const Kernel& consumer,
                              const Producer& producer, const Aliases& aliases,
                              const target::Costs& costs) {
  Kernel result = consumer;
  const Kernel& source = producer.kernel();
  std::vector<int> params(source.params.size(), -1);
  for (size_t i = 0; i < source.params.size(); ++i) {
    const loop::BufferParam& param = source.params[i];
    if (param.written) continue;
    for (size_t j = 0; j < result.params.size(); ++j) {
      const loop::BufferParam& other = result.params[j];
      if (other.written && aliases.root(other.buffer) == aliases.root(param.buffer)) {
        return std::nullopt;
      }
      if (other.buffer == param.buffer && other.dtype == param.dtype)
        params[i] = static_cast<int>(j);
    }
    if (params[i] >= 0) continue;
    params[i] = static_cast<int>(result.params.size());
    result.params.push_back(param);
  }

  bool possible = true;
  const int64_t all_points = points(consumer.outer) * points(consumer.inner);
  bool is_free = operation_count(source) <= costs.free_operations;
  Rewriter rewriter(pool);
  rewriter.forward = [&](int param, graph::DType, ExprRef index) -> ExprRef {
    if (param >= static_cast<int>(consumer.params.size()) ||
        consumer.params[param].buffer != producer.buffer()) {
      return nullptr;
    }
    int64_t times = evaluations(consumer, index);
    possible &= is_free || times <= costs.repeats * producer.points().hint() ||
                times <= all_points / costs.points_per_repeat;
    Rewriter copy(pool);
    copy.axes = producer.axes_at(pool, index);
    copy.params = params;
    return copy(source.body[0].value);
  };
  for (Statement& statement : result.body) statement = rewriter(statement);
  MergeLimits limits;
  if (!possible || node_count(result) > limits.nodes ||
      division_count(result) > division_count(consumer) + division_count(source)) {
    return std::nullopt;
  }
  renumber(result, pool);
  if (static_cast<int>(result.params.size()) > limits.params) return std::nullopt;
  return result;
}

class Inliner {
 public:
  Inliner(loop::Program& program, const Aliases& aliases, const target::Costs& costs,
          bool shrinking)
      : program_(program),
        aliases_(aliases),
        costs_(costs),
        shrinking_(shrinking),
        needed_(needed_at_end(program, aliases)),
        users_(program.buffers.size()) {
    for (size_t i = 0; i < program.items.size(); ++i) note_users(static_cast<int>(i));
  }

  bool run() {
    bool changed = false;
    for (size_t i = 0; i < program_.items.size(); ++i) {
      if (const Kernel* source = kernel(static_cast<int>(i))) {
        if (std::optional<Producer> producer = Producer::of(*source, costs_.cheap_nodes)) {
          changed |= try_inline(static_cast<int>(i), *producer);
        }
      }
    }
    return changed;
  }

 private:
  Kernel* kernel(int item) {
    auto* scheduled = std::get_if<loop::ScheduledKernel>(&program_.items[item]);
    return scheduled == nullptr ? nullptr : &scheduled->kernel;
  }

  void note_users(int item) {
    Access access = access_of(program_.items[item], aliases_);
    for (const std::vector<int>* roots : {&access.reads, &access.writes}) {
      for (int root : *roots) {
        if (users_[root].empty() || users_[root].back() != item) users_[root].push_back(item);
      }
    }
  }

  bool try_inline(int item, const Producer& producer) {
    int buffer = producer.buffer();
    if (aliases_.root(buffer) != buffer || needed_[buffer]) return false;
    std::vector<std::pair<int, Kernel>> rewritten;
    const bool checked = has_checks(producer.kernel());
    bool checks_stay = !checked;
    int64_t bytes = bytes_of(program_.buffers[buffer]);
    int64_t saved = bytes + costs_.launch_bytes;
    int64_t held = 0;
    for (const loop::BufferParam& param : producer.kernel().params) {
      if (param.written) continue;
      saved += bytes_of(program_.buffers[param.buffer]);
      held += bytes_of(program_.buffers[aliases_.root(param.buffer)]);
    }
    if (shrinking_ && held > bytes) return false;
    for (int user : users_[buffer]) {
      if (user == item) continue;
      Kernel* consumer = kernel(user);
      if (consumer == nullptr || !loads_only(*consumer, buffer)) return false;
      if (!on_one_device(program_, producer.kernel(), *consumer)) return false;
      std::optional<Kernel> merged = inlined(program_.pool, *consumer, producer, aliases_, costs_);
      if (!merged) return false;
      checks_stay = checks_stay || makes_checks(*consumer, *merged, producer);
      saved += traffic(*consumer) - traffic(*merged);
      rewritten.emplace_back(user, std::move(*merged));
    }
    if (rewritten.empty() || saved <= 0 || !checks_stay) return false;
    for (auto& [user, merged] : rewritten) {
      *kernel(user) = std::move(merged);
      for (const loop::BufferParam& param : kernel(user)->params) {
        std::vector<int>& users = users_[aliases_.root(param.buffer)];
        if (std::find(users.begin(), users.end(), user) == users.end()) users.push_back(user);
      }
    }
    users_[buffer] = {item};
    if (checked) kernel(item)->body.clear();  // nothing reads it, and its checks are made
    return true;
  }

  // Whether the kernel only loads the buffer, and only as itself, not through a view.
  bool loads_only(const Kernel& consumer, int buffer) const {
    return std::all_of(consumer.params.begin(), consumer.params.end(),
                       [&](const loop::BufferParam& param) {
                         if (aliases_.root(param.buffer) != buffer) return true;
                         return param.buffer == buffer && !param.written;
                       });
  }

  int64_t traffic(const Kernel& kernel) const {
    int64_t sum = 0;
    for (const loop::BufferParam& param : kernel.params) {
      sum += bytes_of(program_.buffers[param.buffer]);
    }
    return sum;
  }

  loop::Program& program_;
  const Aliases& aliases_;
  const target::Costs& costs_;
  const bool shrinking_;
  std::vector<bool> needed_;             // by root
  std::vector<std::vector<int>> users_;  // by root: items that read or write it
};

}  // namespace

bool inline_cheap_kernels(loop::Program& program, const Aliases& aliases,
                          const target::Costs& costs, bool shrinking) {
  return Inliner(program, aliases, costs, shrinking).run();
}

}  // namespace braze::schedule
