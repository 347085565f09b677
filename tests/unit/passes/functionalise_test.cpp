#include "passes/functionalise.h"

#include <gtest/gtest.h>

#include "passes/aliasing.h"
#include "passes/rewriting.h"

namespace braze::passes {
namespace {

using graph::Graph;
using graph::parse;

// The text after the pass, values renumbered.
std::string functionalised(std::string_view text) { return rewritten(functionalise, text); }

TEST(Functionalise, FunctionalGraphIsLeftAlone) {
  Graph graph = parse("graph(%0: f32[2]) { %1: f32[2] = aten.relu(%0) return %1 }");
  EXPECT_FALSE(functionalise(graph));
}

TEST(Functionalise, FreshTensorInPlace) {
  EXPECT_EQ(functionalised(R"(graph(%0 x: f32[4]) {
    %1: f32[4] = aten.neg(%0)
    %2: f32[4] #%1 = aten.add_.Tensor(%1, 2, 1)
    return %2
  })"),
            R"(graph(%0: f32[4]) {
  %1: f32[4] = aten.neg(%0)
  %2: f32[4] = aten.add.Tensor(%1, 2, 1)
  return %2
}
)");
}

TEST(Functionalise, InputThroughAView) {
  EXPECT_EQ(functionalised(R"(graph(%0 x: f32[3, 4]) {
    %1: f32[4]+4 #%0 = aten.select.int(%0, 0, 1)
    %2: f32[4]+4 #%0 = aten.relu_(%1)
    %3: f32[3, 4] = aten.neg(%0)
    return %3
  })"),
            R"(graph(%0: f32[3, 4]) {
  %1: f32[4]+4 #%0 = aten.select.int(%0, 0, 1)
  %2: f32[4] = aten.relu(%1)
  %3: f32[3, 4] = aten.select_scatter(%0, %2, 0, 1)
  %4: f32[3, 4] = aten.neg(%3)
  return %4
  mutate %0 <- %3
}
)");
}

TEST(Functionalise, HistoriesAreKeptForAutograd) {
  const std::string_view text = R"(graph(%0 x: f32[4]) {
    %1: f32[4] = aten.neg(%0)
    %2: f32[4] #%1 = aten.detach(%1)
    %3: f32[4] #%1 = aten.mul_.Scalar(%2, 2)
    %4: f32[4] = aten.exp(%1)
    %5: f32[4] #%1 = aten.zero_(%1)
    %6: f32[4] = aten.add.Tensor(%4, %1, 1)
    return %6
  })";
  EXPECT_TRUE(hides_histories(parse(text)));
  EXPECT_EQ(rewritten(functionalise_with_histories, text), R"(graph(%0: f32[4]) {
  %1: f32[4] = aten.neg(%0)
  %2: f32[4] #%1 = aten.detach(%1)
  %3: f32[4] = aten.mul.Scalar(%2, 2)
  %4: f32[4] = braze.with_history(%3, %1)
  %5: f32[4] = aten.exp(%4)
  %6: f32[4] = aten.fill.Scalar(%4, 0)
  %7: f32[4] = aten.add.Tensor(%5, %6, 1)
  return %7
}
)");
  EXPECT_FALSE(hides_histories(parse(R"(graph(%0 x: f32[4]) {
    %1: f32[4] = aten.neg(%0)
    %2: f32[4] #%1 = aten.mul_.Scalar(%1, 2)
    return %2
  })")));
}

TEST(Functionalise, ViewTakenBeforeSeesTheWrite) {
  EXPECT_EQ(functionalised(R"(graph(%0 x: f32[6]) {
    %1: f32[6] = aten.neg(%0)
    %2: f32[2, 3] #%1 = aten.view(%1, [2, 3])
    %3: f32[3, 2]{1, 3} #%1 = aten.permute(%2, [1, 0])
    %4: f32[6] #%1 = aten.mul_.Tensor(%1, 2)
    %5: f32[3, 2]{1, 3} = aten.relu(%3)
    return %5
  })"),
            R"(graph(%0: f32[6]) {
  %1: f32[6] = aten.neg(%0)
  %2: f32[2, 3] #%1 = aten.view(%1, [2, 3])
  %3: f32[3, 2]{1, 3} #%1 = aten.permute(%2, [1, 0])
  %4: f32[6] = aten.mul.Tensor(%1, 2)
  %5: f32[2, 3] #%4 = aten.view(%4, [2, 3])
  %6: f32[3, 2]{1, 3} #%4 = aten.permute(%5, [1, 0])
  %7: f32[3, 2]{1, 3} = aten.relu(%6)
  return %7
}
)");
}

TEST(Functionalise, DtypeStaysThatOfTheTensor) {
  EXPECT_EQ(functionalised(R"(graph(%0 x: f32[4], %1 y: f64[4]) {
    %2: f32[4] = aten.clone(%0, None)
    %3: f32[4] #%2 = aten.add_.Tensor(%2, %1, 1)
    return %2
  })"),
            R"(graph(%0: f32[4], %1: f64[4]) {
  %2: f32[4] = aten.clone(%0, None)
  %3: f64[4] = aten.add.Tensor(%2, %1, 1)
  %4: f32[4] = aten._to_copy(%3, f32, None, None, None, false, None)
  return %4
}
)");
}

TEST(Functionalise, WithoutARuleTheOperatorIsGivenContiguousContents) {
  EXPECT_EQ(functionalised(R"(graph(%0 x: f32[2, 3]{1, 2}) {
    %1: f32[2, 3]{1, 2} #%0 = aten.erfinv_(%0)
    return %1
  })"),
            R"(graph(%0: f32[2, 3]{1, 2}) {
  %1: f32[2, 3] = aten.clone(%0, contiguous_format)
  %2: f32[2, 3] = aten.erfinv(%1)
  %3: f32[2, 3]{1, 2} = aten.copy(%0, %2, false)
  return %0
  mutate %0 <- %3
}
)");
}

TEST(Functionalise, AScanOfIntegersInPlaceKeepsTheirDtype) {
  EXPECT_EQ(functionalised(R"(graph(%0 x: i32[4]) {
    %1: i32[4] #%0 = aten.cumsum_(%0, 0, None)
    return %1
  })"),
            R"(graph(%0: i32[4]) {
  %1: i32[4] = aten.cumsum(%0, 0, i32)
  return %0
  mutate %0 <- %1
}
)");
}

TEST(Functionalise, OutputsKeepTheirAliases) {
  Graph graph = parse(R"(graph(%0 x: f32[2, 3]) {
    %1: f32[6] #%0 = aten.view(%0, [6])
    %2: f32[6] #%0 = aten.add_.Tensor(%1, 1, 1)
    %3: f32[6] = aten.neg(%1)
    %4: f32[6] #%3 = aten.add_.Tensor(%3, 1, 1)
    %5: f32[2] #%3 = aten.slice.Tensor(%3, 0, 0, 2, 1)
    return %0, %2, %3, %5, %4
  })");
  EXPECT_TRUE(functionalise(graph));
  graph::verify_functional(graph);
  using Kind = OutputAlias::Kind;
  std::vector<std::pair<Kind, int>> aliases;
  for (const OutputAlias& alias : output_aliases(graph))
    aliases.emplace_back(alias.kind, alias.index);
  const std::vector<std::pair<Kind, int>> expected = {{Kind::kInput, 0},
                                                      {Kind::kViewOfInput, 0},
                                                      {Kind::kFresh, -1},
                                                      {Kind::kShared, 2},
                                                      {Kind::kSame, 2}};
  EXPECT_EQ(aliases, expected) << graph::to_string(graph);
  ASSERT_EQ(graph.mutations().size(), 1u);
}

TEST(Functionalise, SplitPieces) {
  EXPECT_EQ(functionalised(R"(graph(%0 x: f32[5]) {
    %1: f32[5] = aten.neg(%0)
    %2: f32[2] #%1, %3: f32[2]+2 #%1, %4: f32[1]+4 #%1 = aten.split.Tensor(%1, 2, 0)
    %5: f32[2]+2 #%1 = aten.zero_(%3)
    %6: f32[1] = aten.exp(%4)
    return %1, %6
  })"),
            R"(graph(%0: f32[5]) {
  %1: f32[5] = aten.neg(%0)
  %2: f32[2] #%1 = aten.slice.Tensor(%1, 0, 0, 2, 1)
  %3: f32[2]+2 #%1 = aten.slice.Tensor(%1, 0, 2, 4, 1)
  %4: f32[1]+4 #%1 = aten.slice.Tensor(%1, 0, 4, 5, 1)
  %5: f32[2] = aten.full([2], 0, f32, None, None, None)
  %6: f32[5] = aten.slice_scatter(%1, %5, 0, 2, 4, 1)
  %7: f32[1]+4 #%6 = aten.slice.Tensor(%6, 0, 4, 5, 1)
  %8: f32[1] = aten.exp(%7)
  return %6, %8
}
)");
}

TEST(Functionalise, CopyOutVariantAndTranspose) {
  EXPECT_EQ(functionalised(R"(graph(%0 x: f32[2], %1 y: f32[2]) {
    %2: f32[2] = aten.empty.memory_format([2], f32, None, None, None, None)
    %3: f32[2] #%2 = aten.add.out(%0, %1, 1, %2) !mutates[3] !results_alias[3]
    %4: f32[2] #%0 = aten.copy_(%0, %3, false)
    return %2
  })"),
            R"(graph(%0: f32[2], %1: f32[2]) {
  %2: f32[2] = aten.empty.memory_format([2], f32, None, None, None, None)
  %3: f32[2] = aten.add.Tensor(%0, %1, 1)
  %4: f32[2] = aten.copy(%0, %3, false)
  return %3
  mutate %0 <- %4
}
)");
}

TEST(Functionalise, BatchNormThatTrains) {
  EXPECT_EQ(functionalised(
                R"(graph(%0 x: f32[2, 3], %1 mean: f32[3] parameter, %2 var: f32[3] parameter) {
    %3: f32[2, 3], %4: f32[3], %5: f32[3] = aten.native_batch_norm(%0, None, None, %1, %2, true, 0.1, 1e-05)
    %6: f32[3] = aten.neg(%1)
    return %3, %6
  })"),
            R"(graph(%0: f32[2, 3], %1: f32[3] parameter, %2: f32[3] parameter) {
  %3: f32[2, 3], %4: f32[3], %5: f32[3], %6: f32[3], %7: f32[3] = aten._native_batch_norm_legit_functional(%0, None, None, %1, %2, true, 0.1, 1e-05)
  %8: f32[3] = aten.neg(%6)
  return %3, %8
  mutate %1 <- %6
  mutate %2 <- %7
}
)");
}

TEST(Functionalise, InPlaceViews) {
  EXPECT_EQ(functionalised(R"(graph(%0 x: f32[2, 3]) {
    %1: f32[2, 3] = aten.neg(%0)
    %2: f32[3, 2]{1, 3} #%1 = aten.t_(%1) !inplace_view !mutates[0] !results_alias[0]
    %3: f32[3, 2]{1, 3} #%1 = aten.exp_(%2)
    return %3
  })"),
            R"(graph(%0: f32[2, 3]) {
  %1: f32[2, 3] = aten.neg(%0)
  %2: f32[3, 2]{1, 3} #%1 = aten.t(%1)
  %3: f32[3, 2]{1, 3} = aten.exp(%2)
  %4: f32[2, 3] #%3 = aten.permute(%3, [1, 0])
  %5: f32[3, 2]{1, 3} #%3 = aten.t(%4)
  return %5
}
)");
}

TEST(Functionalise, InputsThatShareMemory) {
  EXPECT_EQ(functionalised(R"(graph(%0 x: f32[2], %1 y: f32[2] #%0) {
    %2: f32[2] #%0 = aten.neg_(%1)
    %3: f32[2] = aten.exp(%0)
    return %3
  })"),
            R"(graph(%0: f32[2], %1: f32[2] #%0) {
  %2: f32[2] = aten.neg(%0)
  %3: f32[2] = aten.exp(%2)
  return %3
  mutate %0 <- %2
}
)");
}

TEST(Functionalise, LiteralsOfTheTraceAreNotWrittenBack) {
  EXPECT_EQ(functionalised(R"(graph(%0 c: f32[2] constant) {
    %1: f32[2] #%0 = aten.neg_(%0)
    return %0
  })"),
            R"(graph(%0: f32[2] constant) {
  %1: f32[2] = aten.neg(%0)
  return %1
}
)");
}

TEST(Functionalise, RandomNumbersDrawnIntoATensor) {
  EXPECT_EQ(functionalised(R"(graph(%0: f32[4]) {
    %1: f32[4] = aten.empty_like(%0, f32, None, cpu, None, None)
    %2: f32[4] #%1 = aten.bernoulli_.float(%1, 0.5, None) !random !mutates[0] !results_alias[0]
    %3: f32[4] #%1 = aten.div_.Scalar(%2, 0.5)
    %4: f32[4] = aten.mul.Tensor(%0, %3)
    return %4
  })"),
            R"(graph(%0: f32[4]) {
  %1: f32[4] = aten.empty_like(%0, f32, None, cpu, None, None)
  %2: f32[4] = aten.bernoulli.p(%1, 0.5, None)
  %3: f32[4] = aten.div.Scalar(%2, 0.5)
  %4: f32[4] = aten.mul.Tensor(%0, %3)
  return %4
}
)");
}

std::string refused(std::string_view text) {
  Graph graph = parse(text);
  const std::string before = graph::to_string(graph);
  try {
    functionalise(graph);
  } catch (const Unsupported& unsupported) {
    EXPECT_EQ(graph::to_string(graph), before);
    return unsupported.what();
  }
  return "not refused";
}

TEST(Functionalise, WhatHasNoFunctionalFormIsRefused) {
  EXPECT_EQ(refused(R"(graph(%0: f32[2]{2}) {
    %1: f32[2]{2} #%0 = aten.random_(%0, None) !random !mutates[0] !results_alias[0] return %1 })"),
            "'aten.random_' cannot be compiled: it draws random numbers in place");
  EXPECT_EQ(refused("graph(%0: f32[2]) { %1: f32[2] #%0 = aten.resize_(%0, [1], None) return %1 }"),
            "'aten.resize_' cannot be compiled: it has no form that does not mutate");
  EXPECT_EQ(refused(R"(graph(%0: f32[2], %1: f32[1]+1 #%0) {
    %2: f32[2] #%0 = aten.neg_(%0) return %1 })"),
            "'input ' cannot be compiled: it shares memory with another input of other sizes, and "
            "one of them is written to");
  EXPECT_EQ(
      refused("graph(%0: f32[3, 2]{1, 1}) { %1: f32[3, 2]{1, 1} #%0 = aten.neg_(%0) return }"),
      "'input ' cannot be compiled: several of its elements lie in one place, and it is "
      "written to");
  EXPECT_EQ(refused(R"(graph(%0: f32[4]) {
    %1: f32[2]+1 #%0 = aten.as_strided(%0, [2], [1], 1)
    %2: f32[2]+1 #%0 = aten.neg_(%1) return %1 })"),
            "'aten.as_strided' cannot be compiled: a place in the storage of an input that is "
            "written to");
  EXPECT_EQ(refused(R"(graph(%0: f32[1]) {
    %1: f32[3]{0} #%0 = aten.expand(%0, [3], false)
    %2: f32[3]{0} #%0 = aten.neg_(%1) return %2 })"),
            "'aten.expand' cannot be compiled: an expanded tensor is written to");
  EXPECT_EQ(refused(R"(graph(%0: f32[4]) {
    %1: i32[4] #%0 = aten.view.dtype(%0, i32)
    %2: i32[4] #%0 = aten.neg_(%1) return %2 })"),
            "'aten.view.dtype' cannot be compiled: a view of this kind is written to");
}

}  // namespace
}  // namespace braze::passes
