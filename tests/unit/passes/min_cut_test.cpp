#include "passes/min_cut.h"

#include <gtest/gtest.h>

#include <random>

namespace braze::passes {
namespace {

struct Edge {
  int from, to;
  int64_t capacity;
};

int64_t capacity_across(const std::vector<Edge>& edges, const std::vector<bool>& is_source) {
  int64_t sum = 0;
  for (const Edge& edge : edges)
    if (is_source[edge.from] && !is_source[edge.to]) sum += edge.capacity;
  return sum;
}

std::vector<bool> cut(int vertices, const std::vector<Edge>& edges) {
  MinCut network(vertices);
  for (const Edge& edge : edges) network.add_edge(edge.from, edge.to, edge.capacity);
  return network.source_side(0, 1);
}

TEST(MinCut, CutsTheNarrowestPlace) {
  const std::vector<Edge> edges{{0, 2, 10}, {2, 3, 3}, {3, 1, 10}, {0, 3, 2}};
  EXPECT_EQ(cut(4, edges), (std::vector<bool>{true, false, true, false}));
}

TEST(MinCut, NeverCutsWhatIsInfinite) {
  const std::vector<Edge> edges{{0, 2, MinCut::kInfinite}, {2, 3, MinCut::kInfinite}, {3, 1, 7}};
  EXPECT_EQ(cut(4, edges), (std::vector<bool>{true, false, true, true}));
}

TEST(MinCut, SourceWithoutEdgesStandsAlone) {
  EXPECT_EQ(cut(3, {{2, 1, 5}}), (std::vector<bool>{true, false, false}));
}

TEST(MinCut, FlowMayTakeBackWhatItHasTaken) {
  // The shortest path, through both middles, has to be given up in part.
  const std::vector<Edge> edges{{0, 2, 1}, {0, 3, 1}, {2, 3, 1}, {2, 1, 1}, {3, 1, 1}};
  EXPECT_EQ(capacity_across(edges, cut(4, edges)), 2);
}

TEST(MinCut, IsTheLeastOfAllCutsOfRandomNetworks) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    constexpr int kVertices = 8;
    std::vector<Edge> edges;
    const int count = 4 + static_cast<int>(random() % 20);
    for (int i = 0; i < count; ++i) {
      const int from = static_cast<int>(random() % kVertices);
      const int to = static_cast<int>(random() % kVertices);
      if (from != to) edges.push_back({from, to, static_cast<int64_t>(random() % 12)});
    }
    const int64_t found = capacity_across(edges, cut(kVertices, edges));
    int64_t least = MinCut::kInfinite;
    for (int chosen = 0; chosen < 1 << (kVertices - 2); ++chosen) {
      std::vector<bool> side(kVertices);
      side[0] = true;
      for (int i = 2; i < kVertices; ++i) side[i] = (chosen >> (i - 2)) & 1;
      least = std::min(least, capacity_across(edges, side));
    }
    EXPECT_EQ(found, least);
  }
}

}  // namespace
}  // namespace braze::passes
