#include "runtime/prepared_function.h"

#include <algorithm>

#include "pytorch/convert.h"
#include "runtime/cuda/driver.h"
#include "runtime/memory.h"

namespace braze::runtime {

using plan::SlotId;
using plan::SlotKind;

PreparedFunction::PreparedFunction(plan::Function given, std::vector<at::Tensor> constants,
                                   const std::vector<LoadedKernel>& functions)
    : function(std::move(given)),
      binder(function),
      device(pytorch::device_of(function.device)),
      context(device.is_cuda() ? cuda::primary_context(device.index()) : nullptr),
      constants(std::move(constants)) {
  sort_slots();
  prepare_steps(functions);
  find_tensors();
}

void PreparedFunction::sort_slots() {
  const size_t count = function.slots.size();
  survives.assign(count, 0);
  views_of.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const plan::Slot& slot = function.slots[i];
    const auto id = static_cast<SlotId>(i);
    dtype.push_back(pytorch::scalar_type_of(slot.type.dtype));
    device_of_slot.push_back(pytorch::device_of(slot.type.device));
    root.push_back(plan::root_of(function, id));
    if (slot.kind == SlotKind::kArena) survives[i] = 1;
    if (slot.kind == SlotKind::kInput && i < constants.size() && constants[i].defined())
      survives[i] = 1;
    if (slot.kind == SlotKind::kView) survives[i] = survives[slot.base];
    if (slot.number >= 0) numbers.push_back(id);
    if (slot.kind == SlotKind::kOutput) output_slots.push_back(id);
    if (slot.kind == SlotKind::kExtern) extern_slots.push_back(id);
    if (slot.kind == SlotKind::kArena || (slot.kind == SlotKind::kView && survives[i]))
      context_slots.push_back(id);
    if (slot.kind == SlotKind::kView && survives[i]) {
      const bool base_moves =
          std::find(moving_views.begin(), moving_views.end(), slot.base) != moving_views.end();
      if (base_moves || binder.view_offset(id).value >= 0) moving_views.push_back(id);
    }
    if (slot.kind == SlotKind::kView && !survives[i]) {
      input_views.push_back(id);
      views_of[root[i]].push_back(id);
    }
  }
}

void PreparedFunction::prepare_kernel(const plan::KernelStep& step, const LoadedKernel& code,
                                      size_t& launches) {
  const size_t first_size = binder.first_kernel_size(step.kernel);
  if (!on_gpu()) {
    steps.push_back(
        CpuLaunch{reinterpret_cast<KernelFunction>(code.function), step.args, first_size});
    return;
  }
  const plan::KernelSignature& kernel = function.kernels[step.kernel];
  GpuLaunch launch{code, {}, first_size, kernel.sizes.size(), launches++};
  for (size_t i = 0; i < step.args.size(); ++i) {
    const SlotId slot = step.args[i];
    const bool by_value = function.slots[slot].number >= 0;
    const bool any = by_value || kernel.alignment.empty();
    launch.args.push_back(
        {slot, by_value, kernel.written[i], any ? 1 : static_cast<uint32_t>(kernel.alignment[i])});
  }
  steps.push_back(std::move(launch));
}

void PreparedFunction::prepare_steps(const std::vector<LoadedKernel>& functions) {
  size_t launches = 0;
  written.assign(function.input_count, 0);
  first_outputs = output_slots;
  for (const plan::Step& step : function.steps) {
    if (auto* kernel = std::get_if<plan::KernelStep>(&step)) {
      for (size_t i = 0; i < kernel->args.size(); ++i)
        if (function.kernels[kernel->kernel].written[i] &&
            root[kernel->args[i]] < function.input_count)
          written[root[kernel->args[i]]] = 1;
      prepare_kernel(*kernel, functions.at(kernel->kernel), launches);
    } else if (auto* call = std::get_if<plan::ExternStep>(&step)) {
      has_externs = true;
      auto prepared = std::make_unique<ExternCall>(function, *call);
      if (prepared->has_symbolic_arguments()) {
        sized_call.resize(steps.size() + 1, -1);
        sized_call.back() = static_cast<int>(sized_calls.size());
        sized_calls.push_back(prepared.get());
      }
      steps.push_back(std::move(prepared));
    } else if (auto* copy = std::get_if<plan::CopyStep>(&step)) {
      if (root[copy->target] < function.input_count) written[root[copy->target]] = 1;
      steps.push_back(Copy{copy->target, copy->source});
      has_externs = true;
    } else if (auto* free = std::get_if<plan::FreeStep>(&step)) {
      steps.push_back(*free);
    } else {
      const auto& allocate = std::get<plan::AllocateStep>(step);
      std::erase(first_outputs, allocate.slot);
      steps.push_back(allocate);
    }
  }
  sized_call.resize(steps.size(), -1);
  for (SlotId view : input_views) {
    const SlotKind kind = function.slots[root[view]].kind;
    const bool is_first = std::ranges::find(first_outputs, root[view]) != first_outputs.end();
    if (kind == SlotKind::kOutput ? is_first : kind != SlotKind::kExtern)
      first_views.push_back(view);
  }
}

// A view is made from the tensor that it is a view of.
void PreparedFunction::need(SlotId slot) {
  for (; slot >= 0; slot = function.slots[slot].base) needs_tensor[slot] = 1;
}

void PreparedFunction::find_tensors() {
  needs_tensor.assign(function.slots.size(), 0);
  for (const plan::Step& step : function.steps) {
    if (auto* call = std::get_if<plan::ExternStep>(&step)) {
      for (const plan::Argument& argument : call->args) {
        if (auto* slot = std::get_if<SlotId>(&argument)) need(*slot);
        if (auto* list = std::get_if<std::vector<SlotId>>(&argument))
          for (SlotId slot : *list) need(slot);
        if (auto* list = std::get_if<graph::OptionalRefs<SlotId>>(&argument))
          for (const auto& slot : list->refs)
            if (slot) need(*slot);
      }
      for (SlotId slot : call->results)
        if (slot >= 0) need(slot);
    } else if (auto* copy = std::get_if<plan::CopyStep>(&step)) {
      need(copy->target);
      need(copy->source);
    }
  }
  for (SlotId slot : function.outputs) {
    BRAZE_CHECK(function.slots[root[slot]].kind != SlotKind::kArena, "output ", slot,
                " in the arena");
    need(slot);
  }
  for (SlotId slot : output_slots) need(slot);
  for (SlotId slot = 0; slot < function.input_count; ++slot)
    if (needs_tensor[slot] && !survives[slot] && function.slots[slot].number < 0)
      extern_inputs.push_back(slot);
}

bool PreparedFunction::writes_inputs_early() const {
  // Memory from outside: inputs, and what operators give that are views of them.
  std::vector<char> outside(root.size(), 0);
  std::fill_n(outside.begin(), function.input_count, 1);
  bool written_by_kernel = false;  // which cannot fail themselves
  for (const plan::Step& step : function.steps) {
    if (std::holds_alternative<plan::ExternStep>(step) && written_by_kernel) return true;
    const auto* launch = std::get_if<plan::KernelStep>(&step);
    if (!launch) continue;
    const std::vector<bool>& stores = function.kernels[launch->kernel].written;
    for (size_t i = 0; i < launch->args.size(); ++i)
      written_by_kernel |= stores[i] && root[launch->args[i]] < function.input_count;
  }
  for (const Step& step : steps) {
    auto* call = std::get_if<std::unique_ptr<ExternCall>>(&step);
    if (!call) continue;
    for (SlotId slot : (*call)->written())
      if (outside[root[slot]]) return true;
    if (!(*call)->gives_views()) continue;
    for (SlotId slot : (*call)->results())
      if (slot >= 0) outside[root[slot]] = 1;
  }
  return false;
}

}  // namespace braze::runtime
