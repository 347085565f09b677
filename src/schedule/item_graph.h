// Dependences between the items of a program, kept while items are merged.
#pragma once

#include <vector>

#include "loop/program.h"
#include "schedule/aliases.h"

namespace braze::schedule {

// Nodes are items, numbered as in the program. An edge means "must come before": a read after the
// write, a write after a read or write of the same memory, and the chain of ordered externs.
// `order` is a topological order at all times.
class ItemGraph {
 public:
  ItemGraph(const std::vector<Access>& accesses, size_t root_count);

  const std::vector<int>& successors(int node) const { return nodes_[node].successors; }
  const std::vector<int>& predecessors(int node) const { return nodes_[node].predecessors; }
  int position(int node) const { return nodes_[node].position; }
  bool alive(int node) const { return nodes_[node].alive; }
  // Nodes in execution order.
  std::vector<int> order() const;

  // Whether `first` and `second` (which comes later) can be one node: no path leads from one to the
  // other over a third.
  bool can_merge(int first, int second);
  // `second` becomes part of `first`; only after can_merge said so.
  void merge(int first, int second);
  // The order that merge(first, second) would lead to.
  std::vector<int> order_if_merged(int first, int second);

 private:
  struct Node {
    std::vector<int> predecessors, successors;
    int position = 0;
    bool alive = true;
    bool marked = false;  // scratch of can_merge and merge
  };

  void add_edge(int from, int to);
  // Marks the descendants of `first` that come before `second`, and gives them.
  std::vector<int> descendants_before(int first, int second, bool* reaches_second);
  // The two and what stands between them, in the order after merging: first what does not depend on
  // `first`, then `first`, then what does.
  std::vector<int> merged_window(int first, int second);

  std::vector<Node> nodes_;
  std::vector<int> order_;  // by position; -1: was merged away
};

}  // namespace braze::schedule
