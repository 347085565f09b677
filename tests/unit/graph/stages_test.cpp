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

TEST(Stages, BranchesAreGraphsOfTheirOwn) {
  const Graph graph = parse(
      "graph(%0 x: f32[4], %1 p: bool[]) {\n"
      "  %2: f32[4] = aten.exp(%0)\n"
      "  braze.begin(0)\n"
      "  %3: f32[4] = aten.sin(%2)\n"
      "  braze.end(0, [%3])\n"
      "  braze.begin(1)\n"
      "  %4: f32[4] = aten.add.Tensor(%0, %2, 1)\n"
      "  braze.end(1, [%4])\n"
      "  %5: f32[4] = braze.cond(%1, 0, 1)\n"
      "  %6: f32[4] = aten.cos(%5)\n"
      "  return %6\n"
      "}\n");
  ASSERT_TRUE(has_control_flow(graph));
  const Staged staged = split_at_data(graph, {});
  ASSERT_EQ(staged.stages.size(), 2u);
  EXPECT_EQ(staged.stages[0].outputs, std::vector<int>{2});
  ASSERT_TRUE(staged.stages[0].cond);
  const Stage::Cond& cond = *staged.stages[0].cond;
  EXPECT_EQ(cond.predicate, 1);
  EXPECT_EQ(cond.yes.inputs, std::vector<int>{2});
  EXPECT_EQ(cond.no.inputs, (std::vector<int>{0, 2}));
  EXPECT_EQ(cond.results, std::vector<int>{5});
  EXPECT_NE(to_string(cond.yes.graph, false).find("aten.sin"), std::string::npos);
  EXPECT_EQ(staged.stages[1].inputs, std::vector<int>{5});
  verify(cond.yes.graph);
  verify(cond.no.graph);
}

TEST(Stages, ALoopTakesWhatItCarriesAsParameters) {
  const Graph graph = parse(
      "graph(%0 x: f32[4], %1 w: f32[4]) {\n"
      "  %2: f32[4] = braze.parameter(0)\n"
      "  braze.begin(0)\n"
      "  %3: bool[] = aten.any(%2)\n"
      "  braze.end(0, [%3])\n"
      "  braze.begin(1)\n"
      "  %4: f32[4] = aten.sub.Tensor(%2, %1, 1)\n"
      "  braze.end(1, [%4])\n"
      "  %5: f32[4] = braze.while(0, 1, [%0])\n"
      "  return %5\n"
      "}\n");
  const Staged staged = split_at_data(graph, {});
  ASSERT_EQ(staged.stages.size(), 2u);
  EXPECT_TRUE(staged.stages[0].empty());
  ASSERT_TRUE(staged.stages[0].loop);
  const Stage::Loop& loop = *staged.stages[0].loop;
  EXPECT_EQ(loop.condition.inputs, std::vector<int>{-1});
  EXPECT_EQ(loop.body.inputs, (std::vector<int>{-1, 1}));
  EXPECT_EQ(loop.carried, std::vector<int>{0});
  EXPECT_EQ(loop.results, std::vector<int>{5});
}

}  // namespace
}  // namespace braze::graph
