#include <gtest/gtest.h>

#include <cmath>

#include "loop/run_program.h"

namespace braze::loop {
namespace {

void expect_near(const Numbers& actual, const Numbers& expected, double tolerance = 1e-6) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(actual[i])) << "element " << i << ": " << actual[i];
    } else {
      EXPECT_NEAR(actual[i], expected[i], tolerance) << "element " << i;
    }
  }
}

// --- pointwise ---------------------------------------------------------------------------------

TEST(LowerPointwise, BroadcastingAndNumbers) {
  EXPECT_EQ(run_one("%0: f32[2, 2], %1: f32[2]", "f32[2, 2]", "aten.add.Tensor(%0, %1, 2)",
                    {{1, 2, 3, 4}, {10, 20}}),
            (Numbers{21, 42, 23, 44}));
  EXPECT_EQ(run_one("%0: f32[2]", "f32[2]", "aten.rsub.Scalar(%0, 1, 1)", {{1, 3}}),
            (Numbers{0, -2}));
  EXPECT_EQ(run_one("%0: f32[2]", "f32[2]", "aten.mul.Tensor(%0, 0.1)", {{1, 3}}),
            (Numbers{0.1f, 3 * 0.1f}));
}

TEST(LowerPointwise, TypePromotion) {
  EXPECT_EQ(run_one("%0: i64[2], %1: f32[2]", "f32[2]", "aten.add.Tensor(%0, %1, 1)",
                    {{1, 2}, {0.5, 0.5}}),
            (Numbers{1.5, 2.5}));
  EXPECT_EQ(run_one("%0: i32[2]", "f32[2]", "aten.sqrt(%0)", {{4, 9}}), (Numbers{2, 3}));
  EXPECT_EQ(run_one("%0: i64[3]", "bool[3]", "aten.gt.Scalar(%0, 1.5)", {{1, 2, 3}}),
            (Numbers{0, 1, 1}));
  EXPECT_EQ(run_one("%0: bool[2], %1: bool[2]", "bool[2]", "aten.add.Tensor(%0, %1, 1)",
                    {{1, 0}, {1, 0}}),
            (Numbers{1, 0}));
}

TEST(LowerPointwise, HalvesRoundAtEachOp) {
  // 2048 + 1 rounds to 2048 in f16 at each addition.
  auto outputs =
      run("graph(%0: f16[1]) { %1: f16[1] = aten.add.Tensor(%0, 1, 1)"
          " %2: f16[1] = aten.add.Tensor(%1, 1, 1) return %2 }",
          {{2048}});
  EXPECT_EQ(outputs[0], Numbers{2048});
}

TEST(LowerPointwise, IntegersWrapAndDivide) {
  EXPECT_EQ(run_one("%0: u8[1]", "u8[1]", "aten.mul.Tensor(%0, 2)", {{200}}), Numbers{144});
  EXPECT_EQ(run_one("%0: i64[3]", "i64[3]", "aten.remainder.Scalar(%0, -3)", {{7, -7, 6}}),
            (Numbers{-2, -1, 0}));
  EXPECT_EQ(run_one("%0: i64[2]", "i64[2]", "aten.div.Tensor_mode(%0, 2, \"floor\")", {{7, -7}}),
            (Numbers{3, -4}));
  EXPECT_EQ(run_one("%0: i64[2]", "i64[2]", "aten.div.Tensor_mode(%0, 2, \"trunc\")", {{7, -7}}),
            (Numbers{3, -3}));
  EXPECT_EQ(run_one("%0: i64[2]", "f32[2]", "aten.div.Tensor(%0, 2)", {{7, -7}}),
            (Numbers{3.5, -3.5}));
}

TEST(LowerPointwise, DivisionThatMayFailIsLeftToEager) {
  EXPECT_TRUE(is_extern("%0: i64[2], %1: i64[2]", "i64[2]", "aten.remainder.Tensor(%0, %1)"));
  EXPECT_TRUE(is_extern("%0: i64[2]", "i64[2]", "aten.remainder.Scalar(%0, 0)"));
  EXPECT_TRUE(is_extern("%0: i64[2]", "i64[2]", "aten.pow.Tensor_Scalar(%0, -1)"));
  EXPECT_TRUE(is_extern("%0: c64[2]", "c64[2]", "aten.neg(%0)"));
  EXPECT_TRUE(is_extern("%0: f32[2]@cuda:0", "f32[2]@cuda:0", "aten.neg(%0)"));
  EXPECT_TRUE(is_extern("%0: u8[2]", "u8[2]", "aten.clamp(%0, -1, 3)"));
}

TEST(LowerPointwise, NumbersThatHalvesCannotHold) {
  // In bf16, 257 is 256 and 1.1 is 1.1015625. Terms are rounded on a CPU, factors are not.
  EXPECT_EQ(run_one("%0: bf16[1]", "bf16[1]", "aten.add.Tensor(%0, 257, 1)", {{-256}}), Numbers{0});
  EXPECT_EQ(run_one("%0: bf16[1]", "bf16[1]", "aten.mul.Tensor(%0, 1.1)", {{100}}), Numbers{110});
  EXPECT_EQ(run_one("%0: bf16[1]", "bool[1]", "aten.eq.Scalar(%0, 257)", {{256}}), Numbers{1});
  EXPECT_TRUE(is_extern("%0: bf16[1]", "bf16[1]", "aten.add.Tensor(%0, %0, 1.1)"));
  EXPECT_TRUE(is_extern("%0: f16[1]", "f16[1]", "aten.add.Tensor(%0, 1000000.0, 1)"));
}

TEST(LowerPointwise, NanAndSelection) {
  expect_near(run_one("%0: f32[3]", "f32[3]", "aten.clamp(%0, 0, 1)", {{NAN, -1, 5}}), {NAN, 0, 1});
  expect_near(run_one("%0: f32[2]", "f32[2]", "aten.relu(%0)", {{NAN, -1}}), {NAN, 0});
  expect_near(
      run_one("%0: f32[2], %1: f32[2]", "f32[2]", "aten.fmax(%0, %1)", {{NAN, 1}, {2, NAN}}),
      {2, 1});
  EXPECT_EQ(run_one("%0: f32[3], %1: bool[3]", "f32[3]", "aten.masked_fill.Scalar(%0, %1, -inf)",
                    {{1, 2, 3}, {0, 1, 0}}),
            (Numbers{1, -kInf, 3}));
  EXPECT_EQ(
      run_one("%0: bool[2], %1: f32[2]", "f32[2]", "aten.where.self(%0, %1, 7)", {{1, 0}, {1, 2}}),
      (Numbers{1, 7}));
  EXPECT_EQ(run_one("%0: f32[3]", "f32[3]", "aten.sign(%0)", {{NAN, -2, 3}}), (Numbers{0, -1, 1}));
}

TEST(LowerPointwise, Powers) {
  EXPECT_EQ(run_one("%0: f32[2]", "f32[2]", "aten.pow.Tensor_Scalar(%0, 3)", {{2, -3}}),
            (Numbers{8, -27}));
  expect_near(run_one("%0: f32[2]", "f32[2]", "aten.pow.Tensor_Scalar(%0, -0.5)", {{4, 16}}),
              {0.5, 0.25});
  EXPECT_EQ(run_one("%0: i32[2]", "i32[2]", "aten.pow.Tensor_Scalar(%0, 5)", {{3, -2}}),
            (Numbers{243, -32}));
}

// --- factories and views -------------------------------------------------------------------------

TEST(LowerFactories, Values) {
  EXPECT_EQ(run_one("", "i64[4]", "aten.arange.start_step(2, 14, 3)", {}), (Numbers{2, 5, 8, 11}));
  EXPECT_EQ(run_one("", "f32[2]", "aten.full([2], 1.5)", {}), (Numbers{1.5, 1.5}));
  EXPECT_EQ(run_one("", "bool[2]", "aten.full([2], 3)", {}), (Numbers{1, 1}));
  EXPECT_EQ(run_one("", "f32[2, 2]", "aten.eye(2)", {}), (Numbers{1, 0, 0, 1}));
  EXPECT_TRUE(is_extern("", "f32[8]", "aten.arange.start_step(0, 4, 0.5)"));
}

TEST(LowerViews, ComposeIntoOneKernel) {
  const char* text =
      "graph(%0: f32[2, 6]) {"
      " %1: f32[2, 2, 3] = aten.view(%0, [2, 2, 3])"
      " %2: f32[2, 3, 2]{6, 1, 3} = aten.permute(%1, [0, 2, 1])"
      " %3: f32[2, 3]{6, 1}+3 = aten.select.int(%2, 2, 1)"
      " %4: f32[2, 2]{6, 1}+4 = aten.slice.Tensor(%3, 1, 1, 3, 1)"
      " %5: f32[2, 2] = aten.neg(%4) return %5 }";
  const Program program = lowered(text);
  EXPECT_EQ(kernel_count(program), 1);
  EXPECT_NE(to_string(program).find("neg(load(b0, o0*6 + o1 + 4))"), std::string::npos)
      << to_string(program);
  EXPECT_EQ(run(text, {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}})[0], (Numbers{-4, -5, -10, -11}));
}

TEST(LowerViews, OutputsThatAreViewsShareMemory) {
  const Program program = lowered(
      "graph(%0: f32[2, 3]) {"
      " %1: f32[3, 2]{1, 3} #%0 = aten.permute(%0, [1, 0])"
      " %2: f32[2]{3}+1 #%0 = aten.select.int(%1, 0, 1)"
      " %3: f32[2, 3] = aten.exp(%0)"
      " %4: f32[6] #%3 = aten.view(%3, [6])"
      " return %0, %2, %3, %4, %3 }");
  ASSERT_EQ(program.outputs.size(), 5u);
  EXPECT_EQ(program.outputs[0], 0);
  const Buffer& selected = program.buffers[program.outputs[1]];
  EXPECT_EQ(selected.kind, Buffer::Kind::kView);
  EXPECT_EQ(selected.base, 0);
  EXPECT_EQ(selected.view_offset, sym::Int(1));
  EXPECT_EQ(selected.type.strides, sym::Dims{3});
  EXPECT_EQ(program.buffers[program.outputs[3]].base, program.outputs[2]);
  EXPECT_EQ(program.outputs[4], program.outputs[2]);
  EXPECT_EQ(kernel_count(program), 1);
}

TEST(LowerViews, ResultsHaveTheTracedStrides) {
  const Program program =
      lowered("graph(%0: f32[2, 3]{1, 2}) { %1: f32[2, 3]{1, 2} = aten.neg(%0) return %1 }");
  EXPECT_NE(to_string(program).find("store(b1, o0 + o1*2"), std::string::npos);
}

TEST(LowerFactories, CopiesHaveAnyStrides) {
  const Program program = lowered(
      "graph(%0: f32[2, 3]) {"
      " %1: f32[2, 3] = aten.exp(%0)"
      " %2: f32[2, 3]{7, 2} = prims.copy_strided(%1, [7, 2])"
      " return %2 }");
  EXPECT_EQ(kernel_count(program), 1);
  EXPECT_NE(to_string(program).find("store(b1, o0*7 + o1*2"), std::string::npos)
      << to_string(program);
}

TEST(LowerViews, OffsetsInAnInputsStorageAreLeftToEager) {
  EXPECT_TRUE(is_extern("%0: f32[8]+4", "f32[2]{3}+1", "aten.as_strided(%0, [2], [3], 1)"));
}

// --- indexing
// --------------------------------------------------------------------------------------

TEST(LowerIndexing, EmbeddingChecksItsIndices) {
  const std::string text =
      one("%0: f32[3, 2], %1: i64[2]", "f32[2, 2]", "aten.embedding(%0, %1, -1, false, false)");
  const Numbers table = {0, 1, 10, 11, 20, 21};
  EXPECT_EQ(run(text, {table, {2, 0}})[0], (Numbers{20, 21, 0, 1}));
  EXPECT_FALSE(try_run(text, {table, {3, 0}}));
  EXPECT_FALSE(try_run(text, {table, {-1, 0}}));
}

TEST(LowerIndexing, ChecksHappenForElementsThatNobodyReads) {
  const char* text =
      "graph(%0: f32[3, 2], %1: i64[2]) {"
      " %2: f32[2, 2] = aten.embedding(%0, %1, -1, false, false)"
      " %3: f32[1, 2] = aten.slice.Tensor(%2, 0, 0, 1, 1)"
      " %4: f32[1, 2] = aten.neg(%3) return %4 }";
  EXPECT_EQ(run(text, {{0, 1, 2, 3, 4, 5}, {1, 2}})[0], (Numbers{-2, -3}));
  EXPECT_FALSE(try_run(text, {{0, 1, 2, 3, 4, 5}, {1, 7}}));
}

TEST(LowerIndexing, WhatHasNoElementsIsLeftToEager) {
  EXPECT_TRUE(is_extern("%0: f32[3, 0], %1: i64[2]", "f32[2, 0]",
                        "aten.embedding(%0, %1, -1, false, false)"));
  EXPECT_TRUE(is_extern("%0: f32[0, 3], %1: i64[2]", "f32[0, 2]", "aten.index_select(%0, 1, %1)"));
  EXPECT_TRUE(
      is_extern("%0: f32[2, 0], %1: i64[2, 1]", "f32[2, 1]", "aten.gather(%0, 1, %1, false)"));
}

TEST(LowerIndexing, IndexTensorWrapsNegatives) {
  const std::string text =
      one("%0: f32[3, 2], %1: i64[2]", "f32[2, 2]", "aten.index.Tensor(%0, ?[%1])");
  EXPECT_EQ(run(text, {{0, 1, 2, 3, 4, 5}, {-1, 0}})[0], (Numbers{4, 5, 0, 1}));
  EXPECT_FALSE(try_run(text, {{0, 1, 2, 3, 4, 5}, {-4, 0}}));
  EXPECT_FALSE(try_run(text, {{0, 1, 2, 3, 4, 5}, {3, 0}}));
}

TEST(LowerIndexing, IndexTensorsBroadcastAndMoveToTheFront) {
  // x[:, i, j] with i of [2, 1] and j of [3]; and x[i, :, j] whose index dims come first.
  const Numbers x = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};  // [2, 2, 3]
  EXPECT_EQ(run_one("%0: f32[2, 2, 3], %1: i64[2, 1], %2: i64[3]", "f32[2, 2, 3]",
                    "aten.index.Tensor(%0, ?[None, %1, %2])", {x, {1, 0}, {2, 1, 0}}),
            (Numbers{5, 4, 3, 2, 1, 0, 11, 10, 9, 8, 7, 6}));
  EXPECT_EQ(run_one("%0: f32[2, 2, 3], %1: i64[2], %2: i64[2]", "f32[2, 2]",
                    "aten.index.Tensor(%0, ?[%1, None, %2])", {x, {0, 1}, {2, 0}}),
            (Numbers{2, 5, 6, 9}));
  EXPECT_TRUE(is_extern("%0: f32[4], %1: bool[4]", "f32[4]", "aten.index.Tensor(%0, ?[%1])"));
}

TEST(LowerIndexing, GatherFlipRollTriangles) {
  EXPECT_EQ(run_one("%0: f32[2, 3], %1: i64[2, 2]", "f32[2, 2]", "aten.gather(%0, 1, %1)",
                    {{0, 1, 2, 3, 4, 5}, {2, 0, 1, 1}}),
            (Numbers{2, 0, 4, 4}));
  EXPECT_EQ(run_one("%0: f32[4]", "f32[4]", "aten.flip(%0, [0])", {{1, 2, 3, 4}}),
            (Numbers{4, 3, 2, 1}));
  EXPECT_EQ(run_one("%0: f32[4]", "f32[4]", "aten.roll(%0, [1], [0])", {{1, 2, 3, 4}}),
            (Numbers{4, 1, 2, 3}));
  EXPECT_EQ(run_one("%0: f32[2, 2]", "f32[2, 2]", "aten.tril(%0, 0)", {{1, NAN, 3, 4}}),
            (Numbers{1, 0, 3, 4}));
  EXPECT_EQ(run_one("%0: f32[2]", "f32[4]", "aten.repeat(%0, [2])", {{1, 2}}),
            (Numbers{1, 2, 1, 2}));
}

TEST(LowerConcatenation, PartsKeepAffineIndices) {
  const char* text =
      "graph(%0: f32[2, 8]) {"
      " %1: f32[2, 2, 4] = aten.view(%0, [2, 2, 4])"
      " %2: f32[2, 2, 2]{8, 4, 1}+2 = aten.slice.Tensor(%1, 2, 2, 4, 1)"
      " %3: f32[2, 2, 2]{8, 4, 1} = aten.slice.Tensor(%1, 2, 0, 2, 1)"
      " %4: f32[2, 2, 4] = aten.cat([%2, %3], 2) return %4 }";
  const std::string program = to_string(lowered(text));
  EXPECT_EQ(program.find("//"), std::string::npos) << "a division is left in " << program;
  EXPECT_EQ(run(text, {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}})[0],
            (Numbers{2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13}));
}

TEST(LowerConcatenation, PartsOfOneElement) {
  EXPECT_EQ(run_one("%0: f32[1, 2], %1: f32[2, 2]", "f32[3, 2]", "aten.cat([%0, %1], 0)",
                    {{1, 2}, {3, 4, 5, 6}}),
            (Numbers{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(run_one("%0: f32[2, 1], %1: f32[2, 1]", "f32[2, 2]", "aten.cat([%0, %1], 1)",
                    {{1, 2}, {3, 4}}),
            (Numbers{1, 3, 2, 4}));
  EXPECT_EQ(run_one("%0: f32[1]", "f32[4]", "aten.constant_pad_nd(%0, [1, 2], 7)", {{5}}),
            (Numbers{7, 5, 7, 7}));
}

TEST(LowerConcatenation, PadAndScatter) {
  EXPECT_EQ(run_one("%0: f32[4]", "f32[4]", "aten.constant_pad_nd(%0, [-1, 1], 0)", {{1, 2, 3, 4}}),
            (Numbers{2, 3, 4, 0}));
  EXPECT_EQ(run_one("%0: f32[5], %1: f32[2]", "f32[5]", "aten.slice_scatter(%0, %1, 0, 1, 5, 2)",
                    {{0, 0, 0, 0, 0}, {8, 9}}),
            (Numbers{0, 8, 0, 9, 0}));
  EXPECT_EQ(run_one("%0: f32[2, 2], %1: f32[2]", "f32[2, 2]", "aten.select_scatter(%0, %1, 1, -1)",
                    {{1, 2, 3, 4}, {8, 9}}),
            (Numbers{1, 8, 3, 9}));
}

// --- reductions
// --------------------------------------------------------------------------------------

TEST(LowerReductions, SumsAndMeans) {
  const Numbers x = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(run_one("%0: f32[2, 3]", "f32[]", "aten.sum(%0, None)", {x}), Numbers{21});
  EXPECT_EQ(run_one("%0: f32[2, 3]", "f32[3]", "aten.sum.dim_IntList(%0, [0], false, None)", {x}),
            (Numbers{5, 7, 9}));
  EXPECT_EQ(run_one("%0: f32[2, 3]", "f32[2, 1]", "aten.mean.dim(%0, [-1], true, None)", {x}),
            (Numbers{2, 5}));
  EXPECT_EQ(run_one("%0: bool[3]", "i64[]", "aten.sum(%0, None)", {{1, 0, 1}}), Numbers{2});
  EXPECT_EQ(run_one("%0: f32[2, 0]", "f32[2]", "aten.sum.dim_IntList(%0, [1], false, None)", {{}}),
            (Numbers{0, 0}));
}

TEST(LowerReductions, ExtremaWithIndices) {
  auto outputs = run(
      "graph(%0: f32[2, 3]) { %1: f32[2], %2: i64[2] = aten.max.dim(%0, 1, false) return %1, %2 }",
      {{1, 5, 5, 2, NAN, 9}});
  expect_near(outputs[0], {5, NAN});
  EXPECT_EQ(outputs[1], (Numbers{1, 1}));
  EXPECT_EQ(run_one("%0: f32[2, 3]", "i64[]", "aten.argmin(%0, None, false)", {{4, 5, 1, 2, 1, 9}}),
            Numbers{2});
  EXPECT_EQ(run_one("%0: bool[2, 2]", "bool[2]", "aten.any.dim(%0, 1, false)", {{0, 1, 0, 0}}),
            (Numbers{1, 0}));
}

TEST(LowerReductions, Variance) {
  auto outputs =
      run("graph(%0: f32[4]) { %1: f32[], %2: f32[] = aten.var_mean.correction(%0, None, 1, false)"
          " return %1, %2 }",
          {{1, 2, 3, 6}});
  expect_near(outputs[0], {14.0 / 3});
  expect_near(outputs[1], {3});
}

TEST(LowerNormalization, Softmax) {
  const double e = std::exp(1.0);
  expect_near(run_one("%0: f32[2, 2]", "f32[2, 2]", "aten._softmax(%0, 0, false)", {{0, 3, 1, 3}}),
              {1 / (1 + e), 0.5, e / (1 + e), 0.5});
  expect_near(run_one("%0: f32[2]", "f32[2]", "aten._log_softmax(%0, 0, false)", {{0, 1}}),
              {-std::log(1 + e), 1 - std::log(1 + e)});
  expect_near(run_one("%0: f32[2]", "f32[2]", "aten._safe_softmax(%0, 0, None)", {{-kInf, -kInf}}),
              {0, 0});
  expect_near(run_one("%0: f32[2]", "f32[2]", "aten._softmax(%0, 0, false)", {{-kInf, -kInf}}),
              {NAN, NAN});
}

}  // namespace
}  // namespace braze::loop
