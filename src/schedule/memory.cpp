#include <algorithm>
#include <numeric>
#include <string_view>

#include "base/arena_layout.h"
#include "base/error.h"
#include "graph/op.h"
#include "loop/effects.h"
#include "schedule/aliases.h"
#include "schedule/in_place.h"
#include "schedule/kernel_edit.h"
#include "schedule/liveness.h"
#include "schedule/schedule.h"
#include "sym/facts.h"
#include "target/costs.h"

namespace braze::schedule {
namespace {

// Of this call the given memory may be that of argument 0, where they are the same tensor.
constexpr std::string_view kAddsInPlace = "aten.addmm";

class MemoryPlanner {
 public:
  MemoryPlanner(const loop::Program& program, const target::Target& target,
                std::optional<int64_t> own_above, const std::vector<std::pair<int, int>>& launches)
      : program_(program),
        launches_(launches),
        own_above_(own_above),
        device_(loop::device_type(target)),
        costs_(target::costs_of(target)),
        aliases_(program),
        ranges_(live_ranges(program, aliases_)),
        block_(program.buffers.size()),
        owner_(program.buffers.size(), -1),
        is_called_(program.buffers.size(), false) {
    plan_.home.assign(program.buffers.size(), Home::kNone);
    plan_.offset.assign(program.buffers.size(), -1);
    plan_.place.assign(program.buffers.size(), -1);
    std::iota(block_.begin(), block_.end(), 0);
  }

  MemoryPlan run() {
    find_homes();
    join_in_place();
    place_blocks();
    return std::move(plan_);
  }

 private:
  void find_homes() {
    std::vector<bool> escapes(program_.buffers.size(), false);
    for (int output : program_.outputs) escapes[aliases_.root(output)] = true;
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      const loop::Buffer& buffer = program_.buffers[i];
      if (buffer.kind == loop::Buffer::Kind::kInput) plan_.home[i] = Home::kInput;
      if (buffer.kind == loop::Buffer::Kind::kView) plan_.home[i] = Home::kView;
    }
    for (const loop::Item& item : program_.items) {
      if (const auto* scheduled = std::get_if<loop::ScheduledKernel>(&item)) {
        for (const loop::BufferParam& param : scheduled->kernel.params) {
          if (program_.buffers[param.buffer].kind != loop::Buffer::Kind::kComputed) continue;
          plan_.home[param.buffer] = home_of(param.buffer, escapes);
        }
        continue;
      }
      const auto& call = std::get<loop::ExternCall>(item);
      for (int result : call.results) {
        if (result < 0) continue;
        const bool placed = has_placed_result(call) && aliases_.root(result) == result;
        plan_.home[result] = placed ? home_of(result, escapes) : Home::kExtern;
        is_called_[result] = true;
      }
    }
    // A computed buffer that kernels reach only through views.
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      if (program_.buffers[i].kind == loop::Buffer::Kind::kComputed && ranges_[i].begin >= 0) {
        plan_.home[i] = home_of(static_cast<int>(i), escapes);
      }
    }
  }

  Home home_of(int buffer, const std::vector<bool>& escapes) const {
    if (escapes[buffer]) return Home::kOutput;
    return own_above_ && bytes(buffer) > *own_above_ ? Home::kOwn : Home::kArena;
  }

  bool has_placed_result(const loop::ExternCall& call) const {
    if (call.results.size() != 1 ||
        !graph::find_or_add_op(call.op, call.effects).has(graph::kFillsGiven))
      return false;
    const graph::TensorType& type = program_.buffers[call.results[0]].type;
    return type.device.type == device_ && is_dense(type);
  }

  int block(int buffer) const {
    while (block_[buffer] != buffer) buffer = block_[buffer];
    return buffer;
  }

  bool in_arena(int buffer) const { return plan_.home[buffer] == Home::kArena; }
  int64_t bytes(int buffer) const { return bytes_of(program_.buffers[buffer]); }

  void join_in_place() {
    for (size_t i = 0; i < program_.items.size(); ++i) {
      if (const auto* scheduled = std::get_if<loop::ScheduledKernel>(&program_.items[i])) {
        join_in_place(scheduled->kernel, static_cast<int>(i));
      } else {
        join_in_place(std::get<loop::ExternCall>(program_.items[i]), static_cast<int>(i));
      }
    }
  }

  // Pairs each operand that dies at item `at` with a result that is born there and takes its place.
  void join_in_place(const loop::Kernel& kernel, int at) {
    if (!may_run_in_place(kernel, costs_.in_place_multiple)) return;
    std::vector<bool> taken(kernel.params.size(), false);
    for (size_t out = 0; out < kernel.params.size(); ++out) {
      int result = kernel.params[out].buffer;
      const Home home = plan_.home[result];
      const bool is_output = own_above_ && home == Home::kOutput;
      if (!kernel.params[out].written || ranges_[result].begin != at) continue;
      if (!is_output && home != Home::kArena && home != Home::kOwn) continue;
      size_t store = kernel.body.size();
      loop::ExprRef stored_at = only_index(kernel, static_cast<int>(out), true, &store);
      if (stored_at == nullptr) continue;
      for (size_t in = 0; in < kernel.params.size(); ++in) {
        int operand = kernel.params[in].buffer;
        if (kernel.params[in].written || taken[in]) continue;
        if (is_output ? !may_become_output(operand, result) : plan_.home[operand] != home) continue;
        if (ranges_[block(operand)].end != at || ranges_[operand].end != at) continue;
        if (size_in_bytes(program_.buffers[operand].type) !=
                size_in_bytes(program_.buffers[result].type) ||
            kernel.params[in].dtype != kernel.params[out].dtype) {
          continue;
        }
        if (has_other_way_to(kernel, operand, in)) continue;
        if (only_index(kernel, static_cast<int>(in), false, &store) != stored_at) continue;
        taken[in] = true;
        take_place(result, operand);
        break;
      }
    }
  }

  // A sum that grows by products is one tensor.
  void join_in_place(const loop::ExternCall& call, int at) {
    if (!own_above_ || !has_placed_result(call) || call.op != kAddsInPlace) return;
    const int operand = std::get<int>(call.args[0]), result = call.results[0];
    const Home home = plan_.home[result];
    if (home != Home::kOwn && home != Home::kOutput) return;
    if (plan_.home[operand] != Home::kOwn || ranges_[operand].end != at ||
        ranges_[block(operand)].end != at ||
        program_.buffers[operand].type != program_.buffers[result].type)
      return;
    for (size_t i = 1; i < call.args.size(); ++i)
      if (const int* other = std::get_if<int>(&call.args[i]))
        if (aliases_.root(*other) == operand) return;
    take_place(result, operand);
  }

  void take_place(int result, int operand) {
    const int joined = block(operand);
    block_[result] = joined;
    ranges_[joined].end = ranges_[result].end;
    if (plan_.home[result] == Home::kOutput) owner_[joined] = result;
  }

  // What a call writes to is a tensor of its own: the output is the same one, so of the same type.
  bool may_become_output(int operand, int output) const {
    if (plan_.home[operand] != Home::kOwn) return false;
    for (size_t i = 0; i < block_.size(); ++i)
      if (is_called_[i] && block(static_cast<int>(i)) == block(operand) &&
          program_.buffers[i].type != program_.buffers[output].type)
        return false;
    return true;
  }

  bool has_other_way_to(const loop::Kernel& kernel, int operand, size_t param) const {
    for (size_t i = 0; i < kernel.params.size(); ++i) {
      if (i != param && aliases_.root(kernel.params[i].buffer) == operand) return true;
    }
    return false;
  }

  LiveRange through_launches(LiveRange range, int64_t bytes) const {
    constexpr int64_t kSmall = 64 << 10;
    const auto count = static_cast<int>(launches_.size());
    if (bytes > kSmall) return range;
    if (range.begin >= 0 && range.begin < count) range.begin = launches_[range.begin].first;
    if (range.end >= 0 && range.end < count) range.end = launches_[range.end].second;
    return range;
  }

  void place_blocks() {
    std::vector<int> buffers;
    std::vector<ArenaBlock> blocks;
    for (size_t i = 0; i < block_.size(); ++i) {
      const int buffer = static_cast<int>(i);
      if (plan_.home[i] == Home::kOwn || (own_above_ && plan_.home[i] == Home::kOutput)) {
        const int owner = owner_[block(buffer)];
        plan_.place[i] = owner < 0 ? block(buffer) : owner;
      }
      if (!in_arena(buffer)) continue;
      plan_.place[i] = block(buffer);
      if (block_[i] != buffer) continue;
      buffers.push_back(buffer);
      const LiveRange range = through_launches(ranges_[i], bytes(buffer));
      blocks.push_back({.bytes = bytes(buffer), .begin = range.begin, .end = range.end});
    }
    plan_.arena_bytes = lay_out(blocks);
    for (size_t i = 0; i < buffers.size(); ++i) plan_.offset[buffers[i]] = blocks[i].offset;
    for (size_t i = 0; i < block_.size(); ++i)
      if (in_arena(static_cast<int>(i))) plan_.offset[i] = plan_.offset[plan_.place[i]];
  }

  const loop::Program& program_;
  const std::vector<std::pair<int, int>>& launches_;
  const std::optional<int64_t> own_above_;
  const graph::Device::Type device_;  // of the arena
  const target::Costs costs_;
  Aliases aliases_;
  std::vector<LiveRange> ranges_;  // by root; of a joined block: by its first buffer
  std::vector<int> block_;         // by buffer: the buffer whose place it takes, itself if none
  std::vector<int> owner_;         // by such a buffer: the output whose memory it is, -1: none
  std::vector<bool> is_called_;    // by buffer: what an extern call gives
  MemoryPlan plan_;
};

// Where all that a kernel does is to store what it loads to the place where that is: the buffers,
// the one that it stores to first.
std::optional<std::pair<int, int>> copied_in_place(const loop::Kernel& kernel,
                                                   const MemoryPlan& plan) {
  if (kernel.body.size() != 1 || !kernel.inner.empty() || !kernel.body[0].overwrites())
    return std::nullopt;
  const loop::Statement& store = kernel.body[0];
  const loop::ExprRef value = store.value;
  if (value->kind != loop::ExprKind::kLoad || value->args[0] != store.index) return std::nullopt;
  const loop::BufferParam &to = kernel.params[store.buffer], &from = kernel.params[value->ival];
  if (to.dtype != from.dtype || plan.place[to.buffer] < 0 ||
      plan.place[to.buffer] != plan.place[from.buffer])
    return std::nullopt;
  return std::pair(to.buffer, from.buffer);
}

bool writes_to(const loop::Item& item, int buffer) {
  const auto* scheduled = std::get_if<loop::ScheduledKernel>(&item);
  return scheduled && std::ranges::any_of(scheduled->kernel.params, [&](const auto& param) {
           return param.buffer == buffer && param.written;
         });
}

// Has all that reads the buffer `from` read `to`; from a kernel on that writes to it, as what
// accumulates into a copy does, it is a buffer of its own.
void replace_reads(loop::Program& program, int from, int to) {
  const bool is_written =
      std::ranges::any_of(program.items, [&](const auto& item) { return writes_to(item, from); });
  if (!is_written) {
    for (loop::Buffer& buffer : program.buffers)
      if (buffer.kind == loop::Buffer::Kind::kView && buffer.base == from) buffer.base = to;
    for (auto& [input, source] : program.mutations)
      if (source == from) source = to;
  }
  for (loop::Item& item : program.items) {
    if (writes_to(item, from)) return;
    if (auto* scheduled = std::get_if<loop::ScheduledKernel>(&item)) {
      for (loop::BufferParam& param : scheduled->kernel.params)
        if (param.buffer == from && !param.written) param.buffer = to;
      continue;
    }
    for (auto& argument : std::get<loop::ExternCall>(item).args) {
      if (int* one = std::get_if<int>(&argument))
        *one = *one == from ? to : *one;
      else if (auto* list = std::get_if<std::vector<int>>(&argument))
        std::ranges::replace(*list, from, to);
      else if (auto* some = std::get_if<graph::OptionalRefs<int>>(&argument))
        for (auto& ref : some->refs)
          if (ref == from) ref = to;
    }
  }
}

}  // namespace

void remove_copies_in_place(loop::Program& program, const MemoryPlan& plan) {
  std::vector<std::pair<int, int>> replaced;
  std::erase_if(program.items, [&](const loop::Item& item) {
    const auto* scheduled = std::get_if<loop::ScheduledKernel>(&item);
    const auto copy = scheduled ? copied_in_place(scheduled->kernel, plan) : std::nullopt;
    if (!copy) return false;
    // In the arena nothing else says that both are one.
    if (plan.home[copy->first] != Home::kArena) return true;
    if (program.buffers[copy->first].type != program.buffers[copy->second].type) return false;
    replaced.push_back(*copy);
    return true;
  });
  // The last copies first: what they are copies of may be a copy, too.
  for (auto copy = replaced.rbegin(); copy != replaced.rend(); ++copy)
    replace_reads(program, copy->first, copy->second);
}

MemoryPlan plan_memory(const loop::Program& program, const target::Target& target,
                       std::optional<int64_t> own_above,
                       const std::vector<std::pair<int, int>>& launches) {
  return MemoryPlanner(program, target, own_above, launches).run();
}

}  // namespace braze::schedule
