#include "passes/rematerialise.h"

#include <gtest/gtest.h>

#include <iterator>

#include "fuzz.h"
#include "passes/cse.h"
#include "passes/dce.h"
#include "passes/functionalise.h"

namespace braze::passes {
namespace {

// The nodes from `first_late` on are of a backward in the traced code.
void mark_backward(graph::Graph& graph, int first_late) {
  int place = 0;
  for (const auto& node : graph.nodes()) {
    if (place++ < first_late) continue;
    const graph::Origin* known = graph.origin(node->origin());
    graph::Origin origin = known ? *known : graph::Origin();
    origin.is_backward = true;
    node->set_origin(graph.add_origin(origin));
  }
}

std::string again(std::string_view text, int first_late) {
  graph::Graph graph = graph::parse(text);
  mark_backward(graph, first_late);
  rematerialise(graph);
  eliminate_dead_code(graph);
  graph::verify_functional(graph);
  return graph::canonical(graph);
}

// The graph as it is, by the same way.
std::string unchanged(std::string_view text) { return graph::canonical(graph::parse(text)); }

TEST(Rematerialise, MakesPointwiseResultsAgainWhereTheyAreNeeded) {
  EXPECT_EQ(again(R"(graph(%0 x: f32[4, 4]) {
    %1: f32[4, 4] = aten.mm(%0, %0)
    %2: f32[4, 4] = aten.exp(%1)
    %3: f32[] = aten.sum(%2, None)
    %4: f32[4, 4] = aten.mm(%0, %1)
    %5: f32[4, 4] = aten.mul.Tensor(%4, %2)
    return %3, %5
  })",
                  3),
            R"(graph(%0: f32[4, 4]) {
  %1: f32[4, 4] = aten.mm(%0, %0)
  %2: f32[4, 4] = aten.exp(%1)
  %3: f32[] = aten.sum(%2, None)
  %4: f32[4, 4] = aten.mm(%0, %1)
  %5: f32[4, 4] = aten.exp(%1)
  %6: f32[4, 4] = aten.mul.Tensor(%4, %5)
  return %3, %6
}
)");
}

TEST(Rematerialise, ViewsAreTakenAgainOfWhatIsHeld) {
  EXPECT_EQ(again(R"(graph(%0 x: f32[2, 4]) {
    %1: f32[2, 4] = aten.cumsum(%0, 0, None)
    %2: f32[4, 2]{1, 4} #%1 = aten.t(%1)
    %3: f32[4, 2] = aten.sin(%2)
    %4: f32[4, 2] = aten.mul.Tensor(%3, %2)
    return %3, %4
  })",
                  3),
            R"(graph(%0: f32[2, 4]) {
  %1: f32[2, 4] = aten.cumsum(%0, 0, None)
  %2: f32[4, 2]{1, 4} #%1 = aten.t(%1)
  %3: f32[4, 2] = aten.sin(%2)
  %4: f32[4, 2]{1, 4} #%1 = aten.t(%1)
  %5: f32[4, 2] = aten.mul.Tensor(%3, %4)
  return %3, %5
}
)");
}

TEST(Rematerialise, CheckpointedCallsAreMadeAgain) {
  graph::Graph graph = graph::parse(R"(graph(%0 x: f32[4, 4]) {
    %1: f32[4, 4] = aten.mm(%0, %0)
    %2: f32[4, 4] = aten.mm(%1, %0)
    %3: f32[4, 4] = aten.mm(%2, %0)
    %4: f32[4, 4] = aten.mm(%3, %1)
    return %3, %4
  })");
  const graph::OriginId call = graph.add_origin({.checkpoint = 1});
  const auto first = graph.nodes().begin();
  (*first)->set_origin(call);
  (*std::next(first))->set_origin(call);
  mark_backward(graph, 3);
  EXPECT_TRUE(rematerialise(graph));
  graph::verify_functional(graph);
  EXPECT_EQ(graph::canonical(graph), R"(graph(%0: f32[4, 4]) {
  %1: f32[4, 4] = aten.mm(%0, %0)
  %2: f32[4, 4] = aten.mm(%1, %0)
  %3: f32[4, 4] = aten.mm(%2, %0)
  %4: f32[4, 4] = aten.mm(%0, %0)
  %5: f32[4, 4] = aten.mm(%3, %4)
  return %3, %5
}
)");
}

TEST(Rematerialise, ResultsThatShareMemoryGoOnSharingIt) {
  constexpr auto text = R"(graph(%0 x: f32[2, 3]) {
    %1: f32[2, 3] = aten.full([2, 3], 0, f32, None, None, None)
    %2: f32[6] #%1 = aten.view(%1, [6])
    %3: f32[3, 2] #%1 = aten.view(%1, [3, 2])
    return %2, %3
  })";
  EXPECT_EQ(again(text, 2), unchanged(text));
}

TEST(Rematerialise, LeavesAloneWhatIsHeldAnyway) {
  constexpr auto result = R"(graph(%0 x: f32[4, 4]) {
    %1: f32[4, 4] = aten.mm(%0, %0)
    %2: f32[4, 4] = aten.exp(%1)
    %3: f32[4, 4] = aten.mul.Tensor(%2, %1)
    return %2, %3
  })";
  EXPECT_EQ(again(result, 2), unchanged(result)) << "the user has the value";
  constexpr auto products = R"(graph(%0 x: f32[4, 4]) {
    %1: f32[4, 4] = aten.mm(%0, %0)
    %2: f32[] = aten.sum(%1, None)
    %3: f32[4, 4] = aten.mul.Tensor(%1, %0)
    return %2, %3
  })";
  EXPECT_EQ(again(products, 2), unchanged(products)) << "a product is dear";
}

TEST(Rematerialise, RandomNumbersAreDrawnOnce) {
  constexpr auto text = R"(graph(%0 x: f32[4]) {
    %1: f32[4] = aten.bernoulli(%0, None)
    %2: f32[] = aten.sum(%1, None)
    %3: f32[4] = aten.mul.Tensor(%1, %0)
    return %2, %3
  })";
  EXPECT_EQ(again(text, 2), unchanged(text));
}

TEST(Rematerialise, AForwardAloneStaysAsItIs) {
  graph::Graph graph = graph::parse(R"(graph(%0 x: f32[4]) {
    %1: f32[4] = aten.exp(%0)
    %2: f32[4] = aten.mul.Tensor(%1, %0)
    return %2
  })");
  EXPECT_FALSE(rematerialise(graph));
}

bool rematerialise_second_half(graph::Graph& graph) {
  mark_backward(graph, static_cast<int>(graph.nodes().size()) / 2);
  return rematerialise(graph);
}

TEST(Rematerialise, RandomGraphsComputeTheSame) {
  int changed = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    graph::Graph graph = fuzz::random_graph(seed, 14, /*mutate=*/seed % 2 == 0);
    functionalise(graph);
    eliminate_common_subexpressions(graph);
    eliminate_dead_code(graph);
    EXPECT_EQ(fuzz::check_pass(graph.clone(), rematerialise_second_half, seed, false), "");
    changed += rematerialise_second_half(graph);
  }
  EXPECT_GT(changed, 50);
}

}  // namespace
}  // namespace braze::passes
