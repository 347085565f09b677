#include "passes/dce.h"

#include <gtest/gtest.h>

namespace braze::passes {
namespace {

TEST(Dce, UnusedChainsGo) {
  graph::Graph graph = graph::parse(R"(graph(%0: f32[4], %1: f32[4]) {
    %2: f32[4] = aten.exp(%0)
    %3: f32[4] = aten.neg(%2)
    %4: f32[4] = aten.neg(%1)
    %5: f32[4] = aten.relu(%1)
    %6: f32[] , %7: i64[] = aten.max.dim(%5, 0, false)
    return %7
    mutate %0 <- %4
  })");
  EXPECT_TRUE(eliminate_dead_code(graph));
  EXPECT_FALSE(eliminate_dead_code(graph));
  graph::verify(graph);
  EXPECT_EQ(graph::to_string(graph), R"(graph(%0: f32[4], %1: f32[4]) {
  %4: f32[4] = aten.neg(%1)
  %5: f32[4] = aten.relu(%1)
  %6: f32[], %7: i64[] = aten.max.dim(%5, 0, false)
  return %7
  mutate %0 <- %4
}
)");
}

TEST(Dce, EffectsStay) {
  graph::Graph graph = graph::parse(R"(graph(%0: f32[4]) {
    %1: f32[4] = aten.bernoulli(%0, None)
    my.log(%0) !opaque
    %2: f32[4] #%0 = aten.neg_(%0)
    return
  })");
  EXPECT_FALSE(eliminate_dead_code(graph));
  EXPECT_EQ(graph.nodes().size(), 3u);
}

}  // namespace
}  // namespace braze::passes
