// What ATen declares only in headers that include the better part of its operators, some 6 s for a
// source.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/core/SymInt.h>

#include <vector>

namespace braze::pytorch {

// State of autocast, which is per thread.
bool is_autocast_enabled(at::DeviceType device);
at::ScalarType autocast_dtype(at::DeviceType device);
void set_autocast_dtype(at::DeviceType device, at::ScalarType dtype);
bool is_autocast_cache_enabled();
void set_autocast_cache_enabled(bool enabled);
void clear_autocast_cache();
// Beside whether it is on, which is one of the thread's dispatch keys.
struct AutocastState {
  at::ScalarType cpu = at::kFloat, cuda = at::kFloat;
  bool cache = true;
  int nesting = 0;  // contexts that are open
};
AutocastState autocast_state();
void set_autocast_state(const AutocastState& state);

// The sizes to which both broadcast. Throws c10::Error where they do not.
std::vector<c10::SymInt> broadcast_sizes(c10::SymIntArrayRef a, c10::SymIntArrayRef b);

// Strides of a dense tensor that keeps the order of dimensions that `strides` gives.
std::vector<int64_t> dense_strides_like(c10::IntArrayRef sizes, c10::IntArrayRef strides);

// The 0-dim tensor that stands for a Python number in an operator's tensor argument: one whose
// dtype yields to those of the other arguments.
at::Tensor tensor_of_number(const c10::Scalar& number);

}  // namespace braze::pytorch
