#include "schedule/twins.h"

#include <numeric>

#include "schedule/kernel_edit.h"
#include "schedule/liveness.h"

namespace braze::schedule {
namespace {

using loop::Kernel;
using loop::Statement;

class Twins {
 public:
  Twins(loop::Program& program, const Aliases& aliases)
      : program_(program),
        stays_(needed_at_end(program, aliases)),
        stores_(program.buffers.size()),
        instead_(program.buffers.size()) {
    std::iota(instead_.begin(), instead_.end(), 0);
    constexpr int kMany = 2;
    for (size_t i = 0; i < program.buffers.size(); ++i) {
      const int root = aliases.root(static_cast<int>(i));
      // Of what others share, stores are not counted one by one.
      if (root != static_cast<int>(i)) stays_[root] = stays_[i] = true, stores_[root] = kMany;
      if (program.buffers[i].kind != loop::Buffer::Kind::kComputed) stays_[i] = true;
    }
    for (const loop::Item& item : program.items) {
      if (const auto* scheduled = std::get_if<loop::ScheduledKernel>(&item)) {
        for (const Statement& s : scheduled->kernel.body)
          if (s.is_store()) stores_[buffer_of(scheduled->kernel, s)] += s.accumulates() ? kMany : 1;
        continue;
      }
      const Access access = access_of(item, aliases);
      for (int root : access.reads) stays_[root] = true;
      for (int root : access.writes) stays_[root] = true, stores_[root] = kMany;
    }
    for (const auto& [target, source] : program.mutations)
      stores_[aliases.root(target)] = kMany, stays_[aliases.root(target)] = true;
  }

  // Whether any buffer has another instead.
  bool find() {
    bool any = false;
    for (const loop::Item& item : program_.items)
      if (const auto* scheduled = std::get_if<loop::ScheduledKernel>(&item))
        any |= find_in(scheduled->kernel);
    return any;
  }

  void replace() {
    for (loop::Item& item : program_.items) {
      auto* scheduled = std::get_if<loop::ScheduledKernel>(&item);
      if (!scheduled) continue;
      bool changed = false;
      for (loop::BufferParam& param : scheduled->kernel.params) {
        if (param.written || instead_[param.buffer] == param.buffer) continue;
        param.buffer = instead_[param.buffer];
        changed = true;
      }
      if (changed) resolve_views(scheduled->kernel, program_, program_.pool);
    }
  }

 private:
  static int buffer_of(const Kernel& kernel, const Statement& store) {
    return kernel.params[store.buffer].buffer;
  }

  bool find_in(const Kernel& kernel) {
    bool any = false;
    for (const Statement& dropped : kernel.body) {
      if (!dropped.is_store() || !can_go(kernel, dropped)) continue;
      for (const Statement& kept : kernel.body)
        if (are_twins(kernel, kept, dropped)) {
          instead_[buffer_of(kernel, dropped)] = buffer_of(kernel, kept);
          any = true;
          break;
        }
    }
    return any;
  }

  bool can_go(const Kernel& kernel, const Statement& store) const {
    const int buffer = buffer_of(kernel, store);
    if (stays_[buffer] || stores_[buffer] != 1 || instead_[buffer] != buffer) return false;
    bool is_read = false;  // by the kernel itself
    for_each_expr(kernel, [&](loop::ExprRef e) {
      is_read |= e->kind == loop::ExprKind::kLoad && e->ival == store.buffer;
    });
    return !is_read;
  }

  bool are_twins(const Kernel& kernel, const Statement& kept, const Statement& dropped) const {
    if (&kept == &dropped || !kept.overwrites() || kept.inner != dropped.inner ||
        kept.index != dropped.index || kept.value != dropped.value)
      return false;
    const int buffer = buffer_of(kernel, kept), other = buffer_of(kernel, dropped);
    return program_.buffers[buffer].kind == loop::Buffer::Kind::kComputed && stores_[buffer] == 1 &&
           instead_[buffer] == buffer &&
           program_.buffers[buffer].type == program_.buffers[other].type;
  }

  loop::Program& program_;
  std::vector<bool> stays_;   // by buffer
  std::vector<int> stores_;   // by buffer: statements; two stand for more
  std::vector<int> instead_;  // by buffer: what its readers read, itself
};

}  // namespace

void store_once(loop::Program& program, const Aliases& aliases) {
  Twins twins(program, aliases);
  if (!twins.find()) return;
  twins.replace();
  remove_dead_stores(program, aliases);
}

}  // namespace braze::schedule
