#include "passes/cse.h"

#include <gtest/gtest.h>

namespace braze::passes {
namespace {

using graph::Graph;

std::string without_repetition(std::string_view text, bool expect_change = true) {
  Graph graph = graph::parse(text);
  graph::verify(graph);
  EXPECT_EQ(eliminate_common_subexpressions(graph), expect_change);
  graph::verify(graph);
  EXPECT_FALSE(eliminate_common_subexpressions(graph));
  return graph::canonical(graph);
}

TEST(Cse, EqualNodesBecomeOne) {
  EXPECT_EQ(without_repetition(R"(graph(%0: f32[4]) {
    %1: f32[4] = aten.exp(%0)
    %2: f32[4] = aten.exp(%0)
    %3: f32[2, 2] #%2 = aten.view(%2, [2, 2])
    %4: f32[2, 2] #%1 = aten.view(%1, [2, 2])
    %5: f32[2, 2] = aten.add.Tensor(%3, %4, 1)
    return %5
  })"),
            R"(graph(%0: f32[4]) {
  %1: f32[4] = aten.exp(%0)
  %2: f32[2, 2] #%1 = aten.view(%1, [2, 2])
  %3: f32[2, 2] = aten.add.Tensor(%2, %2, 1)
  return %3
}
)");
}

TEST(Cse, ArgumentsMustBeEqual) {
  without_repetition(R"(graph(%0: f32[4]) {
    %1: f32[4] = aten.mul.Tensor(%0, 0.0)
    %2: f32[4] = aten.mul.Tensor(%0, -0.0)
    %3: f32[4] = aten.mul.Tensor(%0, 0)
    %4: f32[4] = aten.add.Tensor(%0, %1, 1)
    %5: f32[4] = aten.add.Tensor(%0, %1, 2)
    return %1, %2, %3, %4, %5
  })",
                     false);
}

TEST(Cse, RandomAndOpaqueOpsStay) {
  without_repetition(R"(graph(%0: f32[4]) {
    %1: f32[4] = aten.bernoulli(%0, None)
    %2: f32[4] = aten.bernoulli(%0, None)
    %3: f32[4] = my.print(%0) !opaque
    %4: f32[4] = my.print(%0) !opaque
    %5: f32[4] = aten.cat([%1, %2, %3, %4], 0)
    return %5
  })",
                     false);
}

TEST(Cse, TwoOutputsStayTwoTensors) {
  without_repetition(R"(graph(%0: f32[4]) {
    %1: f32[4] = aten.exp(%0)
    %2: f32[4] = aten.exp(%0)
    return %1, %2
  })",
                     false);
  without_repetition(R"(graph(%0: f32[4]) {
    %1: f32[4] = aten.exp(%0)
    %2: f32[4] = aten.exp(%0)
    %3: f32[2, 2] #%1 = aten.view(%1, [2, 2])
    %4: f32[2]+2 #%2 = aten.slice.Tensor(%2, 0, 2, 4, 1)
    return %3, %4
  })",
                     false);
  EXPECT_EQ(without_repetition(R"(graph(%0: f32[4]) {
    %1: f32[4] = aten.exp(%0)
    %2: f32[4] = aten.exp(%0)
    %3: f32[4] = aten.neg(%1)
    return %2, %3
  })"),
            R"(graph(%0: f32[4]) {
  %1: f32[4] = aten.exp(%0)
  %2: f32[4] = aten.neg(%1)
  return %1, %2
}
)");
}

}  // namespace
}  // namespace braze::passes
