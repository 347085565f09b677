#include "graph/infer/infer.h"

#include <gtest/gtest.h>

#include "graph/graph.h"
#include "graph/infer/strides.h"
#include "graph/text.h"

namespace braze::graph {
namespace {

// The types that the rules give to the results of the last node, one behind the other.
std::string inferred(const std::string& text) {
  const Graph graph = parse(text);
  const Node& node = *graph.nodes().back();
  const auto types = infer_types(node.op(), node.args());
  if (!types) return "no rule";
  std::string result;
  for (const TensorType& type : *types) result += (result.empty() ? "" : ", ") + to_string(type);
  return result;
}

TEST(Infer, NumbersAreOperandsOfTheLoop) {
  // Of a tensor and a number TensorIterator orders the dimensions, of a tensor alone it does not.
  EXPECT_EQ(inferred(R"(graph(%0 x: f32[1, 3]{1, 1}) {
    %1: f32[1, 3]{1, 1} = aten.mul.Scalar(%0, 2)
    return %1
  })"),
            "f32[1, 3]{1, 1}");
  EXPECT_EQ(inferred(R"(graph(%0 x: f32[1, 3]{1, 1}) {
    %1: f32[1, 3] = aten.neg(%0)
    return %1
  })"),
            "f32[1, 3]");
}

TEST(Infer, MaskedFillAllocatesRowMajor) {
  EXPECT_EQ(inferred(R"(graph(%0 x: f32[2, 3]{1, 2}, %1 mask: bool[2, 3]) {
    %2: f32[2, 3] = aten.masked_fill.Scalar(%0, %1, 1)
    return %2
  })"),
            "f32[2, 3]");
}

TEST(Infer, PartsOfComplexNumbersAreReal) {
  EXPECT_EQ(inferred(R"(graph(%0 x: c64[2, 3]) {
    %1: f32[2, 3] = aten.abs(%0)
    return %1
  })"),
            "f32[2, 3]");
  EXPECT_EQ(inferred(R"(graph(%0 x: c128[2, 3]) {
    %1: f64[2], %2: c128[2] = aten.var_mean.correction(%0, [1], 1, false)
    return %1, %2
  })"),
            "f64[2], c128[2]");
}

TEST(Infer, StatisticsOfHalvesFollowTheParameters) {
  EXPECT_EQ(inferred(R"(graph(%0 x: bf16[2, 3], %1 w: f32[3]) {
    %2: bf16[2, 3], %3: f32[2, 1], %4: f32[2, 1] = aten.native_layer_norm(%0, [3], %1, None, 1e-5)
    return %2
  })"),
            "bf16[2, 3], f32[2, 1], f32[2, 1]");
}

// PyTorch has kernels of their own for shuffles on CPUs, and composes them elsewhere.
TEST(Infer, ShufflesKeepChannelsInnermostOnCpusAlone) {
  const auto shuffled = [](const std::string& device, const std::string& call) {
    return inferred("graph(%0 x: f32[2, 8, 4, 6]{192, 1, 48, 8}" + device + ") {\n  %1: f32[]" +
                    device + " = " + call + "\n  return %1\n}");
  };
  EXPECT_EQ(shuffled("", "aten.pixel_shuffle(%0, 2)"), "f32[2, 2, 8, 12]{192, 1, 24, 2}");
  EXPECT_EQ(shuffled("", "aten.pixel_unshuffle(%0, 2)"), "f32[2, 32, 2, 3]{192, 1, 96, 32}");
  EXPECT_EQ(shuffled("", "aten.channel_shuffle(%0, 4)"), "f32[2, 8, 4, 6]{192, 1, 48, 8}");
  EXPECT_EQ(shuffled("@cuda:0", "aten.pixel_shuffle(%0, 2)"), "f32[2, 2, 8, 12]@cuda:0");
  EXPECT_EQ(shuffled("@cuda:0", "aten.pixel_unshuffle(%0, 2)"), "f32[2, 32, 2, 3]@cuda:0");
  EXPECT_EQ(shuffled("@cuda:0", "aten.channel_shuffle(%0, 4)"), "f32[2, 8, 4, 6]@cuda:0");
}

TEST(Infer, GradientsOfNormsLieLikeTheInput) {
  EXPECT_EQ(inferred(R"(graph(%0 dy: bf16[2, 3, 4, 5], %1 x: bf16[2, 3, 4, 5]{60, 1, 15, 3},
                              %2 w: f32[3], %3 s: f32[3]) {
    %4: bf16[2, 3, 4, 5]{60, 1, 15, 3}, %5: f32[3], %6: f32[3] =
        aten.native_batch_norm_backward(%0, %1, %2, %3, %3, %3, %3, true, 1e-5, [true, true, true])
    return %4
  })"),
            "bf16[2, 3, 4, 5]{60, 1, 15, 3}, f32[3], f32[3]");
  // Dense in two formats: eager makes this or that.
  EXPECT_EQ(
      inferred(R"(graph(%0 dy: f32[2, 1, 4, 5], %1 x: f32[2, 1, 4, 5]{20, 1, 5, 1}, %2 w: f32[1]) {
    %3: f32[2, 1, 4, 5], %4: f32[1], %5: f32[1] =
        aten.native_batch_norm_backward(%0, %1, %2, %2, %2, %2, %2, true, 1e-5, [true, true, true])
    return %3
  })"),
      "no rule");
  EXPECT_EQ(
      inferred(R"(graph(%0 dy: f32[2, 3], %1 x: f32[2, 3]{1, 2}, %2 s: f32[2, 1], %3 w: f32[3]) {
    %4: f32[2, 3], %5: f32[3], %6: f32[3] =
        aten.native_layer_norm_backward(%0, %1, [3], %2, %2, %3, %3, [true, true, true])
    return %4
  })"),
      "f32[2, 3], f32[3], f32[3]");
}

TEST(Infer, ImagesPaddedByReflectionKeepTheFormatOnCpusAlone) {
  const auto padded = [](const std::string& device) {
    return inferred("graph(%0 x: f32[2, 3, 4, 5]{60, 1, 15, 3}" + device +
                    ") {\n  %1: f32[2, 3, 6, 7]" + device +
                    " = aten.reflection_pad2d(%0, [1, 1, 1, 1])\n  return %1\n}\n");
  };
  EXPECT_EQ(padded(""), "f32[2, 3, 6, 7]{126, 1, 21, 3}");
  EXPECT_EQ(padded("@cuda:0"), "f32[2, 3, 6, 7]@cuda:0");
}

TEST(Infer, GradientsOfPaddedImagesKeepTheFormat) {
  EXPECT_EQ(inferred(R"(graph(%0 dy: f32[2, 3, 6, 7], %1 x: f32[2, 3, 4, 5]{60, 1, 15, 3}) {
    %2: f32[2, 3, 4, 5]{60, 1, 15, 3} = aten.reflection_pad2d_backward(%0, %1, [1, 1, 1, 1])
    return %2
  })"),
            "f32[2, 3, 4, 5]{60, 1, 15, 3}");
  EXPECT_EQ(inferred(R"(graph(%0 dy: f32[2, 3, 6, 7], %1 x: f32[2, 3, 1, 5]) {
    %2: f32[2, 3, 1, 5] = aten.reflection_pad2d_backward(%0, %1, [1, 1, 1, 1])
    return %2
  })"),
            "no rule");  // an error: it reflects more than there is
}

TEST(Infer, LossesAreNumbersUnlessAskedForEach) {
  EXPECT_EQ(inferred(R"(graph(%0 x: f32[2, 3]{1, 2}, %1 t: f32[2, 3]) {
    %2: f32[2, 3]{1, 2} = aten.huber_loss(%0, %1, 0, 1)
    return %2
  })"),
            "f32[2, 3]{1, 2}");
  EXPECT_EQ(inferred(R"(graph(%0 x: f32[2, 3]{1, 2}, %1 t: f32[2, 3]) {
    %2: f32[] = aten.huber_loss(%0, %1, 1, 1)
    return %2
  })"),
            "f32[]");
}

TEST(Infer, IndexingKeepsTheOrderOfTheTensor) {
  EXPECT_EQ(inferred(R"(graph(%0 x: f32[8, 2, 3]{6, 1, 2}, %1 i: i64[4]) {
    %2: f32[4, 2, 3]{6, 1, 2} = aten.index.Tensor(%0, [%1])
    return %2
  })"),
            "f32[4, 2, 3]{6, 1, 2}");
  EXPECT_EQ(inferred(R"(graph(%0 x: f32[8], %1 mask: bool[8]) {
    %2: f32[4] = aten.index.Tensor(%0, [%1])
    return %2
  })"),
            "no rule");
}

TEST(Infer, JoinedTensorsKeepACommonFormat) {
  EXPECT_EQ(inferred(R"(graph(%0 x: u8[1, 4, 1, 1]{4, 1, 4, 4}) {
    %1: u8[2, 4, 1, 1]{4, 1, 4, 4} = aten.cat([%0, %0], 0)
    return %1
  })"),
            "u8[2, 4, 1, 1]{4, 1, 4, 4}");
}

TEST(Infer, ExpandedNumbersHaveNoStrides) {
  EXPECT_EQ(inferred(R"(graph(%0 x: f32[]) {
    %1: f32[1, 1]{0, 0} #%0 = aten.expand(%0, [1, 1])
    return %1
  })"),
            "f32[1, 1]{0, 0}");
}

TEST(Infer, PiecesOfASymbolicSize) {
  EXPECT_EQ(inferred(R"(graph(s0 = size(%0, 0) hint 5, %0 x: f32[s0]) {
    %1: f32[2] #%0, %2: f32[2]+2 #%0, %3: f32[s0 - 4]+4 #%0 = aten.split.Tensor(%0, 2, 0)
    return %1
  })"),
            "f32[2], f32[2]+2, f32[s0 - 4]+4");
}

TEST(Infer, SuggestedFormat) {
  EXPECT_EQ(suggested_format(make_type(DType::kFloat32, {2, 3, 4, 5})), MemoryFormat::kContiguous);
  TensorType image = make_type(DType::kFloat32, {2, 3, 4, 5});
  image.strides = like_strides(image, MemoryFormat::kChannelsLast);
  EXPECT_EQ(suggested_format(image), MemoryFormat::kChannelsLast);
  TensorType one_channel = make_type(DType::kFloat32, {2, 1, 4, 5});
  EXPECT_EQ(suggested_format(one_channel), MemoryFormat::kContiguous);
}

}  // namespace
}  // namespace braze::graph
