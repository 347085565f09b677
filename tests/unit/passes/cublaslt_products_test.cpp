#include "passes/cublaslt_products.h"

#include <gtest/gtest.h>

#include "passes/rewriting.h"

namespace braze::passes {
namespace {

std::string after(std::string_view text) { return rewritten(use_cublaslt, text); }

void expect_unchanged(std::string_view text) { expect_unchanged_by(use_cublaslt, text); }

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(CublasltProducts, TakeTheBiasOfALinearLayer) {
  const std::string text =
      after(R"(graph(%0: f16[64, 768]@cuda:0, %1: f16[512, 768]@cuda:0, %2: f16[512]@cuda:0) {
  %3: f16[768, 512]{1, 768}@cuda:0 #%1 = aten.permute(%1, [1, 0])
  %4: f16[64, 512]@cuda:0 = aten.addmm(%2, %0, %3, 1, 1)
  return %4
})");
  EXPECT_TRUE(has(text, "braze.cublaslt_matmul(%0, %3, %2)")) << text;
}

TEST(CublasltProducts, TakeBatchesOfMatrices) {
  const std::string text = after(R"(graph(%0: f32[4, 8, 16]@cuda:0, %1: f32[4, 16, 32]@cuda:0) {
  %2: f32[4, 8, 32]@cuda:0 = aten.bmm(%0, %1)
  return %2
})");
  EXPECT_TRUE(has(text, "braze.cublaslt_matmul(%0, %1, None)")) << text;
}

TEST(CublasltProducts, LeaveOtherDevicesDtypesAndFactors) {
  expect_unchanged(R"(graph(%0: f32[64, 64], %1: f32[64, 64]) {
  %2: f32[64, 64] = aten.mm(%0, %1)
  return %2
})");
  expect_unchanged(R"(graph(%0: f64[64, 64]@cuda:0, %1: f64[64, 64]@cuda:0) {
  %2: f64[64, 64]@cuda:0 = aten.mm(%0, %1)
  return %2
})");
  expect_unchanged(R"(graph(%0: f16[64]@cuda:0, %1: f16[8, 64]@cuda:0, %2: f16[64, 64]@cuda:0) {
  %3: f16[8, 64]@cuda:0 = aten.addmm(%0, %1, %2, 2, 1)
  return %3
})");
  expect_unchanged(R"(graph(%0: f16[8, 64]@cuda:0, %1: f16[8, 64]@cuda:0, %2: f16[64, 64]@cuda:0) {
  %3: f16[8, 64]@cuda:0 = aten.addmm(%0, %1, %2, 1, 1)
  return %3
})");
}

// Rows of 50,257 halves begin between packs of eight.
TEST(CublasltProducts, SpreadTheRowsOfALargeResult) {
  const std::string text = after(R"(graph(%0: f16[2048, 768]@cuda:0, %1: f16[50257, 768]@cuda:0) {
  %2: f16[768, 50257]{1, 768}@cuda:0 #%1 = aten.permute(%1, [1, 0])
  %3: f16[2048, 50257]@cuda:0 = aten.mm(%0, %2)
  return %3
})");
  EXPECT_TRUE(has(text, "f16[2048, 50257]{50264, 1}@cuda:0 = braze.cublaslt_matmul(%0, %2, None)"))
      << text;
  EXPECT_TRUE(has(text, "f16[2048, 50257]@cuda:0 = aten.clone(")) << text;
}

// A gradient of logits that two products read, one of them by columns: both copies are of the
// gradient itself, so that cse makes them one.
TEST(CublasltProducts, SpreadTheRowsOfAnOperand) {
  const std::string text = after(
      R"(graph(%0: f16[2048, 50257]@cuda:0, %1: f16[50257, 768]@cuda:0, %2: f16[2048, 768]@cuda:0) {
  %3: f16[2048, 768]@cuda:0 = aten.mm(%0, %1)
  %4: f16[50257, 2048]{1, 50257}@cuda:0 #%0 = aten.permute(%0, [1, 0])
  %5: f16[50257, 768]@cuda:0 = aten.mm(%4, %2)
  return %3, %5
})");
  const std::string_view copy =
      "f16[2048, 50257]{50264, 1}@cuda:0 = prims.copy_strided(%0, [50264, 1])";
  const size_t first = text.find(copy);
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_NE(text.find(copy, first + 1), std::string::npos) << text;
  EXPECT_TRUE(has(text, "f16[50257, 2048]{1, 50264}@cuda:0")) << text;
}

TEST(CublasltProducts, LeaveRowsWhereACopyCostsMore) {
  const std::string text = after(R"(graph(%0: f16[2048, 1001]@cuda:0, %1: f16[1001, 16]@cuda:0) {
  %2: f16[2048, 16]@cuda:0 = aten.mm(%0, %1)
  return %2
})");
  EXPECT_FALSE(has(text, "copy_strided")) << text;
}

}  // namespace
}  // namespace braze::passes
