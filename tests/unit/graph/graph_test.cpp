#include "graph/graph.h"

#include <gtest/gtest.h>

#include "graph/op_kind.h"

namespace braze::graph {
namespace {

TensorType vector_type(int64_t n) { return {.sizes = {n}, .strides = {1}}; }

TEST(Graph, UsesStayInStep) {
  Graph graph = parse(R"(graph(%0 x: f32[8], %1 y: f32[8]) {
    %2: f32[8] = aten.add.Tensor(%0, %0, 1)
    %3: f32[8] = aten.cat([%0, %2, %1], 0)
    return %3, %2
  })");
  Value* x = graph.inputs()[0].value;
  Value* y = graph.inputs()[1].value;
  Node* add = graph.nodes().front().get();
  EXPECT_EQ(x->users().size(), 3u);
  add->replace_operand(x, y);
  EXPECT_EQ(x->users().size(), 1u);
  EXPECT_EQ(y->users().size(), 3u);
  add->set_arg(1, x);
  EXPECT_EQ(y->users().size(), 2u);
  graph.replace_all_uses(add->result(), y);
  EXPECT_FALSE(graph.has_uses(add->result()));
  EXPECT_EQ(graph.outputs()[1], y);
  verify(graph);
  graph.erase(add);
  verify(graph);
  EXPECT_EQ(x->users().size(), 1u);
  EXPECT_EQ(graph.nodes().size(), 1u);
}

TEST(Graph, NodesAreInsertedBeforeAnother) {
  Graph graph;
  Value* x = graph.add_input(vector_type(4), InputKind::kUser, "x");
  Node* last = graph.add_node(op_of(OpKind::kneg), {x}, {vector_type(4)});
  Node* first = graph.add_node(op_of(OpKind::krelu), {x}, {vector_type(4)}, -1, last);
  last->set_arg(0, first->result());
  graph.set_outputs({last->result()});
  verify(graph);
  EXPECT_EQ(graph.nodes().front().get(), first);
}

TEST(Graph, ErasingAUsedNodeIsAnError) {
  Graph graph = parse("graph(%0: f32[2]) { %1: f32[2] = aten.relu(%0) return %1 }");
  EXPECT_THROW(graph.erase(graph.nodes().front().get()), InternalError);
}

TEST(Graph, CloneIsDeepAndEqual) {
  const Graph graph = parse(R"(graph(%0 x: f32[8], %4 w: f32[8] #%0 parameter) {
    %2: f32[8], _ = my.op(%0, ?[None, %4], [%0])
    return %2
    mutate %0 <- %2
  })");
  const Graph copy = graph.clone();
  EXPECT_EQ(to_string(copy), to_string(graph));
  EXPECT_EQ(copy.value_count(), graph.value_count());
  verify(copy);
  EXPECT_NE(copy.inputs()[0].value, graph.inputs()[0].value);
}

TEST(Graph, UndefinedResults) {
  Graph graph;
  Value* x = graph.add_input(vector_type(4), InputKind::kUser, "x");
  Node* node = graph.add_node(find_or_add_op("my.two"), {x}, {vector_type(4), vector_type(1)});
  graph.set_result_undefined(node, 1);
  graph.set_outputs({node->result()});
  EXPECT_EQ(node->results()[1], nullptr);
  verify(graph);
  EXPECT_EQ(to_string(*node), "%1: f32[4], _ = my.two(%0)");
}

TEST(Op, ListIsInternedAndNamesSayInPlace) {
  EXPECT_EQ(&find_or_add_op("aten.add.Tensor"), &op_of(OpKind::kadd_Tensor));
  EXPECT_TRUE(op_of(OpKind::kadd_Tensor).pointwise);
  EXPECT_TRUE(op_of(OpKind::kview).view);
  EXPECT_EQ(op_of(OpKind::kview).effects.aliased_argument(3), 0);
  EXPECT_TRUE(op_of(OpKind::kbernoulli).effects.random);
  EXPECT_EQ(find_or_add_op("aten.mul_.Tensor").effects.mutates, std::vector<int>{0});
  EXPECT_TRUE(find_or_add_op("aten.__and__.Tensor").effects.pure());
  EXPECT_TRUE(find_or_add_op("my.pure").effects.pure());
}

TEST(Op, EffectsMakeAnotherOpOfTheName) {
  const Op& by_name = find_or_add_op("my.inplace.out");
  EXPECT_TRUE(by_name.effects.opaque && by_name.effects.mutates.empty());
  const Op& op = find_or_add_op("my.inplace.out", {.mutates = {1}});
  EXPECT_EQ(op.effects.mutates, std::vector<int>{1});
  EXPECT_EQ(op.name, by_name.name);
  EXPECT_EQ(&find_or_add_op("my.inplace.out", {.mutates = {1}}), &op);
  EXPECT_EQ(&find_or_add_op("my.inplace.out"), &by_name);
}

TEST(Op, EffectsThatMeanTheSameAreOne) {
  EXPECT_EQ(&find_or_add_op("my.fresh", {.results_alias = {-1, -1}}), &find_or_add_op("my.fresh"));
  EXPECT_EQ(&find_or_add_op("my.views", {.results_alias = {0, 0, 0}}),
            &find_or_add_op("my.views", {.results_alias = {0}}));
  EXPECT_NE(&find_or_add_op("my.views", {.results_alias = {0, -1}}),
            &find_or_add_op("my.views", {.results_alias = {0}}));
}

TEST(Op, OfAListedOneTheListSaysWhatItDoes) {
  EXPECT_EQ(&find_or_add_op("aten.relu", {.opaque = true}), &op_of(OpKind::krelu));
  EXPECT_TRUE(find_or_add_op("aten.relu", {.opaque = true}).effects.pure());
}

TEST(Node, BatchNormMutatesOnlyWhenItTrains) {
  const Graph graph = parse(R"(graph(%0: f32[2, 3], %1: f32[3], %2: f32[3]) {
    %3: f32[2, 3], %4: f32[3], %5: f32[3] = aten.native_batch_norm(%0, None, None, %1, %2, true, 0.1, 1e-05)
    %6: f32[2, 3], %7: f32[0], %8: f32[0] = aten.native_batch_norm(%0, None, None, %1, %2, false, 0.1, 1e-05)
    %9: f32[2, 3], %10: f32[3], %11: f32[3] = aten.native_batch_norm(%0, None, None, None, None, true, 0.1, 1e-05)
    return %3
  })");
  std::vector<size_t> counts;
  for (auto& node : graph.nodes()) counts.push_back(node->mutated_arguments().size());
  EXPECT_EQ(counts, (std::vector<size_t>{2, 0, 0}));
}

}  // namespace
}  // namespace braze::graph
