// Sizes and strides that eager PyTorch gives to results.
#pragma once

#include <optional>
#include <span>

#include "graph/types.h"

namespace braze::graph {

// The common size of operands by NumPy's broadcasting rule; an internal error when they do not fit.
sym::Dims broadcast_sizes(std::span<const TensorType* const> operands);

// Output strides of an elementwise op over operands that broadcast to `sizes`: the operands' common
// layout when they share a dense one, else dense in the order of dimensions that the operands'
// strides ask for, the first operand that decides a pair of dimensions winning (the rule of
// at::TensorIterator).
sym::Dims pointwise_strides(std::span<const TensorType* const> operands,
                            std::span<const sym::Int> sizes);

// Output strides of an at::TensorIterator that allocates for operands of these strides, one for
// each of `sizes`; 0: the operand is repeated along the dimension.
sym::Dims iterator_strides(std::span<const sym::Dims> operand_strides,
                           std::span<const sym::Int> sizes);

// Every element has its own place and there are no gaps.
bool is_dense(const TensorType& type);

// Two elements may have one place, for the sizes that were seen when traced.
bool may_overlap_itself(const TensorType& type);

// The memory format that at::Tensor::suggest_memory_format() reads from sizes and strides.
MemoryFormat suggested_format(const TensorType& type);

// Strides of torch.empty_like(type, memory_format).
sym::Dims like_strides(const TensorType& type, MemoryFormat format);

// Strides of a view of `type` with these sizes; empty optional: needs a copy (at::view's rule).
std::optional<sym::Dims> view_strides(const TensorType& type, std::span<const sym::Int> sizes);

// A contiguous tensor.
TensorType make_type(DType dtype, sym::Dims sizes, Device device = {});

}  // namespace braze::graph
