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

TEST(Dce, WhatMayRefuseItsDataStays) {
  graph::Graph graph = graph::parse(R"(graph(%0: f32[4], %1: i64[2], %2: i64[2]) {
    %3: f32[2] = aten.gather(%0, 0, %1)
    %4: i64[2] = aten.floor_divide(%1, %2)
    %5: f32[4] = aten.index_put(%0, ?[%1], %3, false)
    %6: f32[] = aten.nll_loss_forward(%0, %1)
    %7: f32[2] = my.lookup(%0)
    return
  })");
  EXPECT_FALSE(eliminate_dead_code(graph));
  EXPECT_EQ(graph.nodes().size(), 5u);
}

TEST(Dce, WhatCannotRefuseGoes) {
  graph::Graph graph = graph::parse(R"(graph(%0: f32[4], %1: i64[2]) {
    %2: f32[4] = aten.floor_divide(%0, %0)
    %3: i64[2] = aten.remainder.Scalar(%1, 3)
    %4: f32[4] = aten.lgamma(%0)
    %5: f32[4], %6: i64[4] = aten.sort(%0, 0, false)
    return
  })");
  EXPECT_TRUE(eliminate_dead_code(graph));
  EXPECT_EQ(graph.nodes().size(), 0u);
}

}  // namespace
}  // namespace braze::passes
