#include "schedule/merge.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "graph/devices.h"
#include "schedule/kernel_edit.h"
#include "schedule/sweeps.h"
#include "sym/facts.h"

namespace braze::schedule {
namespace {

using loop::ExprRef;
using loop::Kernel;
using loop::Statement;
using Extents = sym::Dims;

// The coarsest list, without ones, such that the numbers of both lists are products of neighbours
// in it: [4, 128, 768] for [4, 128, 768] and [512, 768]. Nothing if there is none, as for [4, 6]
// and [6, 4].
std::optional<Extents> refine(const Extents& a, const Extents& b) {
  Extents fine;
  size_t i = 0, j = 0;
  const sym::Int one = 1;
  sym::Int x = 1, y = 1;  // what is left of the current axes
  while (true) {
    while (x == one && i < a.size()) x = a[i++];
    while (y == one && j < b.size()) y = b[j++];
    if (x == one || y == one) return x == y ? std::optional(fine) : std::nullopt;
    if (x == sym::Int(0) || y == sym::Int(0)) return std::nullopt;
    // From the left, the outermost factor of the larger axis is the smaller axis.
    if (auto left = sym::divide_exactly(x, y)) {
      fine.push_back(y);
      x = *left;
      y = one;
    } else if ((left = sym::divide_exactly(y, x))) {
      fine.push_back(x);
      y = *left;
      x = one;
    } else {
      return std::nullopt;
    }
  }
}

// Each axis of `coarse` as an expression over the axes of `fine` from number `first` on.
std::vector<ExprRef> axes_over(loop::ExprPool& pool, const Extents& coarse, const Extents& fine,
                               int first) {
  std::vector<ExprRef> axes;
  size_t next = 0;
  for (sym::Int extent : coarse) {
    ExprRef axis = pool.integer(0);
    for (sym::Int left = extent; left != sym::Int(1); ++next) {
      left = sym::divide_exactly(left, fine.at(next)).value();
      axis = pool.add(axis, pool.mul(pool.axis(first + static_cast<int>(next), fine[next]), left));
    }
    axes.push_back(axis);
  }
  return axes;
}

// A loop nest for two kernels. A kernel without inner axes may have its axes at the outer level
// only
// (`kRows`: one point per outer point) or over both levels (`kPoints`).
struct Nest {
  enum class Place { kOwn, kRows, kPoints };
  Extents outer, inner;
  Place first = Place::kOwn;
  Place second = Place::kOwn;
};

std::optional<Nest> nest_of(const Kernel& first, const Kernel& second) {
  Nest nest;
  const Kernel* host = &first;
  const Kernel* guest = &second;
  if (first.inner.empty() && !second.inner.empty()) std::swap(host, guest);
  Extents host_outer = extents(host->outer), host_inner = extents(host->inner);
  Extents guest_outer = extents(guest->outer), guest_inner = extents(guest->inner);
  const sym::Int rows = sym::product(host_outer), row = sym::product(host_inner);
  if (rows * row == sym::Int(0)) return std::nullopt;
  if (host->inner.empty() || !guest->inner.empty()) {
    std::optional<Extents> outer = refine(host_outer, guest_outer);
    std::optional<Extents> inner = refine(host_inner, guest_inner);
    if (!outer || !inner) return std::nullopt;
    nest.outer = *outer;
    nest.inner = *inner;
    if (nest.inner.empty() && !host->inner.empty()) nest.inner = {1};
    return nest;
  }
  Nest::Place& place = host == &first ? nest.second : nest.first;
  const sym::Int points = sym::product(guest_outer);
  if (points == rows * row) {
    place = Nest::Place::kPoints;
    Extents whole = host_outer;
    whole.insert(whole.end(), host_inner.begin(), host_inner.end());
    std::optional<Extents> fine = refine(whole, guest_outer);
    if (!fine) return std::nullopt;
    // Every boundary of `whole` is one of `fine`, the one between the levels too.
    size_t split = 0;
    for (sym::Int seen = 1; seen != rows; ++split) seen = seen * fine->at(split);
    nest.outer.assign(fine->begin(), fine->begin() + split);
    nest.inner.assign(fine->begin() + split, fine->end());
    if (nest.inner.empty()) nest.inner = {1};
    return nest;
  }
  if (points != rows) return std::nullopt;
  place = Nest::Place::kRows;
  std::optional<Extents> outer = refine(host_outer, guest_outer);
  if (!outer) return std::nullopt;
  nest.outer = *outer;
  nest.inner = host_inner;
  return nest;
}

class Merger {
 public:
  Merger(loop::ExprPool& pool, const Aliases& aliases, const Nest& nest)
      : pool_(pool), aliases_(aliases), nest_(nest) {
    for (sym::Int extent : nest.outer) result_.outer.push_back({extent});
    for (sym::Int extent : nest.inner) result_.inner.push_back({extent});
  }

  // False when the kernel reads or writes what an earlier one stored at another point.
  bool append(const Kernel& kernel, Nest::Place place) {
    Rewriter rewriter(pool_);
    rewriter.axes = axes_of(kernel, place);
    if (!add_params(kernel, rewriter)) return false;
    bool possible = true;
    bool inner = false;
    bool took_over = false;
    std::vector<ExprRef> expensive;       // values that this statement took over
    std::vector<ExprRef> kept_in_memory;  // expensive ones that it loads back instead
    rewriter.forward = [&](int param, graph::DType dtype, ExprRef index) -> ExprRef {
      if (!stored_before(param)) return nullptr;
      auto found = values_.find({param, index});
      if (found == values_.end() || found->second.value->dtype != dtype ||
          (found->second.inner && !inner)) {
        possible = false;
        return nullptr;
      }
      ExprRef value = found->second.value;
      if (found->second.inner && is_expensive(value)) {
        if (contains(kept_in_memory, value)) return nullptr;
        expensive.push_back(value);
        took_over = true;
      }
      return value;
    };
    std::vector<std::pair<std::pair<int, ExprRef>, Stored>> stored;
    bool has_levels = mixes_levels(kernel);
    for (const Statement& statement : kernel.body) {
      bool at_inner = statement.inner || place == Nest::Place::kPoints;
      // What may be forwarded depends on the level and on the sweep.
      if ((has_levels && at_inner != inner) || took_over) rewriter.forget();
      inner = at_inner;
      expensive.clear();
      if (statement.is_scan()) number(statement, rewriter.reduced);  // its value refers to it
      Statement moved = rewriter(statement);
      if (!possible) return false;
      // A later sweep loads what is expensive to compute again.
      std::erase_if(expensive, [&](ExprRef e) { return sweeps_.of(e) >= sweeps_.of(moved.value); });
      if (!expensive.empty()) {
        kept_in_memory.insert(kept_in_memory.end(), expensive.begin(), expensive.end());
        rewriter.forget();
        moved = rewriter(statement);
      }
      moved.inner = inner && !result_.inner.empty();
      switch (moved.kind) {
        case Statement::Kind::kReduce:
          add_reduction(std::move(moved), rewriter.reduced);
          break;
        case Statement::Kind::kScan:
          add_result(std::move(moved), rewriter.reduced);
          break;
        case Statement::Kind::kStore:
          // What a store accumulates is complete only after the last point: nothing is forwarded.
          if (moved.overwrites())
            stored.push_back({{moved.buffer, moved.index}, {moved.value, moved.inner}});
          result_.body.push_back(std::move(moved));
          break;
      }
    }
    for (const auto& [place_of, value] : stored) values_[place_of] = value;
    stored_params_ = static_cast<int>(result_.params.size());
    return true;
  }

  Kernel take() { return std::move(result_); }

 private:
  struct Stored {
    ExprRef value;
    bool inner;
  };

  static bool contains(const std::vector<ExprRef>& list, ExprRef expr) {
    return std::find(list.begin(), list.end(), expr) != list.end();
  }

  static bool mixes_levels(const Kernel& kernel) {
    return std::any_of(kernel.body.begin(), kernel.body.end(),
                       [&](const Statement& s) { return s.inner != kernel.body.front().inner; });
  }

  std::vector<ExprRef> axes_of(const Kernel& kernel, Nest::Place place) const {
    Extents outer = extents(kernel.outer), inner = extents(kernel.inner);
    int inner_first = static_cast<int>(nest_.outer.size());
    if (place == Nest::Place::kPoints) {
      Extents whole = nest_.outer;
      whole.insert(whole.end(), nest_.inner.begin(), nest_.inner.end());
      return axes_over(pool_, outer, whole, 0);
    }
    std::vector<ExprRef> axes = axes_over(pool_, outer, nest_.outer, 0);
    std::vector<ExprRef> more = axes_over(pool_, inner, nest_.inner, inner_first);
    axes.insert(axes.end(), more.begin(), more.end());
    return axes;
  }

  bool stored_before(int param) const {
    return param < stored_params_ && result_.params[param].written;
  }

  bool add_params(const Kernel& kernel, Rewriter& rewriter) {
    size_t old_count = result_.params.size();
    for (const loop::BufferParam& param : kernel.params) {
      int number = -1;
      for (size_t i = 0; i < old_count; ++i) {
        const loop::BufferParam& other = result_.params[i];
        bool same = other.buffer == param.buffer && other.dtype == param.dtype;
        if (same) number = static_cast<int>(i);
        // Memory that one of the two writes must be reached by way of the very same buffer, and the
        // second kernel may read it (through `forward`), not write it.
        bool shared = aliases_.root(other.buffer) == aliases_.root(param.buffer);
        if (shared && (param.written || (other.written && !same))) return false;
      }
      if (number < 0) {
        number = static_cast<int>(result_.params.size());
        result_.params.push_back(param);
      }
      rewriter.params.push_back(number);
    }
    return true;
  }

  // A reduction that is there already is not done again.
  void add_reduction(Statement statement, std::vector<int>& reduced) {
    number(statement, reduced);
    for (const Statement& other : result_.body) {
      Statement same = statement;
      same.reduced = other.reduced;
      if (other == same) {
        reduced[statement.reduced] = other.reduced;
        --next_reduced_;
        return;
      }
    }
    add_result(std::move(statement), reduced);
  }

  // Gives a reduction or scan a number of its own in the merged kernel.
  void number(const Statement& statement, std::vector<int>& reduced) {
    const auto old_number = static_cast<size_t>(statement.reduced);
    if (old_number >= reduced.size()) reduced.resize(old_number + 1, -1);
    reduced[old_number] = next_reduced_++;
  }

  void add_result(Statement statement, const std::vector<int>& reduced) {
    statement.reduced = reduced[statement.reduced];
    sweeps_.add(statement);
    result_.body.push_back(std::move(statement));
  }

  loop::ExprPool& pool_;
  const Aliases& aliases_;
  const Nest& nest_;
  Kernel result_;
  std::map<std::pair<int, ExprRef>, Stored> values_;  // by parameter and index
  int stored_params_ = 0;                             // parameters of kernels before this one
  int next_reduced_ = 0;
  Sweeps sweeps_;
};

// "fused_add_mul" and "fused_sum" -> "fused_add_mul_sum".
std::string merged_name(const std::string& first, const std::string& second) {
  constexpr std::string_view kPrefix = "fused_";
  constexpr size_t kLongest = 60;
  std::string tail = second.starts_with(kPrefix) ? second.substr(kPrefix.size()) : second;
  std::string name = first.starts_with(kPrefix) ? first : std::string(kPrefix) + first;
  if (name.ends_with("_" + tail) || name.size() + tail.size() > kLongest) return name;
  return name + "_" + tail;
}

}  // namespace

bool on_one_device(const loop::Program& program, const Kernel& first, const Kernel& second) {
  const graph::Device* device = nullptr;
  auto same = [&](const loop::BufferParam& param) {
    if (param.by_value) return true;
    const graph::Device& its = program.buffers[param.buffer].type.device;
    if (!device) device = &its;
    return graph::same_device(its, *device);
  };
  return std::ranges::all_of(first.params, same) && std::ranges::all_of(second.params, same);
}

bool domains_match(const Kernel& first, const Kernel& second) {
  return nest_of(first, second).has_value();
}

std::optional<Kernel> merge_kernels(loop::ExprPool& pool, const Kernel& first, const Kernel& second,
                                    const Aliases& aliases, const MergeLimits& limits) {
  std::optional<Nest> nest = nest_of(first, second);
  if (!nest) return std::nullopt;
  Merger merger(pool, aliases, *nest);
  if (!merger.append(first, nest->first) || !merger.append(second, nest->second)) {
    return std::nullopt;
  }
  Kernel merged = merger.take();
  if (static_cast<int>(merged.params.size()) > limits.params || node_count(merged) > limits.nodes) {
    return std::nullopt;
  }
  merged.name = merged_name(first.name, second.name);
  return merged;
}

}  // namespace braze::schedule
