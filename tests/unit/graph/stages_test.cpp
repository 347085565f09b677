#include "graph/stages.h"

#include <gtest/gtest.h>

namespace braze::graph {
namespace {

std::string text(const Stage& stage) { return to_string(stage.graph, false); }

TEST(Stages, AnItemIsReadBetweenTwoGraphs) {
  const Graph graph = parse(
      "graph(s0 = scalar(0) hint 7 range [-inf, inf], %0 x: f32[4], %1 n: i64[]) {\n"
      "  %2: i64[] = aten.add.Scalar(%1, 1, 1)\n"
      "  braze.item(%2, s0)\n"
      "  %3: f32[4] = aten.mul.Scalar(%0, s0)\n"
      "  return %3\n"
      "}\n");
  const Staged staged = split_at_data(graph, std::vector<int>{0});
  ASSERT_EQ(staged.stages.size(), 2u);
  EXPECT_EQ(staged.inputs, (std::vector<int>{0, 1}));
  EXPECT_EQ(staged.outputs, std::vector<int>{3});
  EXPECT_EQ(staged.stages[0].inputs, std::vector<int>{1});
  EXPECT_EQ(staged.stages[0].outputs, std::vector<int>{2});
  ASSERT_TRUE(staged.stages[0].read);
  EXPECT_EQ(staged.stages[0].read->op, "braze.item");
  EXPECT_EQ(staged.stages[0].read->symbols[0].result, -1);
  EXPECT_EQ(staged.stages[1].inputs, std::vector<int>{0});
  EXPECT_FALSE(staged.stages[1].read);
  for (const Stage& stage : staged.stages) verify(stage.graph);
  EXPECT_NE(text(staged.stages[1]).find("aten.mul.Scalar(%0, s0)"), std::string::npos);
}

TEST(Stages, ASizeIsThatOfTheFirstResultThatHasIt) {
  const Graph graph = parse(
      "graph(s0 = scalar(0) hint 7 range [0, inf], %0 x: f32[4]) {\n"
      "  %1: i64[s0, 1] = aten.nonzero(%0)\n"
      "  %2: i64[s0, 1] = aten.add.Scalar(%1, 1, 1)\n"
      "  return %2, %1\n"
      "}\n");
  const Staged staged = split_at_data(graph, std::vector<int>{0});
  ASSERT_EQ(staged.stages.size(), 2u);
  EXPECT_TRUE(staged.stages[0].empty());
  ASSERT_TRUE(staged.stages[0].read);
  EXPECT_EQ(staged.stages[0].read->op, "aten.nonzero");
  EXPECT_EQ(staged.stages[0].read->results, std::vector<int>{1});
  EXPECT_EQ(staged.stages[1].inputs, std::vector<int>{1});
  EXPECT_EQ(staged.outputs, (std::vector<int>{2, 1}));
}

TEST(Stages, ASymbolThatNothingReadsIsAnError) {
  const Graph graph = parse("graph(s0 = scalar(0) hint 7, %0 x: f32[4]) { return %0 }");
  EXPECT_THROW(split_at_data(graph, std::vector<int>{0}), InternalError);
}

}  // namespace
}  // namespace braze::graph
