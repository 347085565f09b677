#include "passes/aligned_products.h"

#include <gtest/gtest.h>

#include "passes/rewriting.h"

namespace braze::passes {
namespace {

std::string after(std::string_view text) { return rewritten(align_products, text); }

void expect_unchanged(std::string_view text) { expect_unchanged_by(align_products, text); }

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Rows of 50,257 halves begin between packs of eight.
TEST(AlignedProducts, OfALinearLayer) {
  const std::string text = after(R"(graph(%0: f16[2048, 768]@cuda:0, %1: f16[50257, 768]@cuda:0) {
  %2: f16[768, 50257]{1, 768}@cuda:0 #%1 = aten.permute(%1, [1, 0])
  %3: f16[2048, 50257]@cuda:0 = aten.mm(%0, %2)
  return %3
})");
  EXPECT_TRUE(has(text, "f16[50264, 768]@cuda:0 = aten.constant_pad_nd(%1, [0, 0, 0, 7], 0)"))
      << text;
  EXPECT_TRUE(has(text, "f16[2048, 50264]@cuda:0 = aten.mm(%0, ")) << text;
  EXPECT_TRUE(has(text, "f16[2048, 50257]{50264, 1}@cuda:0")) << text;
  EXPECT_TRUE(has(text, "f16[2048, 50257]@cuda:0 = aten.clone(")) << text;
}

TEST(AlignedProducts, WithABias) {
  const std::string text = after(
      R"(graph(%0: bf16[2048, 768]@cuda:0, %1: bf16[768, 30522]@cuda:0, %2: bf16[30522]@cuda:0) {
  %3: bf16[2048, 30522]@cuda:0 = aten.addmm(%2, %0, %1, 1, 1)
  return %3
})");
  EXPECT_TRUE(has(text, "bf16[768, 30528]@cuda:0 = aten.constant_pad_nd(%1, [0, 6, 0, 0], 0)"))
      << text;
  EXPECT_TRUE(has(text, "bf16[30528]@cuda:0 = aten.constant_pad_nd(%2, [0, 6], 0)")) << text;
  EXPECT_TRUE(has(text, "bf16[2048, 30528]@cuda:0 = aten.addmm(")) << text;
}

// Logits' gradients, which two products read, one of them by columns: the copies that are taken are
// of the gradient itself, so that cse makes those one that are equal.
TEST(AlignedProducts, OfGradients) {
  const std::string text = after(
      R"(graph(%0: f16[2048, 50257]@cuda:0, %1: f16[50257, 768]@cuda:0, %2: f16[2048, 768]@cuda:0) {
  %3: f16[2048, 768]@cuda:0 = aten.mm(%0, %1)
  %4: f16[50257, 2048]{1, 50257}@cuda:0 #%0 = aten.permute(%0, [1, 0])
  %5: f16[50257, 768]@cuda:0 = aten.mm(%4, %2)
  return %3, %5
})");
  const std::string_view copy =
      "f16[2048, 50264]@cuda:0 = aten.constant_pad_nd(%0, [0, 7, 0, 0], 0)";
  const size_t first = text.find(copy);
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_NE(text.find(copy, first + 1), std::string::npos) << text;
  EXPECT_TRUE(has(text, "f16[50264, 768]@cuda:0 = aten.constant_pad_nd(%1, [0, 0, 0, 7], 0)"))
      << text;
  EXPECT_TRUE(has(text, "f16[2048, 768]@cuda:0 = aten.mm(")) << text;
  EXPECT_TRUE(has(text, "f16[50264, 768]@cuda:0 = aten.mm(")) << text;
  EXPECT_TRUE(has(text, "f16[50257, 768]@cuda:0 = aten.clone(")) << text;
}

TEST(AlignedProducts, LeaveOthers) {
  // A copy costs more than it saves.
  expect_unchanged(R"(graph(%0: f16[2048, 1001]@cuda:0, %1: f16[1001, 16]@cuda:0) {
  %2: f16[2048, 16]@cuda:0 = aten.mm(%0, %1)
  return %2
})");
  // Whole packs; rows of an operand that lie by themselves may be of any number.
  expect_unchanged(R"(graph(%0: f16[2047, 768]@cuda:0, %1: f16[768, 50264]@cuda:0) {
  %2: f16[2047, 50264]@cuda:0 = aten.mm(%0, %1)
  return %2
})");
  // Single precision, and a CPU.
  expect_unchanged(R"(graph(%0: f32[2048, 768]@cuda:0, %1: f32[768, 50257]@cuda:0) {
  %2: f32[2048, 50257]@cuda:0 = aten.mm(%0, %1)
  return %2
})");
  expect_unchanged(R"(graph(%0: f16[2048, 768], %1: f16[768, 50257]) {
  %2: f16[2048, 50257] = aten.mm(%0, %1)
  return %2
})");
  // A scaled bias, and a matrix that is added.
  expect_unchanged(
      R"(graph(%0: f16[50257]@cuda:0, %1: f16[2048, 768]@cuda:0, %2: f16[768, 50257]@cuda:0) {
  %3: f16[2048, 50257]@cuda:0 = aten.addmm(%0, %1, %2, 2, 1)
  return %3
})");
  expect_unchanged(
      R"(graph(%0: f16[2048, 50257]@cuda:0, %1: f16[2048, 768]@cuda:0, %2: f16[768, 50257]@cuda:0) {
  %3: f16[2048, 50257]@cuda:0 = aten.addmm(%0, %1, %2, 1, 1)
  return %3
})");
}

}  // namespace
}  // namespace braze::passes
