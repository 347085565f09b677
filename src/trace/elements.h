// Functions of single elements, evaluated over whole tensors.
//
// What changes a score of flex_attention is a function of numbers: the score and the four indices
// of where it stands, tensors without dimensions. A trace evaluates it once, over tensors of four
// dimensions that broadcast. That is the same as long as whatever depends on them goes through
// operators that compute each element by itself, looks up tables with an index for every
// dimension, and meets nothing but such tensors and numbers.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"

namespace braze::trace {

class TraceState;

class Elements {
 public:
  // Fakes of the current trace, each of four dimensions.
  explicit Elements(const std::vector<at::Tensor>& arguments);

  // Whether it is one of the arguments, or has been made since.
  bool may_hold(const at::Tensor& tensor) const;
  // Empty, or why what has been recorded since gives `result` otherwise than element by element.
  std::string why_not(const at::Tensor& result) const;

 private:
  const TraceState& state_;
  std::unordered_set<const graph::Value*> arguments_;
  int first_value_;
  const graph::Node* last_node_;  // the last before; null: none
};

}  // namespace braze::trace
