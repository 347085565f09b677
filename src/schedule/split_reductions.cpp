#include "schedule/split_reductions.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "loop/effects.h"
#include "schedule/column_sums.h"
#include "schedule/directions.h"
#include "schedule/kernel_edit.h"
#include "sym/facts.h"

namespace braze::schedule {
namespace {

using loop::ExprKind;
using loop::ExprRef;
using loop::Kernel;
using loop::ReduceOp;
using loop::Statement;

bool finds_place(const Statement& s) {
  return s.is_reduction() && (s.op == ReduceOp::kArgMax || s.op == ReduceOp::kArgMin);
}

// The number of the inner axis that is split.
int longest_axis(const std::vector<loop::Axis>& inner) {
  const auto longest = std::max_element(
      inner.begin(), inner.end(),
      [](const auto& a, const auto& b) { return a.extent.hint() < b.extent.hint(); });
  return static_cast<int>(longest - inner.begin());
}

// Whether the places of parts are places of the whole, but for where a part begins, and no part is
// empty.
bool keeps_places(const Kernel& kernel) {
  const auto split = kernel.inner.begin() + longest_axis(kernel.inner);
  return std::all_of(kernel.inner.begin(), split,
                     [](const auto& axis) { return axis.extent == sym::Int(1); }) &&
         std::ranges::all_of(kernel.inner,
                             [](const auto& axis) { return axis.extent.is_constant(); });
}

// Whether the kernel walks its inner points once and reads nothing that it stores.
bool is_one_sweep(const Kernel& kernel) {
  std::vector<bool> stored(kernel.params.size());
  bool reduces = false, fits = true;
  for (const Statement& s : kernel.body) {
    const loop::Effects effects = loop::effects_of(s);
    switch (s.kind) {
      case Statement::Kind::kReduce:
        reduces = true;
        fits = fits && effects.results.empty();
        break;
      case Statement::Kind::kScan:
        fits = false;
        break;
      case Statement::Kind::kStore:
        fits = fits && s.overwrites() && (!s.inner || effects.results.empty());
        stored[s.buffer] = true;
        break;
    }
  }
  for_each_expr(
      kernel, [&](ExprRef e) { fits = fits && !(e->kind == ExprKind::kLoad && stored[e->ival]); });
  return fits && reduces;
}

// Of elements that are reduced, those of neighbouring outer points lie side by side.
bool reduces_columns(const Kernel& kernel) {
  const Directions directions = directions_of(kernel);
  return directions.columns && !directions.rows;
}

// `reads_rows_of_others`: what other kernels walk row by row.
int64_t parts_of(const Kernel& kernel, const target::SplitCosts& costs,
                 bool reads_rows_of_others = false) {
  const int64_t rows = points(kernel.outer), inner = points(kernel.inner);
  if (kernel.inner.empty() || rows < 1) return 1;
  if (costs.columns_together > 0 && reduces_columns(kernel)) {
    const int64_t blocks = std::max<int64_t>(rows / costs.columns_together, 1);
    int64_t parts = costs.most_parts / (2 * blocks);
    if (costs.points_read_beside > 0 && reads_rows_of_others)
      parts = std::max(parts, rows * inner / costs.points_read_beside);
    return std::min(parts, inner / costs.fewest_of_a_column);
  }
  if (rows > costs.most_rows) return 1;
  return std::min(
      {costs.most_parts, rows * inner / costs.part_points, inner / costs.fewest_of_a_row});
}

// So many parts, or somewhat fewer that are equal and a multiple of `unit` long.
int64_t equal_parts(sym::Int length, int64_t parts, int64_t unit) {
  if (!length.is_constant()) return parts;
  for (int64_t fewer = parts; 2 * fewer > parts && fewer > 1; --fewer)
    if (length.constant() % (fewer * unit) == 0) return fewer;
  return parts;
}

class Splitter {
 public:
  Splitter(loop::Program& program, const loop::ScheduledKernel& scheduled,
           const target::SplitCosts& costs, bool reads_rows_of_others)
      : program_(program),
        pool_(program.pool),
        whole_(scheduled),
        parts_(parts_of(scheduled.kernel, costs, reads_rows_of_others)) {
    axis_ = longest_axis(kernel().inner);
    const sym::Int length = kernel().inner[axis_].extent;
    if (costs.equal_parts) {
      constexpr int64_t kPack = 8;  // elements
      parts_ = equal_parts(length, parts_, reduces_columns(kernel()) ? 1 : kPack);
    }
    const int64_t multiple = costs.part_multiple;
    const bool has_units = length.hint() >= 8 * parts_ * multiple &&
                           !(costs.equal_parts && length == parts_ * sym::floordiv(length, parts_));
    const int64_t unit = has_units ? multiple : 1;
    part_length_ = sym::floordiv(length, parts_ * unit) * sym::Int(unit);
    rest_ = length - part_length_ * sym::Int(parts_);
    for (const loop::Axis& axis : kernel().outer) rows_ = rows_ * axis.extent;
    for (const Statement& s : kernel().body) fresh_ = std::max(fresh_, s.reduced + 1);
    add_buffers();
  }

  std::vector<loop::Item> run() {
    std::vector<loop::Item> items{parts_kernel()};
    if (has_rest()) items.push_back(rest_kernel());
    items.push_back(last_kernel());
    return items;
  }

 private:
  const Kernel& kernel() const { return whole_.kernel; }
  int outer_count() const { return static_cast<int>(kernel().outer.size()); }
  bool has_rest() const { return rest_ != sym::Int(0); }
  int64_t results() const { return parts_ + (has_rest() ? 1 : 0); }

  // What a part gives for a reduction. The counts of Welford's are known.
  static int components(const Statement& s) {
    return s.op == ReduceOp::kWelford || finds_place(s) ? 2 : 1;
  }

  // Each component of each reduction, for each part: [parts, rows].
  void add_buffers() {
    for (const Statement& s : kernel().body) {
      if (!s.is_reduction()) continue;
      for (int component = 0; component < components(s); ++component) {
        loop::Buffer buffer;
        buffer.type.dtype = loop::reduced_dtype(s.op, s.accumulate, component);
        buffer.type.device = program_.buffers[kernel().params[0].buffer].type.device;
        buffer.type.sizes = {results(), rows_};
        buffer.type.strides = sym::contiguous_strides(buffer.type.sizes);
        buffers_.push_back(static_cast<int>(program_.buffers.size()));
        program_.buffers.push_back(std::move(buffer));
      }
    }
  }

  // Points of the inner axes that are not split.
  sym::Int beside() const {
    sym::Int points = 1;
    for (size_t a = 0; a < kernel().inner.size(); ++a)
      if (static_cast<int>(a) != axis_) points = points * kernel().inner[a].extent;
    return points;
  }

  // The kernel's row as a number; its outer axes are numbered from `first`.
  ExprRef row(int first) {
    ExprRef result = pool_.integer(0);
    for (int a = 0; a < outer_count(); ++a)
      result = pool_.add(pool_.mul(result, kernel().outer[a].extent),
                         pool_.axis(first + a, kernel().outer[a].extent));
    return result;
  }
  ExprRef result_index(ExprRef part, int first) {
    return pool_.add(pool_.mul(part, rows_), row(first));
  }

  // What the kernel does in its walk, with other axes, and a store of each result.
  loop::ScheduledKernel reduce_into(Kernel target, Rewriter& rewriter, ExprRef index) {
    target.params = kernel().params;
    for (const Statement& s : kernel().body)
      if (s.inner) target.body.push_back(rewriter(s));
    const size_t inner = target.body.size();
    size_t next = 0;
    for (size_t i = 0; i < inner; ++i) {
      if (!target.body[i].is_reduction()) continue;
      const int number = target.body[i].reduced;
      for (int component = 0, end = components(target.body[i]); component < end; ++component) {
        const int buffer = buffers_[next++];
        const graph::DType dtype = program_.buffers[buffer].type.dtype;
        const auto param = static_cast<int>(target.params.size());
        target.params.push_back({.dtype = dtype, .written = true, .buffer = buffer});
        target.body.push_back({.kind = Statement::Kind::kStore,
                               .buffer = param,
                               .index = index,
                               .value = pool_.reduced(number, dtype, component)});
      }
    }
    return {std::move(target), whole_.origin};
  }

  // The number of the part comes before the axes of the kernel.
  loop::ScheduledKernel parts_kernel() {
    Kernel target{
        .name = kernel().name + "_parts", .outer = kernel().outer, .inner = kernel().inner};
    target.outer.insert(target.outer.begin(), {parts_});
    target.inner[axis_].extent = part_length_;
    const ExprRef part = pool_.axis(0, parts_);
    Rewriter rewriter(pool_);
    for (int a = 0; a < outer_count(); ++a)
      rewriter.axes.push_back(pool_.axis(a + 1, kernel().outer[a].extent));
    add_inner(rewriter, target, outer_count() + 1, pool_.mul(part, part_length_));
    return reduce_into(std::move(target), rewriter, result_index(part, 1));
  }

  loop::ScheduledKernel rest_kernel() {
    Kernel target{
        .name = kernel().name + "_rest", .outer = kernel().outer, .inner = kernel().inner};
    target.inner[axis_].extent = rest_;
    Rewriter rewriter(pool_);
    for (int a = 0; a < outer_count(); ++a)
      rewriter.axes.push_back(pool_.axis(a, kernel().outer[a].extent));
    add_inner(rewriter, target, outer_count(), pool_.index(part_length_ * sym::Int(parts_)));
    return reduce_into(std::move(target), rewriter, result_index(pool_.integer(parts_), 0));
  }

  // Inner axes of `target` for those of the kernel; the split one begins at `start`.
  void add_inner(Rewriter& rewriter, const Kernel& target, int first, ExprRef start) {
    for (size_t a = 0; a < target.inner.size(); ++a) {
      ExprRef axis = pool_.axis(first + static_cast<int>(a), target.inner[a].extent);
      rewriter.axes.push_back(static_cast<int>(a) == axis_ ? pool_.add(start, axis) : axis);
    }
  }

  loop::ScheduledKernel last_kernel() {
    Kernel target{.name = kernel().name,
                  .params = kernel().params,
                  .outer = kernel().outer,
                  .inner = {{results()}}};
    const ExprRef part = pool_.axis(outer_count(), results());
    size_t next = 0;
    const auto result_of = [&](ExprRef of_part) {
      const int buffer = buffers_[next++];
      const graph::DType dtype = program_.buffers[buffer].type.dtype;
      target.params.push_back({.dtype = dtype, .buffer = buffer});
      return pool_.load(static_cast<int>(target.params.size()) - 1, dtype,
                        result_index(of_part, 0));
    };
    const auto result_of_part = [&] { return result_of(part); };
    // By reduction that finds a place, that place: in the part that the last kernel finds.
    std::unordered_map<int64_t, ExprRef> places;
    // By Welford reduction, its components.
    std::unordered_map<int64_t, std::array<ExprRef, 3>> moments;
    loop::Substitution memo;
    const auto by_moments = [&](ExprRef expr) -> ExprRef {
      if (expr->kind != ExprKind::kReduced) return nullptr;
      if (expr->component == 0 && places.contains(expr->ival)) return places.at(expr->ival);
      if (!moments.contains(expr->ival)) return nullptr;
      return moments.at(expr->ival).at(expr->component);
    };
    for (const Statement& s : kernel().body) {
      if (s.op == ReduceOp::kWelford && s.is_reduction()) {
        const ExprRef mean = result_of_part(), squares = result_of_part();
        moments[s.reduced] = join_moments(s, mean, squares, part, target);
        continue;
      }
      if (s.inner && s.is_store()) continue;
      target.body.push_back(s);
      Statement& last = target.body.back();
      if (finds_place(s)) {
        const ExprRef found = pool_.reduced(s.reduced, graph::DType::kInt64);
        const ExprRef begin = pool_.mul(found, part_length_ * beside());
        places[s.reduced] = pool_.add(begin, result_of(found));
      }
      if (s.is_reduction())
        last.value = result_of_part();
      else
        last.value = loop::rewrite(pool_, s.value, memo, by_moments);
    }
    return {std::move(target), whole_.origin};
  }

  // Mean, sum of squared distances from it and count of what parts with these means and squares
  // have (Chan, Golub, LeVeque: Updating Formulae and a Pairwise Algorithm for Computing Sample
  // Variances, 1979):
  //   mean = sum(n_i * mean_i) / n, squares = sum(squares_i + n_i * (mean_i - mean)^2)
  std::array<ExprRef, 3> join_moments(const Statement& whole, ExprRef mean, ExprRef squares,
                                      ExprRef part, Kernel& target) {
    const graph::DType dtype = whole.accumulate;
    const auto number = [&](const sym::Int& count) {
      return count.is_constant() ? pool_.constant(dtype, static_cast<double>(count.constant()))
                                 : pool_.cast(pool_.index(count), dtype);
    };
    const sym::Int beside = this->beside();
    ExprRef count = number(part_length_ * beside);
    if (has_rest()) {
      const ExprRef is_part = pool_.binary(ExprKind::kLt, part, pool_.integer(parts_));
      count = pool_.where(is_part, count, number(rest_ * beside));
    }
    const auto sum = [&](int reduced, ExprRef value) {
      target.body.push_back({.kind = Statement::Kind::kReduce,
                             .inner = true,
                             .op = ReduceOp::kSum,
                             .reduced = reduced,
                             .accumulate = dtype,
                             .value = value});
      return pool_.reduced(reduced, dtype);
    };
    if (!(part_length_ * beside).is_constant() || !(rest_ * beside).is_constant()) {
      // Of no points there is no mean, and sizes that vary may leave a part empty.
      const ExprRef zero = pool_.constant(dtype, 0);
      const ExprRef has_points = pool_.binary(ExprKind::kLt, zero, count);
      mean = pool_.where(has_points, mean, zero);
      squares = pool_.where(has_points, squares, zero);
    }
    const ExprRef all = number(kernel().inner[axis_].extent * beside);
    const ExprRef joined =
        pool_.binary(ExprKind::kDiv, sum(whole.reduced, pool_.mul(count, mean)), all);
    const ExprRef distance = pool_.binary(ExprKind::kSub, mean, joined);
    const ExprRef moved = pool_.mul(count, pool_.mul(distance, distance));
    return {joined, sum(fresh_++, pool_.add(squares, moved)), all};
  }

  loop::Program& program_;
  loop::ExprPool& pool_;
  const loop::ScheduledKernel whole_;
  int64_t parts_;
  int axis_ = 0;  // of the inner axes: the one that is split
  sym::Int part_length_ = 0, rest_ = 0, rows_ = 1;
  int fresh_ = 0;             // the first number that no reduction has
  std::vector<int> buffers_;  // by reduction and component, in order
};

}  // namespace

bool will_be_split(const Kernel& kernel, const target::SplitCosts& costs) {
  if (parts_of(kernel, costs) < 2 || !is_one_sweep(kernel)) return false;
  return std::ranges::none_of(kernel.body, finds_place) || (costs.places && keeps_places(kernel));
}

namespace {

// Of columns that are loaded several at a time (beside.h).
bool may_share_a_launch(const Kernel& kernel) {
  constexpr int64_t kPack = 8;  // elements, the most
  return !kernel.outer.empty() && sym::mod(kernel.outer.back().extent, kPack) == sym::Int(0) &&
         std::ranges::none_of(kernel.body,
                              [](const Statement& s) { return s.inner && s.is_store(); });
}

// By buffer: whether a kernel walks its rows.
std::vector<bool> read_by_rows(const loop::Program& program) {
  std::vector<bool> result(program.buffers.size());
  for (const loop::Item& item : program.items) {
    const auto* scheduled = std::get_if<loop::ScheduledKernel>(&item);
    if (!scheduled || scheduled->kernel.inner.empty()) continue;
    const Directions directions = directions_of(scheduled->kernel);
    if (!directions.rows || directions.columns) continue;
    for (const loop::BufferParam& param : scheduled->kernel.params)
      if (!param.written) result[param.buffer] = true;
  }
  return result;
}

}  // namespace

void split_reductions(loop::Program& program, const target::SplitCosts& costs) {
  const std::vector<bool> by_rows = read_by_rows(program);
  const std::vector<bool> parts = holding_parts(program);
  const auto sums_parts = [&](const Kernel& kernel) {
    return std::ranges::any_of(kernel.params,
                               [&](const auto& p) { return !p.written && parts[p.buffer]; });
  };
  std::vector<loop::Item> items;
  for (loop::Item& item : program.items) {
    const auto* scheduled = std::get_if<loop::ScheduledKernel>(&item);
    if (!scheduled || !will_be_split(scheduled->kernel, costs) || sums_parts(scheduled->kernel)) {
      items.push_back(std::move(item));
      continue;
    }
    const bool reads_rows = may_share_a_launch(scheduled->kernel) &&
                            std::ranges::any_of(scheduled->kernel.params, [&](const auto& p) {
                              return !p.written && by_rows[p.buffer];
                            });
    for (loop::Item& part : Splitter(program, *scheduled, costs, reads_rows).run())
      items.push_back(std::move(part));
  }
  program.items = std::move(items);
}

}  // namespace braze::schedule
