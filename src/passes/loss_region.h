// All that there is between the product that gives logits and the results of their cross entropy
// and of its gradients: what chunked_loss.h takes apart by rows.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "graph/graph.h"

namespace braze::passes {

// What a node of the region does with the rows of the logits, or of their gradient.
enum class RowRole : uint8_t {
  kRows,    // gives others, row by row
  kTurned,  // gives them as columns
  kLoss,    // a number for each row, or their sum
  kPart,    // a product of each row with a matrix
  kSum,     // a sum over rows of products with rows of a matrix
  kColumns  // a sum over rows
};

struct RegionMember {
  graph::Node* node;
  RowRole role;
};

struct LossRegion {
  graph::Node* product = nullptr;
  graph::Node* loss = nullptr;
  graph::Node* gradient = nullptr;    // of the loss
  std::vector<RegionMember> members;  // in order, the product first
  std::set<const graph::Value*> rows, turned, of_gradient;
  bool is_linear = true;  // in the gradient that comes to the loss
  int64_t row_count = 0, classes = 0;

  bool holds(const graph::Value* value) const {
    return rows.contains(value) || turned.contains(value);
  }
};

inline constexpr int64_t kRowsOfChunk = 256;  // at least, as products of fewer are slower

// That of `loss`, an nll_loss_forward. Nothing: it is small, has sizes that are symbols, or
// something else takes part in it.
std::optional<LossRegion> find_loss_region(const graph::Graph& graph, graph::Node* loss);

// Whether it leaves the region with a value that is not as large as the logits, for a gradient.
bool is_exit(RowRole role);

int64_t bytes_of(const graph::TensorType& type);  // its sizes are numbers

}  // namespace braze::passes
