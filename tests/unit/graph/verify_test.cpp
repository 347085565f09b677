#include <gtest/gtest.h>

#include "graph/graph.h"

namespace braze::graph {
namespace {

std::string error_of(const Graph& graph, bool functional = false) {
  try {
    functional ? verify_functional(graph) : verify(graph);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "no error";
}

void expect_error(const Graph& graph, const std::string& message, bool functional = false) {
  EXPECT_NE(error_of(graph, functional).find(message), std::string::npos)
      << error_of(graph, functional);
}

Node* last(const Graph& graph) { return graph.nodes().back().get(); }

TEST(Verify, OperandMustBeDefinedBefore) {
  Graph graph =
      parse("graph(%0: f32[2]) { %1: f32[2] = aten.relu(%0) %2: f32[2] = aten.neg(%1) return %2 }");
  graph.nodes().front()->set_arg(0, last(graph)->result());
  expect_error(graph, "used before its definition");
}

TEST(Verify, OperandMustBeOfTheGraph) {
  Graph graph = parse("graph(%0: f32[2]) { %1: f32[2] = aten.relu(%0) return %1 }");
  Graph other = parse("graph(%0: f32[2]) { return %0 }");
  last(graph)->set_arg(0, other.inputs()[0].value);
  expect_error(graph, "not of this graph");
  last(graph)->set_arg(0, graph.inputs()[0].value);
}

TEST(Verify, OutputMustBeOfTheGraph) {
  Graph graph = parse("graph(%0: f32[2]) { return %0 }");
  Graph other = parse("graph(%0: f32[2]) { return %0 }");
  graph.set_outputs({other.inputs()[0].value});
  expect_error(graph, "by a graph output");
}

TEST(Verify, SizesAndStrides) {
  Graph graph = parse("graph(%0: f32[2]) { return %0 }");
  TensorType type = graph.inputs()[0].value->type();
  type.strides.push_back(1);
  graph.inputs()[0].value->set_type(type);
  expect_error(graph, "%0 has sizes and strides of different length, in input");
  expect_error(parse("graph(%0: f32[-2]) { return %0 }"), "%0 has a negative size");
}

TEST(Verify, ViewsShareStorage) {
  expect_error(parse("graph(%0: f32[2]) { %1: f32[2, 1] = aten.unsqueeze(%0, 1) return %1 }"),
               "%1 does not share the storage of argument 0, in %1: f32[2, 1] = aten.unsqueeze");
}

TEST(Verify, FreshResultsHaveTheirOwnStorage) {
  expect_error(parse("graph(%0: f32[2]) { %1: f32[2] #%0 = aten.relu(%0) return %1 }"),
               "%1 is fresh but shares storage with an earlier value");
}

TEST(Verify, MutatedArgumentsAreTensors) {
  expect_error(parse("graph(%0: f32[2]) { %1: f32[2] = aten.add_.Tensor(1, %0, 1) return %1 }"),
               "argument 0 is written to but is no tensor");
}

TEST(Verify, MutationTargetsAreInputs) {
  expect_error(parse("graph(%0: f32[2]) { %1: f32[2] = aten.relu(%0) return mutate %1 <- %0 }"),
               "mutated value %1 is no input");
}

TEST(Verify, MutationsAreUnique) {
  expect_error(parse("graph(%0: f32[2]) { %1: f32[2] = aten.relu(%0) return mutate %0 <- %1 mutate "
                     "%0 <- %1 }"),
               "input %0 is mutated twice");
}

TEST(Verify, MutationTypesAgree) {
  expect_error(parse("graph(%0: f32[2]) { %1: f64[2] = my.op(%0) return mutate %0 <- %1 }"),
               "input %0 is mutated by a value of another type, %1: f64[2]");
}

TEST(Verify, MutationSourceIsNoMutatedMemory) {
  expect_error(parse("graph(%0: f32[2], %1: f32[2]) { %2: f32[2] = my.op(%0) return mutate %0 <- "
                     "%1 mutate %1 <- %2 }"),
               "shares memory with a mutated input");
}

TEST(Verify, FunctionalGraphsDoNotMutate) {
  const Graph graph = parse("graph(%0: f32[2]) { %1: f32[2] #%0 = aten.relu_(%0) return %1 }");
  EXPECT_EQ(error_of(graph), "no error");
  expect_error(graph, "a node mutates in a functional graph: %1: f32[2] = aten.relu_(%0)", true);
}

}  // namespace
}  // namespace braze::graph
