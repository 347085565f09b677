#include "passes/fused_attention.h"

#include <gtest/gtest.h>

#include "passes/pipeline.h"
#include "passes/rewriting.h"

namespace braze::passes {
namespace {

using graph::Graph;

bool without_gradient(Graph& graph) {
  return use_fused_attention(graph, FusedAttention::kWithoutGradient);
}
bool with_gradient(Graph& graph) { return use_fused_attention(graph, FusedAttention::kAll); }

std::string with_fused_attention(std::string_view text) {
  return rewritten(without_gradient, text);
}

// A graph whose types and arguments can be varied.
struct Text {
  std::string query = "f32[2, 4, 32, 16]", key = "f32[2, 4, 40, 16]", value = key;
  std::string mask = "f32[2, 1, 1, 40]";
  std::string result = query, sums = "f32[2, 4, 32]{128, 1, 4}";
  std::string arguments = "0.0, false, None, None", returned = "%4", symbols;

  std::string str() const {
    return "graph(" + symbols + "%0: " + query + ", %1: " + key + ", %2: " + value +
           ", %3: " + mask + ") {\n  %4: " + result + ", %5: " + sums +
           " = aten._scaled_dot_product_flash_attention_for_cpu(%0, %1, %2, " + arguments +
           ")\n  return " + returned + "\n}";
  }
};

TEST(FusedAttention, KeepsTheStridesOfTheResult) {
  Text text;
  text.query = text.result = "f32[2, 4, 32, 16]{2048, 16, 64, 1}";
  const std::string result = with_fused_attention(text.str());
  EXPECT_NE(result.find("f32[2, 4, 32, 16]{2048, 16, 64, 1} = "
                        "braze.attention(%0, %1, %2, None, false, 0.25)"),
            std::string::npos)
      << result;
  EXPECT_EQ(result.find("flash"), std::string::npos) << result;
}

TEST(FusedAttention, MaskCausalAndScale) {
  Text text;
  text.arguments = "0.0, true, %3, 0.5";
  for (const char* mask : {"f32[2, 4, 32, 40]", "f32[1, 1, 32, 1]", "f32[32, 40]", "f32[1, 40]",
                           "f32[2, 4, 32, 40]{0, 0, 1, 32}"}) {
    text.mask = mask;
    EXPECT_NE(with_fused_attention(text.str()).find("braze.attention(%0, %1, %2, %3, true, 0.5)"),
              std::string::npos);
  }
}

TEST(FusedAttention, HeadsThatShareKeys) {
  Text text;
  text.key = text.value = "f32[2, 2, 40, 16]";
  EXPECT_NE(with_fused_attention(text.str()).find("braze.attention"), std::string::npos);
  text.key = text.value = "f32[2, 3, 40, 16]";
  expect_unchanged_by(without_gradient, text.str());
}

TEST(FusedAttention, LeavesWhatTheKernelDoesNotDo) {
  auto unchanged = [](auto&& change) {
    Text text;
    change(text);
    expect_unchanged_by(without_gradient, text.str());
  };
  unchanged([](Text& t) { t.returned = "%4, %5"; });
  unchanged([](Text& t) { t.arguments = "0.5, false, None, None"; });
  unchanged([](Text& t) { t.query = t.key = t.value = t.result = "f64[2, 4, 32, 16]"; });
  unchanged([](Text& t) { t.query = "f32[2, 4, 32, 16]{4096, 1024, 32, 2}"; });
  unchanged([](Text& t) { t.value = "f32[2, 4, 40, 16]{2560, 640, 1, 40}"; });
  unchanged([](Text& t) { t.value = "f32[2, 2, 40, 16]"; });
  unchanged([](Text& t) { t.key = t.value = "f32[2, 4, 0, 16]"; });
  unchanged([](Text& t) {
    t.mask = "f32[4, 32, 40]";
    t.arguments = "0.0, false, %3, None";
  });
  unchanged([](Text& t) {
    t.mask = "f64[32, 40]";
    t.arguments = "0.0, false, %3, None";
  });
}

TEST(FusedAttention, SizesThatVary) {
  Text text;
  text.symbols = "s0 = size(%0, 2) hint 32, s1 = size(%1, 2) hint 40, ";
  text.query = text.result = "f32[2, 4, s0, 16]";
  text.key = text.value = "f32[2, 4, s1, 16]";
  text.mask = "f32[1, 1, s0, s1]";
  text.sums = "f32[2, 4, s0]{4 * s0, 1, 4}";
  text.arguments = "0.0, false, %3, None";
  EXPECT_NE(with_fused_attention(text.str()).find("braze.attention(%0, %1, %2, %3, false, 0.25)"),
            std::string::npos);
}

TEST(FusedAttention, ADepthThatVariesNeedsAScale) {
  Text text;
  text.symbols = "s0 = size(%0, 3) hint 16, ";
  text.query = text.result = "f32[2, 4, 32, s0]";
  text.key = text.value = "f32[2, 4, 40, s0]";
  expect_unchanged_by(without_gradient, text.str());
  text.arguments = "0.0, false, None, 0.125";
  EXPECT_NE(with_fused_attention(text.str()).find("None, false, 0.125)"), std::string::npos);
}

TEST(FusedAttention, GivesWhatABackwardKeeps) {
  Text text;
  text.returned = "%4, %5";
  text.arguments = "0.0, true, %3, 0.5";
  const std::string result = rewritten(with_gradient, text.str());
  EXPECT_NE(result.find("f32[2, 4, 32]{128, 1, 4} = "
                        "braze.attention_with_logsumexp(%0, %1, %2, %3, true, 0.5)"),
            std::string::npos)
      << result;
  text.sums = "f32[2, 4, 32]";
  expect_unchanged_by(with_gradient, text.str());
}

std::string backward_of(const std::string& key, const std::string& of_key) {
  return "graph(%0: f32[2, 4, 32, 16], %1: f32[2, 4, 32, 16], %2: " + key + ", %3: " + key +
         ", %4: f32[2, 4, 32, 16]{2048, 16, 64, 1}, %5: f32[2, 4, 32]{128, 1, 4}) {\n" +
         "  %6: f32[2, 4, 32, 16]{2048, 16, 64, 1}, %7: " + of_key + ", %8: " + of_key +
         " = aten._scaled_dot_product_flash_attention_for_cpu_backward("
         "%0, %1, %2, %3, %4, %5, 0.0, false, None, None)\n  return %6, %7, %8\n}";
}

TEST(FusedAttention, HasAGradient) {
  const std::string text = backward_of("f32[2, 4, 40, 16]", "f32[2, 4, 40, 16]{2560, 16, 64, 1}");
  const std::string result = rewritten(with_gradient, text);
  EXPECT_NE(result.find("braze.attention_backward(%0, %1, %2, %3, %4, %5, None, false, 0.25)"),
            std::string::npos)
      << result;
  expect_unchanged_by(without_gradient, text);
  // Gradients that lie otherwise than the kernel makes them.
  expect_unchanged_by(with_gradient, backward_of("f32[2, 4, 40, 16]", "f32[2, 4, 40, 16]"));
  // Rows of which the elements lie apart.
  expect_unchanged_by(with_gradient, backward_of("f32[2, 4, 40, 16]{2560, 640, 1, 40}",
                                                 "f32[2, 4, 40, 16]{2560, 16, 64, 1}"));
}

TEST(FusedAttention, RunsInThePipelineOnlyWhenAsked) {
  for (bool asked : {false, true}) {
    Graph graph = graph::parse(Text().str());
    PipelineOptions options;
    if (asked) options.fused_attention = FusedAttention::kWithoutGradient;
    run_inference_pipeline(graph, options);
    EXPECT_EQ(to_string(graph).find("braze.attention") != std::string::npos, asked);
  }
}

}  // namespace
}  // namespace braze::passes
