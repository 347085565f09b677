// Sizes and strides that eager PyTorch gives to results. What depends on sizes that may be symbolic
// asks for them (questions.h).
#pragma once

#include <optional>
#include <span>

#include "graph/infer/questions.h"
#include "graph/types.h"

namespace braze::graph {

// Whether one of the sizes is the number 0.
bool is_empty(std::span<const sym::Int> sizes);

// The common size of operands by NumPy's broadcasting rule; empty optional: they do not fit.
std::optional<sym::Dims> try_broadcast(std::span<const TensorType* const> operands,
                                       SizeQuestions& ask);
// The same; an internal error when they do not fit.
sym::Dims broadcast_sizes(std::span<const TensorType* const> operands);

// Output strides of an elementwise op over operands that broadcast to `sizes`: the operands' common
// layout when they share a dense one, else dense in the order of dimensions that the operands'
// strides ask for, the first operand that decides a pair of dimensions winning (the rule of
// at::TensorIterator). `row_major` is set where they are surely those of a row-major tensor.
sym::Dims pointwise_strides(std::span<const TensorType* const> operands,
                            std::span<const sym::Int> sizes, SizeQuestions& ask = traced_sizes(),
                            bool* row_major = nullptr);

// Output strides of an at::TensorIterator that allocates for operands of these strides, one for
// each of `sizes`; 0: the operand is repeated along the dimension.
sym::Dims iterator_strides(std::span<const sym::Dims> operand_strides,
                           std::span<const sym::Int> sizes, SizeQuestions& ask = traced_sizes());

// Row-major strides; size-0 dims count as 1.
sym::Dims row_major_strides(std::span<const sym::Int> sizes, SizeQuestions& ask = traced_sizes());
// Those of a row-major tensor, dimensions of size 1 included.
bool is_row_major(const TensorType& type, SizeQuestions& ask = traced_sizes());

// Every element has its own place and there are no gaps.
bool is_dense(const TensorType& type);

// Two elements may have one place, for the sizes that were seen when traced.
bool may_overlap_itself(const TensorType& type);

// The memory format that at::Tensor::suggest_memory_format() reads from sizes and strides.
MemoryFormat suggested_format(const TensorType& type, SizeQuestions& ask = traced_sizes());
// at::Tensor::is_contiguous(format): a dimension of size 1 may have any stride, so that a tensor
// may be dense in several formats. False for formats of other ranks.
bool is_dense_in_format(const TensorType& type, MemoryFormat format, SizeQuestions& ask);
// The memory format of a tensor that is dense in exactly one; of others kernels make different
// things.
std::optional<MemoryFormat> plain_format(const TensorType& type, SizeQuestions& ask);
// Dense strides in a memory format other than kPreserve.
sym::Dims format_strides(std::span<const sym::Int> sizes, MemoryFormat format, SizeQuestions& ask);

// Strides of torch.empty_like(type, memory_format).
sym::Dims like_strides(const TensorType& type, MemoryFormat format,
                       SizeQuestions& ask = traced_sizes(), bool* row_major = nullptr);

// Strides of a view of `type` with these sizes; empty optional: needs a copy (at::view's rule).
std::optional<sym::Dims> view_strides(const TensorType& type, std::span<const sym::Int> sizes,
                                      SizeQuestions& ask = traced_sizes());

// A contiguous tensor.
TensorType make_type(DType dtype, sym::Dims sizes, Device device = {},
                     SizeQuestions& ask = traced_sizes());

}  // namespace braze::graph
