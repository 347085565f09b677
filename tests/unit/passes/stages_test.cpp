#include "passes/stages.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "fuzz.h"
#include "graph/interpreter/interpreter.h"
#include "passes/dce.h"
#include "passes/functionalise.h"

namespace braze::passes {
namespace {

std::vector<BackwardStage> cut(const graph::Graph& backward, const std::vector<int>& gradient_of,
                               int64_t bytes) {
  std::vector<BackwardStage> stages = cut_into_stages(backward, gradient_of, bytes);
  for (const BackwardStage& stage : stages) graph::verify_functional(stage.graph);
  return stages;
}

// Two layers: the second one's gradient comes first.
constexpr std::string_view kTwoLayers =
    R"(graph(%0 w1: f32[8, 8] saved, %1 x: f32[4, 8] saved, %2 h: f32[4, 8] saved, %3 t: f32[4, 8] tangent) {
  %4: f32[8, 4]{1, 8} #%3 = aten.t(%3)
  %5: f32[8, 8] = aten.mm(%4, %2)
  %6: f32[4, 8] = aten.mm(%3, %0)
  %7: f32[8, 4]{1, 8} #%6 = aten.t(%6)
  %8: f32[8, 8] = aten.mm(%7, %1)
  return %8 gradient, %5 gradient
})";

TEST(Stages, GiveGradientsAsTheyCome) {
  const auto stages = cut(graph::parse(kTwoLayers), {-1, -1}, 8 * 8 * 4);
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(graph::canonical(stages[0].graph),
            R"(graph(%0: f32[4, 8] saved, %1: f32[4, 8] tangent) {
  %2: f32[8, 4]{1, 8} #%1 = aten.t(%1)
  %3: f32[8, 8] = aten.mm(%2, %0)
  return %3 gradient
}
)");
  EXPECT_EQ(stages[0].inputs, std::vector<int>{2});
  EXPECT_EQ(stages[0].gradients, std::vector<int>{1});
  EXPECT_EQ(graph::canonical(stages[1].graph),
            R"(graph(%0: f32[8, 8] saved, %1: f32[4, 8] saved, %2: f32[4, 8] tangent) {
  %3: f32[4, 8] = aten.mm(%2, %0)
  %4: f32[8, 4]{1, 8} #%3 = aten.t(%3)
  %5: f32[8, 8] = aten.mm(%4, %1)
  return %5 gradient
}
)");
  EXPECT_EQ(stages[1].inputs, (std::vector<int>{0, 1}));
  EXPECT_EQ(stages[1].tangents[0].stage, -1);
  EXPECT_EQ(stages[1].gradients, std::vector<int>{0});
}

// Whoever takes the gradient of w1 may write to w1, which the product behind it reads.
TEST(Stages, GiveNoGradientBeforeTheLastUseOfWhatItIsOf) {
  const auto stages = cut(graph::parse(kTwoLayers), {-1, 0}, 8 * 8 * 4);
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages[0].inputs, (std::vector<int>{0, 2}));
  EXPECT_EQ(stages[0].gradients, std::vector<int>{1});
  EXPECT_EQ(stages[1].inputs, std::vector<int>{1});
  ASSERT_EQ(stages[1].tangents.size(), 1u);
  EXPECT_EQ(stages[1].tangents[0].stage, 0);
  EXPECT_EQ(stages[1].tangents[0].index, 1);
}

TEST(Stages, AreOneForFewBytes) {
  EXPECT_EQ(cut(graph::parse(kTwoLayers), {-1, -1}, 8 * 8 * 4 + 1).size(), 1u);
}

// What is cheap and of kept tensors alone is made in each stage; a product is made once.
TEST(Stages, MakeAnewWhatIsCheap) {
  const auto stages = cut(graph::parse(R"(graph(%0 a: f32[8, 8] saved, %1 t: f32[8, 8] tangent) {
    %2: f32[8, 8] = aten.exp(%0)
    %3: f32[8, 8] = aten.mm(%0, %0)
    %4: f32[8, 8] = aten.mul.Tensor(%1, %2)
    %5: f32[8, 8] = aten.mul.Tensor(%4, %3)
    %6: f32[8, 8] = aten.sin(%5)
    %7: f32[8, 8] = aten.mul.Tensor(%6, %2)
    %8: f32[8, 8] = aten.mul.Tensor(%7, %3)
    return %8 gradient, %5 gradient
  })"),
                          {-1, -1}, 1);
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(graph::canonical(stages[1].graph),
            R"(graph(%0: f32[8, 8] saved, %1: f32[8, 8] tangent, %2: f32[8, 8] tangent) {
  %3: f32[8, 8] = aten.exp(%0)
  %4: f32[8, 8] = aten.sin(%2)
  %5: f32[8, 8] = aten.mul.Tensor(%4, %3)
  %6: f32[8, 8] = aten.mul.Tensor(%5, %1)
  return %6 gradient
}
)");
}

// A gradient that is a view of what is handed on would be written to with it.
TEST(Stages, HandOnNoMemoryOfAGradient) {
  const auto stages = cut(graph::parse(R"(graph(%0 a: f32[8, 8] saved, %1 t: f32[8, 8] tangent) {
    %2: f32[8, 8] = aten.mm(%1, %0)
    %3: f32[64] #%2 = aten.view(%2, [64])
    %4: f32[8, 8] = aten.mm(%2, %0)
    return %3 gradient, %4 gradient
  })"),
                          {-1, -1}, 1);
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(graph::canonical(stages[0].graph),
            R"(graph(%0: f32[8, 8] saved, %1: f32[8, 8] tangent) {
  %2: f32[8, 8] = aten.mm(%1, %0)
  %3: f32[64] #%2 = aten.view(%2, [64])
  %4: f32[8, 8] = aten.clone(%2, None)
  return %3 gradient, %4 gradient
}
)");
}

// So would one of what later stages are given, too.
TEST(Stages, GiveNoMemoryOfATangentThatIsReadLater) {
  const auto stages = cut(graph::parse(R"(graph(%0 a: f32[8, 8] saved, %1 t: f32[8, 8] tangent) {
    %2: f32[64] #%1 = aten.view(%1, [64])
    %3: f32[8, 8] = aten.mm(%1, %0)
    return %2 gradient, %3 gradient
  })"),
                          {-1, -1}, 1);
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(graph::canonical(stages[0].graph), R"(graph(%0: f32[8, 8] tangent) {
  %1: f32[64] #%0 = aten.view(%0, [64])
  %2: f32[64] = aten.clone(%1, None)
  return %2 gradient
}
)");
}

TEST(Stages, OfSymbolicSizes) {
  const auto stages =
      cut(graph::parse(
              R"(graph(s0 = scalar(0) hint 4, %0: f32[s0] saved, %1: f32[s0] tangent) {
    %2: f32[s0] = aten.mul.Tensor(%1, %0)
    %3: f32[s0] = aten.sin(%2)
    return %2 gradient, %3 gradient
  })"),
          {-1, -1}, 16);
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(graph::canonical(stages[1].graph),
            R"(graph(s0 = scalar(0) hint 4, %0: f32[s0] tangent) {
  %1: f32[s0] = aten.sin(%0)
  return %1 gradient
}
)");
  EXPECT_NE(stages[0].graph.arena(), stages[1].graph.arena());
}

std::vector<graph::Tensor> values_of(const std::vector<BackwardStage>& stages,
                                     const std::vector<graph::Tensor>& given,
                                     const std::vector<graph::Tensor>& tangents, size_t gradients) {
  std::vector<std::vector<graph::Tensor>> outputs;
  std::vector<graph::Tensor> result(gradients);
  for (const BackwardStage& stage : stages) {
    std::vector<graph::Tensor> inputs;
    size_t next = 0, tangent = 0;
    for (const graph::Input& input : stage.graph.inputs()) {
      if (input.kind != graph::InputKind::kTangent) {
        inputs.push_back(given[stage.inputs[next++]]);
        continue;
      }
      const BackwardStage::Source source = stage.tangents[tangent++];
      inputs.push_back(source.stage < 0 ? tangents[source.index]
                                        : outputs[source.stage][source.index]);
    }
    outputs.push_back(graph::interpret(stage.graph, inputs));
    for (size_t i = 0; i < stage.gradients.size(); ++i)
      result[stage.gradients[i]] = outputs.back()[i];
  }
  return result;
}

TEST(Stages, OneAfterTheOtherAreTheBackward) {
  int cuts = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    graph::Graph backward = fuzz::random_graph(seed, 16, /*mutate=*/false);
    functionalise(backward);
    if (!backward.mutations().empty() || backward.outputs().size() < 2) continue;
    const auto last = static_cast<int>(backward.inputs().size()) - 1;
    for (int i = 0; i <= last; ++i)
      if (backward.inputs()[i].kind == graph::InputKind::kUser)
        backward.set_input_kind(i,
                                i < last ? graph::InputKind::kSaved : graph::InputKind::kTangent);
    std::vector<graph::Value*> outputs = backward.outputs();
    backward.set_outputs(outputs, {outputs.size(), {graph::OutputKind::kGradient, {}}});
    eliminate_dead_code(backward);
    std::vector<int> gradient_of;
    for (size_t i = 0; i < outputs.size(); ++i)
      gradient_of.push_back(static_cast<int>((seed + i) % (last + 2)) - 1);
    const std::vector<BackwardStage> stages = cut(backward, gradient_of, 1 + seed % 40);
    cuts += stages.size() > 1;
    for (size_t i = 0; i < stages.size(); ++i)
      for (const int gradient : stages[i].gradients)
        for (size_t later = i + 1; later < stages.size(); ++later)
          EXPECT_EQ(std::ranges::count(stages[later].inputs, gradient_of[gradient]), 0) << seed;
    const std::vector<graph::Tensor> inputs = fuzz::random_inputs(backward, seed);
    const std::vector<graph::Tensor> whole = graph::interpret(backward, inputs);
    std::vector<graph::Tensor> tangents;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (backward.inputs()[i].kind == graph::InputKind::kTangent) tangents.push_back(inputs[i]);
    const std::vector<graph::Tensor> parts = values_of(stages, inputs, tangents, outputs.size());
    for (size_t i = 0; i < whole.size(); ++i) {
      ASSERT_EQ(whole[i].type.sizes, parts[i].type.sizes) << seed;
      ASSERT_EQ(whole[i].type.strides, parts[i].type.strides) << seed;
      const auto a = whole[i].numbers(), b = parts[i].numbers();
      for (size_t j = 0; j < a.size(); ++j) {
        const double p = a[j].as_double(), q = b[j].as_double();
        ASSERT_TRUE(p == q || (p != p && q != q)) << "seed " << seed << ": " << p << ", " << q;
      }
    }
  }
  EXPECT_GT(cuts, 50);
}

}  // namespace
}  // namespace braze::passes
