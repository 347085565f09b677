#include "passes/counter_random.h"

#include <gtest/gtest.h>

#include "passes/dce.h"
#include "passes/functionalise.h"
#include "passes/partition.h"
#include "passes/pipeline.h"
#include "passes/rewriting.h"

namespace braze::passes {
namespace {

std::string with_counter_random(std::string_view text) {
  return rewritten(use_counter_random, text);
}

TEST(CounterRandom, OneSeedForAllOperatorsAndOffsetsForEach) {
  EXPECT_EQ(with_counter_random(R"(graph(%0: f64[4]) {
    %1: f32[8] = aten.rand([8], f32, None, cpu, false)
    %2: f64[4] = aten.rand_like(%0, None, None, None, false, None)
    %3: f16[2, 3] = aten.rand([2, 3], f16, None, cpu, false)
    return %1, %2, %3
  })"),
            R"(graph(%0: f64[4]) {
  %1: i64[] = aten.randint.low(0, 9223372036854775807, [], i64, None, cpu, false)
  %2: f32[8] = braze.random(%1, 0, [8], f32)
  %3: f64[4] = braze.random(%1, 1, [4], f64)
  %4: f16[2, 3] = braze.random(%1, 3, [2, 3], f16)
  return %2, %3, %4
}
)");
}

TEST(CounterRandom, BernoulliComparesWithAUniformNumber) {
  EXPECT_EQ(with_counter_random(R"(graph(%0: f32[8]) {
    %1: f32[8] = aten.bernoulli.p(%0, 0.9, None)
    return %1
  })"),
            R"(graph(%0: f32[8]) {
  %1: i64[] = aten.randint.low(0, 9223372036854775807, [], i64, None, cpu, false)
  %2: f32[8] = braze.random(%1, 0, [8], f32)
  %3: bool[8] = aten.lt.Scalar(%2, 0.9)
  %4: f32[8] = aten._to_copy(%3, f32, None, None, None, false, None)
  return %4
}
)");
}

TEST(CounterRandom, ViewsOfWhatWasDrawnAreViewsOfWhatIsComputed) {
  graph::Graph graph = graph::parse(R"(graph(%0: f32[8, 4]) {
    %1: f32[8, 4] = aten.bernoulli.p(%0, 0.9, None)
    %2: f32[4, 8]{1, 4} #%1 = aten.permute(%1, [1, 0])
    return %2
  })");
  EXPECT_TRUE(use_counter_random(graph));
  graph::verify_functional(graph);
}

TEST(CounterRandom, ProbabilitiesFromATensorAreChecked) {
  const std::string text = with_counter_random(R"(graph(%0: f32[8]) {
    %1: f32[8] = aten.bernoulli(%0, None)
    return %1
  })");
  EXPECT_NE(text.find("aten._assert_async.msg(%"), std::string::npos) << text;
  EXPECT_NE(text.find("aten.lt.Tensor(%"), std::string::npos) << text;
}

TEST(CounterRandom, ResultsKeepTheirStrides) {
  const std::string text = with_counter_random(R"(graph(%0: f32[4, 8]{1, 4}) {
    %1: f32[4, 8]{1, 4} = aten.randn_like(%0, None, None, None, false, None)
    return %1
  })");
  EXPECT_NE(text.find("f32[4, 8]{1, 4} = prims.copy_strided(%"), std::string::npos) << text;
  EXPECT_NE(text.find("aten.sqrt"), std::string::npos) << text;
}

TEST(CounterRandom, GoesOnWhereItEnded) {
  const std::string text = with_counter_random(R"(graph() {
    %0: i64[] = aten.randint.low(0, 9223372036854775807, [], i64, None, cpu, false)
    %1: f64[8] = braze.random(%0, 4, [8], f64)
    %2: f32[8] = aten.rand([8], f32, None, cpu, false)
    return %1, %2
  })");
  EXPECT_NE(text.find("= braze.random(%0, 6, [8], f32)"), std::string::npos) << text;
}

TEST(CounterRandom, LeavesWhatHasNoFormula) {
  expect_unchanged_by(use_counter_random, R"(graph() {
    %0: i64[8] = aten.randperm(8, i64, None, cpu, false)
    return %0
  })");
  expect_unchanged_by(use_counter_random, R"(graph(%0: f32[8]) {
    %1: f32[8] = aten.bernoulli.p(%0, 1.5, None)
    return %1
  })");
  expect_unchanged_by(use_counter_random, R"(graph() {
    %0: c64[8] = aten.randn([8], c64, None, cpu, false)
    return %0
  })");
  expect_unchanged_by(use_counter_random, R"(graph() {
    %0: i64[8] = aten.randint.low(3, 3, [8], i64, None, cpu, false)
    return %0
  })");
  expect_unchanged_by(use_counter_random, R"(graph(%0: u8[8]) {
    %1: u8[8] = aten.randint_like(%0, 300, None, None, None, false, None) !random
    return %1
  })");
}

TEST(CounterRandom, IsAPassOfThePipelineWhereAskedFor) {
  for (const bool wanted : {false, true}) {
    graph::Graph graph = graph::parse(R"(graph(%0: f32[8]) {
      %1: f32[8] = aten.empty_like(%0, None, None, None, None, None)
      %2: f32[8] #%1 = aten.bernoulli_.float(%1, 0.9, None) !random !mutates[0] !results_alias[0]
      %3: f32[8] = aten.mul.Tensor(%0, %1)
      return %3
    })");
    PipelineOptions options;
    options.counter_random = wanted;
    run_inference_pipeline(graph, options);
    const std::string text = graph::canonical(graph);
    EXPECT_EQ(text.find("braze.random") != std::string::npos, wanted) << text;
    EXPECT_EQ(text.find("aten.bernoulli") == std::string::npos, wanted) << text;
  }
}

TEST(CounterRandom, TheSeedOfAMaskCrossesToTheBackward) {
  graph::Graph joint = graph::parse(R"(graph(%0 x: f32[8], %1 t: f32[8] tangent) {
    %2: f32[8] = aten.exp(%0)
    %3: f32[8], %4: bool[8] = aten.native_dropout(%2, 0.1, true)
    %5: f32[8] = aten.native_dropout_backward(%1, %4, 1.1111111111111112)
    %6: f32[8] = aten.mul.Tensor(%5, %2)
    return %3, %6 gradient
  })");
  use_counter_random(joint);
  graph::verify_functional(joint);
  const Partition parts = partition(joint);
  const std::string text = graph::canonical(parts.backward);
  EXPECT_EQ(text.find("bool[8] saved"), std::string::npos) << text;
  EXPECT_NE(text.find("i64[] saved"), std::string::npos) << text;
  EXPECT_NE(text.find("f32[8] saved"), std::string::npos) << text;
  EXPECT_NE(text.find("= braze.random(%"), std::string::npos) << text;
  EXPECT_NE(text.find("= aten.lt.Scalar(%"), std::string::npos) << text;
  EXPECT_EQ(text.find("aten.randint"), std::string::npos) << text;
}

}  // namespace
}  // namespace braze::passes
