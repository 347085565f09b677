#include "runtime/run_context.h"

#include "runtime/bound_plan.h"

namespace braze::runtime {
namespace {

using plan::SlotId;
using plan::SlotKind;

// Nobody else has the tensor: it may be given other sizes and another place.
bool is_ours(const at::Tensor& tensor) { return tensor.defined() && tensor.use_count() == 1; }

// `base` with other sizes, strides and offset (in elements), as as_strided gives it below autograd.
at::Tensor view_of(const at::Tensor& base, at::ScalarType dtype) {
  return at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW,
                                                  c10::Storage(base.storage()), base.key_set(),
                                                  c10::scalarTypeToTypeMeta(dtype));
}

}  // namespace

RunContext::RunContext(const PreparedPlan& plan)
    : plan(plan), tensors(plan.plan.slots.size()), pointers(plan.plan.slots.size(), nullptr) {
  for (size_t i = 0; i < plan.constants.size() && i < tensors.size(); ++i) {
    if (!plan.constants[i].defined()) continue;
    tensors[i] = plan.constants[i];
    pointers[i] = plan.constants[i].data_ptr();
  }
}

void RunContext::attach(const BoundPlan& bound, std::unique_ptr<Arena> from) {
  arena = std::move(from);
  if (attached_to == bound.serial() && attached_at == arena->data()) return;
  attached_to = 0;  // should what follows fail
  for (SlotId slot : plan.context_slots) {
    if (plan.plan.slots[slot].kind == SlotKind::kArena)
      bind_arena_slot(slot, bound);
    else
      bind_view(slot, bound);
  }
  attached_to = bound.serial();
  attached_at = arena->data();
}

void RunContext::bind_arena_slot(SlotId slot, const BoundPlan& bound) {
  const plan::Numbers::Slot& place = bound.numbers().slots[slot];
  pointers[slot] = arena->data() + place.byte_offset;
  if (!plan.needs_tensor[slot]) return;
  const Shapes shapes = bound.shapes();
  at::Tensor& tensor = tensors[slot];
  if (!is_ours(tensor)) {
    tensor = borrow_tensor(pointers[slot], shapes.sizes(slot), shapes.strides(slot),
                           plan.dtype[slot], place.bytes);
    return;
  }
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(shapes.sizes(slot), shapes.strides(slot));
  c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(c10::DataPtr(pointers[slot], c10::Device(c10::kCPU)));
  storage->set_nbytes(place.bytes);
}

void RunContext::bind_view(SlotId slot, const BoundPlan& bound) {
  const SlotId base_slot = plan.plan.slots[slot].base;
  const int64_t byte_offset = bound.numbers().slots[slot].byte_offset;
  pointers[slot] = static_cast<char*>(pointers[base_slot]) + byte_offset;
  const at::Tensor& base = tensors[base_slot];
  if (!plan.needs_tensor[slot] || !base.defined()) return;
  at::Tensor& tensor = tensors[slot];
  if (!is_ours(tensor) || !tensor.storage().is_alias_of(base.storage()))
    tensor = view_of(base, plan.dtype[slot]);
  const Shapes shapes = bound.shapes();
  const auto item = static_cast<int64_t>(tensor.itemsize());
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_offset(
      (base.storage_offset() * static_cast<int64_t>(base.itemsize()) + byte_offset) / item);
  impl->set_sizes_and_strides(shapes.sizes(slot), shapes.strides(slot));
}

void RunContext::forget_call() {
  for (SlotId slot : plan.extern_inputs) tensors[slot].reset();
  for (SlotId slot : plan.input_views) tensors[slot].reset();
  for (SlotId slot : plan.output_slots) tensors[slot].reset();
}

}  // namespace braze::runtime
