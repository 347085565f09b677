#include "passes/channels_last.h"

#include <gtest/gtest.h>

#include "passes/pipeline.h"
#include "passes/rewriting.h"

namespace braze::passes {
namespace {

bool all(graph::Graph& graph) { return use_channels_last(graph, ChannelsLast::kAll); }
bool halves(graph::Graph& graph) { return use_channels_last(graph, ChannelsLast::kHalves); }

std::string in_channels_last(std::string_view text) { return rewritten(all, text); }

int count(std::string_view text, std::string_view word) {
  int found = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++found;
  return found;
}

TEST(ChannelsLast, CopiesWhatComesAndWhatGoes) {
  EXPECT_EQ(in_channels_last(R"(graph(%0: f16[2, 8, 5, 5], %1: f16[16, 8, 3, 3] parameter) {
  %2: f16[2, 16, 5, 5] = aten.convolution(%0, %1, None, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %3: f16[2, 16, 5, 5] = aten.relu(%2)
  return %3
})"),
            R"(graph(%0: f16[2, 8, 5, 5], %1: f16[16, 8, 3, 3] parameter) {
  %2: f16[2, 8, 5, 5]{200, 1, 40, 8} = aten.clone(%0, channels_last)
  %3: f16[16, 8, 3, 3]{72, 1, 24, 8} = aten.clone(%1, channels_last)
  %4: f16[2, 16, 5, 5]{400, 1, 80, 16} = aten.convolution(%2, %3, None, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %5: f16[2, 16, 5, 5]{400, 1, 80, 16} = aten.relu(%4)
  %6: f16[2, 16, 5, 5] = aten.clone(%5, contiguous_format)
  return %6
}
)");
}

TEST(ChannelsLast, GoesOnFromConvolutionToConvolution) {
  const std::string text = in_channels_last(
      R"(graph(%0: f16[2, 8, 8, 8], %1: f16[8, 8, 3, 3], %2: f16[8, 8, 1, 1], %3: f16[8], %4: f16[8]) {
  %5: f16[2, 8, 8, 8] = aten.convolution(%0, %1, None, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %6: f16[2, 8, 8, 8], %7: f16[0], %8: f16[0] = aten._native_batch_norm_legit_no_training(%5, None, None, %3, %4, 0.1, 1e-05)
  %9: f16[2, 8, 4, 4], %10: i64[2, 8, 4, 4] = aten.max_pool2d_with_indices(%6, [2, 2], [2, 2])
  %11: f16[2, 8, 4, 4] = aten.convolution(%9, %2, None, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
  %12: f16[2, 8, 4, 4] = aten.add.Tensor(%11, %9, 1)
  %13: f16[2, 8, 1, 1] = aten.mean.dim(%12, [2, 3], true, None)
  %14: f16[2, 8] #%13 = aten.view(%13, [2, 8])
  return %14
})");
  // Of the image and of the weight that is larger than a point.
  EXPECT_EQ(count(text, "aten.clone"), 2) << text;
  EXPECT_NE(text.find("f16[2, 8, 4, 4]{128, 1, 32, 8} = aten.add.Tensor"), text.npos) << text;
}

TEST(ChannelsLast, GoesOnThroughGroupNormOnAGpu) {
  const std::string text =
      in_channels_last(R"(graph(%0: f16[2, 8, 8, 8]@cuda:0, %1: f16[8, 8, 3, 3]@cuda:0) {
  %2: f16[2, 8, 8, 8]@cuda:0 = aten.convolution(%0, %1, None, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %3: f16[2, 8, 8, 8]@cuda:0, %4: f16[2, 2]@cuda:0, %5: f16[2, 2]@cuda:0 = aten.native_group_norm(%2, None, None, 2, 8, 64, 2, 1e-05)
  %6: f16[2, 8, 8, 8]@cuda:0 = aten.silu(%3)
  %7: f16[2, 8, 8, 8]@cuda:0 = aten.convolution(%6, %1, None, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %8: f16[]@cuda:0 = aten.sum(%7, None)
  return %8
})");
  EXPECT_EQ(count(text, "aten.clone"), 2) << text;
}

TEST(ChannelsLast, GoesOnThroughPadding) {
  const std::string text = in_channels_last(R"(graph(%0: f16[2, 8, 8, 8], %1: f16[8, 8, 3, 3]) {
  %2: f16[2, 8, 8, 8] = aten.convolution(%0, %1, None, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %3: f16[2, 8, 9, 9] = aten.constant_pad_nd(%2, [0, 1, 0, 1], 0)
  %4: f16[2, 8, 7, 7] = aten.convolution(%3, %1, None, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
  %5: f16[] = aten.sum(%4, None)
  return %5
})");
  EXPECT_EQ(count(text, "aten.clone"), 2) << text;
  EXPECT_NE(text.find("f16[2, 8, 9, 9]{648, 1, 72, 8} = aten.constant_pad_nd"), text.npos) << text;
}

// What is drawn in the order of rows needs memory in rows, and no elements.
TEST(ChannelsLast, MemoryLikeAnotherCountsAsNoCopy) {
  const std::string text =
      rewritten(halves, R"(graph(%0: f16[8, 64, 28, 28], %1: f16[64, 64, 3, 3]) {
  %2: f16[8, 64, 28, 28] = aten.convolution(%0, %1, None, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %3: f16[8, 64, 28, 28] = aten.empty_like(%2, None, None, None, None, None)
  %4: f16[8, 64, 28, 28] = aten.bernoulli.p(%3, 0.5)
  %5: f16[8, 64, 28, 28] = aten.mul.Tensor(%2, %4)
  %6: f16[8, 64, 28, 28] = aten.convolution(%5, %1, None, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %7: f16[] = aten.sum(%6, None)
  return %7
})");
  EXPECT_NE(text.find("f16[8, 64, 28, 28] = aten.bernoulli.p"), text.npos) << text;
  EXPECT_NE(text.find("{50176, 1, 1792, 64} = aten.mul.Tensor"), text.npos) << text;
}

TEST(ChannelsLast, RowsBesideThemAreCopiedOnce) {
  const std::string text = in_channels_last(R"(graph(%0: f16[2, 8, 8, 8], %1: f16[8, 8, 3, 3]) {
  %2: f16[2, 8, 8, 8] = aten.convolution(%0, %1, None, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %3: f16[2, 8, 8, 8] = aten.add.Tensor(%0, %2, 1)
  %4: f16[2, 8, 8, 8] = aten.convolution(%3, %1, None, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %5: f16[2, 16, 8, 8] = aten.cat([%0, %4], 1)
  %6: f16[] = aten.sum(%5, None)
  return %6
})");
  EXPECT_EQ(count(text, "aten.clone"), 2) << text;
  EXPECT_NE(text.find("f16[2, 16, 8, 8]{1024, 1, 128, 16} = aten.cat"), text.npos) << text;
}

TEST(ChannelsLast, ViewsThatTheLayoutHas) {
  const std::string text = in_channels_last(R"(graph(%0: f32[2, 8, 6, 4], %1: f32[8, 8, 3, 3]) {
  %2: f32[2, 8, 6, 4] = aten.convolution(%0, %1, None, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %3: f32[2, 6, 4, 8]{192, 4, 1, 24} #%2 = aten.permute(%2, [0, 2, 3, 1])
  %4: f32[2, 6, 4, 8], %5: f32[2, 6, 4, 1], %6: f32[2, 6, 4, 1] = aten.native_layer_norm(%3, [8], None, None, 1e-05)
  %7: f32[2, 8, 24] #%2 = aten.view(%2, [2, 8, 24])
  %8: f32[2, 24, 8]{192, 1, 24} #%2 = aten.permute(%7, [0, 2, 1])
  %9: f32[2, 8, 8] = aten.bmm(%7, %8)
  %10: f32[2, 192] #%2 = aten.view(%2, [2, 192])
  %11: f32[2] = aten.sum.dim_IntList(%10, [1], false, None)
  return %4, %9, %11
})");
  EXPECT_NE(text.find("f32[2, 6, 4, 8] #%4 = aten.permute(%4, [0, 2, 3, 1])"), text.npos) << text;
  EXPECT_NE(text.find("f32[2, 8, 24]{192, 1, 8} #%4 = aten.view(%4, [2, 8, 24])"), text.npos)
      << text;
  // A row of both needs the elements in their order.
  EXPECT_NE(text.find("aten.clone(%4, contiguous_format)"), text.npos) << text;
}

TEST(ChannelsLast, OutputsAreViewsAsTheyWere) {
  const std::string text = in_channels_last(R"(graph(%0: f32[2, 8, 6, 4], %1: f32[8, 8, 3, 3]) {
  %2: f32[2, 8, 6, 4] = aten.convolution(%0, %1, None, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %3: f32[2, 6, 4, 8]{192, 4, 1, 24} #%2 = aten.permute(%2, [0, 2, 3, 1])
  return %2, %3
})");
  EXPECT_NE(text.find("%5: f32[2, 8, 6, 4] = aten.clone(%4, contiguous_format)"), text.npos)
      << text;
  EXPECT_NE(text.find("%6: f32[2, 6, 4, 8]{192, 4, 1, 24} #%5 = aten.permute(%5"), text.npos)
      << text;
}

TEST(ChannelsLast, ARandomMaskIsDrawnInRows) {
  const std::string text = in_channels_last(R"(graph(%0: f32[2, 8, 6, 4], %1: f32[8, 8, 3, 3]) {
  %2: f32[2, 8, 6, 4] = aten.convolution(%0, %1, None, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %3: f32[2, 8, 6, 4], %4: bool[2, 8, 6, 4] = aten.native_dropout(%2, 0.5, true)
  return %3, %4
})");
  EXPECT_NE(text.find("%6: f32[2, 8, 6, 4], %7: bool[2, 8, 6, 4] = aten.native_dropout(%5"),
            text.npos)
      << text;
}

TEST(ChannelsLast, Gradients) {
  const std::string text = in_channels_last(
      R"(graph(%0: f16[2, 8, 4, 4], %1: f16[16, 8, 3, 3], %2: f16[2, 16, 4, 4] tangent) {
  %3: f16[2, 16, 4, 4] = aten.convolution(%0, %1, None, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %4: f16[2, 16, 4, 4] = aten.relu(%3)
  %5: f16[2, 16, 4, 4] = aten.threshold_backward(%2, %4, 0)
  %6: f16[2, 8, 4, 4], %7: f16[16, 8, 3, 3], %8: f16[16] = aten.convolution_backward(%5, %0, %1, [16], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [true, true, true])
  return %4, %6 gradient, %7 gradient, %8 gradient
})");
  EXPECT_EQ(count(text, "aten.clone(%0, channels_last)"), 1) << text;
  EXPECT_EQ(count(text, "aten.clone(%1, channels_last)"), 1) << text;
  EXPECT_NE(text.find("{256, 1, 64, 16} = aten.threshold_backward"), text.npos) << text;
  EXPECT_NE(text.find("f16[2, 8, 4, 4]{128, 1, 32, 8}, "), text.npos) << text;
  EXPECT_EQ(count(text, ", contiguous_format)"), 3) << text;  // the result and two gradients
}

TEST(ChannelsLast, ADimensionOfOneHasItsStridesWhereItIsSeen) {
  const std::string text = in_channels_last(R"(graph(%0: f16[2, 8, 4, 4], %1: f16[16, 8, 4, 4]) {
  %2: f16[2, 16, 1, 1] = aten.convolution(%0, %1, None, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
  %3: f16[2, 16, 1, 1] = aten.convolution(%0, %1, None, [2, 2], [0, 0], [1, 1], false, [0, 0], 1)
  %4: f16[2, 16, 1, 1] = aten.relu(%3)
  return %2, %4
})");
  EXPECT_NE(text.find("f16[2, 16, 1, 1]{16, 1, 16, 16} = aten.convolution"), text.npos) << text;
  EXPECT_EQ(count(text, "aten.as_strided"), 1) << text;
}

TEST(ChannelsLast, LeavesOtherConvolutions) {
  for (const std::string_view text :
       {R"(graph(%0: f32[2, 8, 5, 5]{200, 1, 40, 8}, %1: f32[16, 8, 1, 1]) {
  %2: f32[2, 16, 5, 5]{400, 1, 80, 16} = aten.convolution(%0, %1, None, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
  return %2
})",
        R"(graph(%0: f32[2, 8, 1, 1], %1: f32[16, 8, 1, 1]) {
  %2: f32[2, 16, 1, 1] = aten.convolution(%0, %1, None, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
  return %2
})",
        R"(graph(%0: f32[2, 8, 5], %1: f32[16, 8, 3]) {
  %2: f32[2, 16, 3] = aten.convolution(%0, %1, None, [1], [0], [1], false, [0], 1)
  return %2
})",
        R"(graph(%0: f32[2, 8, 5, 5, 5], %1: f32[16, 8, 1, 1, 1]) {
  %2: f32[2, 16, 5, 5, 5] = aten.convolution(%0, %1, None, [1, 1, 1], [0, 0, 0], [1, 1, 1], false, [0, 0, 0], 1)
  return %2
})",
        R"(graph(%0: f64[2, 8, 5, 5], %1: f64[16, 8, 3, 3]) {
  %2: f64[2, 16, 3, 3] = aten.convolution(%0, %1, None, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
  return %2
})"})
    expect_unchanged_by(all, text);
}

// A chain of two convolutions in `dtype`, of so many groups, whose result is added up.
std::string chain(const std::string& dtype, int groups) {
  const std::string weight = dtype + "[64, " + std::to_string(64 / groups) + ", 3, 3]";
  const std::string how =
      ", None, [1, 1], [1, 1], [1, 1], false, [0, 0], " + std::to_string(groups) + ")\n";
  const std::string images = dtype + "[8, 64, 28, 28]";
  return "graph(%0: " + images + ", %1: " + weight + ") {\n  %2: " + images +
         " = aten.convolution(%0, %1" + how + "  %3: " + images +
         " = aten.relu(%2)\n  %4: " + images + " = aten.convolution(%3, %1" + how +
         "  %5: " + dtype + "[] = aten.sum(%4, None)\n  return %5\n}";
}

TEST(ChannelsLast, WhereItPays) {
  EXPECT_EQ(count(rewritten(halves, chain("f16", 1)), "aten.clone"), 2);
  EXPECT_EQ(count(rewritten(halves, chain("bf16", 64)), "aten.clone"), 1);
  EXPECT_EQ(count(rewritten(all, chain("f32", 4)), "aten.clone"), 2);
  expect_unchanged_by(halves, chain("f32", 1));
  expect_unchanged_by(halves, chain("f16", 4));
}

TEST(ChannelsLast, NotWhereAsMuchIsCopied) {
  expect_unchanged_by(halves, R"(graph(%0: f16[8, 64, 28, 28], %1: f16[64, 64, 3, 3]) {
  %2: f16[8, 64, 28, 28] = aten.convolution(%0, %1, None, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  return %2
})");
  // What reads rows stands between them.
  expect_unchanged_by(halves, R"(graph(%0: f16[8, 64, 28, 28], %1: f16[64, 64, 3, 3]) {
  %2: f16[8, 64, 28, 28] = aten.convolution(%0, %1, None, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %3: f16[8, 64, 28, 28] = my.rows(%2)
  %4: f16[8, 64, 28, 28] = aten.convolution(%3, %1, None, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %5: f16[8, 64, 28, 28] = my.rows(%4)
  return %5
})");
}

TEST(ChannelsLast, SizesThatVary) {
  const std::string text = in_channels_last(
      R"(graph(s0 = size(%0, 0) hint 4, s1 = size(%0, 2) hint 9, %0: f16[s0, 8, s1, s1], %1: f16[16, 8, 1, 1]) {
  %2: f16[s0, 16, s1, s1] = aten.convolution(%0, %1, None, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
  %3: f16[s0, 16, s1, s1] = aten.relu(%2)
  %4: f16[] = aten.sum(%3, None)
  return %4
})");
  EXPECT_NE(text.find("1, 16*s1, 16} = aten.relu"), text.npos) << text;
}

TEST(ChannelsLast, IsAnOptionOfThePipeline) {
  for (const ChannelsLast which : {ChannelsLast::kNone, ChannelsLast::kAll}) {
    graph::Graph graph = graph::parse(chain("f32", 1));
    PipelineOptions options;
    options.channels_last = which;
    run_inference_pipeline(graph, options);
    EXPECT_EQ(count(to_string(graph), "aten.clone"), which == ChannelsLast::kAll ? 2 : 0);
  }
}

}  // namespace
}  // namespace braze::passes
