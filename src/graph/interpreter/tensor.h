// Tensors in plain memory, for the reference interpreter.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "graph/types.h"

namespace braze::graph {

// One element. Integers and bool are held as integers, floats (f16 and bf16 too) as double.
struct Number {
  bool real = false;
  double f = 0;
  int64_t i = 0;

  static Number of(double value) { return {true, value, 0}; }
  static Number of(int64_t value) { return {false, 0, value}; }
  static Number of(bool value) { return {false, 0, value}; }
  double as_double() const { return real ? f : static_cast<double>(i); }
  bool as_bool() const { return real ? f != 0 : i != 0; }
};

// The number as the dtype holds it: rounded, wrapped, or != 0 for bool.
Number convert(Number number, DType dtype);

// Element (i0, i1, ...) is at offset + sum of ik * stride[k] elements in the memory, which tensors
// may share. Copies of a Tensor are the same tensor.
struct Tensor {
  TensorType type;
  std::shared_ptr<std::vector<std::byte>> memory;

  Number get(std::span<const int64_t> index) const;
  void set(std::span<const int64_t> index, Number value);
  // The elements in row-major order.
  std::vector<Number> numbers() const;
  std::byte* data() const;  // of the memory, not of element 0

 private:
  std::byte* address(std::span<const int64_t> index) const;
};

// With zeroed memory of its own, as large as the strides need.
Tensor make_tensor(TensorType type);
// The same memory seen with another type; an internal error if that reaches outside.
Tensor view_of(const Tensor& tensor, TensorType type);

// Calls f(index) for all indices below `sizes` in row-major order.
template <class F>
void for_each_index(std::span<const sym::Int> sizes, F&& f) {
  std::vector<int64_t> index(sizes.size(), 0);
  for (const sym::Int& size : sizes) {
    if (size.constant() == 0) return;
  }
  while (true) {
    f(std::span<const int64_t>(index));
    size_t dim = index.size();
    while (dim > 0 && ++index[dim - 1] == sizes[dim - 1].constant()) index[--dim] = 0;
    if (dim == 0) return;
  }
}

}  // namespace braze::graph
