#include <algorithm>
#include <queue>

#include "base/error.h"
#include "base/log.h"
#include "schedule/checks.h"
#include "schedule/column_sums.h"
#include "schedule/directions.h"
#include "schedule/follow.h"
#include "schedule/inline.h"
#include "schedule/input_writes.h"
#include "schedule/item_graph.h"
#include "schedule/kernel_edit.h"
#include "schedule/liveness.h"
#include "schedule/merge.h"
#include "schedule/narrow.h"
#include "schedule/schedule.h"
#include "schedule/split_reductions.h"
#include "schedule/sweeps.h"
#include "schedule/twins.h"
#include "target/costs.h"

namespace braze::schedule {
namespace {

// Kernels that share an input are looked at when no more items than this lie between them.
constexpr int kHorizontalReach = 64;
// A kernel that waits for one that is more items away keeps alive what it reads for long.
constexpr int kLongestWait = 64;
// The most readers of one buffer that are paired with a kernel.
constexpr size_t kPairsPerBuffer = 6;
constexpr int64_t kNoLimit = INT64_MAX;

struct Candidate {
  int64_t saved = 0;
  int distance = 0;
  int first = -1, second = -1;
  int first_version = 0, second_version = 0;

  // The largest gain, then the nearest, then the earliest: the same in every repeated layer.
  bool operator<(const Candidate& other) const {
    return std::tuple(saved, -distance, -first, -second) <
           std::tuple(other.saved, -other.distance, -other.first, -other.second);
  }
};

class Fuser {
 public:
  // No merge raises the peak of live bytes above `limit`.
  Fuser(loop::Program& program, const Aliases& aliases, const InputWrites& writes,
        const target::Costs& costs, int64_t limit)
      : program_(program),
        aliases_(aliases),
        costs_(costs),
        limit_(limit),
        accesses_(accesses_of(program, aliases)),
        graph_(accesses_, program.buffers.size(), writes.constraints(program, aliases)),
        needed_at_end_(needed_at_end(program, aliases)),
        bytes_(program.buffers.size()),
        allocated_(writes.allocated_bytes(program)),
        users_(program.buffers.size()),
        version_(program.items.size(), 0) {
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = bytes_of(program.buffers[i]);
    for (int item = 0; item < static_cast<int>(accesses_.size()); ++item) {
      for (int root : accesses_[item].reads) users_[root].push_back(item);
      for (int root : accesses_[item].writes) {
        if (!contains(accesses_[item].reads, root)) users_[root].push_back(item);
      }
    }
  }

  void run() {
    for (int item = 0; item < static_cast<int>(accesses_.size()); ++item) {
      add_candidates(item, /*later_only=*/true);
    }
    while (!queue_.empty()) {
      Candidate candidate = queue_.top();
      queue_.pop();
      if (is_current(candidate)) try_merge(candidate.first, candidate.second);
    }
    std::vector<loop::Item> items;
    for (int item : graph_.order()) items.push_back(std::move(program_.items[item]));
    program_.items = std::move(items);
  }

 private:
  static std::vector<Access> accesses_of(const loop::Program& program, const Aliases& aliases) {
    std::vector<Access> accesses;
    for (const loop::Item& item : program.items) accesses.push_back(access_of(item, aliases));
    return accesses;
  }

  loop::ScheduledKernel* kernel(int item) {
    return std::get_if<loop::ScheduledKernel>(&program_.items[item]);
  }

  bool is_current(const Candidate& c) const {
    return graph_.alive(c.first) && graph_.alive(c.second) &&
           version_[c.first] == c.first_version && version_[c.second] == c.second_version;
  }

  // The bytes of memory traffic that fusing the two saves.
  int64_t saved_bytes(int first, int second) {
    int64_t saved = 0;
    for (int root : accesses_[second].reads) {
      if (!contains(accesses_[first].writes, root)) continue;
      saved += bytes_[root];
      bool others = std::any_of(users_[root].begin(), users_[root].end(), [&](int user) {
        return user != first && user != second && graph_.alive(user);
      });
      if (!others && !needed_at_end_[root]) saved += bytes_[root];
    }
    if (saved > 0) return saved;
    // Horizontal: inputs that both load. Too little in common is not worth longer lives of buffers.
    int64_t shared = shared_input_bytes(first, second);
    int64_t smaller = std::min(traffic(first), traffic(second));
    // One launch can do both without that, and others with them (together.h).
    const bool are_launched = smaller <= costs_.bytes_launched_together;
    return shared * 8 >= smaller || (smaller <= costs_.launch_bytes * 4 && !are_launched) ? shared
                                                                                          : 0;
  }

  int64_t shared_input_bytes(int first, int second) {
    int64_t shared = 0;
    for (const loop::BufferParam& a : kernel(first)->kernel.params) {
      for (const loop::BufferParam& b : kernel(second)->kernel.params) {
        if (a.buffer == b.buffer && !a.written && !b.written) shared += bytes_[a.buffer];
      }
    }
    return shared;
  }

  int64_t traffic(int item) {
    int64_t sum = 0;
    for (const loop::BufferParam& param : kernel(item)->kernel.params) sum += bytes_[param.buffer];
    return sum;
  }

  void add_candidate(int a, int b) {
    if (graph_.position(a) > graph_.position(b)) std::swap(a, b);
    int distance = graph_.position(b) - graph_.position(a);
    if (!domains_match(kernel(a)->kernel, kernel(b)->kernel) &&
        !may_follow(kernel(a)->kernel, kernel(b)->kernel) &&
        !may_join_sums(kernel(a)->kernel, kernel(b)->kernel))
      return;
    int64_t saved = saved_bytes(a, b);
    if (saved == 0 || starves_workers(kernel(a)->kernel, kernel(b)->kernel)) return;
    if (!on_one_device(program_, kernel(a)->kernel, kernel(b)->kernel)) return;
    if (loses_lanes(kernel(a)->kernel, kernel(b)->kernel)) return;
    if (distance > kLongestWait && keeps_alive(a, b) > saved) return;
    queue_.push({.saved = saved + costs_.launch_bytes,
                 .distance = distance,
                 .first = a,
                 .second = b,
                 .first_version = version_[a],
                 .second_version = version_[b]});
  }

  // Pairs `item` with the kernels that write what it reads, read what it writes, or read the same.
  void add_candidates(int item, bool later_only) {
    if (kernel(item) == nullptr) return;
    std::vector<int> partners;
    auto collect = [&](int root, bool written) {
      size_t readers = 0;
      for (int user : users_[root]) {
        if (user == item || !graph_.alive(user) || kernel(user) == nullptr) continue;
        int distance = graph_.position(user) - graph_.position(item);
        if (later_only && distance < 0) continue;
        bool vertical = written || contains(accesses_[user].writes, root);
        if (!vertical && (std::abs(distance) > kHorizontalReach || readers == kPairsPerBuffer)) {
          continue;
        }
        if (!vertical) ++readers;
        partners.push_back(user);
      }
    };
    for (int root : accesses_[item].reads) collect(root, false);
    for (int root : accesses_[item].writes) collect(root, true);
    std::sort(partners.begin(), partners.end());
    partners.erase(std::unique(partners.begin(), partners.end()), partners.end());
    for (int partner : partners) add_candidate(item, partner);
  }

  // Bytes that live until the later kernel runs, where the earlier one runs with it.
  int64_t keeps_alive(int first, int second) const {
    int64_t kept = 0;
    for (int root : accesses_[first].reads) {
      const bool lives = needed_at_end_[root] || std::ranges::any_of(users_[root], [&](int user) {
                           return user != first && graph_.alive(user) &&
                                  graph_.position(user) >= graph_.position(second);
                         });
      if (!lives) kept += allocated_[root];
    }
    return kept;
  }

  // A long pointwise loop inside a reduction with few rows would keep few workers busy, if the
  // reduction is not one that is split; with what comes behind it in its loop it is not.
  bool starves_workers(const loop::Kernel& first, const loop::Kernel& second) const {
    if (costs_.workers <= 1 || first.inner.empty() == second.inner.empty()) return false;
    const bool behind = second.inner.empty();
    const loop::Kernel& rows = behind ? first : second;
    const loop::Kernel& wide = behind ? second : first;
    // Beside accumulating stores no reduction is split.
    if (std::ranges::any_of(wide.body, &loop::Statement::unordered) &&
        will_be_split(rows, costs_.split))
      return true;
    if (schedule::points(wide.outer) < costs_.parallel_points) return false;
    const int64_t count = schedule::points(rows.outer);
    if (!will_be_split(rows, costs_.split)) return count < costs_.workers;
    return behind && count < costs_.rows_at_once &&
           schedule::points(rows.inner) > costs_.kept_points && !keeps_together(rows);
  }

  // Points behind sums over other axes than theirs (follow.h): where their rows stay at hand.
  bool may_join_sums(const loop::Kernel& sums, const loop::Kernel& points) const {
    return may_follow_sums(sums, points) && keeps_together(sums) && !directions_of(sums).columns;
  }

  // Whether the rows of a kernel can be kept by several processors each, and keep all of them busy.
  bool keeps_together(const loop::Kernel& rows) const {
    const auto is_known = [](const loop::Axis& axis) { return axis.extent.is_constant(); };
    if (!std::ranges::all_of(rows.outer, is_known) || !std::ranges::all_of(rows.inner, is_known))
      return false;
    const int64_t count = schedule::points(rows.outer), inner = schedule::points(rows.inner);
    int64_t bytes = 0;
    for (const loop::BufferParam& param : rows.params)
      if (!param.written && bytes_[param.buffer] >= count * inner * graph::size_of(param.dtype))
        bytes += inner * graph::size_of(param.dtype);
    return bytes > 0 && bytes <= costs_.shared_row_bytes &&
           count * costs_.row_sharers >= costs_.workers;
  }

  // Whether rows would be walked beside columns, by lanes or threads that lie along one of both.
  bool mixes_directions(const loop::Kernel& merged, int first, int second) {
    return !merged.inner.empty() && directions_of(merged).both() &&
           !directions_of(kernel(first)->kernel).both() &&
           !directions_of(kernel(second)->kernel).both();
  }

  // Whether something expensive would come to stand beside a recurrence or an accumulating store,
  // which go point by point: an exp in the same loop would not be computed in vectors.
  static bool loses_lanes(const loop::Kernel& a, const loop::Kernel& b) {
    const auto goes_by_point = [](const loop::Kernel& kernel) {
      return std::ranges::any_of(
          kernel.body, [](const auto& s) { return s.is_recurrence() || s.accumulates_in_order(); });
    };
    if (goes_by_point(a) == goes_by_point(b)) return false;
    const loop::Kernel& other = goes_by_point(a) ? b : a;
    return std::ranges::any_of(other.body,
                               [](const auto& statement) { return is_expensive(statement.value); });
  }

  std::optional<loop::Kernel> merge(const loop::Kernel& first, const loop::Kernel& second) {
    loop::ExprPool& pool = program_.pool;
    auto merged = merge_kernels(pool, first, second, aliases_, MergeLimits{});
    if (merged || (!may_follow(first, second) && !may_join_sums(first, second))) return merged;
    const bool behind = second.inner.empty();
    const auto points = behind ? following(pool, first, second) : following(pool, second, first);
    if (!points) return std::nullopt;
    return merge_kernels(pool, behind ? first : *points, behind ? *points : second, aliases_,
                         MergeLimits{});
  }

  void try_merge(int first, int second) {
    // Merges since may have put two that do not depend on each other in another order.
    if (graph_.position(first) > graph_.position(second)) std::swap(first, second);
    if (!graph_.can_merge(first, second)) return;
    std::optional<loop::Kernel> merged = merge(kernel(first)->kernel, kernel(second)->kernel);
    if (!merged) return;
    if (mixes_directions(*merged, first, second)) return;
    drop_private_stores(*merged, first, second);
    if (raises_peak(*merged, first, second)) return;
    normalise_axes(*merged, program_.pool);
    kernel(first)->kernel = std::move(*merged);
    graph_.merge(first, second);
    adopt(first, second);
    add_candidates(first, /*later_only=*/false);
  }

  // Stores that only `second` read are dead at once, so that later fusions do not count them.
  void drop_private_stores(loop::Kernel& merged, int first, int second) {
    auto is_private = [&](int root) {
      return !needed_at_end_[root] &&
             std::none_of(users_[root].begin(), users_[root].end(), [&](int user) {
               return user != first && user != second && graph_.alive(user);
             });
    };
    std::vector<bool> loaded(merged.params.size(), false);
    for_each_expr(merged, [&](loop::ExprRef expr) {
      if (expr->kind == loop::ExprKind::kLoad) loaded[expr->ival] = true;
    });
    size_t before = merged.body.size();
    std::vector<bool> gone(before, false);
    for (size_t i = 0; i < before; ++i) {
      const loop::Statement& statement = merged.body[i];
      gone[i] = statement.overwrites() && !loaded[statement.buffer] &&
                is_private(aliases_.root(merged.params[statement.buffer].buffer)) &&
                checks_stay_without(merged, i, gone);
    }
    size_t number = 0;
    std::erase_if(merged.body, [&](const loop::Statement&) { return gone[number++]; });
    if (merged.body.size() != before) renumber(merged, program_.pool);
  }

  bool raises_peak(const loop::Kernel& merged, int first, int second) {
    if (limit_ == kNoLimit) return false;
    Access access = access_of(merged, aliases_);
    std::vector<const Access*> accesses;
    for (int item : graph_.order_if_merged(first, second)) {
      accesses.push_back(item == first ? &access : &accesses_[item]);
    }
    return peak_live_bytes(accesses, allocated_, needed_at_end_) > limit_;
  }

  void adopt(int first, int second) {
    accesses_[first] = access_of(kernel(first)->kernel, aliases_);
    auto update = [&](const std::vector<int>& roots) {
      for (int root : roots) {
        if (std::find(users_[root].begin(), users_[root].end(), first) == users_[root].end()) {
          users_[root].push_back(first);
        }
      }
    };
    update(accesses_[first].reads);
    update(accesses_[first].writes);
    for (int root : accesses_[second].reads) std::erase(users_[root], second);
    for (int root : accesses_[second].writes) std::erase(users_[root], second);
    ++version_[first];
  }

  loop::Program& program_;
  const Aliases& aliases_;
  const target::Costs& costs_;
  int64_t limit_;                 // of live bytes
  std::vector<Access> accesses_;  // by item
  ItemGraph graph_;
  std::vector<bool> needed_at_end_;      // by root
  std::vector<int64_t> bytes_;           // by buffer
  std::vector<int64_t> allocated_;       // by root, 0 for inputs
  std::vector<std::vector<int>> users_;  // by root: items that read or write it
  std::vector<int> version_;             // by item; counts its merges
  std::priority_queue<Candidate> queue_;
};

template <class Change>
void for_each_kernel(loop::Program& program, Change&& change) {
  for (loop::Item& item : program.items) {
    if (auto* scheduled = std::get_if<loop::ScheduledKernel>(&item)) change(scheduled->kernel);
  }
}

// What stood between two kernels may have become a part of the second.
void fuse_again(loop::Program& program, const Aliases& aliases, const InputWrites& writes,
                const target::Costs& costs, int64_t peak) {
  const std::vector<loop::Item> before = program.items;
  Fuser(program, aliases, writes, costs, kNoLimit).run();
  if (program.items.size() == before.size()) {
    program.items = before;
    return;
  }
  remove_dead_stores(program, aliases);
  order_items(program, aliases, writes);
  if (peak_live_bytes(program, aliases, writes) > peak) program.items = before;
}

// Almost always the best fusion needs less memory than none. Where it does not, it is done again
// with a look at the peak before every step.
void fuse_within(loop::Program& program, const Aliases& aliases, const InputWrites& writes,
                 const target::Costs& costs) {
  const int64_t peak = peak_live_bytes(program, aliases, writes);
  const std::vector<loop::Item> unfused = program.items;
  for (int64_t limit : {kNoLimit, peak}) {
    program.items = unfused;
    Fuser(program, aliases, writes, costs, limit).run();
    remove_dead_stores(program, aliases);
    order_items(program, aliases, writes);
    if (peak_live_bytes(program, aliases, writes) <= peak) break;
  }
  const std::vector<loop::Item> fused = program.items;
  for (const bool shrinking : {false, true}) {
    if (!inline_cheap_kernels(program, aliases, costs, shrinking)) return;
    remove_dead_stores(program, aliases);
    // Operands of what was inlined live longer.
    if (peak_live_bytes(program, aliases, writes) <= peak)
      return fuse_again(program, aliases, writes, costs, peak);
    program.items = fused;
  }
}

}  // namespace

void fuse(loop::Program& program, const target::Target& target, const std::vector<bool>& alone) {
  const target::Costs costs = target::costs_of(target);
  for_each_kernel(program, [&](loop::Kernel& kernel) {
    resolve_views(kernel, program, program.pool);
    normalise_axes(kernel, program.pool);
  });
  Aliases aliases(program);
  size_t before = program.items.size();
  const InputWrites writes(program, aliases, alone);
  fuse_within(program, aliases, writes, costs);
  narrow_stores(program, aliases);
  store_once(program, aliases);
  sum_columns_beside_rows(program, aliases, writes, costs.parts);
  split_reductions(program, costs.split);
  for_each_kernel(program, [&](loop::Kernel& kernel) {
    if (costs.keeps_between_sweeps) keep_between_sweeps(kernel, program.pool);
    if (costs.least_access > 0) flatten_rows(kernel, program.pool, costs.least_access);
    renumber(kernel, program.pool);
  });
  if (log::enabled(log::Component::kSchedule)) {
    log::write(log::Component::kSchedule, std::to_string(before) + " items, " +
                                              std::to_string(program.items.size()) +
                                              " after fusion");
  }
}

}  // namespace braze::schedule
