// Dependences between the items of a program, kept while items are merged.
#pragma once

#include <utility>
#include <vector>

#include "loop/program.h"
#include "schedule/aliases.h"

namespace braze::schedule {

// Nodes are items, numbered as in the program. An edge means "must come before": a read after the
// write, a write after a read or write of the same memory, and the chain of ordered externs.
// `order` is a topological order at all times.
class ItemGraph {
 public:
  // Stands between items: comes after all of `before`, whose numbers are smaller than `item`, and
  // before all of `after`, which are not smaller.
  struct Barrier {
    int item = 0;
    std::vector<int> before, after;
  };

  struct Constraints {
    std::vector<std::pair<int, int>> edges;  // the first has the smaller number
    std::vector<Barrier> barriers;           // in the order of their items
  };

  // The nodes of barriers are numbered behind those of all items.
  ItemGraph(const std::vector<Access>& accesses, size_t root_count,
            const Constraints& constraints = {});

  const std::vector<int>& successors(int node) const { return nodes_[node].successors; }
  const std::vector<int>& predecessors(int node) const { return nodes_[node].predecessors; }
  int position(int node) const { return nodes_[node].position; }
  bool alive(int node) const { return nodes_[node].alive; }
  size_t size() const { return nodes_.size(); }
  bool is_item(int node) const { return node < items_; }
  // Items in execution order.
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

  int items_ = 0;
  std::vector<Node> nodes_;
  std::vector<int> order_;  // by position; -1: was merged away
};

}  // namespace braze::schedule
