#include "compile/kernel_function.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "compile/slots.h"
#include "schedule/aliases.h"
#include "schedule/directions.h"

namespace braze::compile {
namespace {

using loop::Kernel;

// Expressions of one pool are the same exactly when their addresses are.
struct KernelIdentity {
  static size_t mix(size_t seed, size_t value) {
    return (seed ^ value) * 0x9E3779B97F4A7C15u + (seed >> 29);
  }

  size_t operator()(const Kernel* kernel) const {
    size_t hash = kernel->params.size();
    for (const loop::Axis& axis : kernel->outer) hash = mix(hash, axis.extent.hint());
    hash = mix(hash, kernel->outer.size());
    for (const loop::Axis& axis : kernel->inner) hash = mix(hash, axis.extent.hint());
    for (const loop::Statement& s : kernel->body) hash = mix(hash, loop::hash_of(s));
    return hash;
  }

  bool operator()(const Kernel* a, const Kernel* b) const {
    auto same_axis = [](const loop::Axis& x, const loop::Axis& y) { return x.extent == y.extent; };
    auto same_param = [](const loop::BufferParam& x, const loop::BufferParam& y) {
      return x.dtype == y.dtype && x.written == y.written && x.by_value == y.by_value &&
             x.aliased == y.aliased;
    };
    return std::ranges::equal(a->outer, b->outer, same_axis) &&
           std::ranges::equal(a->inner, b->inner, same_axis) &&
           std::ranges::equal(a->params, b->params, same_param) && a->body == b->body;
  }
};

// A kernel, and the one of columns that shares its launch, if any.
using Launched = std::pair<const Kernel*, const Kernel*>;

struct LaunchedIdentity {
  size_t operator()(const Launched& launched) const {
    const KernelIdentity identity;
    const size_t hash = identity(launched.first);
    return launched.second ? KernelIdentity::mix(hash, identity(launched.second)) : hash;
  }
  bool operator()(const Launched& a, const Launched& b) const {
    const KernelIdentity identity;
    return !a.second == !b.second && identity(a.first, b.first) &&
           (!a.second || identity(a.second, b.second));
  }
};

const Kernel& kernel_of(const loop::Program& program, int item) {
  return std::get<loop::ScheduledKernel>(program.items[item]).kernel;
}

class KernelBuilder {
 public:
  KernelBuilder(const loop::Program& program, const schedule::MemoryPlan& memory,
                const DistinctKernels& kernels)
      : program_(program),
        memory_(memory),
        kernels_(kernels),
        slot_of_(program.buffers.size(), plan::SlotId{-1}) {}

  plan::Function build(std::span<const KernelCode> code, graph::Device device) {
    function_.device = device;
    function_.arena_bytes = memory_.arena_bytes;
    function_.origins = program_.origins;
    add_inputs();
    for (size_t i = 0; i < kernels_.kernels.size(); ++i) {
      plan::KernelSignature signature{.name = code[i].name,
                                      .code = code[i].code,
                                      .sizes = code[i].sizes,
                                      .alignment = code[i].alignment};
      for (sym::Int limit : code[i].limits)
        if (std::ranges::find(function_.limits, limit) == function_.limits.end())
          function_.limits.push_back(limit);
      const LaunchedKernel& launched = kernels_.kernels[i];
      for_each_argument(launched, [&](size_t of, size_t p) {
        const Kernel& kernel = launched.columns && of == 1 ? *launched.columns : launched.kernel;
        signature.written.push_back(kernel.params[p].written);
      });
      function_.kernels.push_back(std::move(signature));
    }
    for (size_t i = 0; i < program_.items.size(); ++i) {
      if (const auto* scheduled = std::get_if<loop::ScheduledKernel>(&program_.items[i])) {
        const int number = kernels_.of_item[i];
        if (number >= 0) add_kernel(*scheduled, i, code[number]);
      } else {
        add_call(std::get<loop::ExternCall>(program_.items[i]));
      }
    }
    for (const auto& [target, source_buffer] : program_.mutations) {
      function_.steps.emplace_back(
          plan::CopyStep{.target = slot(target), .source = slot(source_buffer)});
    }
    for (int output : program_.outputs) function_.outputs.push_back(slot(output));
    add_free_steps(function_);
    return std::move(function_);
  }

 private:
  void add_inputs() {
    std::vector<int> inputs;
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      if (program_.buffers[i].kind == loop::Buffer::Kind::kInput) {
        inputs.push_back(static_cast<int>(i));
      }
    }
    std::sort(inputs.begin(), inputs.end(),
              [&](int a, int b) { return program_.buffers[a].input < program_.buffers[b].input; });
    for (int buffer : inputs) {
      BRAZE_CHECK(program_.buffers[buffer].input == static_cast<int>(function_.slots.size()),
                  "every graph input is one buffer");
      add_slot(buffer, {.kind = plan::SlotKind::kInput});
    }
    function_.input_count = static_cast<int32_t>(inputs.size());
  }

  plan::SlotId add_slot(int buffer, plan::Slot slot) {
    slot.type = program_.buffers[buffer].type;
    slot_of_[buffer] = static_cast<plan::SlotId>(function_.slots.size());
    function_.slots.push_back(std::move(slot));
    return slot_of_[buffer];
  }

  // The slot of a buffer; made when it is first met, its base before it.
  plan::SlotId slot(int buffer) {
    if (slot_of_[buffer] >= 0) return slot_of_[buffer];
    int64_t bytes = schedule::bytes_of(program_.buffers[buffer]);
    switch (memory_.home[buffer]) {
      case schedule::Home::kArena:
        return add_slot(buffer, {.kind = plan::SlotKind::kArena,
                                 .byte_offset = memory_.offset[buffer],
                                 .bytes = bytes,
                                 .place = place_of(buffer)});
      case schedule::Home::kOutput:
      case schedule::Home::kOwn:
        if (const int owner = memory_.place[buffer]; owner >= 0 && owner != buffer) {
          const plan::SlotId base = slot(owner);
          if (program_.buffers[owner].type == program_.buffers[buffer].type)
            return slot_of_[buffer] = base;
          return add_slot(buffer, {.kind = plan::SlotKind::kView, .base = base});
        }
        return add_slot(buffer, {.kind = plan::SlotKind::kOutput, .bytes = bytes});
      case schedule::Home::kExtern:
        return add_slot(buffer, {.kind = plan::SlotKind::kExtern});
      case schedule::Home::kView:
        return add_view(buffer);
      case schedule::Home::kInput:
      case schedule::Home::kNone:
        break;
    }
    BRAZE_UNREACHABLE("buffer ", buffer, " is used but has no memory");
  }

  // With symbolic sizes offsets are not known yet: the slot of the buffer whose place this one
  // takes over stands for one. -1: it has a place of its own, or offsets are known.
  plan::SlotId place_of(int buffer) {
    const int place = memory_.place[buffer];
    return program_.arena == nullptr || place == buffer ? -1 : slot(place);
  }

  plan::SlotId add_view(int buffer) {
    const loop::Buffer& view = program_.buffers[buffer];
    plan::SlotId base = slot(view.base);
    int64_t element = graph::size_of(view.type.dtype);
    return add_slot(buffer, {.kind = plan::SlotKind::kView,
                             .byte_offset = view.view_offset.hint() * element,
                             .base = base});
  }

  // Calls visit(i, p) for what a launch of the kernel is given, parameter p of the i-th of its
  // kernels: of several, what each has alone, in their order, and behind that what all have.
  template <class Visit>
  static void for_each_argument(const LaunchedKernel& launched, Visit visit) {
    const size_t count = launched.kernel.params.size();
    for (size_t i = 0; i < launched.extents.size(); ++i)
      for (size_t p = 0; p < count; ++p)
        if (!launched.common[p]) visit(i, p);
    for (size_t p = 0; p < count; ++p)
      if (launched.extents.empty() || launched.common[p]) visit(0, p);
    if (launched.columns)
      for (size_t p = 0; p < launched.columns->params.size(); ++p) visit(1, p);
  }

  void add_kernel(const loop::ScheduledKernel& scheduled, size_t item, const KernelCode& code) {
    const int number = kernels_.of_item[item];
    plan::KernelStep step{.kernel = number, .launch = code.launch, .origin = scheduled.origin};
    const LaunchedKernel& launched = kernels_.kernels[number];
    const std::vector<int>& with = kernels_.launched_with[item];
    for_each_argument(launched, [&](size_t i, size_t p) {
      const Kernel& own = with.empty() ? scheduled.kernel : kernel_of(program_, with[i]);
      step.args.push_back(slot(own.params[p].buffer));
    });
    function_.steps.emplace_back(std::move(step));
  }

  void add_call(const loop::ExternCall& call) {
    plan::ExternStep step{.op = call.op, .origin = call.origin};
    for (const auto& argument : call.args) {
      step.args.push_back(
          map_argument<plan::SlotId, int>(argument, [this](int buffer) { return slot(buffer); }));
    }
    for (size_t i = 0; i < call.results.size(); ++i) {
      int result = call.results[i];
      if (result < 0) {
        step.results.push_back(-1);
        continue;
      }
      step.results.push_back(slot(result));
      int aliased = call.effects.aliased_argument(static_cast<int>(i));
      if (aliased >= 0)
        function_.slots[step.results.back()].base = first_slot(step.args.at(aliased));
    }
    function_.steps.emplace_back(std::move(step));
  }

  static plan::SlotId first_slot(const plan::Argument& argument) {
    plan::SlotId first = -1;
    for_each_ref<plan::SlotId>(argument, [&](plan::SlotId slot) {
      if (first < 0) first = slot;
    });
    return first;
  }

  const loop::Program& program_;
  const schedule::MemoryPlan& memory_;
  const DistinctKernels& kernels_;
  plan::Function function_;
  std::vector<plan::SlotId> slot_of_;  // by buffer
};

LaunchedKernel several(const loop::Program& program, const std::vector<int>& items) {
  const auto extent = [&](int item) {
    const std::vector<loop::Axis>& outer = kernel_of(program, item).outer;
    return outer.empty() ? 1 : outer[0].extent.constant();
  };
  // The largest: what is known of the values of its indices holds for all.
  const int largest = *std::ranges::max_element(items, {}, extent);
  LaunchedKernel launched{.kernel = kernel_of(program, largest)};
  launched.common.assign(launched.kernel.params.size(), true);
  for (const int item : items) {
    const Kernel& kernel = kernel_of(program, item);
    launched.extents.push_back(extent(item));
    for (size_t p = 0; p < kernel.params.size(); ++p)
      if (kernel.params[p].buffer != launched.kernel.params[p].buffer) launched.common[p] = false;
  }
  return launched;
}

}  // namespace

DistinctKernels distinct_kernels(const loop::Program& program, const std::vector<int>& first,
                                 const std::vector<int>& partner) {
  DistinctKernels result;
  result.launched_with.resize(program.items.size());
  for (size_t i = 0; i < first.size(); ++i) {
    const auto leader = static_cast<size_t>(first[i]);
    if (leader == i) continue;
    if (result.launched_with[leader].empty()) result.launched_with[leader].push_back(first[i]);
    result.launched_with[leader].push_back(static_cast<int>(i));
  }
  std::unordered_map<Launched, int, LaunchedIdentity, LaunchedIdentity> numbers;
  for (size_t i = 0; i < program.items.size(); ++i) {
    const auto* scheduled = std::get_if<loop::ScheduledKernel>(&program.items[i]);
    const int other = partner[i];
    if (scheduled == nullptr || first[i] != static_cast<int>(i) ||
        (other >= 0 && other < static_cast<int>(i))) {
      result.of_item.push_back(-1);
      continue;
    }
    const auto next = static_cast<int>(result.kernels.size());
    if (!result.launched_with[i].empty()) {
      result.kernels.push_back(several(program, result.launched_with[i]));
      result.of_item.push_back(next);
      continue;
    }
    Launched launched{&scheduled->kernel, nullptr};
    if (other >= 0) {
      launched.second = &kernel_of(program, other);
      result.launched_with[i] = {static_cast<int>(i), other};
      if (!schedule::directions_of(scheduled->kernel).rows) {
        std::swap(launched.first, launched.second);
        result.launched_with[i] = {other, static_cast<int>(i)};
      }
    }
    auto [found, fresh] = numbers.emplace(launched, next);
    if (fresh) {
      result.kernels.push_back({.kernel = *launched.first});
      if (launched.second) result.kernels.back().columns = *launched.second;
    }
    result.of_item.push_back(found->second);
  }
  return result;
}

plan::Function kernel_function(const loop::Program& program, const schedule::MemoryPlan& memory,
                               const DistinctKernels& kernels, std::span<const KernelCode> code,
                               graph::Device device) {
  return KernelBuilder(program, memory, kernels).build(code, device);
}

}  // namespace braze::compile
