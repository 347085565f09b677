// Which values lowering stores, which it inlines, and what it costs.
#include <gtest/gtest.h>

#include "loop/run_program.h"

namespace braze::loop {
namespace {

TEST(Realisation, SingleUsesAreInlinedSharedMathIsStored) {
  EXPECT_EQ(kernel_count(lowered("graph(%0: f32[8]) { %1: f32[8] = aten.exp(%0)"
                                 " %2: f32[8] = aten.mul.Tensor(%1, %1) return %2 }")),
            1);
  EXPECT_EQ(kernel_count(lowered("graph(%0: f32[8]) { %1: f32[8] = aten.exp(%0)"
                                 " %2: f32[8] = aten.mul.Tensor(%1, 2) %3: f32[8] = aten.neg(%1)"
                                 " return %2, %3 }")),
            3);
  // Shared through a view.
  EXPECT_EQ(kernel_count(lowered("graph(%0: f32[8]) { %1: f32[8] = aten.exp(%0)"
                                 " %2: f32[2, 4] = aten.view(%1, [2, 4])"
                                 " %3: f32[2, 4] = aten.neg(%2) %4: f32[2, 4] = aten.abs(%2)"
                                 " return %3, %4 }")),
            3);
}

TEST(Realisation, LongChainsAreCutAndSquaringStaysLinear) {
  std::string text = "graph(%0: f32[8]) {";
  for (int i = 1; i <= 300; ++i)
    text += " %" + std::to_string(i) + ": f32[8] = aten.mul.Tensor(%" + std::to_string(i - 1) +
            ", %" + std::to_string(i - 1) + ")";
  const Program program = lowered(text + " return %300 }");
  EXPECT_GT(kernel_count(program), 2);
  EXPECT_EQ(ProgramRunner(program).run({{1, 1, 1, 1, 1, 1, 1, 1}}).value()[0],
            (Numbers{1, 1, 1, 1, 1, 1, 1, 1}));
}

TEST(Realisation, UnusedValuesAreNotComputed) {
  EXPECT_EQ(kernel_count(lowered("graph(%0: f32[8]) { %1: f32[] = aten.sum(%0, None)"
                                 " %2: f32[8] = aten.neg(%0) return %2 }")),
            1);
}

TEST(Realisation, ExternOperandsAreBuffersWithTheTracedStrides) {
  const Program program = lowered(
      "graph(%0: f32[4, 3], %1: f32[4, 3]) {"
      " %2: f32[4, 3] = aten.neg(%1)"
      " %3: f32[3, 4]{1, 3} = aten.permute(%2, [1, 0])"
      " %4: f32[4, 4] = aten.mm(%0, %3) return %4 }");
  verify(program);
  ASSERT_EQ(program.items.size(), 2u);
  const auto& call = std::get<ExternCall>(program.items[1]);
  EXPECT_EQ(call.op, "aten.mm");
  EXPECT_EQ(std::get<int>(call.args[0]), 0);
  const Buffer& transposed = program.buffers[std::get<int>(call.args[1])];
  EXPECT_EQ(transposed.kind, Buffer::Kind::kView);
  EXPECT_EQ(transposed.type.strides, (sym::Dims{1, 3}));
  EXPECT_EQ(program.buffers[call.results[0]].kind, Buffer::Kind::kExtern);
  EXPECT_EQ(program.outputs[0], call.results[0]);
}

TEST(Realisation, SwappedInputsAreSavedFirst) {
  const graph::Graph graph =
      graph::parse("graph(%0: f32[2], %1: f32[2]) { return mutate %0 <- %1 mutate %1 <- %0 }");
  const Program program = lower(graph, {});
  ProgramRunner runner(program);
  ASSERT_TRUE(runner.run({{1, 2}, {3, 4}}));
  EXPECT_EQ(runner.read(0), (Numbers{3, 4}));
  EXPECT_EQ(runner.read(1), (Numbers{1, 2}));
}

TEST(Realisation, MutatingNodesAreRefused) {
  graph::Graph graph;
  graph::TensorType type{.sizes = {2}, .strides = {1}};
  graph::Value* x = graph.add_input(type, graph::InputKind::kUser, "x");
  graph::Effects effects;
  effects.mutates = {0};
  graph.add_node(graph::find_or_add_op("test.write_", effects), {x}, {type});
  EXPECT_THROW(lower(graph, {}), InternalError);
}

// A chain of blocks like those of a transformer: eight nodes a layer.
graph::Graph layers_of_attention(int layers) {
  std::string text = "graph(%0: f32[4, 128, 64], %1: f32[64]) {";
  int last = 0, next = 2;
  auto add = [&](const std::string& type, const std::string& call) {
    text += " %" + std::to_string(next) + ": " + type + " = " + call;
    return next++;
  };
  auto ref = [](int id) { return "%" + std::to_string(id); };
  const std::string type = "f32[4, 128, 64]";
  for (int layer = 0; layer < layers; ++layer) {
    int view = add("f32[4, 128, 4, 16]", "aten.view(" + ref(last) + ", [4, 128, 4, 16])");
    int turned =
        add("f32[4, 4, 128, 16]{8192, 16, 64, 1}", "aten.permute(" + ref(view) + ", [0, 2, 1, 3])");
    int soft = add("f32[4, 4, 128, 16]", "aten._softmax(" + ref(turned) + ", -1, false)");
    int back = add("f32[4, 128, 4, 16]{8192, 16, 2048, 1}",
                   "aten.permute(" + ref(soft) + ", [0, 2, 1, 3])");
    int copy = add("f32[4, 128, 4, 16]", "aten.clone(" + ref(back) + ", contiguous_format)");
    int flat = add(type, "aten.view(" + ref(copy) + ", [4, 128, 64])");
    int scaled = add(type, "aten.mul.Tensor(" + ref(flat) + ", %1)");
    last = add(type, "aten.erf(" + ref(scaled) + ")");
  }
  return graph::parse(text + " return " + ref(last) + " }");
}

TEST(Lowering, ManyLayersTakeAsMuchCodeEachAsFew) {
  const Program some = lower(layers_of_attention(30), {}),
                many = lower(layers_of_attention(60), {});
  EXPECT_EQ(many.items.size(), 2 * some.items.size());
  EXPECT_LT(to_string(many).size(), 2.1 * to_string(some).size());
}

// Whether the index 1 is taken and 9 is not.
bool checks_its_index(const std::string& nodes) {
  const Program program =
      lowered("graph(%0: f32[3], %1: f32[1, 3], %2: i64[1, 3]) {" + nodes + "}");
  const std::vector<Numbers> taken{{1, 2, 3}, {4, 5, 6}, {0, 1, 0}},
      refused{{1, 2, 3}, {4, 5, 6}, {0, 9, 0}};
  return ProgramRunner(program).run(taken) && !ProgramRunner(program).run(refused);
}

TEST(Realisation, IndicesAreCheckedWhereNothingDependsOnThem) {
  const std::string gather = " %9: f32[1, 3] = aten.gather(%1, 1, %2)";
  for (const std::string& nodes : std::vector<std::string>{
           gather + " return %0", gather + " %10: f32[1, 3] = aten.full([1, 3], 0) return %10",
           gather + " %10: f32[1] = aten.select.int(%9, 1, 0) return %10",
           gather + " %10: f32[0, 3]{3, 1} = aten.expand(%9, [0, 3]) return %10",
           " %3: f32[3] = aten.full([3], 1.5) %4: f32[1, 3]{3, 1} = aten.unsqueeze(%3, 0)"
           " %5: f32[1, 3] = aten.gather(%4, 1, %2) return %5",
           " %3: f32[1, 3]{3, 0} = aten.as_strided(%0, [1, 3], [3, 0])"
           " %4: f32[1, 3] = aten.gather(%3, 1, %2) return %4",
           " %3: i64[3] = aten.arange(3) %4: i64[1, 3]{3, 1} = aten.unsqueeze(%3, 0)"
           " %5: i64[1, 3] = aten.gather(%4, 1, %2)"
           " %6: i64[1, 3] = aten.mul.Tensor(%5, 0) return %6",
           " %3: i64[3] = aten.arange(3) %4: i64[1, 3]{3, 1} = aten.unsqueeze(%3, 0)"
           " %5: i64[1, 3] = aten.gather(%4, 1, %2)"
           " %6: bool[1, 3] = aten.lt.Scalar(%5, 3) %7: bool[] = aten.any(%6) return %7"})
    EXPECT_TRUE(checks_its_index(nodes)) << nodes;
}

TEST(Realisation, IndicesOfPartsAreCheckedWhereThePartIs) {
  const Program program = lowered(
      "graph(%0: f32[4], %1: i64[2]) {"
      " %2: f32[4] = aten.full([4], 2.5) %3: f32[2] = aten.gather(%2, 0, %1)"
      " %4: f32[6] = aten.cat(tensors[%0, %3], 0) return %4 }");
  EXPECT_EQ(ProgramRunner(program).run({{1, 2, 3, 4}, {0, 3}}).value()[0],
            (Numbers{1, 2, 3, 4, 2.5, 2.5}));
  EXPECT_FALSE(ProgramRunner(program).run({{1, 2, 3, 4}, {0, 4}}));
}

}  // namespace
}  // namespace braze::loop
