#include "passes/linear_pointwise.h"

#include <gtest/gtest.h>

#include "passes/pipeline.h"
#include "passes/rewriting.h"

namespace braze::passes {
namespace {

using graph::Graph;

std::string with_linear_pointwise(std::string_view text) {
  return rewritten(use_linear_pointwise, text);
}

constexpr std::string_view kLinearGelu =
    R"(graph(%0: f32[4, 8, 768], %1: f32[1024, 768] parameter, %2: f32[1024] parameter) {
  %3: f32[32, 768] #%0 = aten.view(%0, [32, 768])
  %4: f32[768, 1024]{1, 768} #%1 = aten.t(%1)
  %5: f32[32, 1024] = aten.addmm(%2, %3, %4, 1, 1)
  %6: f32[4, 8, 1024] #%5 = aten.view(%5, [4, 8, 1024])
  %7: f32[4, 8, 1024] = aten.gelu(%6, "tanh")
  return %7
})";

TEST(LinearPointwise, TakesTheGeluInside) {
  std::string text = with_linear_pointwise(kLinearGelu);
  EXPECT_NE(text.find("mkldnn._linear_pointwise("), std::string::npos) << text;
  EXPECT_NE(text.find("\"gelu\", [], \"tanh\")"), std::string::npos) << text;
  EXPECT_EQ(text.find("aten.gelu"), std::string::npos) << text;
  EXPECT_EQ(text.find("aten.addmm"), std::string::npos) << text;
}

TEST(LinearPointwise, LeavesAGeluWhoseOperandIsUsedTwice) {
  std::string text(kLinearGelu);
  text.replace(text.find("return %7"), 9, "return %7, %6");
  text = with_linear_pointwise(text);
  EXPECT_NE(text.find("\"none\", [], \"\")"), std::string::npos) << text;
  EXPECT_NE(text.find("aten.gelu"), std::string::npos) << text;
}

TEST(LinearPointwise, PlainProductWithoutBias) {
  std::string text = with_linear_pointwise(R"(graph(%0: f32[1, 1024], %1: f32[1024, 512]) {
  %2: f32[1, 512] = aten.mm(%0, %1)
  return %2
})");
  EXPECT_NE(text.find("None, \"none\", [], \"\")"), std::string::npos) << text;
}

TEST(LinearPointwise, LeavesSmallScaledAndOtherProducts) {
  expect_unchanged_by(use_linear_pointwise, R"(graph(%0: f32[64, 64], %1: f32[64, 64]) {
  %2: f32[64, 64] = aten.mm(%0, %1)
  return %2
})");
  expect_unchanged_by(use_linear_pointwise,
                      R"(graph(%0: f32[8, 1024], %1: f32[1024, 1024], %2: f32[1024]) {
  %3: f32[8, 1024] = aten.addmm(%2, %0, %1, 2, 1)
  return %3
})");
  expect_unchanged_by(use_linear_pointwise, R"(graph(%0: f64[8, 1024], %1: f64[1024, 1024]) {
  %2: f64[8, 1024] = aten.mm(%0, %1)
  return %2
})");
  expect_unchanged_by(use_linear_pointwise,
                      R"(graph(%0: f32[8, 1024], %1: f32[1024, 1024], %2: f32[8, 1024]) {
  %3: f32[8, 1024] = aten.addmm(%2, %0, %1, 1, 1)
  return %3
})");
}

constexpr std::string_view kManyRows =
    R"(graph(%0: f32[512, 768], %1: f32[1024, 768] parameter, %2: f32[1024] parameter) {
  %3: f32[768, 1024]{1, 768} #%1 = aten.t(%1)
  %4: f32[512, 1024] = aten.addmm(%2, %0, %3, 1, 1)
  %5: f32[512, 1024] = aten.gelu(%4, "tanh")
  return %5
})";

bool use_large_panels(Graph& graph) { return use_panel_products(graph, PanelProducts::kLarge); }
bool use_all_panels(Graph& graph) { return use_panel_products(graph, PanelProducts::kAll); }

TEST(PanelProducts, TakeTheGeluInside) {
  const std::string text = rewritten(use_large_panels, kManyRows);
  EXPECT_NE(text.find("braze.mm_pointwise(%0, %3, %2, \"gelu_tanh\")"), std::string::npos) << text;
  EXPECT_EQ(text.find("aten.gelu"), std::string::npos) << text;
  EXPECT_EQ(text.find("aten.addmm"), std::string::npos) << text;
}

TEST(PanelProducts, PlainProductWithoutBias) {
  const std::string text =
      rewritten(use_large_panels, R"(graph(%0: f32[512, 1024], %1: f32[1024, 512]) {
  %2: f32[512, 512] = aten.mm(%0, %1)
  return %2
})");
  EXPECT_NE(text.find("braze.mm_pointwise(%0, %1, None, \"none\")"), std::string::npos) << text;
}

TEST(PanelProducts, LeaveLittleToMultiply) {
  expect_unchanged_by(use_large_panels, R"(graph(%0: f32[512, 256], %1: f32[256, 4096]) {
  %2: f32[512, 4096] = aten.mm(%0, %1)
  return %2
})");
  expect_unchanged_by(use_large_panels, R"(graph(%0: f32[512, 400], %1: f32[400, 400]) {
  %2: f32[512, 400] = aten.mm(%0, %1)
  return %2
})");
}

TEST(PanelProducts, AreSmallWhereMklDoesNotKnowTheProcessor) {
  const std::string text = rewritten(
      use_all_panels, R"(graph(%0: f32[160, 32], %1: f32[32, 64], %2: f32[64, 128]{1, 64}) {
  %3: f32[160, 64] = aten.mm(%0, %1)
  %4: f32[160, 128] = aten.mm(%3, %2)
  return %4
})");
  EXPECT_EQ(text.find("aten.mm"), std::string::npos) << text;
  const std::string packed =
      rewritten(use_all_panels, R"(graph(%0: f32[64, 160]{1, 64}, %1: f32[160, 64]) {
  %2: f32[64, 64] = aten.mm(%0, %1)
  return %2
})");
  EXPECT_NE(packed.find("braze.mm_pointwise"), std::string::npos) << packed;
}

TEST(PanelProducts, LeaveWhatFillsNoPanelOrIsTooLittle) {
  expect_unchanged_by(use_all_panels, R"(graph(%0: f32[4096, 512], %1: f32[512, 32]) {
  %2: f32[4096, 32] = aten.mm(%0, %1)
  return %2
})");
  expect_unchanged_by(use_all_panels, R"(graph(%0: f32[16, 64], %1: f32[64, 64]) {
  %2: f32[16, 64] = aten.mm(%0, %1)
  return %2
})");
  expect_unchanged_by(use_all_panels, R"(graph(%0: f32[32, 1024]{1, 32}, %1: f32[1024, 64]) {
  %2: f32[32, 64] = aten.mm(%0, %1)
  return %2
})");
}

TEST(PanelProducts, GoBeforeOneDnnInThePipeline) {
  Graph graph = graph::parse(kManyRows);
  PipelineOptions options;
  options.panel_products = PanelProducts::kLarge;
  options.linear_pointwise = true;
  run_inference_pipeline(graph, options);
  EXPECT_NE(to_string(graph).find("braze.mm_pointwise"), std::string::npos) << to_string(graph);
  EXPECT_EQ(to_string(graph).find("mkldnn"), std::string::npos) << to_string(graph);
}

TEST(LinearPointwise, RunsInThePipelineOnlyWhenAsked) {
  for (bool asked : {false, true}) {
    Graph graph = graph::parse(kLinearGelu);
    PipelineOptions options;
    options.linear_pointwise = asked;
    run_inference_pipeline(graph, options);
    EXPECT_EQ(to_string(graph).find("mkldnn") != std::string::npos, asked) << to_string(graph);
  }
}

}  // namespace
}  // namespace braze::passes
