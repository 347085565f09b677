#include <gtest/gtest.h>

#include "graph/graph.h"
#include "passes/decompose.h"

namespace braze::passes {
namespace {

std::string with_losses_decomposed(std::string_view text) {
  graph::Graph graph = graph::parse(text);
  decompose(graph);
  graph::verify_functional(graph);
  return graph::canonical(graph);
}

TEST(DecomposeLoss, MeanOfSquares) {
  EXPECT_EQ(with_losses_decomposed(R"(graph(%0: f32[4, 8], %1: f32[4, 8]) {
    %2: f32[] = aten.mse_loss(%0, %1, 1)
    return %2
  })"),
            R"(graph(%0: f32[4, 8], %1: f32[4, 8]) {
  %2: f32[4, 8] = aten.sub.Tensor(%0, %1, 1)
  %3: f32[4, 8] = aten.mul.Tensor(%2, %2)
  %4: f32[] = aten.mean(%3, None)
  return %4
}
)");
}

TEST(DecomposeLoss, GradientOfTheMeanOfSquares) {
  EXPECT_EQ(with_losses_decomposed(R"(graph(%0: f32[], %1: f32[4, 8], %2: f32[4, 8]) {
    %3: f32[4, 8] = aten.mse_loss_backward(%0, %1, %2, 1)
    return %3
  })"),
            R"(graph(%0: f32[], %1: f32[4, 8], %2: f32[4, 8]) {
  %3: f32[4, 8] = aten.sub.Tensor(%1, %2, 1)
  %4: f32[4, 8] = aten.mul.Scalar(%3, 0.0625)
  %5: f32[4, 8] = aten.mul.Tensor(%4, %0)
  return %5
}
)");
}

TEST(DecomposeLoss, OverSizesThatVary) {
  EXPECT_EQ(with_losses_decomposed(
                R"(graph(s0 = size(%1, 0) hint 4, %0: f32[], %1: f32[s0], %2: f32[s0]) {
    %3: f32[s0] = aten.huber_loss_backward(%0, %1, %2, 1, 2.0)
    return %3
  })"),
            R"(graph(s0 = size(%1, 0) hint 4, %0: f32[], %1: f32[s0], %2: f32[s0]) {
  %3: f32[s0] = aten.sub.Tensor(%1, %2, 1)
  %4: f32[s0] = aten.clamp(%3, -2.0, 2.0)
  %5: f32[s0] = aten.div.Scalar(%4, s0)
  %6: f32[s0] = aten.mul.Tensor(%5, %0)
  return %6
}
)");
}

TEST(DecomposeLoss, Huber) {
  EXPECT_EQ(with_losses_decomposed(R"(graph(%0: f32[8], %1: f32[8]) {
    %2: f32[8] = aten.smooth_l1_loss(%0, %1, 0, 2.0)
    return %2
  })"),
            R"(graph(%0: f32[8], %1: f32[8]) {
  %2: f32[8] = aten.sub.Tensor(%0, %1, 1)
  %3: f32[8] = aten.abs(%2)
  %4: f32[8] = aten.mul.Scalar(%3, 0.5)
  %5: f32[8] = aten.mul.Tensor(%4, %3)
  %6: f32[8] = aten.sub.Scalar(%3, 1.0, 1)
  %7: bool[8] = aten.lt.Scalar(%3, 2.0)
  %8: f32[8] = aten.div.Scalar(%5, 2.0)
  %9: f32[8] = aten.where.self(%7, %8, %6)
  return %9
}
)");
}

TEST(DecomposeLoss, LogitsWithoutWeights) {
  EXPECT_EQ(with_losses_decomposed(R"(graph(%0: f32[8], %1: f32[8]) {
    %2: f32[] = aten.binary_cross_entropy_with_logits(%0, %1, None, None, 2)
    return %2
  })"),
            R"(graph(%0: f32[8], %1: f32[8]) {
  %2: f32[8] = aten.abs(%0)
  %3: f32[8] = aten.neg(%2)
  %4: f32[8] = aten.exp(%3)
  %5: f32[8] = aten.log1p(%4)
  %6: f32[8] = aten.clamp_max(%0, 0.0)
  %7: f32[8] = aten.sub.Tensor(%6, %5, 1)
  %8: f32[8] = aten.neg(%1)
  %9: f32[8] = aten.add.Scalar(%8, 1.0, 1)
  %10: f32[8] = aten.mul.Tensor(%9, %0)
  %11: f32[8] = aten.sub.Tensor(%10, %7, 1)
  %12: f32[] = aten.sum(%11, None)
  return %12
}
)");
}

// Eager adds up halves that it has rounded; smooth_l1 with a bound of 0 is an absolute error.
TEST(DecomposeLoss, WhatIsLeftToEager) {
  for (const char* call : {
           "%2: bf16[] = aten.mse_loss(%0, %1, 1)",
           "%2: bf16[] = aten.binary_cross_entropy_with_logits(%0, %1, None, None, 1)",
       }) {
    const std::string text =
        std::string("graph(%0: bf16[8], %1: bf16[8]) {\n  ") + call + "\n  return %2\n}\n";
    EXPECT_EQ(with_losses_decomposed(text), text);
  }
  constexpr auto absolute =
      "graph(%0: f32[8], %1: f32[8]) {\n"
      "  %2: f32[8] = aten.smooth_l1_loss(%0, %1, 0, 0.0)\n"
      "  return %2\n}\n";
  EXPECT_EQ(with_losses_decomposed(absolute), absolute);
}

// Of a difference to a number of each row only the elements that are picked are computed.
TEST(DecomposeLoss, ClassesArePickedFromTheScores) {
  const std::string text =
      with_losses_decomposed(R"(graph(%0: f32[4, 8], %1: i64[4], %2: f32[4, 1]) {
    %3: f32[4, 8] = aten.sub.Tensor(%0, %2, 1)
    %4: f32[4], %5: f32[] = aten.nll_loss_forward(%3, %1, None, 0, -100)
    return %4, %3
  })");
  EXPECT_NE(text.find("aten.gather(%0, 1"), std::string::npos) << text;
}

}  // namespace
}  // namespace braze::passes
