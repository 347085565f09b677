#include <gtest/gtest.h>

#include "graph/graph.h"

namespace braze::graph {
namespace {

constexpr std::string_view kEverything =
    R"(graph(%0 x: f32[8], %1 encoder.weight: f32[4, 8]{1, 4}+8 parameter, %2 "a \"b\"": i64[] constant, %3: f32[8] #%0) {
  %5: f32[8] = aten.add.Tensor(%0, %3, 1)
  %6: f32[2, 4] #%5 = aten.view(%5, [2, 4])
  %7: bf16[8]@cuda:0, _ = my.op(%5, None, -3, 1.5, 1e-05, inf, -inf, nan, true, false, complex(1.0, -2.0), "a\nb\"\\")
  my.lists([], [1, -2], [1.0, inf], [true, false], [%0, %1], ?[%0, None], tensors[], ?[], floats[], bools[])
  %9: f64[0, 3] = my.other(f32, bool, cpu, cuda:1, channels_last, preserve_format, strided, -0.0)
  return %6, %0
  mutate %0 <- %5
}
)";

TEST(Text, RoundTripIsExact) {
  const Graph graph = parse(kEverything);
  EXPECT_EQ(to_string(graph), kEverything);
  EXPECT_EQ(to_string(parse(to_string(graph))), kEverything);
}

TEST(Text, ParserBuildsWhatTheTextSays) {
  const Graph graph = parse(kEverything);
  verify(graph);
  ASSERT_EQ(graph.inputs().size(), 4u);
  EXPECT_EQ(graph.inputs()[1].kind, InputKind::kParameter);
  EXPECT_EQ(graph.inputs()[1].name, "encoder.weight");
  EXPECT_EQ(graph.inputs()[1].value->type().strides, (sym::Dims{1, 4}));
  EXPECT_EQ(graph.inputs()[1].value->type().offset, sym::Int(8));
  EXPECT_EQ(graph.inputs()[2].kind, InputKind::kConstant);
  EXPECT_EQ(graph.inputs()[3].value->storage(), graph.inputs()[0].value->storage());
  const Node& add = *graph.nodes().front();
  EXPECT_EQ(add.op().kind, OpKind::kadd_Tensor);
  EXPECT_EQ(add.operands().size(), 2u);
  EXPECT_EQ(add.result()->users().size(), 2u);
  EXPECT_EQ(graph.outputs().size(), 2u);
  ASSERT_EQ(graph.mutations().size(), 1u);
  EXPECT_EQ(graph.mutations()[0].target, graph.inputs()[0].value);
}

TEST(Text, OriginsAreComments) {
  Graph graph;
  Value* x = graph.add_input({.sizes = {8}, .strides = {1}}, InputKind::kUser, "x");
  const OriginId origin = graph.add_origin({"model.py", 12, "forward", "layers.3", "torch.relu"});
  EXPECT_EQ(graph.add_origin({"model.py", 12, "forward", "layers.3", "torch.relu"}), origin);
  Node* node = graph.add_node(op_of(OpKind::krelu), {x}, {x->type()}, origin);
  graph.set_outputs({node->result()});
  const std::string text = to_string(graph);
  EXPECT_NE(text.find("// model.py:12 forward, layers.3, torch.relu\n"), std::string::npos) << text;
  EXPECT_EQ(to_string(parse(text)), to_string(graph, false));
}

TEST(Text, CanonicalLeavesNamesAndNumbersOut) {
  const Graph a = parse("graph(%3 x: f32[2]) { %7: f32[2] = aten.relu(%3) return %7 }");
  const Graph b = parse("graph(%0 y: f32[2]) { %1: f32[2] = aten.relu(%0) return %1 }");
  EXPECT_EQ(canonical(a), canonical(b));
  EXPECT_EQ(canonical(a), "graph(%0: f32[2]) {\n  %1: f32[2] = aten.relu(%0)\n  return %1\n}\n");
  const Graph c = parse("graph(%0 y: f32[2]) { %1: f32[2] = aten.neg(%0) return %1 }");
  EXPECT_NE(canonical(a), canonical(c));
}

std::string error_of(std::string_view text) {
  try {
    parse(text);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Text, ErrorsNameThePlace) {
  auto expect = [](std::string_view text, std::string_view message) {
    EXPECT_NE(error_of(text).find(message), std::string::npos) << error_of(text);
  };
  expect("grap", "graph text 1:1: expected 'graph'");
  expect("graph(%0 x: f33[2]) { return }", "1:16: unknown dtype 'f33'");
  expect("graph() {\n  %0: f32[] = aten.relu(%1)\n  return\n}", "2:27: %1 is not defined here");
  expect("graph(%0: f32[2], %0: f32[2]) { return }", "%0 is defined twice");
  expect("graph(%0: f32[2]) { %1: f32[2] = aten.relu(%1) return }",
         "%1 is used by the node that defines it");
  expect("graph(%0: f32[2]) { %1: f32[2] = aten.relu(foo) return }", "unknown argument 'foo'");
  expect("graph(%0: f32[2]) { %1: f32[2] = aten.relu(%0) ", "expected 'return'");
  expect("graph(%0: f32[2]) { return } x", "text after the graph");
  expect("graph(%0: f32[2]{1, 2}) { return }", "sizes and strides differ in length");
  expect("graph(%0 \"x: f32[2]) { return }", "a string that does not end");
}

}  // namespace
}  // namespace braze::graph
