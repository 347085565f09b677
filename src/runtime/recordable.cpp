#include "runtime/recordable.h"

#include <algorithm>
#include <string_view>
#include <variant>

#include "base/error.h"

namespace braze::runtime {
namespace {

using plan::SlotId;
using plan::SlotKind;

// Operators of PyTorch's that wait for the GPU and are not tagged as depending on data: they look
// at whether a factorisation went well, at counts or at ranges.
constexpr std::string_view kWaiting[] = {
    "aten.linalg_",     "aten._linalg_",      "aten.cholesky",
    "aten.lu_",         "aten.geqrf",         "aten.ormqr",
    "aten.svd",         "aten._lu_with_info", "aten.inverse",
    "aten.multinomial", "aten.histc",         "aten._ctc_loss",
    "aten.lstsq",       "aten._cudnn_ctc",    "aten.repeat_interleave",
    "aten._unique",     "braze.ctc_loss",
};

bool is_of_pytorch(std::string_view op) {
  return op.starts_with("aten.") || op.starts_with("braze.") || op.starts_with("prims.");
}

// An index of booleans stands for those of its elements that are true, which are counted.
bool counts_indices(const PreparedFunction& prepared, const plan::ExternStep& call) {
  return std::ranges::any_of(plan::slots_of(call), [&](SlotId slot) {
    const at::ScalarType dtype = prepared.dtype[slot];
    return dtype == at::kBool || dtype == at::kByte;
  });
}

const char* why_not(const PreparedFunction& prepared, const plan::ExternStep& step,
                    const ExternCall& call) {
  const std::string_view name = step.op;
  if (!is_of_pytorch(name)) return "may do more than work of the GPU";
  const bool indexes = name.starts_with("aten.index") || name.starts_with("aten._unsafe_index") ||
                       name.starts_with("aten._index_put");
  const bool waits = indexes ? counts_indices(prepared, step) : call.depends_on_data();
  if (waits || std::ranges::any_of(
                   kWaiting, [&](std::string_view prefix) { return name.starts_with(prefix); }))
    return "reads data of the GPU on the CPU";
  return nullptr;
}

// Attention gives the state of its random numbers, for its backward, in tensors of the CPU, but in
// those of the GPU where it is recorded. They are not looked at where nothing is dropped; else
// forward and backward would both have to be recorded, or neither.
bool is_unused_seed(const PreparedFunction& prepared, const plan::ExternStep& step,
                    const ExternCall& call, SlotId slot) {
  return step.op.starts_with("aten._scaled_dot_product_") && prepared.dtype[slot] == at::kLong &&
         prepared.function.slots[slot].type.sizes.empty() && call.number_named("dropout_p") == 0;
}

}  // namespace

std::string why_not_recordable(const PreparedFunction& prepared) {
  const plan::Function& function = prepared.function;
  const auto at = [&](const std::string& what, graph::OriginId origin) {
    if (origin < 0) return what;
    const graph::Origin& place = function.origins[origin];
    return place.line == 0 ? what
                           : detail::concat(what, " (", place.file.str(), ":", place.line, ")");
  };
  const auto elsewhere = [&](SlotId slot) {
    return prepared.device_of_slot[slot] != prepared.device;
  };
  size_t launches = 0;
  for (size_t i = 0; i < function.steps.size(); ++i) {
    const plan::Step& step = function.steps[i];
    if (const auto* kernel = std::get_if<plan::KernelStep>(&step)) {
      ++launches;
      for (SlotId slot : kernel->args)
        if (function.slots[slot].number < 0 && elsewhere(slot))
          return at("a kernel takes memory of another device", kernel->origin);
    } else if (const auto* call = std::get_if<plan::ExternStep>(&step)) {
      ++launches;
      const auto& prepared_call = std::get<std::unique_ptr<ExternCall>>(prepared.steps[i]);
      if (const char* why = why_not(prepared, *call, *prepared_call))
        return at(detail::concat(call->op, " ", why), call->origin);
      for (SlotId slot : plan::slots_of(step)) {
        if (function.slots[slot].number >= 0)
          return at(detail::concat(call->op, " takes a number of the call"), call->origin);
        if (elsewhere(slot) && !is_unused_seed(prepared, *call, *prepared_call, slot))
          return at(detail::concat(call->op, " takes or gives a tensor of another device"),
                    call->origin);
      }
    } else if (const auto* copy = std::get_if<plan::CopyStep>(&step)) {
      ++launches;
      if (elsewhere(copy->target) || elsewhere(copy->source)) return "a copy between devices";
    }
  }
  for (SlotId output : function.outputs)
    for (SlotId slot = output; slot >= 0; slot = function.slots[slot].base)
      if (function.slots[slot].kind == SlotKind::kExtern && function.slots[slot].base >= 0)
        return "a result is a view that an operator gives";
  if (launches < 2) return "there is nothing to be gained: it is one launch or none";
  return "";
}

}  // namespace braze::runtime
