// The index tensors of `index` and `index_put`.
#pragma once

#include <optional>
#include <vector>

#include "graph/infer/call.h"

namespace braze::graph {

struct Indices {
  size_t first = 0;                      // the first dimension that is indexed
  bool adjacent = true;                  // they are for dimensions that follow each other
  std::vector<const TensorType*> types;  // in order
  std::vector<bool> indexed;             // by dimension of the argument list
};

inline bool is_index(const TensorType& type) {
  return type.dtype == DType::kInt64 || type.dtype == DType::kInt32;
}

// Argument 1 of the call; empty optional for anything but tensors of integers (a mask, of which
// only the data tells how much it picks), for none and for too many.
std::optional<Indices> indices_of(const InferCall& call);
// The same, of dimensions that follow each other.
std::optional<Indices> following_indices(const InferCall& call);

}  // namespace braze::graph
