#include "runtime/aligned_copies.h"

#include <ATen/ops/copy_ops.h>

#include "base/error.h"
#include "runtime/bound_function.h"

namespace braze::runtime {
namespace {

at::Tensor at_place(const BoundFunction& bound, plan::SlotId slot, void* data) {
  const PreparedFunction& prepared = bound.prepared();
  const Shapes shapes = bound.shapes();
  return borrow_tensor(data, prepared.device_of_slot[slot], shapes.sizes(slot),
                       shapes.strides(slot), prepared.dtype[slot], bound.bytes(slot));
}

// Whole memory, gaps and elements that stand for several included.
at::Tensor as_bytes(void* data, c10::Device device, int64_t bytes) {
  return borrow_tensor(data, device, {bytes}, {1}, at::kByte, bytes);
}

}  // namespace

AlignedCopies::AlignedCopies(const BoundFunction& bound, const PreparedFunction::GpuLaunch& launch,
                             RunContext& context)
    : bound_(bound) {
  const PreparedFunction& prepared = bound.prepared();
  copies_.reserve(launch.args.size());
  for (size_t i = 0; i < launch.args.size(); ++i) {
    const auto& argument = launch.args[i];
    void* data = context.pointers[argument.slot];
    if (argument.is_aligned(data)) continue;
    const c10::Device device = prepared.device_of_slot[argument.slot];
    const int64_t bytes = bound.bytes(argument.slot);
    at::Tensor memory = allocate_tensor_on(device, {bytes}, {1}, at::kByte, bytes);
    void* place = memory.unsafeGetTensorImpl()->mutable_data();
    BRAZE_CHECK(argument.is_aligned(place), "memory of the allocator is not aligned");
    at::_ops::copy_::call(memory, as_bytes(data, device, bytes), false);
    copies_.push_back({argument.slot, std::move(memory), place, argument.written});
    context.kernel_args[i] = &copies_.back().data;
  }
}

void AlignedCopies::put_back(const RunContext& context) const {
  for (const Copy& copy : copies_) {
    if (!copy.written) continue;
    at::Tensor target = at_place(bound_, copy.slot, context.pointers[copy.slot]);
    at::_ops::copy_::call(target, at_place(bound_, copy.slot, copy.data), false);
  }
}

}  // namespace braze::runtime
