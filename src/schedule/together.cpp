#include "schedule/together.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "schedule/aliases.h"
#include "schedule/kernel_edit.h"
#include "schedule/touches.h"
#include "target/costs.h"

namespace braze::schedule {
namespace {

using loop::Kernel;

// The parameters of a launch are at most 4 KiB (CUDA C++ Programming Guide, section on kernel
// parameters; newer drivers take more).
constexpr size_t kMostParameters = 480;

// Whether expressions of one pool are the same but for the extents of axes.
class SameButExtents {
 public:
  bool operator()(loop::ExprRef a, loop::ExprRef b) {
    if (a == b || (a && b && known_.contains({a, b}))) return true;
    if (!a || !b || a->kind != b->kind || a->dtype != b->dtype || a->ival != b->ival ||
        a->component != b->component || a->args.size() != b->args.size())
      return false;
    if (a->kind != loop::ExprKind::kAxis && a->args.empty()) return false;
    for (size_t i = 0; i < a->args.size(); ++i)
      if (!(*this)(a->args[i], b->args[i])) return false;
    known_.insert({a, b});
    return true;
  }

  bool operator()(const loop::Statement& a, const loop::Statement& b) {
    return a.kind == b.kind && a.inner == b.inner && a.store == b.store && a.buffer == b.buffer &&
           (*this)(a.index, b.index) && (*this)(a.value, b.value);
  }

 private:
  std::set<std::pair<loop::ExprRef, loop::ExprRef>> known_;
};

bool has_one_axis(const Kernel& kernel) { return kernel.outer.size() == 1 && kernel.inner.empty(); }

bool same_extents(const std::vector<loop::Axis>& a, const std::vector<loop::Axis>& b) {
  return std::ranges::equal(a, b, {}, &loop::Axis::extent, &loop::Axis::extent);
}

bool are_alike(const Kernel& a, const Kernel& b) {
  const auto same = [](const loop::BufferParam& x, const loop::BufferParam& y) {
    return x.dtype == y.dtype && x.written == y.written && x.by_value == y.by_value &&
           x.aliased == y.aliased;
  };
  if (!std::ranges::equal(a.params, b.params, same)) return false;
  if (has_one_axis(a) && has_one_axis(b))
    return std::ranges::equal(a.body, b.body, SameButExtents());
  return same_extents(a.outer, b.outer) && same_extents(a.inner, b.inner) && a.body == b.body;
}

// The launches of a stretch of kernels, in order. `touches` gives what a kernel reads and writes,
// `fresh` the bytes that are taken for it when it is launched.
template <class Touches, class Fresh>
class Launches {
 public:
  Launches(const target::Costs& costs, int64_t most_fresh, Touches touches, Fresh fresh)
      : costs_(costs),
        most_fresh_(most_fresh),
        touches_(std::move(touches)),
        fresh_(std::move(fresh)) {}

  void add(const Kernel& kernel, int item) {
    const std::vector<Touch> touches = touches_(kernel);
    if (can_join(kernel)) {
      const int64_t fresh = fresh_(kernel);
      const auto same = std::ranges::find_if(launches_, [&](const Launch& launch) {
        return launch.is_open && are_alike(*launch.kernel, kernel);
      });
      if (same != launches_.end()) {
        if (same->parameters + kernel.params.size() <= kMostParameters &&
            same->fresh + fresh <= most_fresh_ && is_free(same, touches))
          return same->add(kernel, item, fresh, touches);
        same->is_open = false;
      }
      launches_.push_back({.kernel = &kernel, .is_open = true});
      return launches_.back().add(kernel, item, fresh, touches);
    }
    launches_.push_back({.kernel = &kernel});
    launches_.back().add(kernel, item, 0, touches);
  }

  // Calls visit(items) for each, and begins anew.
  template <class Visit>
  void end(Visit visit) {
    for (const Launch& launch : launches_) visit(launch.items);
    launches_.clear();
  }

 private:
  struct Launch {
    const Kernel* kernel;
    bool is_open = false;  // others may join
    std::vector<int> items = {};
    size_t parameters = 0;
    int64_t fresh = 0;
    std::vector<Touch> touched = {};

    void add(const Kernel& own, int item, int64_t bytes, const std::vector<Touch>& touches) {
      items.push_back(item);
      parameters += own.params.size();
      fresh += bytes;
      touched.insert(touched.end(), touches.begin(), touches.end());
    }
  };

  bool can_join(const Kernel& kernel) const {
    if (std::ranges::any_of(kernel.body, &loop::Statement::accumulates)) return false;
    const auto is_number = [](const loop::Axis& axis) {
      return axis.extent.is_constant() && axis.extent.constant() > 0;
    };
    if (!std::ranges::all_of(kernel.outer, is_number) ||
        !std::ranges::all_of(kernel.inner, is_number))
      return false;
    bool varies = false;  // with the call: the code of a launch takes no sizes
    for_each_expr(kernel, [&](loop::ExprRef e) { varies |= e->kind == loop::ExprKind::kSize; });
    if (varies) return false;
    const int64_t points = schedule::points(kernel.outer) * schedule::points(kernel.inner);
    int64_t bytes = 0;
    for (const loop::BufferParam& param : kernel.params)
      if (!param.by_value) bytes += points * graph::size_of(param.dtype);
    return bytes <= costs_.bytes_launched_together;
  }

  // Whether nothing from `launch` on stands in the way.
  bool is_free(typename std::vector<Launch>::const_iterator launch,
               const std::vector<Touch>& touches) const {
    return std::none_of(launch, launches_.end(),
                        [&](const Launch& later) { return collide(later.touched, touches); });
  }

  const target::Costs& costs_;
  const int64_t most_fresh_;
  const Touches touches_;
  const Fresh fresh_;
  std::vector<Launch> launches_;
};

const Kernel* kernel_of(const loop::Item& item) {
  const auto* scheduled = std::get_if<loop::ScheduledKernel>(&item);
  return scheduled ? &scheduled->kernel : nullptr;
}

// Bytes of memory that is neither the caller's nor handed to the caller.
int64_t own_bytes(const loop::Program& program, const Aliases& aliases,
                  const std::vector<bool>& stays, const Kernel& kernel) {
  int64_t bytes = 0;
  for (const loop::BufferParam& param : kernel.params) {
    const int root = aliases.root(param.buffer);
    if (param.written && program.buffers[root].kind != loop::Buffer::Kind::kInput && !stays[root])
      bytes += bytes_of(program.buffers[root]);
  }
  return bytes;
}

}  // namespace

std::vector<std::pair<int, int>> bring_together(loop::Program& program,
                                                const target::Target& target) {
  constexpr int64_t kMostMoved = 1 << 20;
  const target::Costs costs = target::costs_of(target);
  if (costs.bytes_launched_together == 0) return {};
  const Aliases aliases(program);
  const std::vector<bool> stays = needed_at_end(program, aliases);
  Launches launches(
      costs, kMostMoved,
      [&](const Kernel& kernel) {
        std::vector<Touch> touches;
        for (const loop::BufferParam& param : kernel.params)
          if (!param.by_value) touches.push_back({aliases.root(param.buffer), 0, 1, param.written});
        return touches;
      },
      [&](const Kernel& kernel) { return own_bytes(program, aliases, stays, kernel); });
  std::vector<int> order;
  std::vector<std::pair<int, int>> ranges;
  const auto place = [&](const std::vector<int>& items) {
    const auto begin = static_cast<int>(order.size());
    order.insert(order.end(), items.begin(), items.end());
    ranges.resize(order.size(), {begin, static_cast<int>(order.size()) - 1});
  };
  for (size_t i = 0; i < program.items.size(); ++i) {
    if (const Kernel* kernel = kernel_of(program.items[i])) {
      launches.add(*kernel, static_cast<int>(i));
      continue;
    }
    launches.end(place);
    place({static_cast<int>(i)});
  }
  launches.end(place);
  std::vector<loop::Item> items;
  for (const int item : order) items.push_back(std::move(program.items[item]));
  program.items = std::move(items);
  return ranges;
}

std::vector<int> launched_together(const loop::Program& program, const MemoryPlan& memory,
                                   const target::Target& target) {
  constexpr int64_t kMostFresh = 16 << 20;  // what dies in a launch is there until its end
  const target::Costs costs = target::costs_of(target);
  const Aliases aliases(program);
  std::vector<bool> stays(program.buffers.size());
  for (size_t i = 0; i < stays.size(); ++i)
    stays[i] = memory.home[i] == Home::kArena || memory.home[i] == Home::kOutput;
  Launches launches(
      costs, kMostFresh,
      [&](const Kernel& kernel) { return touches_of(kernel, program, aliases, memory); },
      [&](const Kernel& kernel) { return own_bytes(program, aliases, stays, kernel); });
  std::vector<int> first(program.items.size());
  std::iota(first.begin(), first.end(), 0);
  if (costs.bytes_launched_together == 0) return first;
  const auto note = [&](const std::vector<int>& items) {
    for (const int item : items) first[item] = items[0];
  };
  for (size_t i = 0; i < first.size(); ++i) {
    if (const Kernel* kernel = kernel_of(program.items[i]))
      launches.add(*kernel, static_cast<int>(i));
    else
      launches.end(note);
  }
  launches.end(note);
  return first;
}

}  // namespace braze::schedule
