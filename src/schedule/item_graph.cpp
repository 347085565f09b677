#include "schedule/item_graph.h"

#include <algorithm>
#include <iterator>

namespace braze::schedule {
namespace {

void insert_unique(std::vector<int>& list, int value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

void replace(std::vector<int>& list, int from, int to) {
  std::erase(list, from);
  insert_unique(list, to);
}

}  // namespace

ItemGraph::ItemGraph(const std::vector<Access>& accesses, size_t root_count,
                     const Constraints& constraints)
    : items_(static_cast<int>(accesses.size())),
      nodes_(accesses.size() + constraints.barriers.size()) {
  const std::vector<Barrier>& barriers = constraints.barriers;
  std::vector<std::vector<int>> writers(root_count), readers(root_count);
  int last_ordered = -1;
  size_t barrier = 0;
  auto place = [&](int node) {
    nodes_[node].position = static_cast<int>(order_.size());
    order_.push_back(node);
  };
  for (int item = 0; item < items_; ++item) {
    for (; barrier < barriers.size() && barriers[barrier].item == item; ++barrier)
      place(items_ + static_cast<int>(barrier));
    place(item);
    const Access& access = accesses[item];
    for (int root : access.reads) {
      for (int writer : writers[root]) add_edge(writer, item);
    }
    for (int root : access.writes) {
      for (int writer : writers[root]) add_edge(writer, item);
      for (int reader : readers[root]) add_edge(reader, item);
    }
    for (int root : access.reads) readers[root].push_back(item);
    for (int root : access.writes) {
      // Earlier writers stay: a buffer may be written in parts, and this one need not read them.
      writers[root].push_back(item);
      readers[root].clear();
    }
    if (access.ordered) {
      if (last_ordered >= 0) add_edge(last_ordered, item);
      last_ordered = item;
    }
  }
  for (const auto& [before, after] : constraints.edges) add_edge(before, after);
  for (size_t i = 0; i < barriers.size(); ++i) {
    const int node = items_ + static_cast<int>(i);
    if (i > 0) add_edge(node - 1, node);
    for (int item : barriers[i].before) add_edge(item, node);
    for (int item : barriers[i].after) add_edge(node, item);
  }
}

void ItemGraph::add_edge(int from, int to) {
  if (from == to) return;
  insert_unique(nodes_[to].predecessors, from);
  insert_unique(nodes_[from].successors, to);
}

std::vector<int> ItemGraph::order() const {
  std::vector<int> result;
  for (int node : order_) {
    if (node >= 0 && is_item(node)) result.push_back(node);
  }
  return result;
}

std::vector<int> ItemGraph::descendants_before(int first, int second, bool* reaches_second) {
  std::vector<int> found;
  int limit = nodes_[second].position;
  auto visit = [&](int node) {
    if (nodes_[node].marked || nodes_[node].position > limit || node == second) return;
    nodes_[node].marked = true;
    found.push_back(node);
  };
  for (int next : nodes_[first].successors) visit(next);
  for (size_t i = 0; i < found.size(); ++i) {
    for (int next : nodes_[found[i]].successors) {
      if (next == second && reaches_second != nullptr) *reaches_second = true;
      visit(next);
    }
  }
  return found;
}

bool ItemGraph::can_merge(int first, int second) {
  bool reaches = false;
  for (int node : descendants_before(first, second, &reaches)) nodes_[node].marked = false;
  return !reaches;
}

std::vector<int> ItemGraph::merged_window(int first, int second) {
  std::vector<int> later = descendants_before(first, second, nullptr);
  std::vector<int> window, after;
  for (int position = nodes_[first].position; position <= nodes_[second].position; ++position) {
    int node = order_[position];
    if (node < 0 || node == first || node == second) continue;
    (nodes_[node].marked ? after : window).push_back(node);
  }
  for (int node : later) nodes_[node].marked = false;
  window.push_back(first);
  window.insert(window.end(), after.begin(), after.end());
  return window;
}

std::vector<int> ItemGraph::order_if_merged(int first, int second) {
  std::vector<int> window = merged_window(first, second);
  std::vector<int> result;
  for (size_t position = 0; position < order_.size(); ++position) {
    if (static_cast<int>(position) == nodes_[first].position) {
      std::ranges::copy_if(window, std::back_inserter(result), [&](int n) { return is_item(n); });
      position = nodes_[second].position;
    } else if (order_[position] >= 0 && is_item(order_[position])) {
      result.push_back(order_[position]);
    }
  }
  return result;
}

void ItemGraph::merge(int first, int second) {
  int position = nodes_[first].position, end = nodes_[second].position;
  for (int node : merged_window(first, second)) {
    order_[position] = node;
    nodes_[node].position = position++;
  }
  while (position <= end) order_[position++] = -1;

  Node& gone = nodes_[second];
  gone.alive = false;
  for (int node : gone.predecessors) {
    if (node == first) continue;
    replace(nodes_[node].successors, second, first);
    insert_unique(nodes_[first].predecessors, node);
  }
  for (int node : gone.successors) {
    replace(nodes_[node].predecessors, second, first);
    insert_unique(nodes_[first].successors, node);
  }
  std::erase(nodes_[first].successors, second);
  gone.predecessors.clear();
  gone.successors.clear();
}

}  // namespace braze::schedule
