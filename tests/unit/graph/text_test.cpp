#include <gtest/gtest.h>

#include <array>

#include "graph/graph.h"
#include "graph/op_kind.h"
#include "graph/substitute.h"

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

constexpr std::string_view kSignature =
    R"(graph(s0 = size(%0, 0) hint 8, %0 x: f32[s0], %1 c: f32[2] constant "0000803f00000080", %2 d: f32[0] constant "", %3 e: i64[] constant, %4 t: f32[s0] tangent) {
  %5: f32[s0] = aten.exp(%0)
  %6: f32[s0] #%5 = aten.view(%5, [s0])
  return %0, %5, %6 view, %6 view(no_grad), %5 inference, %5 saved, %6 alias, %5 used_up, %6 view leaf, %4 gradient
  where s0 % 8 == 0
  where s0 > 3
  where s0 <= 640
}
)";

TEST(Text, ContentsStatesAndConditionsAreAPartOfIt) {
  const Graph graph = parse(kSignature);
  verify(graph);
  EXPECT_EQ(to_string(graph), kSignature);
  EXPECT_EQ(to_string(graph.clone()), kSignature);
  EXPECT_EQ(*graph.inputs()[1].contents, std::string("\0\0\x80\x3f\0\0\0\x80", 8));
  EXPECT_EQ(*graph.inputs()[2].contents, "");
  EXPECT_EQ(graph.inputs()[3].contents, nullptr);
  const std::vector<OutputRole>& roles = graph.output_roles();
  EXPECT_FALSE(roles[0].state.is_made);
  EXPECT_EQ(roles[3].state,
            (OutputState{.is_made = true, .is_view = true, .view = ViewOrigin::kNoGrad}));
  EXPECT_TRUE(roles[4].state.is_inference);
  EXPECT_TRUE(roles[6].state.is_alias);
  EXPECT_EQ(roles[7].state.history, History::kUsedUp);
  EXPECT_TRUE(roles[8].state.is_view);
  EXPECT_EQ(roles[8].state.history, History::kLeaf);
  EXPECT_EQ(roles[9].kind, OutputKind::kGradient);
  ASSERT_EQ(graph.conditions().size(), 3u);
  EXPECT_TRUE(sym::holds(graph.conditions()[1], std::array<int64_t, 1>{4}));
  EXPECT_FALSE(sym::holds(graph.conditions()[1], std::array<int64_t, 1>{3}));
  EXPECT_FALSE(sym::holds(graph.conditions()[2], std::array<int64_t, 1>{641}));
}

TEST(Text, WhatAConstantHoldsIsChecked) {
  const auto expect_rejected = [](const std::string& text, const std::string& message) {
    try {
      verify(parse(text));
      ADD_FAILURE() << "accepted, but: " << message;
    } catch (const InternalError& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  };
  expect_rejected("graph(%0 c: f32[2] constant \"00\") { return %0 }", "has 1 bytes for 8");
  expect_rejected("graph(%0 c: f32[1] \"00000000\") { return %0 }", "which is no constant");
  expect_rejected("graph(%0 c: u8[1] constant \"0g\") { return %0 }", "hexadecimal digits");
  expect_rejected("graph(%0 c: u8[1] constants) { return %0 }",
                  "unknown kind of input 'constants'");
}

constexpr std::string_view kEffects =
    R"(graph(%0 x: f32[8], %1 y: f32[8]) {
  my.write(%0, %1) !mutates[0, 1]
  my.print(%0) !opaque
  my.write(%0, %1)
  %2: f32[8], %3: f32[8] #%1 = my.op(%0, %1) !random !mutates[1] !results_alias[-1, 1]
  %4: f32[8] = my.copy_(%0) !none
  %5: f32[8] #%4 = my.copy_(%4)
  %6: f32[8] #%4 = my.turn_(%5) !inplace_view !mutates[0] !results_alias[0]
  return %2, %6
}
)";

TEST(Text, EffectsOfUnlistedOpsAreAPartOfIt) {
  const Graph graph = parse(kEffects);
  EXPECT_EQ(to_string(graph), kEffects);
  EXPECT_EQ(to_string(parse(to_string(graph))), kEffects);
  std::vector<Effects> effects;
  for (const auto& node : graph.nodes()) effects.push_back(node->op().effects);
  const std::vector<Effects> expected = {
      {.mutates = {0, 1}},
      {.opaque = true},
      {},
      {.random = true, .mutates = {1}, .results_alias = {-1, 1}},
      {},
      {.mutates = {0}, .results_alias = {0}},
      {.inplace_view = true, .mutates = {0}, .results_alias = {0}},
  };
  EXPECT_EQ(effects, expected);
}

TEST(Text, WhatWasParsedBeforeMakesNoDifference) {
  const std::string_view plain = "graph(%0: f32[2]) { %1: f32[2] = my.later(%0) return %1 }";
  const std::string before = canonical(parse(plain));
  find_or_add_op("my.later", {.mutates = {0}});
  const Graph graph = parse(plain);
  EXPECT_TRUE(graph.nodes().front()->op().effects.pure());
  EXPECT_EQ(canonical(graph), before);
  const Graph writes =
      parse("graph(%0: f32[2]) { %1: f32[2] = my.later(%0) !mutates[0] return %1 }");
  EXPECT_NE(canonical(writes), before);
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
  expect("graph(%0: f32[2]) { my.op(%0) !writes return }", "unknown effect 'writes'");
  expect("graph(%0: f32[2]) { my.op(%0) !mutates return }", "expected '['");
  expect("graph(%0: f32[2]) { my.op(%0) ! return }", "unknown effect 'return'");
  expect("graph(%0: f32[2]) { %1: f32[2] = aten.relu(%0) !opaque return %1 }",
         "effects of an op that is on the list");
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

constexpr std::string_view kSymbolic =
    R"(graph(s0 = size(%0, 0) hint 8, s1 = stride(%1, 0) hint 64 range [0, inf], s2 = scalar(0) hint -3 range [-inf, 7], %0 x: f32[s0, 4], %1 y: f32[2*s0, 1]{s1, 1}+3*s0 + 1 parameter) {
  %2: f32[4*s0] #%0 = aten.view(%0, [4*s0])
  %3: i64[s0 // 3, s0 % 3, s0*s1 - 1] = my.op(%2, s2, -s2 + 2, [s0, -1, s0*s1 + s0 // 3], min(s0, s1 - 1), [min(s0, 7)], -s1 + (s0 + 1) // 2)
  return %2, %3
}
)";

TEST(Text, SymbolicRoundTripIsExact) {
  const Graph graph = parse(kSymbolic);
  verify(graph);
  EXPECT_EQ(to_string(graph), kSymbolic);
  EXPECT_EQ(to_string(graph.clone()), kSymbolic);
  ASSERT_EQ(graph.symbols().size(), 3u);
  EXPECT_EQ(graph.symbols()[0].input, graph.inputs()[0].value);
  EXPECT_EQ(graph.symbols()[1].kind, SymbolBinding::Kind::kStride);
  EXPECT_EQ(graph.arena()->range(2).high, 7);
  const Graph copy = graph.clone();
  EXPECT_EQ(copy.symbols()[0].input, copy.inputs()[0].value);
}

TEST(Text, SymbolsMustBeKnown) {
  EXPECT_THROW(parse("graph(%0: f32[s0]) { return }"), InternalError);
  EXPECT_THROW(parse("graph(s0 = size(%1, 0) hint 2, %0: f32[s0]) { return }"), InternalError);
  EXPECT_THROW(verify(parse("graph(s0 = size(%0, 1) hint 2, %0: f32[s0]) { return }")),
               InternalError);
}

TEST(Substitute, GivesTheStaticGraph) {
  const Graph graph = parse(kSymbolic);
  const Graph fixed = substitute(graph, std::vector<int64_t>{10, 5, -1});
  verify(fixed);
  EXPECT_FALSE(fixed.is_symbolic());
  EXPECT_EQ(to_string(fixed),
            R"(graph(%0 x: f32[10, 4], %1 y: f32[20, 1]{5, 1}+31 parameter) {
  %2: f32[40] #%0 = aten.view(%0, [40])
  %3: i64[3, 1, 49] = my.op(%2, -1, 3, [10, -1, 53], 4, [7], 0)
  return %2, %3
}
)");
  EXPECT_THROW(substitute(graph, std::vector<int64_t>{10}), InternalError);
}

}  // namespace
}  // namespace braze::graph
