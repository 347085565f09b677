#include "passes/decompose.h"
#include "passes/rewriting.h"

namespace braze::passes {
namespace {

std::string after(std::string_view text) { return rewritten(decompose, text); }

// Halves are added up in f32, as eager does, and rounded in the end.
TEST(DecomposeIndexing, ScatterAdd) {
  EXPECT_EQ(after(R"(graph(%0: f16[4, 3], %1: i64[4, 3], %2: f16[4, 3]) {
    %3: f16[4, 3] = aten.scatter_add(%0, 1, %1, %2)
    return %3
  })"),
            R"(graph(%0: f16[4, 3], %1: i64[4, 3], %2: f16[4, 3]) {
  %3: f32[4, 3] = aten._to_copy(%0, f32, None, None, None, false, None)
  %4: f32[4, 3] = aten._to_copy(%2, f32, None, None, None, false, None)
  %5: f32[4, 3] = aten.scatter_add(%3, 1, %1, %4)
  %6: f16[4, 3] = aten._to_copy(%5, f16, None, None, None, false, None)
  return %6
}
)");
}

TEST(DecomposeIndexing, ScatterReduceSum) {
  EXPECT_EQ(after(R"(graph(%0: bf16[4, 3], %1: i64[4, 3], %2: bf16[4, 3]) {
    %3: bf16[4, 3] = aten.scatter_reduce.two(%0, 1, %1, %2, "sum", true)
    return %3
  })"),
            R"(graph(%0: bf16[4, 3], %1: i64[4, 3], %2: bf16[4, 3]) {
  %3: f32[4, 3] = aten._to_copy(%0, f32, None, None, None, false, None)
  %4: f32[4, 3] = aten._to_copy(%2, f32, None, None, None, false, None)
  %5: f32[4, 3] = aten.scatter_reduce.two(%3, 1, %1, %4, "sum", true)
  %6: bf16[4, 3] = aten._to_copy(%5, bf16, None, None, None, false, None)
  return %6
}
)");
}

TEST(DecomposeIndexing, ScatterReduceProduct) {
  EXPECT_EQ(after(R"(graph(%0: f16[4, 3], %1: i64[4, 3], %2: f16[4, 3]) {
    %3: f16[4, 3] = aten.scatter_reduce.two(%0, 1, %1, %2, "prod", true)
    return %3
  })"),
            R"(graph(%0: f16[4, 3], %1: i64[4, 3], %2: f16[4, 3]) {
  %3: f32[4, 3] = aten._to_copy(%0, f32, None, None, None, false, None)
  %4: f32[4, 3] = aten._to_copy(%2, f32, None, None, None, false, None)
  %5: f32[4, 3] = aten.scatter_reduce.two(%3, 1, %1, %4, "prod", true)
  %6: f16[4, 3] = aten._to_copy(%5, f16, None, None, None, false, None)
  return %6
}
)");
}

TEST(DecomposeIndexing, ScatterMultiply) {
  EXPECT_EQ(after(R"(graph(%0: f16[4, 3], %1: i64[4, 3], %2: f16[4, 3]) {
    %3: f16[4, 3] = aten.scatter.reduce(%0, 1, %1, %2, "multiply")
    return %3
  })"),
            R"(graph(%0: f16[4, 3], %1: i64[4, 3], %2: f16[4, 3]) {
  %3: f32[4, 3] = aten._to_copy(%0, f32, None, None, None, false, None)
  %4: f32[4, 3] = aten._to_copy(%2, f32, None, None, None, false, None)
  %5: f32[4, 3] = aten.scatter.reduce(%3, 1, %1, %4, "multiply")
  %6: f16[4, 3] = aten._to_copy(%5, f16, None, None, None, false, None)
  return %6
}
)");
}

TEST(DecomposeIndexing, IndexAddOfRows) {
  EXPECT_EQ(after(R"(graph(%0: f16[4, 3], %1: i64[4], %2: f16[4, 3]) {
    %3: f16[4, 3] = aten.index_add(%0, 0, %1, %2, 1)
    return %3
  })"),
            R"(graph(%0: f16[4, 3], %1: i64[4], %2: f16[4, 3]) {
  %3: f32[4, 3] = aten._to_copy(%0, f32, None, None, None, false, None)
  %4: f32[4, 3] = aten._to_copy(%2, f32, None, None, None, false, None)
  %5: f32[4, 3] = aten.index_add(%3, 0, %1, %4, 1)
  %6: f16[4, 3] = aten._to_copy(%5, f16, None, None, None, false, None)
  return %6
}
)");
}

TEST(DecomposeIndexing, IndexAddOfRowsCountedFromTheEnd) {
  EXPECT_EQ(after(R"(graph(%0: f16[4, 3], %1: i64[4], %2: f16[4, 3]) {
    %3: f16[4, 3] = aten.index_add(%0, -2, %1, %2, 1)
    return %3
  })"),
            R"(graph(%0: f16[4, 3], %1: i64[4], %2: f16[4, 3]) {
  %3: f32[4, 3] = aten._to_copy(%0, f32, None, None, None, false, None)
  %4: f32[4, 3] = aten._to_copy(%2, f32, None, None, None, false, None)
  %5: f32[4, 3] = aten.index_add(%3, -2, %1, %4, 1)
  %6: f16[4, 3] = aten._to_copy(%5, f16, None, None, None, false, None)
  return %6
}
)");
}

// With a factor, of columns, of a vector, of other strides: eager rounds each sum.
TEST(DecomposeIndexing, WhatIsRoundedAtEachStepStays) {
  expect_unchanged_by(decompose, R"(graph(%0: f16[4, 3], %1: i64[4], %2: f16[4, 3]) {
    %3: f16[4, 3] = aten.index_add(%0, 0, %1, %2, 2)
    return %3
  })");
  expect_unchanged_by(decompose, R"(graph(%0: f16[4, 3], %1: i64[3], %2: f16[4, 3]) {
    %3: f16[4, 3] = aten.index_add(%0, 1, %1, %2, 1)
    return %3
  })");
  expect_unchanged_by(decompose, R"(graph(%0: f16[4], %1: i64[4], %2: f16[4]) {
    %3: f16[4] = aten.index_add(%0, 0, %1, %2, 1)
    return %3
  })");
  expect_unchanged_by(decompose, R"(graph(%0: f16[4, 3]{1, 4}, %1: i64[4], %2: f16[4, 3]) {
    %3: f16[4, 3]{1, 4} = aten.index_add(%0, 0, %1, %2, 1)
    return %3
  })");
}

TEST(DecomposeIndexing, ExtremaNeedNoRounding) {
  expect_unchanged_by(decompose, R"(graph(%0: f16[4, 3], %1: i64[4, 3], %2: f16[4, 3]) {
    %3: f16[4, 3] = aten.scatter_reduce.two(%0, 1, %1, %2, "amax", true)
    return %3
  })");
}

// Means, and results without what was there.
TEST(DecomposeIndexing, OtherReductionsAreEagers) {
  expect_unchanged_by(decompose, R"(graph(%0: f16[4, 3], %1: i64[4, 3], %2: f16[4, 3]) {
    %3: f16[4, 3] = aten.scatter_reduce.two(%0, 1, %1, %2, "mean", true)
    return %3
  })");
  expect_unchanged_by(decompose, R"(graph(%0: f16[4, 3], %1: i64[4, 3], %2: f16[4, 3]) {
    %3: f16[4, 3] = aten.scatter_reduce.two(%0, 1, %1, %2, "sum", false)
    return %3
  })");
}

TEST(DecomposeIndexing, SinglePrecisionStays) {
  expect_unchanged_by(decompose, R"(graph(%0: f32[4, 3], %1: i64[4, 3], %2: f32[4, 3]) {
    %3: f32[4, 3] = aten.scatter_add(%0, 1, %1, %2)
    return %3
  })");
}

}  // namespace
}  // namespace braze::passes
