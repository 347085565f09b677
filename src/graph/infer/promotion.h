// Type promotion as PyTorch does it (torch.result_type).
#pragma once

#include <span>

#include "graph/graph.h"

namespace braze::graph {

DType promote_types(DType a, DType b);

// Whether a result of the one dtype may be written to memory of the other (c10::canCast).
bool can_cast(DType from, DType to);

// That of a number's real part: f32 of c64; any other is its own.
DType part_of(DType dtype);

// What eager computes in: f32 for halves, which it rounds in the end.
constexpr DType compute_dtype(DType dtype) { return is_half(dtype) ? DType::kFloat32 : dtype; }

// What a Python number contributes by itself: bool, i64, the default dtype or the complex one of
// its precision.
DType dtype_of_scalar(const Argument& scalar, DType default_dtype = DType::kFloat32);

// The common dtype of tensors and numbers: tensors with dimensions outweigh 0-dim tensors, which
// outweigh numbers, within one kind (bool < integers < floats < complex). Arguments that are
// neither are skipped; at least one must count.
DType result_type(std::span<const Argument> arguments, DType default_dtype = DType::kFloat32);

}  // namespace braze::graph
