#include "passes/min_cut.h"

#include <algorithm>

#include "base/error.h"

namespace braze::passes {

void MinCut::add_edge(int from, int to, int64_t capacity) {
  BRAZE_CHECK(capacity >= 0, "a capacity below zero");
  edges_of_[from].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({to, capacity});
  edges_of_[to].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({from, 0});
}

bool MinCut::find_levels(int source, int sink) {
  level_.assign(edges_of_.size(), -1);
  level_[source] = 0;
  std::vector<int> open{source};
  for (size_t i = 0; i < open.size(); ++i) {
    for (const int edge : edges_of_[open[i]]) {
      const int to = edges_[edge].to;
      if (edges_[edge].left == 0 || level_[to] >= 0) continue;
      level_[to] = level_[open[i]] + 1;
      open.push_back(to);
    }
  }
  return level_[sink] >= 0;
}

// The edge by which flow may go on from the vertex, a level further; -1: none is left.
int MinCut::step_from(int vertex) {
  for (size_t& i = next_[vertex]; i < edges_of_[vertex].size(); ++i) {
    const Edge& edge = edges_[edges_of_[vertex][i]];
    if (edge.left > 0 && level_[edge.to] == level_[vertex] + 1) return edges_of_[vertex][i];
  }
  return -1;
}

// One path's flow; false: no path of this phase is left.
bool MinCut::push(int source, int sink) {
  std::vector<int> path;
  int vertex = source;
  while (vertex != sink) {
    const int edge = step_from(vertex);
    if (edge >= 0) {
      path.push_back(edge);
      vertex = edges_[edge].to;
      continue;
    }
    if (path.empty()) return false;
    vertex = edges_[path.back() ^ 1].to;
    ++next_[vertex];
    path.pop_back();
  }
  int64_t flow = kInfinite;
  for (const int edge : path) flow = std::min(flow, edges_[edge].left);
  for (const int edge : path) {
    edges_[edge].left -= flow;
    edges_[edge ^ 1].left += flow;
  }
  return true;
}

std::vector<bool> MinCut::source_side(int source, int sink) {
  while (find_levels(source, sink)) {
    next_.assign(edges_of_.size(), 0);
    while (push(source, sink)) {
    }
  }
  std::vector<bool> side(level_.size());
  for (size_t i = 0; i < side.size(); ++i) side[i] = level_[i] >= 0;
  return side;
}

}  // namespace braze::passes
