#include "schedule/together.h"

#include <algorithm>
#include <set>
#include <utility>

#include "schedule/aliases.h"
#include "target/costs.h"

namespace braze::schedule {
namespace {

using loop::Kernel;

// The parameters of a launch are at most 4 KiB (CUDA C++ Programming Guide, section on kernel
// parameters; newer drivers take more).
constexpr size_t kMostParameters = 480;

// Memory that a kernel reads or writes: a part of the arena, or all of a place of its own.
struct Touch {
  int place;  // -1: the arena
  int64_t begin, end;
  bool written;
};

bool collide(const Touch& a, const Touch& b) {
  return a.place == b.place && (a.written || b.written) && a.begin < b.end && b.begin < a.end;
}

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

bool are_alike(const Kernel& a, const Kernel& b) {
  const auto same = [](const loop::BufferParam& x, const loop::BufferParam& y) {
    return x.dtype == y.dtype && x.written == y.written && x.by_value == y.by_value;
  };
  return std::ranges::equal(a.params, b.params, same) &&
         std::ranges::equal(a.body, b.body, SameButExtents());
}

class Launches {
 public:
  Launches(const loop::Program& program, const MemoryPlan& memory, const target::Target& target)
      : program_(program),
        memory_(memory),
        aliases_(program),
        most_bytes_(target::costs_of(target).bytes_launched_together) {}

  std::vector<int> run() {
    std::vector<int> first(program_.items.size());
    for (size_t i = 0; i < first.size(); ++i) {
      first[i] = static_cast<int>(i);
      const auto* scheduled = std::get_if<loop::ScheduledKernel>(&program_.items[i]);
      if (!scheduled) {
        open_.clear();
        continue;
      }
      first[i] = place(scheduled->kernel, first[i]);
    }
    return first;
  }

 private:
  struct Launch {
    const Kernel* kernel;
    int item;
    size_t parameters;
    std::vector<Touch> touched;  // by it and all that stands behind
  };

  int place(const Kernel& kernel, int item) {
    if (most_bytes_ == 0) return item;
    const std::vector<Touch> touches = touches_of(kernel);
    int first = item;
    if (can_join(kernel)) {
      const auto same = std::ranges::find_if(
          open_, [&](const Launch& launch) { return are_alike(*launch.kernel, kernel); });
      if (same != open_.end() && fits(*same, kernel, touches)) {
        same->parameters += kernel.params.size();
        first = same->item;
      } else {
        if (same != open_.end()) open_.erase(same);
        open_.push_back({&kernel, item, kernel.params.size(), {}});
      }
    }
    for (Launch& launch : open_)
      launch.touched.insert(launch.touched.end(), touches.begin(), touches.end());
    return first;
  }

  static bool fits(const Launch& launch, const Kernel& kernel, const std::vector<Touch>& touches) {
    if (launch.parameters + kernel.params.size() > kMostParameters) return false;
    return std::ranges::none_of(touches, [&](const Touch& own) {
      return std::ranges::any_of(launch.touched,
                                 [&](const Touch& other) { return collide(own, other); });
    });
  }

  bool can_join(const Kernel& kernel) const {
    if (kernel.outer.size() != 1 || !kernel.inner.empty()) return false;
    const sym::Int extent = kernel.outer[0].extent;
    if (!extent.is_constant() || extent.constant() == 0) return false;
    int64_t bytes = 0;
    for (const loop::BufferParam& param : kernel.params)
      if (!param.by_value) bytes += extent.constant() * graph::size_of(param.dtype);
    return bytes <= most_bytes_ &&
           std::ranges::none_of(kernel.body, [](const auto& s) { return s.accumulates(); });
  }

  std::vector<Touch> touches_of(const Kernel& kernel) const {
    std::vector<Touch> touches;
    for (const loop::BufferParam& param : kernel.params) {
      if (param.by_value) continue;
      const int root = aliases_.root(param.buffer);
      Touch touch{root, 0, 1, param.written};
      if (memory_.home[root] == Home::kArena) {
        touch.place = -1;
        // With symbolic sizes the offsets are others in each call.
        if (!program_.arena) {
          touch.begin = memory_.offset[root];
          touch.end = touch.begin + std::max<int64_t>(bytes_of(program_.buffers[root]), 1);
        }
      } else if (memory_.place[root] >= 0) {
        touch.place = memory_.place[root];
      }
      touches.push_back(touch);
    }
    return touches;
  }

  const loop::Program& program_;
  const MemoryPlan& memory_;
  const Aliases aliases_;
  const int64_t most_bytes_;
  std::vector<Launch> open_;  // that a kernel may join
};

}  // namespace

std::vector<int> launched_together(const loop::Program& program, const MemoryPlan& memory,
                                   const target::Target& target) {
  return Launches(program, memory, target).run();
}

}  // namespace braze::schedule
