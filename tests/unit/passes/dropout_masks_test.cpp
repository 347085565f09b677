#include "passes/dropout_masks.h"

#include <gtest/gtest.h>

#include "passes/dce.h"
#include "passes/partition.h"
#include "passes/rewriting.h"

namespace braze::passes {
namespace {

constexpr DropoutMapping kMapping{.device = {graph::Device::Type::kCUDA, 0},
                                  .most_threads = 132 * 2048,
                                  .half_pack = 8,
                                  .single_pack = 4};

bool use(graph::Graph& graph) { return use_dropout_masks(graph, kMapping); }

std::string with_masks(std::string_view text) { return rewritten(use, text); }

TEST(DropoutMasks, AMaskIsAFunctionOfTheGeneratorsState) {
  EXPECT_EQ(with_masks(R"(graph(%0: f16[16, 512]@cuda:0) {
    %1: f16[16, 512]@cuda:0 = aten.relu(%0)
    %2: f16[16, 512]@cuda:0, %3: bool[16, 512]@cuda:0 = aten.native_dropout(%1, 0.5, true)
    return %2, %3
  })"),
            R"(graph(%0: f16[16, 512]@cuda:0) {
  %1: f16[16, 512]@cuda:0 = aten.relu(%0)
  %2: i64[2]@cuda:0 = braze.philox_state(4, cuda:0)
  %3: bool[16, 512]@cuda:0 = braze.philox_mask(%2, 0, [16, 512], 2147483584, 8192, 8)
  %4: f32[16, 512]@cuda:0 = aten._to_copy(%3, f32, None, None, None, false, None)
  %5: f32[16, 512]@cuda:0 = aten._to_copy(%1, f32, None, None, None, false, None)
  %6: f32[16, 512]@cuda:0 = aten.mul.Tensor(%5, %4)
  %7: f32[16, 512]@cuda:0 = aten.mul.Scalar(%6, 2.0)
  %8: f16[16, 512]@cuda:0 = aten._to_copy(%7, f16, None, None, None, false, None)
  return %8, %3
}
)");
}

TEST(DropoutMasks, DrawsInARowShareAState) {
  const std::string text = with_masks(R"(graph(%0: f32[4096, 1024]@cuda:0) {
    %1: f32[4096, 1024]@cuda:0 = aten.relu(%0)
    %2: f32[4096, 1024]@cuda:0, %3: bool[4096, 1024]@cuda:0 = aten.native_dropout(%1, 0.5, true)
    %4: f32[4096, 1024]@cuda:0, %5: bool[4096, 1024]@cuda:0 = aten.native_dropout(%2, 0.5, true)
    %6: f32[8]@cuda:0 = aten.rand([8], f32, None, cuda:0, false)
    %7: f32[4096, 1024]@cuda:0, %8: bool[4096, 1024]@cuda:0 = aten.native_dropout(%4, 0.5, true)
    return %4, %6, %7
  })");
  // 4 million elements of 270336 threads are 4 rounds of 4.
  EXPECT_NE(text.find("braze.philox_state(32, cuda:0)"), std::string::npos) << text;
  EXPECT_NE(text.find("braze.philox_state(16, cuda:0)"), std::string::npos) << text;
  EXPECT_NE(text.find(", 0, [4096, 1024], 2147483584, 270336, 4)"), std::string::npos) << text;
  EXPECT_NE(text.find(", 4, [4096, 1024], 2147483584, 270336, 4)"), std::string::npos) << text;
  EXPECT_LT(text.find("aten.rand("), text.find("braze.philox_state(16"));
}

TEST(DropoutMasks, TensorsFromOutsideHaveToBeginAtAPack) {
  const std::string text = with_masks(R"(graph(%0: f32[4, 8]@cuda:0, %1: f32[64]@cuda:0) {
    %2: f32[64]@cuda:0 = aten.relu(%1)
    %3: f32[32]@cuda:0 #%0 = aten.view(%0, [32])
    %4: f32[32]@cuda:0, %5: bool[32]@cuda:0 = aten.native_dropout(%3, 0.5, true)
    return %2, %4
  })");
  EXPECT_NE(text.find("{\n  braze.refuse_unaligned([%0])\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("native_dropout"), std::string::npos) << text;
}

TEST(DropoutMasks, LeavesWhatPyTorchDrawsOtherwise) {
  const std::string dropout = "aten.native_dropout(%1, 0.5, true)";
  const auto expect_left = [&](const std::string& type, const std::string& given) {
    const std::string mask = "bool" + type.substr(type.find('['));
    expect_unchanged_by(use, "graph(%0: " + type + ") {\n  %1: " + type +
                                 " = aten.relu(%0)\n  %2: " + type + ", %3: " + mask + " = " +
                                 given + "\n  return %2\n}\n");
  };
  expect_left("f32[5, 7]@cuda:0", dropout);        // no packs
  expect_left("f32[2, 9]@cuda:0", dropout);        // packs of two
  expect_left("f64[4, 8]@cuda:0", dropout);        // packs of two
  expect_left("f32[4, 8]", dropout);               // another generator
  expect_left("f32[4, 8]@cuda:1", dropout);        // another device
  expect_left("f32[4, 8]{1, 4}@cuda:0", dropout);  // in the order of memory
  expect_left("f32[4, 8]@cuda:0", "aten.native_dropout(%1, 0.0, true)");
  expect_left("f32[4, 8]@cuda:0", "aten.native_dropout(%1, 1.0, true)");
  expect_left("f32[4, 8]@cuda:0", "aten.native_dropout(%1, 0.5, false)");
}

TEST(DropoutMasks, WhatIsWrittenToAnInputLiesThere) {
  graph::Graph graph = graph::parse(R"(graph(%0: f32[64]+1@cuda:0) {
    %1: f32[64]@cuda:0 = aten.add.Tensor(%0, 1, 1)
    %2: f32[64]@cuda:0, %3: bool[64]@cuda:0 = aten.native_dropout(%1, 0.5, true)
    return %2
    mutate %0 <- %1
  })");
  EXPECT_TRUE(use(graph));
  const std::string text = graph::to_string(graph);
  EXPECT_NE(text.find("braze.refuse_unaligned([%0])"), std::string::npos) << text;
}

TEST(DropoutMasks, OfSinglePrecisionTheStateIsKeptForTheBackward) {
  for (const auto& [type, kept] : {std::pair{"f32", "i64[2]"}, {"f16", "bool[64, 512]"}}) {
    const std::string t = std::string(type) + "[64, 512]@cuda:0";
    graph::Graph joint =
        graph::parse("graph(%0: " + t + ", %1: " + t + " tangent) {\n  %2: " + t +
                     ", %3: bool[64, 512]@cuda:0 = aten.native_dropout(%0, 0.5, true)\n  %4: " + t +
                     " = aten.native_dropout_backward(%1, %3, 2.0)\n  return %2, %4 gradient\n}\n");
    ASSERT_TRUE(use(joint));
    eliminate_dead_code(joint);
    const Partition cut = partition(joint);
    const std::string text = graph::to_string(cut.backward);
    EXPECT_NE(text.find(": " + std::string(kept) + "@cuda:0 saved"), std::string::npos) << text;
  }
}

TEST(DropoutMasks, LeavesPartsThatBeginBetweenPacks) {
  expect_unchanged_by(use, R"(graph(%0: f32[4, 8]@cuda:0) {
    %1: f32[4, 8]@cuda:0 = aten.relu(%0)
    %2: f32[32]@cuda:0 #%1 = aten.view(%1, [32])
    %3: f32[28]+2@cuda:0 #%1 = aten.slice.Tensor(%2, 0, 2, 30, 1)
    %4: f32[28]@cuda:0, %5: bool[28]@cuda:0 = aten.native_dropout(%3, 0.5, true)
    return %4
  })");
}

}  // namespace
}  // namespace braze::passes
