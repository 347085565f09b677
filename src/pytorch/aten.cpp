#include "pytorch/aten.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ScalarOps.h>
#include <ATen/autocast_mode.h>

namespace braze::pytorch {

bool is_autocast_enabled(at::DeviceType device) {
  return at::autocast::is_autocast_enabled(device);
}

at::ScalarType autocast_dtype(at::DeviceType device) {
  return at::autocast::get_autocast_dtype(device);
}

void set_autocast_dtype(at::DeviceType device, at::ScalarType dtype) {
  at::autocast::set_autocast_dtype(device, dtype);
}

bool is_autocast_cache_enabled() { return at::autocast::is_autocast_cache_enabled(); }

void set_autocast_cache_enabled(bool enabled) { at::autocast::set_autocast_cache_enabled(enabled); }

void clear_autocast_cache() { at::autocast::clear_cache(); }

AutocastState autocast_state() {
  at::autocast::increment_nesting();
  return {autocast_dtype(at::kCPU), autocast_dtype(at::kCUDA), is_autocast_cache_enabled(),
          at::autocast::decrement_nesting()};
}

void set_autocast_state(const AutocastState& state) {
  set_autocast_dtype(at::kCPU, state.cpu);
  set_autocast_dtype(at::kCUDA, state.cuda);
  set_autocast_cache_enabled(state.cache);
  int now = autocast_state().nesting;
  while (now < state.nesting) now = at::autocast::increment_nesting();
  while (now > state.nesting) now = at::autocast::decrement_nesting();
}

std::vector<c10::SymInt> broadcast_sizes(c10::SymIntArrayRef a, c10::SymIntArrayRef b) {
  const auto sizes = at::infer_size_symint(a, b);
  return {sizes.begin(), sizes.end()};
}

std::vector<int64_t> dense_strides_like(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  return at::infer_dense_strides(sizes, strides);
}

at::Tensor tensor_of_number(const c10::Scalar& number) {
  at::Tensor tensor = c10::scalar_to_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

}  // namespace braze::pytorch
