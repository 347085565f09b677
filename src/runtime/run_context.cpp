#include "runtime/run_context.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "runtime/bound_plan.h"

namespace braze::runtime {

using plan::SlotId;
using plan::SlotKind;

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
  const bool same_place = layout_ == bound.numbers().layout && address_ == arena->data();
  if (same_place && serial_ == bound.serial()) return;
  const bool known = same_place && serial_ != 0;
  serial_ = 0;  // should what follows fail
  if (!known || !resize(bound)) lay_out(bound);
  serial_ = bound.serial();
  layout_ = bound.numbers().layout;
  address_ = arena->data();
  dims_ = bound.numbers().dims;
}

// In elements of the slot's dtype, from the beginning of the storage.
int64_t RunContext::view_offset(SlotId slot, const BoundPlan& bound) const {
  const at::Tensor& base = tensors[plan.plan.slots[slot].base];
  const int64_t bytes = base.storage_offset() * static_cast<int64_t>(base.itemsize()) +
                        plan.binder.view_bytes(slot, bound.numbers());
  return bytes / static_cast<int64_t>(c10::elementSize(plan.dtype[slot]));
}

// Of arena memory, or of the tensor of the slot's base, as as_strided gives it below autograd.
at::Tensor RunContext::make_tensor(SlotId slot, const BoundPlan& bound) const {
  const Shapes shapes = bound.shapes();
  if (plan.plan.slots[slot].kind == SlotKind::kArena)
    return borrow_tensor(pointers[slot], shapes.sizes(slot), shapes.strides(slot), plan.dtype[slot],
                         bound.bytes(slot));
  const at::Tensor& base = tensors[plan.plan.slots[slot].base];
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(base.storage()), base.key_set(),
      c10::scalarTypeToTypeMeta(plan.dtype[slot]));
  view.unsafeGetTensorImpl()->set_storage_offset(view_offset(slot, bound));
  view.unsafeGetTensorImpl()->set_sizes_and_strides(shapes.sizes(slot), shapes.strides(slot));
  return view;
}

void RunContext::lay_out(const BoundPlan& bound) {
  using Key = std::tuple<const c10::TensorImpl*, int64_t, int32_t, plan::Binder::Place>;
  std::map<Key, size_t> known;
  for (SlotId slot : plan.context_slots) tensors[slot].reset();
  cells_.clear();
  const plan::Binder& binder = plan.binder;
  for (SlotId slot : plan.context_slots) {
    const plan::Slot& described = plan.plan.slots[slot];
    Key key{nullptr, 0, binder.type_of(slot), {}};
    if (described.kind == SlotKind::kArena) {
      std::get<1>(key) = bound.numbers().layout->offset[slot];
      pointers[slot] = arena->data() + std::get<1>(key);
    } else {
      std::get<0>(key) = tensors[described.base].unsafeGetTensorImpl();
      std::get<3>(key) = binder.view_offset(slot);
      pointers[slot] =
          static_cast<char*>(pointers[described.base]) + binder.view_bytes(slot, bound.numbers());
    }
    if (!plan.needs_tensor[slot]) continue;
    const auto [cell, fresh] = known.try_emplace(key, cells_.size());
    if (fresh) cells_.push_back({slot, make_tensor(slot, bound)});
    tensors[slot] = cells_[cell->second].tensor;
    ++cells_[cell->second].users;
  }
}

bool RunContext::resize(const BoundPlan& bound) {
  for (const Cell& cell : cells_)
    if (static_cast<size_t>(cell.tensor.use_count()) != cell.users + 1) return false;
  for (SlotId slot : plan.moving_views)
    pointers[slot] = static_cast<char*>(pointers[plan.plan.slots[slot].base]) +
                     plan.binder.view_bytes(slot, bound.numbers());
  for (Cell& cell : cells_) resize(cell, bound);
  return true;
}

void RunContext::resize(Cell& cell, const BoundPlan& bound) {
  const int32_t type = plan.binder.type_of(cell.slot);
  c10::TensorImpl* impl = cell.tensor.unsafeGetTensorImpl();
  const auto first = static_cast<int64_t>(plan.binder.first_dim(type));
  const auto count = static_cast<int64_t>(2 * plan.binder.rank(type));
  const std::vector<int64_t>& dims = bound.numbers().dims;
  if (plan.plan.slots[cell.slot].kind == SlotKind::kView)
    impl->set_storage_offset(view_offset(cell.slot, bound));
  else
    impl->unsafe_storage().unsafeGetStorageImpl()->set_nbytes(bound.bytes(cell.slot));
  if (std::equal(dims.begin() + first, dims.begin() + first + count, dims_.begin() + first)) return;
  const Shapes shapes = bound.shapes();
  impl->set_sizes_and_strides(shapes.sizes_of_type(type), shapes.strides_of_type(type));
}

void RunContext::bind_view(SlotId slot, const BoundPlan& bound) {
  const SlotId base = plan.plan.slots[slot].base;
  pointers[slot] =
      static_cast<char*>(pointers[base]) + plan.binder.view_bytes(slot, bound.numbers());
  if (plan.needs_tensor[slot] && tensors[base].defined()) tensors[slot] = make_tensor(slot, bound);
}

void RunContext::forget_call() {
  for (SlotId slot : plan.extern_inputs) tensors[slot].reset();
  for (SlotId slot : plan.input_views) tensors[slot].reset();
  for (SlotId slot : plan.output_slots) tensors[slot].reset();
  for (SlotId slot : plan.extern_slots) tensors[slot].reset();
}

}  // namespace braze::runtime
