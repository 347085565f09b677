#include "runtime/run_context.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "runtime/bound_function.h"

namespace braze::runtime {

using plan::SlotId;
using plan::SlotKind;

RunContext::RunContext(const PreparedFunction& prepared)
    : prepared(prepared),
      tensors(prepared.function.slots.size()),
      pointers(prepared.function.slots.size(), nullptr) {
  for (size_t i = 0; i < prepared.constants.size() && i < tensors.size(); ++i) {
    if (!prepared.constants[i].defined()) continue;
    tensors[i] = prepared.constants[i];
    pointers[i] = prepared.constants[i].data_ptr();
  }
}

void RunContext::attach(const BoundFunction& bound, std::unique_ptr<Arena> from) {
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
int64_t RunContext::view_offset(SlotId slot, const BoundFunction& bound) const {
  const at::Tensor& base = tensors[prepared.function.slots[slot].base];
  const int64_t bytes = base.storage_offset() * static_cast<int64_t>(base.itemsize()) +
                        prepared.binder.view_bytes(slot, bound.numbers());
  return bytes / static_cast<int64_t>(c10::elementSize(prepared.dtype[slot]));
}

// Of arena memory, or of the tensor of the slot's base, as as_strided gives it below autograd.
at::Tensor RunContext::make_tensor(SlotId slot, const BoundFunction& bound) const {
  const Shapes shapes = bound.shapes();
  if (prepared.function.slots[slot].kind == SlotKind::kArena)
    return borrow_tensor(pointers[slot], prepared.device, shapes.sizes(slot), shapes.strides(slot),
                         prepared.dtype[slot], bound.bytes(slot));
  const at::Tensor& base = tensors[prepared.function.slots[slot].base];
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(base.storage()), base.key_set(),
      c10::scalarTypeToTypeMeta(prepared.dtype[slot]));
  view.unsafeGetTensorImpl()->set_storage_offset(view_offset(slot, bound));
  view.unsafeGetTensorImpl()->set_sizes_and_strides(shapes.sizes(slot), shapes.strides(slot));
  return view;
}

void RunContext::lay_out(const BoundFunction& bound) {
  using Key = std::tuple<const c10::TensorImpl*, int64_t, int32_t, plan::Binder::Place>;
  std::map<Key, size_t> known;
  for (SlotId slot : prepared.context_slots) tensors[slot].reset();
  cells_.clear();
  const plan::Binder& binder = prepared.binder;
  for (SlotId slot : prepared.context_slots) {
    const plan::Slot& described = prepared.function.slots[slot];
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
    if (!prepared.needs_tensor[slot]) continue;
    const auto [cell, fresh] = known.try_emplace(key, cells_.size());
    if (fresh) cells_.push_back({slot, make_tensor(slot, bound)});
    tensors[slot] = cells_[cell->second].tensor;
    ++cells_[cell->second].users;
  }
}

bool RunContext::resize(const BoundFunction& bound) {
  for (const Cell& cell : cells_)
    if (static_cast<size_t>(cell.tensor.use_count()) != cell.users + 1) return false;
  for (SlotId slot : prepared.moving_views)
    pointers[slot] = static_cast<char*>(pointers[prepared.function.slots[slot].base]) +
                     prepared.binder.view_bytes(slot, bound.numbers());
  for (Cell& cell : cells_) resize(cell, bound);
  return true;
}

void RunContext::resize(Cell& cell, const BoundFunction& bound) {
  const int32_t type = prepared.binder.type_of(cell.slot);
  c10::TensorImpl* impl = cell.tensor.unsafeGetTensorImpl();
  const auto first = static_cast<int64_t>(prepared.binder.first_dim(type));
  const auto count = static_cast<int64_t>(2 * prepared.binder.rank(type));
  const std::vector<int64_t>& dims = bound.numbers().dims;
  if (prepared.function.slots[cell.slot].kind == SlotKind::kView)
    impl->set_storage_offset(view_offset(cell.slot, bound));
  else
    impl->unsafe_storage().unsafeGetStorageImpl()->set_nbytes(bound.bytes(cell.slot));
  if (std::equal(dims.begin() + first, dims.begin() + first + count, dims_.begin() + first)) return;
  const Shapes shapes = bound.shapes();
  impl->set_sizes_and_strides(shapes.sizes_of_type(type), shapes.strides_of_type(type));
}

void RunContext::bind_view(SlotId slot, const BoundFunction& bound) {
  const SlotId base = prepared.function.slots[slot].base;
  pointers[slot] =
      static_cast<char*>(pointers[base]) + prepared.binder.view_bytes(slot, bound.numbers());
  if (prepared.needs_tensor[slot] && tensors[base].defined())
    tensors[slot] = make_tensor(slot, bound);
}

void RunContext::keep_addresses() {
  forget_call();
  cells_.clear();
  serial_ = 0;
  for (SlotId slot : prepared.context_slots) tensors[slot].reset();
  arena = nullptr;
}

void RunContext::forget_call() {
  handed_over = {};
  for (SlotId slot : prepared.extern_inputs) tensors[slot].reset();
  for (SlotId slot : prepared.input_views) tensors[slot].reset();
  for (SlotId slot : prepared.output_slots) tensors[slot].reset();
  for (SlotId slot : prepared.extern_slots) tensors[slot].reset();
}

}  // namespace braze::runtime
