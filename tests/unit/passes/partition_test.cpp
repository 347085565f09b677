#include "passes/partition.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "fuzz.h"
#include "graph/interpreter/interpreter.h"
#include "graph/op_kind.h"
#include "passes/dce.h"
#include "passes/functionalise.h"
#include "passes/unsupported.h"

namespace braze::passes {
namespace {

using Kind = Partition::BackwardInput::Kind;

Partition cut(std::string_view text) {
  graph::Graph joint = graph::parse(text);
  graph::verify_functional(joint);
  Partition parts = partition(joint);
  graph::verify_functional(parts.forward);
  graph::verify_functional(parts.backward);
  return parts;
}

TEST(Partition, KeepsWhatTheForwardComputesAnyway) {
  const Partition parts = cut(R"(graph(%0 x: f32[8], %1 w: f32[8] parameter, %2 t: f32[8] tangent) {
    %3: f32[8] = aten.mul.Tensor(%0, %1)
    %4: f32[8] = aten.exp(%3)
    %5: f32[8] = aten.mul.Tensor(%2, %4)
    %6: f32[8] = aten.mul.Tensor(%5, %0)
    return %4, %6 gradient
  })");
  EXPECT_EQ(graph::canonical(parts.forward), R"(graph(%0: f32[8], %1: f32[8] parameter) {
  %2: f32[8] = aten.mul.Tensor(%0, %1)
  %3: f32[8] = aten.exp(%2)
  return %3, %3 saved
}
)");
  EXPECT_EQ(graph::canonical(parts.backward),
            R"(graph(%0: f32[8] saved, %1: f32[8] saved, %2: f32[8] tangent) {
  %3: f32[8] = aten.mul.Tensor(%2, %0)
  %4: f32[8] = aten.mul.Tensor(%3, %1)
  return %4 gradient
}
)");
  ASSERT_EQ(parts.backward_inputs.size(), 3u);
  EXPECT_EQ(parts.backward_inputs[0].kind, Kind::kOutput);
  EXPECT_EQ(parts.backward_inputs[0].index, 1);
  EXPECT_EQ(parts.backward_inputs[1].kind, Kind::kInput);
  EXPECT_EQ(parts.backward_inputs[1].index, 0);
  EXPECT_EQ(parts.backward_inputs[2].kind, Kind::kTangent);
}

TEST(Partition, WhatIsToBeEarlyIsComputedInTheForward) {
  graph::Graph joint = graph::parse(R"(graph(%0 x: f32[4, 4], %1 t: f32[4, 4] tangent) {
    %2: f32[4, 4] = aten.exp(%0)
    %3: f32[4, 4] = aten.mm(%0, %0)
    %4: f32[4, 4] = aten.mul.Tensor(%3, %1)
    return %2, %4 gradient
  })");
  const auto product = std::ranges::find_if(
      joint.nodes(), [](const auto& node) { return node->op().name == "aten.mm"; });
  const Partition parts = partition(joint, {.early = {(*product)->result()}});
  EXPECT_EQ(graph::canonical(parts.forward), R"(graph(%0: f32[4, 4]) {
  %1: f32[4, 4] = aten.exp(%0)
  %2: f32[4, 4] = aten.mm(%0, %0)
  return %1, %2 saved
}
)");
  EXPECT_EQ(graph::canonical(parts.backward), R"(graph(%0: f32[4, 4] saved, %1: f32[4, 4] tangent) {
  %2: f32[4, 4] = aten.mul.Tensor(%0, %1)
  return %2 gradient
}
)");
}

TEST(Partition, ViewsAndWhatIsMadeOfNothingAreMadeAgain) {
  const Partition parts = cut(R"(graph(%0 x: f32[2, 4], %1 t: f32[4, 2] tangent) {
    %2: f32[2, 4] = aten.exp(%0)
    %3: f32[4, 2]{1, 4} #%2 = aten.t(%2)
    %4: f32[4, 2] = aten.zeros([4, 2], f32, None, cpu, None)
    %5: f32[4, 2] = aten.sin(%3)
    %6: f32[4, 2] = aten.add.Tensor(%5, %4, 1)
    %7: f32[4, 2] = aten.mul.Tensor(%1, %3)
    %8: f32[4, 2] = aten.add.Tensor(%7, %4, 1)
    return %6, %8 gradient
  })");
  EXPECT_EQ(graph::canonical(parts.backward), R"(graph(%0: f32[2, 4] saved, %1: f32[4, 2] tangent) {
  %2: f32[4, 2]{1, 4} #%0 = aten.t(%0)
  %3: f32[4, 2] = aten.mul.Tensor(%1, %2)
  %4: f32[4, 2] = aten.zeros([4, 2], f32, None, cpu, None)
  %5: f32[4, 2] = aten.add.Tensor(%3, %4, 1)
  return %5 gradient
}
)");
}

TEST(Partition, CheckpointedCallsAreMadeAgainAsLateAsNeeded) {
  graph::Graph joint = graph::parse(R"(graph(%0 x: f32[4, 4], %1 t: f32[4, 4] tangent) {
    %2: f32[4, 4] = aten.mm(%0, %0)
    %3: f32[4, 4] = aten.exp(%2)
    %4: f32[4, 4] = aten.mm(%3, %0)
    %5: f32[4, 4] = aten.mm(%4, %0)
    %6: f32[4, 4] = aten.exp(%5)
    %7: f32[4, 4] = aten.mm(%6, %0)
    %8: f32[4, 4] = aten.mul.Tensor(%1, %6)
    %9: f32[4, 4] = aten.mul.Tensor(%8, %3)
    return %7, %9 gradient
  })");
  int place = 0;
  for (const auto& node : joint.nodes()) {
    const int call = place < 6 ? 1 + place / 3 : 0;
    node->set_origin(joint.add_origin({.checkpoint = call}));
    ++place;
  }
  const Partition parts = partition(joint);
  graph::verify_functional(parts.backward);
  EXPECT_EQ(graph::canonical(parts.backward),
            R"(graph(%0: f32[4, 4] saved, %1: f32[4, 4] saved, %2: f32[4, 4] tangent) {
  %3: f32[4, 4] = aten.mm(%0, %1)
  %4: f32[4, 4] = aten.exp(%3)
  %5: f32[4, 4] = aten.mul.Tensor(%2, %4)
  %6: f32[4, 4] = aten.mm(%1, %1)
  %7: f32[4, 4] = aten.exp(%6)
  %8: f32[4, 4] = aten.mul.Tensor(%5, %7)
  return %8 gradient
}
)");
}

TEST(Partition, WhatOnlyTheBackwardNeedsIsComputedThere) {
  const Partition parts = cut(R"(graph(%0 x: f32[4], %1 t: f32[4] tangent) {
    %2: f32[4] = aten.relu(%0)
    %3: f32[4] = aten.cos(%0)
    %4: f32[4] = aten.mul.Tensor(%1, %3)
    return %2, %4 gradient
  })");
  EXPECT_EQ(parts.forward.nodes().size(), 1u);
  EXPECT_EQ(parts.backward.nodes().size(), 2u);
}

TEST(Partition, RandomNumbersAndRefusalsBelongToTheForward) {
  const Partition parts = cut(R"(graph(%0 x: f32[4], %1 i: i64[2], %2 t: f32[4] tangent) {
    %3: f32[4] = aten.bernoulli(%0, None)
    %4: f32[2] = aten.gather(%0, 0, %1)
    %5: f32[4] = aten.mul.Tensor(%2, %3)
    return %5 gradient
  })");
  EXPECT_EQ(graph::canonical(parts.forward), R"(graph(%0: f32[4], %1: i64[2]) {
  %2: f32[4] = aten.bernoulli(%0, None)
  %3: f32[2] = aten.gather(%0, 0, %1)
  return %2 saved
}
)");
}

TEST(Partition, AnInputThatIsWrittenToIsKeptAsItWas) {
  const Partition parts = cut(R"(graph(%0 x: f32[4], %1 s: f32[4], %2 t: f32[4] tangent) {
    %3: f32[4] = aten.mul.Tensor(%0, %1)
    %4: f32[4] = aten.neg(%1)
    %5: f32[4] = aten.mul.Tensor(%2, %1)
    return %3, %5 gradient
    mutate %1 <- %4
  })");
  EXPECT_EQ(graph::canonical(parts.forward), R"(graph(%0: f32[4], %1: f32[4]) {
  %2: f32[4] = aten.mul.Tensor(%0, %1)
  %3: f32[4] = aten.neg(%1)
  %4: f32[4] = aten.clone(%1, None)
  return %2, %4 saved
  mutate %1 <- %3
}
)");
  EXPECT_THROW(cut(R"(graph(%0 s: f32[4]{2}, %1 t: f32[4] tangent) {
    %2: f32[4]{2} = aten.slice_scatter(%0, %0, 0, 0, 9223372036854775807, 1)
    %3: f32[4] = aten.mul.Tensor(%1, %0)
    return %3 gradient
    mutate %0 <- %2
  })"),
               Unsupported);
}

TEST(Partition, WhatAnInputHoldsInTheEndIsKeptThere) {
  const Partition parts = cut(R"(graph(%0 x: f32[4], %1 s: f32[4], %2 t: f32[4] tangent) {
    %3: f32[4] = aten.cumsum(%1, 0, None)
    %4: f32[4] = aten.mul.Tensor(%0, %3)
    %5: f32[4] = aten.mul.Tensor(%2, %3)
    return %4, %5 gradient
    mutate %1 <- %3
  })");
  EXPECT_EQ(graph::canonical(parts.forward), R"(graph(%0: f32[4], %1: f32[4]) {
  %2: f32[4] = aten.cumsum(%1, 0, None)
  %3: f32[4] = aten.mul.Tensor(%0, %2)
  return %3
  mutate %1 <- %2
}
)");
  EXPECT_EQ(parts.backward_inputs[0].kind, Kind::kInput);
  EXPECT_EQ(parts.backward_inputs[0].index, 1);
}

TEST(Partition, WhatIsPointwiseOfWhatIsKeptIsMadeAgain) {
  // %6 is of %3 and of %1, both of which %9 and %10 take anyway.
  const Partition parts = cut(R"(graph(%0 x: f32[4], %1 w: f32[4] parameter, %2 t: f32[4] tangent) {
    %3: f32[4] = aten.cumsum(%0, 0, None)
    %4: f32[4] = aten.neg(%3)
    %5: f32[4] = aten.exp(%4)
    %6: f32[4] = aten.mul.Tensor(%5, %1)
    %7: f32[4] = aten.cumsum(%6, 0, None)
    %8: f32[4] = aten.mul.Tensor(%2, %6)
    %9: f32[4] = aten.mul.Tensor(%8, %3)
    %10: f32[4] = aten.mul.Tensor(%9, %1)
    return %7, %10 gradient
  })");
  EXPECT_EQ(graph::canonical(parts.backward),
            R"(graph(%0: f32[4] saved, %1: f32[4] saved, %2: f32[4] tangent) {
  %3: f32[4] = aten.neg(%0)
  %4: f32[4] = aten.exp(%3)
  %5: f32[4] = aten.mul.Tensor(%4, %1)
  %6: f32[4] = aten.mul.Tensor(%2, %5)
  %7: f32[4] = aten.mul.Tensor(%6, %0)
  %8: f32[4] = aten.mul.Tensor(%7, %1)
  return %8 gradient
}
)");
}

// The user may change it before the backward, which eager does not mind: its sum does not keep it.
TEST(Partition, NothingIsMadeOfAnInputThatIsNotKept) {
  const Partition parts = cut(R"(graph(%0 x: f32[4], %1 b: f32[4] parameter, %2 t: f32[4] tangent) {
    %3: f32[4] = aten.cumsum(%0, 0, None)
    %4: f32[4] = aten.add.Tensor(%3, %1, 1)
    %5: f32[4] = aten.cumsum(%4, 0, None)
    %6: f32[4] = aten.mul.Tensor(%2, %4)
    %7: f32[4] = aten.mul.Tensor(%6, %3)
    return %5, %7 gradient
  })");
  EXPECT_EQ(parts.forward.outputs().size(), 3u);
  EXPECT_EQ(parts.backward.nodes().size(), 2u);
}

TEST(Partition, WhatTheUserGetsOrWhatNothingIsKeptOfIsKept) {
  const Partition seen = cut(R"(graph(%0 x: f32[4], %1 t: f32[4] tangent) {
    %2: f32[4] = aten.cumsum(%0, 0, None)
    %3: f32[4] = aten.exp(%2)
    %4: f32[4] = aten.mul.Tensor(%1, %3)
    %5: f32[4] = aten.mul.Tensor(%4, %2)
    return %3, %5 gradient
  })");
  EXPECT_EQ(seen.forward.outputs().size(), 3u);
  EXPECT_EQ(seen.backward.nodes().size(), 2u);
  // A weight in another dtype is made once.
  const Partition cast = cut(R"(graph(%0 w: f32[4] parameter, %1 t: bf16[4] tangent) {
    %2: bf16[4] = aten._to_copy(%0, bf16, None, None, None, false, None)
    %3: bf16[4] = aten.cumsum(%2, 0, None)
    %4: bf16[4] = aten.mul.Tensor(%1, %2)
    return %3, %4 gradient
  })");
  EXPECT_EQ(cast.backward.nodes().size(), 1u);
}

TEST(Partition, TheResultOfALayerNormIsMadeOfItsStatistics) {
  const Partition parts = cut(
      R"(graph(%0 x: f32[2, 4], %1 w: f32[4] parameter, %2 b: f32[4] parameter, %3 t: f32[2, 4] tangent) {
    %4: f32[2, 4] = aten.cumsum(%0, 0, None)
    %5: f32[2, 4], %6: f32[2, 1], %7: f32[2, 1] = aten.native_layer_norm(%4, [4], %1, %2, 1e-05)
    %8: f32[2, 4] = aten.cumsum(%5, 0, None)
    %9: f32[2, 4] = aten.mul.Tensor(%3, %5)
    %10: f32[2, 4], %11: f32[4], %12: f32[4] = aten.native_layer_norm_backward(%9, %4, [4], %6, %7, %1, %2, [true, true, true])
    return %8, %10 gradient, %9 gradient
  })");
  EXPECT_EQ(parts.forward.outputs().size(), 4u);  // the result, %4, %6 and %7
  for (const auto& node : parts.backward.nodes())
    EXPECT_NE(node->op().kind, graph::OpKind::knative_layer_norm);
}

// What the user may change in the meantime is kept as a copy, of halves.
TEST(Partition, LogarithmsOfClassesAreMadeOfTwoNumbersOfEachRow) {
  const auto loss = [](const std::string& logits) {
    return cut("graph(%0 x: bf16[2, 4], %1 c: i64[2], %2 t: f32[] tangent) {\n" + logits + R"(
    %6: f32[2, 4] = aten._log_softmax(%5, 1, false)
    %7: f32[], %8: f32[] = aten.nll_loss_forward(%6, %1, None, 1, -100)
    %9: f32[2, 4] = aten.nll_loss_backward(%2, %6, %1, None, 1, -100, %8)
    %10: f32[2, 4] = aten._log_softmax_backward_data(%9, %6, 1, f32)
    return %7, %10 gradient
  })");
  };
  const auto kept = [](const Partition& parts) {
    std::vector<std::string> types;
    for (size_t i = 1; i < parts.forward.outputs().size(); ++i)
      types.push_back(graph::to_string(parts.forward.outputs()[i]->type()));
    std::ranges::sort(types);
    return types;
  };
  using Types = std::vector<std::string>;
  const Partition own = loss(R"(    %4: bf16[2, 4] = aten.cumsum(%0, 1, None)
    %5: f32[2, 4] = aten._to_copy(%4, f32, None, None, None, false, None))");
  EXPECT_EQ(kept(own), (Types{"bf16[2, 4]", "f32[2, 1]", "f32[2, 1]", "f32[]"}));
  const Partition given =
      loss("    %5: f32[2, 4] = aten._to_copy(%0, f32, None, None, None, false, None)");
  EXPECT_EQ(kept(given), (Types{"bf16[2, 4]", "f32[2, 1]", "f32[2, 1]", "f32[]"}));
  EXPECT_EQ(given.forward.outputs().back()->storage() == given.forward.inputs()[0].value->storage(),
            false);
}

TEST(Partition, HalvesAreKeptInPlaceOfWhatTheyAreConvertedTo) {
  const Partition parts = cut(R"(graph(%0 x: bf16[4], %1 t: f32[4] tangent) {
    %2: bf16[4] = aten.cumsum(%0, 0, None)
    %3: f32[4] = aten._to_copy(%2, f32, None, None, None, false, None)
    %4: f32[4] = aten.cumsum(%3, 0, None)
    %5: f32[4] = aten.mul.Tensor(%1, %3)
    return %4, %5 gradient
  })");
  ASSERT_EQ(parts.forward.outputs().size(), 2u);
  EXPECT_EQ(parts.forward.outputs()[1]->producer()->op().kind, graph::OpKind::kcumsum);
  // A column alone keeps no more than itself.
  const Partition column = cut(R"(graph(%0 x: bf16[4, 6], %1 t: f32[4] tangent) {
    %2: bf16[4, 6] = aten.cumsum(%0, 0, None)
    %3: bf16[4]{6} #%2 = aten.select.int(%2, 1, 0)
    %4: f32[4] = aten._to_copy(%3, f32, None, None, None, false, None)
    %5: f32[4] = aten.cumsum(%4, 0, None)
    %6: f32[4] = aten.mul.Tensor(%1, %4)
    return %5, %6 gradient
  })");
  ASSERT_EQ(column.forward.outputs().size(), 2u);
  EXPECT_EQ(graph::to_string(column.forward.outputs()[1]->type()), "bf16[4]");
  EXPECT_EQ(column.forward.outputs()[1]->producer()->op().kind, graph::OpKind::kclone);
}

TEST(Partition, SymbolsComeAsScalarsOverAnArenaOfTheirOwn) {
  const Partition parts =
      cut(R"(graph(s0 = size(%0, 0) hint 4, %0 x: f32[s0], %1 t: f32[s0] tangent) {
    %2: f32[s0] = aten.exp(%0)
    %3: f32[s0] = aten.mul.Tensor(%1, %2)
    return %2, %3 gradient
  })");
  EXPECT_EQ(graph::canonical(parts.backward),
            R"(graph(s0 = scalar(0) hint 4, %0: f32[s0] saved, %1: f32[s0] tangent) {
  %2: f32[s0] = aten.mul.Tensor(%1, %0)
  return %2 gradient
}
)");
  EXPECT_NE(parts.backward.arena(), parts.forward.arena());
}

// A random functional graph, one or two of whose inputs become tangents.
graph::Graph random_joint(unsigned seed) {
  graph::Graph graph = fuzz::random_graph(seed, 14, /*mutate=*/seed % 2 == 0);
  functionalise(graph);
  eliminate_dead_code(graph);
  return graph;
}

std::vector<graph::Tensor> copies_of(const std::vector<graph::Tensor>& tensors) {
  std::vector<graph::Tensor> copies = tensors;
  for (graph::Tensor& copy : copies)
    copy.memory = std::make_shared<std::vector<std::byte>>(*copy.memory);
  return copies;
}

void expect_same(const graph::Tensor& a, const graph::Tensor& b, unsigned seed) {
  ASSERT_EQ(a.type.sizes, b.type.sizes) << seed;
  const std::vector<graph::Number> x = a.numbers(), y = b.numbers();
  for (size_t i = 0; i < x.size(); ++i) {
    const double p = x[i].as_double(), q = y[i].as_double();
    ASSERT_TRUE(p == q || (p != p && q != q)) << "seed " << seed << ": " << p << " and " << q;
  }
}

TEST(Partition, TheForwardAndThenTheBackwardAreTheJointGraph) {
  int tried = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    graph::Graph source = random_joint(seed);
    if (source.inputs().size() < 2 || source.inputs().back().kind != graph::InputKind::kUser)
      continue;
    const auto last = static_cast<int>(source.inputs().size()) - 1;
    const graph::Value* tangent = source.inputs()[last].value;
    bool is_apart = true;  // nobody else lies in its memory, nothing is written to it
    for (int i = 0; i < last; ++i)
      is_apart = is_apart && source.inputs()[i].value->storage() != tangent->storage();
    for (const graph::Mutation& mutation : source.mutations())
      is_apart = is_apart && mutation.target != tangent;
    std::vector<bool> reached(source.value_count());
    reached[tangent->id()] = true;
    for (const auto& node : source.nodes())
      for (const graph::Value* operand : node->operands())
        for (const graph::Value* result : node->results())
          if (result && reached[operand->id()]) reached[result->id()] = true;
    for (const graph::Mutation& mutation : source.mutations())
      is_apart = is_apart && !reached[mutation.source->id()];
    if (!is_apart) continue;
    source.set_input_kind(last, graph::InputKind::kTangent);
    std::vector<graph::Value*> user, gradients;
    for (graph::Value* output : source.outputs())
      (reached[output->id()] ? gradients : user).push_back(output);
    if (gradients.empty()) continue;
    std::vector<graph::OutputRole> roles(user.size());
    roles.resize(user.size() + gradients.size(), {graph::OutputKind::kGradient, {}});
    std::vector<graph::Value*> outputs = user;
    outputs.insert(outputs.end(), gradients.begin(), gradients.end());
    source.set_outputs(outputs, roles);
    if (seed % 2) {  // runs of nodes are checkpointed calls
      int place = 0;
      for (const auto& node : source.nodes()) {
        const int call = place++ / (2 + seed % 5);
        node->set_origin(source.add_origin({.checkpoint = call % 3 ? call + 1 : 0}));
      }
    }
    ++tried;

    Partition parts;
    try {
      constexpr std::optional<int64_t> kBudgets[] = {{}, 0, 64, 512};
      parts = partition(source, {.activation_memory = kBudgets[seed / 2 % 4]});
    } catch (const Unsupported&) {
      continue;
    }
    graph::verify_functional(parts.forward);
    graph::verify_functional(parts.backward);
    const std::vector<graph::Tensor> inputs = fuzz::random_inputs(source, seed);
    const std::vector<graph::Tensor> whole = graph::interpret(source, copies_of(inputs));
    std::vector<graph::Tensor> first = copies_of(inputs);
    const graph::Tensor tangent_value = first.back();
    first.pop_back();
    const std::vector<graph::Tensor> forward = graph::interpret(parts.forward, first);
    std::vector<graph::Tensor> given;
    for (const Partition::BackwardInput& from : parts.backward_inputs)
      given.push_back(from.kind == Kind::kInput    ? first[from.index]
                      : from.kind == Kind::kOutput ? forward[from.index]
                                                   : tangent_value);
    const std::vector<graph::Tensor> backward = graph::interpret(parts.backward, given);
    for (size_t i = 0; i < user.size(); ++i) expect_same(whole[i], forward[i], seed);
    for (size_t i = 0; i < gradients.size(); ++i)
      expect_same(whole[user.size() + i], backward[i], seed);
  }
  EXPECT_GT(tried, 50);
}

}  // namespace
}  // namespace braze::passes
