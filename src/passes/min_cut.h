// Minimum cuts of networks with capacities.
//
// Method: Dinic, "Algorithm for solution of a problem of maximum flow in networks with power
// estimation", Soviet Mathematics Doklady 11 (1970): flow along shortest paths, phase by phase,
// O(V^2 E), far less on the networks of graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace braze::passes {

class MinCut {
 public:
  // An edge that is never cut. All other capacities together must stay below it.
  static constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max() / 4;

  explicit MinCut(int vertices) : edges_of_(vertices) {}

  // Capacity is at least 0, in any unit.
  void add_edge(int from, int to, int64_t capacity);

  // By vertex: whether it is on the source's side of the cut of least capacity; of several such
  // cuts, the one with the fewest vertices there. Call once.
  std::vector<bool> source_side(int source, int sink);

 private:
  struct Edge {
    int to;
    int64_t left;  // what still fits
  };

  bool find_levels(int source, int sink);
  bool push(int source, int sink);
  int step_from(int vertex);

  std::vector<Edge> edges_;                 // each beside its reverse: e and e ^ 1
  std::vector<std::vector<int>> edges_of_;  // by vertex
  std::vector<int> level_;                  // distance from the source, -1: not reached
  std::vector<size_t> next_;                // by vertex: the first edge that may still lead on
};

}  // namespace braze::passes
