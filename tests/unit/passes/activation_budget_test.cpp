#include "passes/activation_budget.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/op_kind.h"
#include "passes/partition.h"

namespace braze::passes {
namespace {

// `count` layers, tanh(x @ w) of 256 KiB each: the backward needs what each tanh gives, which is
// also what the next product takes.
graph::Graph layers(int count) {
  std::string text =
      "graph(%0 x: f32[256, 256], %1 w: f32[256, 256] parameter, "
      "%2 t: f32[256, 256] tangent) {\n";
  int next = 3, x = 0;
  const auto add = [&](const std::string& call) {
    text += "%" + std::to_string(next) + ": f32[256, 256] = " + call + "\n";
    return next++;
  };
  const auto name = [](int value) { return "%" + std::to_string(value); };
  std::vector<int> results;
  for (int i = 0; i < count; ++i) {
    x = add("aten.mm(" + name(x) + ", %1)");
    x = add("aten.tanh(" + name(x) + ")");
    results.push_back(x);
  }
  const int result = add("aten.mm(" + name(x) + ", %1)");
  int gradient = 2;
  for (int i = count; i-- > 0;) {
    gradient = add("aten.mm(" + name(gradient) + ", %1)");
    gradient = add("aten.tanh_backward(" + name(gradient) + ", " + name(results[i]) + ")");
  }
  text += "return " + name(result) + ", " + name(gradient) + " gradient\n}";
  return graph::parse(text);
}

constexpr int64_t kValue = 256 * 256 * 4;

int kept(const Partition& parts) {
  return static_cast<int>(std::ranges::count(parts.forward.output_roles(),
                                             graph::OutputKind::kSaved, &graph::OutputRole::kind));
}

int products(const graph::Graph& graph) {
  return static_cast<int>(std::ranges::count_if(
      graph.nodes(), [](const auto& node) { return node->op().kind == graph::OpKind::kmm; }));
}

TEST(ActivationBudget, KeepsAllWhereItFits) {
  graph::Graph joint = layers(8);
  const Partition parts = partition(joint, {.activation_memory = 100 * kValue});
  EXPECT_EQ(kept(parts), 8);
  EXPECT_EQ(products(parts.backward), 8);
}

TEST(ActivationBudget, SmallerOnesKeepLessForMoreWork) {
  int before = 8, work = 8;
  for (const int64_t budget : {9, 8, 7, 6, 5}) {
    graph::Graph joint = layers(8);
    const Partition parts = partition(joint, {.activation_memory = budget * kValue});
    graph::verify_functional(parts.forward);
    graph::verify_functional(parts.backward);
    EXPECT_LE(kept(parts), before) << budget;
    EXPECT_GE(products(parts.backward), work) << budget;
    before = kept(parts);
    work = products(parts.backward);
  }
  EXPECT_LT(before, 6);
  EXPECT_GT(work, 8);
}

TEST(ActivationBudget, TheFirstOfEqualLayersAreMadeAgain) {
  graph::Graph joint = layers(8);
  const Partition parts = partition(joint, {.activation_memory = 8 * kValue});
  ASSERT_LT(kept(parts), 8);
  // The last one's result, which the backward takes first, is kept.
  const graph::Node& first = *parts.backward.nodes().front();
  EXPECT_EQ(first.op().kind, graph::OpKind::kmm);
  EXPECT_EQ(first.operands()[0], parts.backward.inputs().back().value);
}

TEST(ActivationBudget, RandomNumbersAreKept) {
  graph::Graph joint = graph::parse(R"(graph(%0 x: f32[256, 256], %1 t: f32[256, 256] tangent) {
    %2: f32[256, 256] = aten.rand_like(%0, None, None, None, None, None)
    %3: f32[256, 256] = aten.mm(%0, %2)
    %4: f32[256, 256] = aten.mm(%1, %2)
    return %3, %4 gradient
  })");
  const Partition parts = partition(joint, {.activation_memory = 0});
  EXPECT_EQ(kept(parts), 1);
  EXPECT_EQ(products(parts.backward), 1);
}

}  // namespace
}  // namespace braze::passes
