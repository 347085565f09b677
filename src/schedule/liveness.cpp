#include "schedule/liveness.h"

#include <algorithm>
#include <set>

#include "loop/effects.h"
#include "schedule/checks.h"
#include "schedule/item_graph.h"
#include "schedule/kernel_edit.h"

namespace braze::schedule {
namespace {

using loop::Statement;

bool is_allocated(const loop::Buffer& buffer) {
  return buffer.kind == loop::Buffer::Kind::kComputed || buffer.kind == loop::Buffer::Kind::kExtern;
}

std::vector<Access> accesses_of(const loop::Program& program, const Aliases& aliases) {
  std::vector<Access> accesses;
  accesses.reserve(program.items.size());
  for (const loop::Item& item : program.items) accesses.push_back(access_of(item, aliases));
  return accesses;
}

// Takes ready items one by one and follows how many bytes are live.
class ListScheduler {
 public:
  ListScheduler(const loop::Program& program, const Aliases& aliases, const InputWrites& writes)
      : accesses_(accesses_of(program, aliases)),
        graph_(accesses_, program.buffers.size(), writes.constraints(program, aliases)),
        bytes_(writes.allocated_bytes(program)),
        uses_(program.buffers.size(), 0),
        live_(program.buffers.size(), false),
        waits_for_(graph_.size(), 0) {
    const std::vector<bool> kept = needed_at_end(program, aliases);
    for (size_t i = 0; i < program.buffers.size(); ++i) {
      if (kept[i]) uses_[i] = 1;
    }
    for (size_t item = 0; item < accesses_.size(); ++item) {
      for_each_root(static_cast<int>(item), [&](int root) { ++uses_[root]; });
    }
    for (size_t node = 0; node < waits_for_.size(); ++node) {
      waits_for_[node] = static_cast<int>(graph_.predecessors(static_cast<int>(node)).size());
      if (waits_for_[node] == 0) ready_.insert(static_cast<int>(node));
    }
  }

  std::vector<int> run() {
    std::vector<int> order;
    while (!ready_.empty()) {
      const int node = pick();
      take(node);
      if (graph_.is_item(node)) order.push_back(node);
    }
    return order;
  }

 private:
  static constexpr int kLookAhead = 32;  // ready items that are compared

  template <class Visit>
  void for_each_root(int item, Visit&& visit) const {
    const Access& access = accesses_[item];
    for (int root : access.reads) visit(root);
    for (int root : access.writes) {
      if (!contains(access.reads, root)) visit(root);
    }
  }

  int64_t growth(int item) const {
    if (!graph_.is_item(item)) return 0;
    int64_t bytes = 0;
    for (int root : accesses_[item].writes) {
      if (!live_[root]) bytes += bytes_[root];
    }
    for_each_root(item, [&](int root) {
      if (uses_[root] == 1) bytes -= bytes_[root];
    });
    return bytes;
  }

  int pick() const {
    int seen = 0;
    for (int item : ready_) {
      if (growth(item) <= 0) return item;
      if (++seen == kLookAhead) break;
    }
    return *ready_.begin();
  }

  void take(int item) {
    ready_.erase(item);
    if (graph_.is_item(item)) {
      for (int root : accesses_[item].writes) live_[root] = true;
      for_each_root(item, [&](int root) { --uses_[root]; });
    }
    for (int next : graph_.successors(item)) {
      if (--waits_for_[next] == 0) ready_.insert(next);
    }
  }

  std::vector<Access> accesses_;
  ItemGraph graph_;
  std::vector<int64_t> bytes_;  // by root
  std::vector<int> uses_;       // by root: accesses to come
  std::vector<bool> live_;      // by root: written already
  std::vector<int> waits_for_;
  std::set<int> ready_;
};

// Statements of a kernel that something needs, be it for their index checks: marks from the last to
// the first.
std::vector<bool> live_statements(const loop::Kernel& kernel, const Aliases& aliases,
                                  const std::vector<bool>& needed) {
  std::vector<bool> live(kernel.body.size(), false), gone(kernel.body.size(), false);
  std::vector<bool> loaded(kernel.params.size(), false);
  std::set<int> results;
  for (size_t i = kernel.body.size(); i-- > 0;) {
    const loop::Effects effects = loop::effects_of(kernel.body[i]);
    if (const int param = effects.writes(); param >= 0) {
      live[i] = loaded[param] || needed[aliases.root(kernel.params[param].buffer)];
    } else {
      live[i] = results.contains(effects.defines);
    }
    gone[i] = !live[i] && checks_stay_without(kernel, i, gone);
    live[i] = !gone[i];
    if (gone[i]) continue;
    for (int param : effects.loads) loaded[param] = true;
    results.insert(effects.results.begin(), effects.results.end());
  }
  return live;
}

// True when the kernel has nothing left.
bool remove_dead_statements(loop::Kernel& kernel, loop::ExprPool& pool, const Aliases& aliases,
                            const std::vector<bool>& needed) {
  std::vector<bool> live = live_statements(kernel, aliases, needed);
  if (std::find(live.begin(), live.end(), false) == live.end()) return kernel.body.empty();
  std::vector<Statement> body;
  for (size_t i = 0; i < live.size(); ++i) {
    if (live[i]) body.push_back(std::move(kernel.body[i]));
  }
  kernel.body = std::move(body);
  if (kernel.body.empty()) return true;
  renumber(kernel, pool);
  return false;
}

}  // namespace

std::vector<LiveRange> live_ranges(const loop::Program& program, const Aliases& aliases) {
  std::vector<LiveRange> ranges(program.buffers.size());
  int count = static_cast<int>(program.items.size());
  for (int item = 0; item < count; ++item) {
    Access access = access_of(program.items[item], aliases);
    for (int root : access.reads) ranges[root].end = item;
    for (int root : access.writes) {
      if (ranges[root].begin < 0) ranges[root].begin = item;
      ranges[root].end = item;
    }
  }
  std::vector<bool> kept = needed_at_end(program, aliases);
  for (size_t root = 0; root < ranges.size(); ++root) {
    if (kept[root]) ranges[root].end = count;
    if (!is_allocated(program.buffers[root])) ranges[root].begin = -1;
  }
  return ranges;
}

std::vector<int64_t> allocated_bytes(const loop::Program& program) {
  std::vector<int64_t> bytes;
  for (const loop::Buffer& buffer : program.buffers) {
    bytes.push_back(is_allocated(buffer) ? bytes_of(buffer) : 0);
  }
  return bytes;
}

int64_t peak_live_bytes(const std::vector<const Access*>& accesses,
                        const std::vector<int64_t>& bytes, const std::vector<bool>& needed_at_end) {
  constexpr int kUnknown = -1;
  std::vector<int> last(bytes.size(), kUnknown);
  int count = static_cast<int>(accesses.size());
  for (int i = 0; i < count; ++i) {
    for (int root : accesses[i]->reads) last[root] = i;
    for (int root : accesses[i]->writes) last[root] = i;
  }
  std::vector<int64_t> freed(accesses.size() + 1, 0);
  for (size_t root = 0; root < bytes.size(); ++root) {
    if (last[root] != kUnknown && !needed_at_end[root]) freed[last[root]] += bytes[root];
  }
  std::vector<bool> live(bytes.size(), false);
  int64_t now = 0, peak = 0;
  for (int i = 0; i < count; ++i) {
    for (int root : accesses[i]->writes) {
      if (!live[root]) now += bytes[root];
      live[root] = true;
    }
    peak = std::max(peak, now);
    now -= freed[i];
  }
  return peak;
}

int64_t peak_live_bytes(const loop::Program& program, const Aliases& aliases,
                        const InputWrites& writes) {
  std::vector<Access> accesses = accesses_of(program, aliases);
  std::vector<const Access*> pointers;
  for (const Access& access : accesses) pointers.push_back(&access);
  return peak_live_bytes(pointers, writes.allocated_bytes(program),
                         needed_at_end(program, aliases));
}

void order_items(loop::Program& program, const Aliases& aliases, const InputWrites& writes) {
  std::vector<int> order = ListScheduler(program, aliases, writes).run();
  int64_t before = peak_live_bytes(program, aliases, writes);
  std::vector<loop::Item> old = std::move(program.items);
  program.items.clear();
  for (int item : order) program.items.push_back(std::move(old[item]));
  if (peak_live_bytes(program, aliases, writes) < before) return;
  for (size_t i = 0; i < order.size(); ++i) old[order[i]] = std::move(program.items[i]);
  program.items = std::move(old);
}

void remove_dead_stores(loop::Program& program, const Aliases& aliases) {
  std::vector<bool> needed = needed_at_end(program, aliases);
  std::vector<loop::Item> kept;
  for (auto item = program.items.rbegin(); item != program.items.rend(); ++item) {
    auto* scheduled = std::get_if<loop::ScheduledKernel>(&*item);
    if (scheduled != nullptr &&
        remove_dead_statements(scheduled->kernel, program.pool, aliases, needed)) {
      continue;
    }
    for (int root : access_of(*item, aliases).reads) needed[root] = true;
    kept.push_back(std::move(*item));
  }
  std::reverse(kept.begin(), kept.end());
  program.items = std::move(kept);
}

}  // namespace braze::schedule
