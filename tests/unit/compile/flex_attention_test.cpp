// flex_attention on a GPU: sources of kernels for it.
#include "compile/flex_attention.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/arguments.h"
#include "graph/op_kind.h"
#include "graph/text.h"
#include "toolchain/nvrtc.h"

namespace braze::compile {
namespace {

struct Case {
  std::string half = "f16";
  int64_t queries = 256, keys = 256, depth = 64, value_depth = 64, block = 128;
  double scale = 0.125;
  std::string table_device = "cuda:0", lists = "[1, 1";
  int64_t rows = 0;  // of lists; 0: enough
  std::string change =
      "%9: f32[1, 4, Q, K] = aten.mul.Tensor(%8, %6)\n"
      "  %10: f32[2, 4, Q, K] = aten.add.Tensor(%0, %9, 1)\n";
  std::string changed = "%10";
};

std::string replaced(std::string text, std::string_view from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// Slopes times distances, under a causal mask.
std::string program_of(const Case& given) {
  std::string text =
      "graph(%0: f32[2, 4, Q, K], %1: f32[2, 4, Q, K], %2: f32[4]) {\n"
      "  %3: i64[Q] = aten.arange.start_step(0, Q, 1, i64, None, cuda:0, None)\n"
      "  %4: i64[1, 1, Q, 1] #%3 = aten.view(%3, [1, 1, Q, 1])\n"
      "  %5: i64[K] = aten.arange.start_step(0, K, 1, i64, None, cuda:0, None)\n"
      "  %6: i64[1, 1, Q, K] = aten.sub.Tensor(%5, %4, 1)\n"
      "  %7: bool[1, 1, Q, K] = aten.le.Scalar(%6, 0)\n"
      "  %8: f32[4, 1, 1] #%2 = aten.view(%2, [4, 1, 1])\n  " +
      given.change + "  return " + given.changed + ", %1, %7\n}\n";
  text = replaced(text, "Q", std::to_string(given.queries));
  return replaced(text, "K", std::to_string(given.keys));
}

std::string on_gpu(const std::string& text) {
  std::string made;
  for (size_t i = 0; i < text.size(); ++i) {
    made += text[i];
    if (text[i] != ']') continue;
    // The end of a type, not of a list.
    size_t open = text.rfind('[', i);
    if (open > 0 && isalnum(static_cast<unsigned char>(text[open - 1]))) made += "@cuda:0";
  }
  return made;
}

graph::Graph graph_of(const Case& given) {
  const auto sizes = [](int64_t rows, int64_t depth) {
    return "[2, 4, " + std::to_string(rows) + ", " + std::to_string(depth) + "]@cuda:0";
  };
  const std::string query = given.half + sizes(given.queries, given.depth);
  const std::string key = given.half + sizes(given.keys, given.depth);
  const std::string value = given.half + sizes(given.keys, given.value_depth);
  const std::string out = given.half + sizes(given.queries, given.value_depth);
  const std::string sums = "f32[2, 4, " + std::to_string(given.queries) + "]@cuda:0";
  const std::string block = std::to_string(given.block);
  const std::string program = "\"" + replaced(on_gpu(program_of(given)), "\n", "\\n") + "\"";
  const std::string lists = "[%4, %5], [%4, %5], " + program + ", " +
                            graph::number_text(given.scale) + ", [" + block + ", " + block + "]";
  const std::string row = std::to_string(given.value_depth);
  const int64_t most = std::max(given.queries, given.keys);
  const std::string rows =
      std::to_string(given.rows ? given.rows : (most + given.block - 1) / given.block);
  return graph::parse("graph(%0: " + query + ", %1: " + key + ", %2: " + value + ", %3: f32[4]" +
                      (given.table_device == "cpu" ? "" : "@" + given.table_device) + ", %4: i32" +
                      given.lists + ", " + rows + "]@cuda:0, %5: i32" + given.lists + ", " + rows +
                      ", " + rows + "]@cuda:0, %6: " + out + ", %7: " + sums + ") {\n  %8: " + out +
                      ", %9: " + sums + " = braze.flex_attention(%0, %1, %2, [%3], " + lists +
                      ", [" + std::to_string(4 * given.queries * given.value_depth) + ", " +
                      std::to_string(given.queries * given.value_depth) + ", " + row +
                      ", 1])\n  %10: " + query + ", %11: " + key + ", %12: " + value +
                      " = braze.flex_attention_backward(%6, %7, %0, %1, %2, %9, [%3], " + lists +
                      ")\n  return %8, %10, %11, %12\n}\n");
}

struct Made {
  bool forward = false, backward = false;
  std::vector<std::string> sources;
  std::vector<std::vector<int64_t>> launches;
};

Made made_for(const Case& given, int sm = 90) {
  graph::Graph graph = graph_of(given);
  use_flex_kernels(graph, target::cuda(sm, 132, 3350000));
  graph::verify(graph);
  Made made;
  for (const auto& node : graph.nodes()) {
    made.forward |= node->op().kind == graph::OpKind::kbraze_flex_attention_kernel;
    made.backward |= node->op().kind == graph::OpKind::kbraze_flex_attention_backward_kernel;
    for (const graph::Argument& argument : node->args()) {
      if (const auto* text = std::get_if<std::string>(&argument)) made.sources.push_back(*text);
      const auto* list = std::get_if<std::vector<sym::Int>>(&argument);
      if (list && list->size() == 3) {
        made.launches.emplace_back();
        for (sym::Int number : *list) made.launches.back().push_back(number.constant());
      }
    }
  }
  return made;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(FlexKernels, AreGivenWhatTheFunctionsCompute) {
  const Made made = made_for({});
  ASSERT_TRUE(made.forward && made.backward);
  ASSERT_EQ(made.sources.size(), 3u);
  EXPECT_TRUE(has(made.sources[0], "flex_forward("));
  EXPECT_TRUE(has(made.sources[1], "flex_query_gradient("));
  EXPECT_TRUE(has(made.sources[2], "flex_key_gradient("));
  for (const std::string& source : made.sources) {
    EXPECT_TRUE(source.starts_with("// Generated by Braze: "));
    EXPECT_TRUE(has(source, "wgmma.mma_async"));
    EXPECT_TRUE(has(source, "MASKS = true"));
    EXPECT_TRUE(has(source, "BLOCK_KEYS = 128"));
    // What the compiler knows of a distance is converted apart.
    EXPECT_TRUE(has(source, "(f32)(0 + -1 * query.offset + 1 * key.offset)"));
    EXPECT_TRUE(has(source, "const f32* __restrict__ p"));
  }
  EXPECT_EQ(made.launches[0][0], 128);
  EXPECT_EQ(made.launches[0][1], 256);
  EXPECT_NE(made.sources[0].substr(0, 60), made.sources[1].substr(0, 60));
}

TEST(FlexKernels, FollowTheDevice) {
  EXPECT_TRUE(has(made_for({}, 80).sources[0], "mma.sync.aligned.m16n8k16"));
  EXPECT_FALSE(has(made_for({}, 100).sources[0], "wgmma"));
  // Small shared memory: fewer rows at a time.
  const Case deep{.depth = 128, .value_depth = 128};
  for (const auto& launch : made_for(deep, 86).launches) EXPECT_LE(launch[2], 99 << 10);
  EXPECT_FALSE(made_for({}, 75).forward);
}

TEST(FlexKernels, SizesThatAreNoTiles) {
  EXPECT_TRUE(has(made_for({}).sources[0], "WHOLE_KEYS = true"));
  EXPECT_TRUE(has(made_for({.keys = 250}).sources[0], "WHOLE_KEYS = false"));
  EXPECT_TRUE(has(made_for({.queries = 250}).sources[0], "WHOLE_QUERIES = false"));
  EXPECT_EQ(made_for({.block = 64}).launches[0][0], 64);
}

TEST(FlexKernels, WeightsOfOtherScales) {
  const Case plain{.change = "", .changed = "%0"};
  EXPECT_TRUE(has(made_for(plain).sources[0], "CHANGES = false"));
  Case turned = plain;
  turned.scale = -0.5;
  EXPECT_TRUE(has(made_for(turned).sources[0], "CHANGES = true"));
}

TEST(FlexKernels, WhatStays) {
  EXPECT_FALSE(made_for({.half = "f32"}).forward);
  EXPECT_FALSE(made_for({.depth = 60}).forward);
  EXPECT_FALSE(made_for({.value_depth = 136}).forward);
  EXPECT_FALSE(made_for({.block = 32}).forward);
  EXPECT_FALSE(made_for({.table_device = "cpu"}).forward);
  // Lists of other batches, of fewer blocks.
  EXPECT_TRUE(made_for({.lists = "[2, 4"}).forward);
  EXPECT_FALSE(made_for({.lists = "[3, 1"}).forward);
  EXPECT_FALSE(made_for({.lists = "[1, 2"}).forward);
  EXPECT_FALSE(made_for({.rows = 1}).forward);
  EXPECT_TRUE(made_for({.queries = 128, .rows = 1}).forward);
  EXPECT_FALSE(made_for({.queries = 128, .rows = 1}).backward);
  graph::Graph graph = graph_of({});
  use_flex_kernels(graph, target::Cpu{});
  for (const auto& node : graph.nodes())
    EXPECT_NE(node->op().kind, graph::OpKind::kbraze_flex_attention_kernel);
}

TEST(FlexKernels, AreCode) {
  if (!toolchain::why_no_nvrtc().empty())
    GTEST_SKIP() << toolchain::why_no_nvrtc() << "; a machine with CUDA lifts it";
  std::vector<toolchain::CudaSource> sources;
  const auto add = [&](const Case& given, int sm, const std::string& architecture) {
    for (const std::string& source : made_for(given, sm).sources)
      sources.push_back({source,
                         {"--gpu-architecture=sm_" + architecture, "--std=c++17",
                          "--device-as-default-execution-space",
                          "--define-macro=NUMBER_" + std::to_string(sources.size())}});
  };
  add({}, 90, "90a");
  add({.half = "bf16", .queries = 100, .keys = 130, .depth = 128, .value_depth = 72}, 90, "90a");
  add({.block = 64}, 80, "80");
  add({.depth = 128, .value_depth = 128}, 86, "86");
  toolchain::DiskCache none("", 0);
  for (const std::string& cubin : toolchain::cubins(sources, none).code)
    EXPECT_TRUE(
        cubin.starts_with("\x7f"
                          "ELF"));
}

}  // namespace
}  // namespace braze::compile
