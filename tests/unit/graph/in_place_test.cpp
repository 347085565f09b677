#include "graph/in_place.h"

#include <gtest/gtest.h>

namespace braze::graph {
namespace {

TEST(InPlace, FunctionalOpIsThatOfTheNameWithoutTheUnderscore) {
  EXPECT_EQ(functional_name("aten.add_.Tensor"), "aten.add.Tensor");
  EXPECT_EQ(functional_name("aten.relu_"), "aten.relu");
}

TEST(InPlace, FunctionalOpOfAnotherName) {
  EXPECT_EQ(functional_name("aten.zero_"), "aten.zeros_like");
  EXPECT_EQ(functional_name("aten.pow_.Tensor"), "aten.pow.Tensor_Tensor");
  EXPECT_EQ(functional_name("aten.floor_divide_.Tensor"), "aten.floor_divide");
}

TEST(InPlace, SomeHaveNoFunctionalOp) {
  for (const char* name : {"aten.resize_", "aten.set_.source_Tensor", "aten.polygamma_",
                           "aten.add.Tensor", "aten.__and__.Tensor", "my.add_", ""})
    EXPECT_EQ(functional_name(name), "") << name;
}

TEST(InPlace, OpsThatDraw) {
  EXPECT_EQ(drawing_name("aten.bernoulli_.float"), "aten.bernoulli.p");
  EXPECT_EQ(drawing_name("aten.add_.Tensor"), "");
}

TEST(CountedWith, ViewsAndWritesLeadToTheTensorThatTheyAreOf) {
  const Graph graph = parse(R"(graph(%0 x: f32[2, 4]) {
    %1: f32[2, 4] #%0 = aten.detach(%0)
    %2: f32[4] #%0 = aten.select.int(%1, 0, 0)
    %3: f32[4] #%0 = aten.mul_.Scalar(%2, 2)
    %4: f32[4] = aten.exp(%3)
    return %3, %4
  })");
  EXPECT_EQ(counted_with(graph, graph.outputs()[0]), graph.inputs()[0].value);
  EXPECT_EQ(counted_with(graph, graph.outputs()[1]), graph.outputs()[1]);
}

}  // namespace
}  // namespace braze::graph
