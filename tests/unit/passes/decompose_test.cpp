#include "passes/decompose.h"

#include <gtest/gtest.h>

#include "passes/dce.h"
#include "passes/rewriting.h"

namespace braze::passes {
namespace {

using graph::Graph;

TEST(Decompose, Silu) {
  EXPECT_EQ(decomposed("graph(%0: f32[8]) { %1: f32[8] = aten.silu(%0) return %1 }"),
            R"(graph(%0: f32[8]) {
  %1: f32[8] = aten.neg(%0)
  %2: f32[8] = aten.exp(%1)
  %3: f32[8] = aten.add.Scalar(%2, 1.0, 1)
  %4: f32[8] = aten.div.Tensor(%0, %3)
  return %4
}
)");
}

TEST(Decompose, HalfPrecisionIsRoundedOnce) {
  EXPECT_EQ(decomposed("graph(%0: bf16[8]) { %1: bf16[8] = aten.leaky_relu(%0, 0.1) return %1 }"),
            R"(graph(%0: bf16[8]) {
  %1: f32[8] = aten._to_copy(%0, f32, None, None, None, false, None)
  %2: f32[8] = aten.mul.Scalar(%1, 0.1)
  %3: bool[8] = aten.gt.Scalar(%1, 0.0)
  %4: f32[8] = aten.where.self(%3, %1, %2)
  %5: bf16[8] = aten._to_copy(%4, bf16, None, None, None, false, None)
  return %5
}
)");
}

TEST(Decompose, LayerNorm) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[2, 4], %1: f32[4] parameter, %2: f32[4] parameter) {
    %3: f32[2, 4], %4: f32[2, 1], %5: f32[2, 1] = aten.native_layer_norm(%0, [4], %1, %2, 1e-05)
    return %3
  })"),
            R"(graph(%0: f32[2, 4], %1: f32[4] parameter, %2: f32[4] parameter) {
  %3: f32[2, 1], %4: f32[2, 1] = aten.var_mean.correction(%0, [1], 0, true)
  %5: f32[2, 1] = aten.add.Scalar(%3, 1e-05, 1)
  %6: f32[2, 1] = aten.rsqrt(%5)
  %7: f32[2, 4] = aten.sub.Tensor(%0, %4, 1)
  %8: f32[2, 4] = aten.mul.Tensor(%7, %6)
  %9: f32[2, 4] = aten.mul.Tensor(%8, %1)
  %10: f32[2, 4] = aten.add.Tensor(%9, %2, 1)
  return %10
}
)");
}

TEST(Decompose, BatchNormAtInference) {
  EXPECT_EQ(
      decomposed(R"(graph(%0: f32[2, 3, 4, 4], %1: f32[3], %2: f32[3], %3: f32[3], %4: f32[3]) {
    %5: f32[2, 3, 4, 4], %6: f32[0], %7: f32[0] = aten.native_batch_norm(%0, %1, %2, %3, %4, false, 0.1, 1e-05)
    return %5
  })"),
      R"(graph(%0: f32[2, 3, 4, 4], %1: f32[3], %2: f32[3], %3: f32[3], %4: f32[3]) {
  %5: f32[3] = aten.add.Scalar(%4, 1e-05, 1)
  %6: f32[3] = aten.rsqrt(%5)
  %7: f32[3] = aten.mul.Tensor(%6, %1)
  %8: f32[3] = aten.mul.Tensor(%3, %7)
  %9: f32[3] = aten.sub.Tensor(%2, %8, 1)
  %10: f32[3, 1, 1] #%9 = aten.view(%9, [3, 1, 1])
  %11: f32[3, 1, 1] #%7 = aten.view(%7, [3, 1, 1])
  %12: f32[2, 3, 4, 4] = aten.mul.Tensor(%0, %11)
  %13: f32[2, 3, 4, 4] = aten.add.Tensor(%12, %10, 1)
  return %13
}
)");
}

TEST(Decompose, ChannelsLastStays) {
  const std::string text = decomposed(R"(graph(%0: f32[2, 4, 3, 3]{36, 1, 12, 4}) {
    %1: f32[2, 4, 3, 3]{36, 1, 12, 4}, %2: f32[2, 2], %3: f32[2, 2] = aten.native_group_norm(%0, None, None, 2, 4, 9, 2, 1e-05)
    return %1
  })");
  EXPECT_NE(text.find("%1: f32[2, 4, 3, 3] = aten.clone(%0, contiguous_format)"), std::string::npos)
      << text;
  EXPECT_NE(text.find("{36, 1, 12, 4} = aten.clone(%14, channels_last)\n"), std::string::npos)
      << text;
}

TEST(Decompose, GroupNormOnAGpuMovesNothing) {
  const std::string text = decomposed(R"(graph(%0: f32[2, 4, 3, 3]{36, 1, 12, 4}@cuda:0) {
    %1: f32[2, 4, 3, 3]{36, 1, 12, 4}@cuda:0, %2: f32[2, 2]@cuda:0, %3: f32[2, 2]@cuda:0 = aten.native_group_norm(%0, None, None, 2, 4, 9, 2, 1e-05)
    return %1
  })");
  EXPECT_EQ(text.find("aten.clone"), std::string::npos) << text;
  EXPECT_NE(text.find("%2: f32[2, 2, 9, 2]{36, 2, 4, 1}@cuda:0 #%0 = aten.permute(%1"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("%15: f32[2, 4, 3, 3]{36, 1, 12, 4}@cuda:0 #%14 = aten.view(%14"),
            std::string::npos)
      << text;
}

TEST(Decompose, LayoutsThatGroupNormRefusesAreLeftToIt) {
  expect_unchanged_by(decompose, R"(graph(%0: f32[2, 4, 9]{1, 18, 2}) {
    %1: f32[2, 4, 9]{1, 18, 2}, %2: f32[2, 2], %3: f32[2, 2] = aten.native_group_norm(%0, None, None, 2, 4, 9, 2, 1e-05)
    return %1
  })");
}

TEST(Decompose, Shapes) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[2, 3]) {
    %1: f32[3, 2]{1, 3} #%0 = aten.t(%0)
    %2: f32[3]{1} #%0, %3: f32[3]+3 #%0 = aten.unbind.int(%0, 0)
    %4: f32[2, 3] = aten.stack([%3, %3], 0)
    %5: f32[3] = aten.zeros_like(%3, None, None, None, None, None)
    return %1, %4, %5
  })"),
            R"(graph(%0: f32[2, 3]) {
  %1: f32[3, 2]{1, 3} #%0 = aten.permute(%0, [1, 0])
  %2: f32[3]+3 #%0 = aten.select.int(%0, 0, 1)
  %3: f32[1, 3]+3 #%0 = aten.unsqueeze(%2, 0)
  %4: f32[1, 3]+3 #%0 = aten.unsqueeze(%2, 0)
  %5: f32[2, 3] = aten.cat([%3, %4], 0)
  %6: f32[3] = aten.full([3], 0, f32, None, None, None)
  return %1, %5, %6
}
)");
}

TEST(Decompose, CopyBroadcastsAndConverts) {
  EXPECT_EQ(decomposed(R"(graph(%0: i64[2, 3], %1: f32[3]) {
    %2: i64[2, 3] = aten.copy(%0, %1, false)
    return %2
  })"),
            R"(graph(%0: i64[2, 3], %1: f32[3]) {
  %2: f32[2, 3]{0, 1} #%1 = aten.expand(%1, [2, 3], false)
  %3: i64[2, 3] = aten._to_copy(%2, i64, None, None, None, false, None)
  return %3
}
)");
}

TEST(Decompose, WhatHasNoRuleStays) {
  Graph graph = graph::parse(R"(graph(%0: f32[2, 3, 4, 4], %1: f32[3], %2: f32[3]) {
    %3: f32[2, 3, 4, 4] = aten._softmax(%0, 1, false)
    %4: f32[3, 2, 4, 4], %5: i64[3, 2, 4, 4] = my.op(%3)
    return %3, %4
  })");
  const std::string before = to_string(graph);
  EXPECT_FALSE(decompose(graph));
  EXPECT_EQ(to_string(graph), before);
}

TEST(Decompose, AnyStridesAreGiven) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[2, 3]) {
    %1: f32[2, 3]{7, 2} = aten.square(%0)
    %2: i64[2, 3]{1, 2} = aten.full_like(%0, 7, i64, None, None, None, None)
    return %1, %2
  })"),
            R"(graph(%0: f32[2, 3]) {
  %1: f32[2, 3] = aten.mul.Tensor(%0, %0)
  %2: f32[2, 3]{7, 2} = prims.copy_strided(%1, [7, 2])
  %3: i64[2, 3] = aten.full([2, 3], 7, i64, None, None, None)
  %4: i64[2, 3]{1, 2} = prims.copy_strided(%3, [1, 2])
  return %2, %4
}
)");
}

// Nothing half done is left behind.
TEST(Decompose, OddStridesThatNoKernelGivesAreLeftAlone) {
  expect_unchanged_by(decompose, R"(graph(%0: c64[2, 3]) {
    %1: c64[2, 3]{7, 2} = aten.square(%0)
    %2: c64[2, 3]{1, 2} = aten.full_like(%0, 7, None, None, None, None, None)
    %3: f32[2, 3]{0, 1} = aten.empty_strided([2, 3], [0, 1], None, None, None, None)
    return %1, %2, %3
  })");
}

TEST(Decompose, Threshold) {
  EXPECT_EQ(decomposed("graph(%0: u8[3]) { %1: u8[3] = aten.threshold(%0, 3, 255) return %1 }"),
            R"(graph(%0: u8[3]) {
  %1: u8[] = aten.full([], 255, u8, None, None, None)
  %2: bool[3] = aten.le.Scalar(%0, 3)
  %3: u8[3] = aten.where.self(%2, %1, %0)
  return %3
}
)");
  for (const char* number : {"256", "-1", "2.5"})
    expect_unchanged_by(decompose, "graph(%0: u8[3]) { %1: u8[3] = aten.threshold(%0, 3, " +
                                       std::string(number) + ") return %1 }");
}

TEST(Decompose, DeviationsOfHalvesAreRoundedOnce) {
  EXPECT_EQ(decomposed(R"(graph(%0: f16[8]) {
    %1: f16[] = aten.std.correction(%0, [0], 1, false)
    return %1
  })"),
            R"(graph(%0: f16[8]) {
  %1: f32[8] = aten._to_copy(%0, f32, None, None, None, false, None)
  %2: f32[] = aten.var.correction(%1, [0], 1, false)
  %3: f32[] = aten.sqrt(%2)
  %4: f16[] = aten._to_copy(%3, f16, None, None, None, false, None)
  return %4
}
)");
}

}  // namespace
}  // namespace braze::passes
