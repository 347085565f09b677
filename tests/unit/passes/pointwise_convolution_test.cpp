#include "passes/pointwise_convolution.h"

#include <gtest/gtest.h>

#include <string>

#include "graph/text.h"
#include "passes/pipeline.h"
#include "passes/rewriting.h"

namespace braze::passes {
namespace {

using graph::Graph;

constexpr std::string_view kForward =
    R"(graph(%0: f32[4, 64, 28, 28], %1: f32[128, 64, 1, 1] parameter, %2: f32[128] parameter) {
  %3: f32[4, 128, 28, 28] = aten.convolution(%0, %1, %2, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
  return %3
})";

TEST(PointConvolutions, MultiplyImagesWhereTheyLie) {
  const std::string text = rewritten(multiply_convolutions, kForward);
  EXPECT_NE(text.find("braze.bmm("), std::string::npos) << text;
  EXPECT_EQ(text.find("aten.convolution"), std::string::npos) << text;
  EXPECT_EQ(text.find("clone"), std::string::npos) << text;
  EXPECT_NE(text.find("aten.add"), std::string::npos) << text;
}

TEST(PointConvolutions, AreOneProductWhereChannelsLieLast) {
  const std::string text =
      rewritten(multiply_convolutions,
                R"(graph(%0: f32[4, 64, 28, 28]{50176, 1, 1792, 64}, %1: f32[128, 64, 1, 1]) {
  %2: f32[4, 128, 28, 28]{100352, 1, 3584, 128} = aten.convolution(%0, %1, None, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
  return %2
})");
  EXPECT_NE(text.find("f32[3136, 128] = aten.mm"), std::string::npos) << text;
  EXPECT_EQ(text.find("clone"), std::string::npos) << text;
}

// Of a stride of 2, from `large` to `small`, as text.
std::string gradients(const std::string& large, const std::string& small) {
  const auto images = [](int channels, const std::string& points) {
    return "f32[4, " + std::to_string(channels) + ", " + points + ", " + points + "]";
  };
  return "graph(%0: " + images(128, small) + ", %1: " + images(64, large) +
         ", %2: f32[128, 64, 1, 1]) {\n  %3: " + images(64, large) +
         ", %4: f32[128, 64, 1, 1], %5: f32[128] = aten.convolution_backward(%0, %1, %2, [128], "
         "[2, 2], [0, 0], [1, 1], false, [0, 0], 1, [true, true, true])\n  return %3, %4, %5\n}";
}

TEST(PointConvolutions, HaveProductsAsGradients) {
  const std::string text = rewritten(multiply_convolutions, gradients("56", "28"));
  EXPECT_NE(text.find("braze.bmm("), std::string::npos) << text;
  EXPECT_NE(text.find("braze.bmm_sum("), std::string::npos) << text;
  EXPECT_NE(text.find("aten.slice_backward"), std::string::npos) << text;
  EXPECT_NE(text.find("aten.sum"), std::string::npos) << text;
  EXPECT_EQ(text.find("aten.convolution"), std::string::npos) << text;
}

TEST(PointConvolutions, OfSmallImagesTakeTheWeightAsItLies) {
  const std::string text = rewritten(multiply_convolutions, gradients("28", "14"));
  EXPECT_EQ(text.find("braze.bmm("), std::string::npos) << text;
  EXPECT_NE(text.find("f32[784, 64] = aten.mm"), std::string::npos) << text;
  EXPECT_NE(text.find("braze.bmm_sum("), std::string::npos) << text;
}

// A convolution of `x` into 128 channels of `points` x `points`, with what stands behind the bias.
std::string convolution(const std::string& x, const std::string& weight, const std::string& points,
                        const std::string& rest) {
  return "graph(%0: " + x + ", %1: " + weight + ") {\n  %2: f32[4, 128, " + points + ", " + points +
         "] = aten.convolution(%0, %1, None, " + rest + ")\n  return %2\n}";
}

TEST(PointConvolutions, LeaveOthers) {
  const std::string plain = "[1, 1], [0, 0], [1, 1], false, [0, 0], 1";
  // Windows, groups, borders, too few points or channels, doubles.
  for (const std::string& text : {
           convolution("f32[4, 64, 28, 28]", "f32[128, 64, 3, 3]", "26", plain),
           convolution("f32[4, 64, 28, 28]", "f32[128, 16, 1, 1]", "28",
                       "[1, 1], [0, 0], [1, 1], false, [0, 0], 4"),
           convolution("f32[4, 64, 28, 28]", "f32[128, 64, 1, 1]", "30",
                       "[1, 1], [1, 1], [1, 1], false, [0, 0], 1"),
           convolution("f32[4, 64, 4, 4]", "f32[128, 64, 1, 1]", "4", plain),
           convolution("f32[4, 3, 28, 28]", "f32[128, 3, 1, 1]", "28", plain),
       })
    expect_unchanged_by(multiply_convolutions, text);
}

TEST(PointConvolutions, RunInThePipelineOnlyWhereSmallProductsPay) {
  for (const PanelProducts which :
       {PanelProducts::kNone, PanelProducts::kLarge, PanelProducts::kAll}) {
    Graph graph = graph::parse(kForward);
    PipelineOptions options;
    options.panel_products = which;
    run_inference_pipeline(graph, options);
    const std::string text = to_string(graph);
    EXPECT_EQ(text.find("braze.bmm") != std::string::npos, which == PanelProducts::kAll) << text;
  }
}

}  // namespace
}  // namespace braze::passes
