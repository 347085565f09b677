#include "passes/pass_manager.h"

#include <gtest/gtest.h>

#include "graph/op_kind.h"
#include "passes/pipeline.h"

namespace braze::passes {
namespace {

using graph::Graph;

constexpr std::string_view kText = "graph(%0: f32[2]) { %1: f32[2] = aten.relu(%0) return %1 }";

void swap_op(Graph& graph) {
  graph::Node* old = graph.nodes().back().get();
  graph::Node* made =
      graph.add_node(graph::op_of(graph::OpKind::kneg), old->args(), {old->result()->type()});
  graph.replace_all_uses(old->result(), made->result());
  graph.erase(old);
}

bool honest(Graph& graph) {
  swap_op(graph);
  return true;
}
bool idle(Graph&) { return false; }
bool boaster(Graph&) { return true; }
bool liar(Graph& graph) {
  swap_op(graph);
  return false;
}
bool breaker(Graph& graph) {
  graph::TensorType type = graph.outputs()[0]->type();
  type.strides = {};
  graph.outputs()[0]->set_type(type);
  return true;
}
bool mutator(Graph& graph) {
  graph::Value* x = graph.inputs()[0].value;
  graph.add_node(graph::find_or_add_op("aten.neg_"), {x}, {x->type()}, -1, nullptr, {x->storage()});
  return true;
}

std::string error_of(std::vector<Pass> passes) {
  Graph graph = graph::parse(kText);
  try {
    run_passes(graph, passes, {});
  } catch (const InternalError& error) {
    return error.what();
  }
  return "no error";
}

void expect_error(std::vector<Pass> passes, const std::string& message) {
  const std::string error = error_of(std::move(passes));
  EXPECT_NE(error.find(message), std::string::npos) << error;
}

TEST(PassManager, DistrustsPasses) {
  EXPECT_EQ(error_of({{"honest", honest}, {"idle", idle}}), "no error");
  expect_error({{"boaster", boaster}}, "pass 'boaster'");
  expect_error({{"boaster", boaster}}, "says that it changed the graph, but it did not");
  expect_error({{"idle", idle}, {"liar", liar}}, "pass 'liar'");
  expect_error({{"liar", liar}}, "says that it changed nothing, but it did");
  expect_error({{"breaker", breaker}}, "pass 'breaker'");
  expect_error({{"mutator", mutator}}, "a node mutates in a functional graph");
  EXPECT_EQ(error_of({{"mutator", mutator, false}}), "no error");
}

TEST(PassManager, DumpsSkipsAndBisects) {
  const std::vector<Pass> passes = {{"first", honest}, {"idle", idle}, {"third", honest}};
  auto dumps = [&](PassOptions options) {
    std::vector<std::string> all;
    options.dump = [&](int number, std::string_view pass, const std::string&) {
      all.push_back(std::to_string(number) + " " + std::string(pass));
    };
    Graph graph = graph::parse(kText);
    run_passes(graph, passes, options);
    return all;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(dumps({}), (Names{"0 input", "1 first", "3 third"}));
  EXPECT_EQ(dumps({.skip = {"first"}}), (Names{"0 input", "3 third"}));
  EXPECT_EQ(dumps({.limit = 2}), (Names{"0 input", "1 first"}));
  EXPECT_EQ(dumps({.limit = 0}), (Names{"0 input"}));
  EXPECT_EQ(dumps({.check_each = false}), (Names{"0 input", "1 first", "3 third"}));
}

TEST(Pipeline, UnsupportedPassesThrough) {
  Graph graph = graph::parse(
      "graph(%0: f32[2]{2}) { %1: f32[2]{2} #%0 = aten.normal_(%0, 0.0, 1.0, None) "
      "!random !mutates[0] !results_alias[0] return %1 }");
  const std::string before = to_string(graph);
  EXPECT_THROW(run_inference_pipeline(graph, {}), Unsupported);
  EXPECT_EQ(to_string(graph), before);
}

TEST(Pipeline, RunsAllPasses) {
  Graph graph = graph::parse(R"(graph(%0 x: f32[2, 3], %1 w: f32[3] parameter) {
    %2: f32[2, 3] = aten.clone(%0, None)
    %3: f32[2, 3] #%2 = aten.mul_.Tensor(%2, %1)
    %4: f32[2, 3] = aten.square(%2)
    %5: f32[2, 3] = aten.square(%2)
    %6: f32[2, 3] = aten.add.Tensor(%4, %5, 1)
    %7: f32[2, 3] = aten.exp(%6)
    return %6
  })");
  run_inference_pipeline(graph, {});
  EXPECT_EQ(graph::canonical(graph), R"(graph(%0: f32[2, 3], %1: f32[3] parameter) {
  %2: f32[2, 3] = aten.mul.Tensor(%0, %1)
  %3: f32[2, 3] = aten.mul.Tensor(%2, %2)
  %4: f32[2, 3] = aten.add.Tensor(%3, %3, 1)
  return %4
}
)");
}

}  // namespace
}  // namespace braze::passes
