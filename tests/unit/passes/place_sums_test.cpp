#include "passes/place_sums.h"

#include "passes/rewriting.h"

namespace braze::passes {
namespace {

TEST(PlaceSums, GradientOfATable) {
  EXPECT_EQ(rewritten(use_place_sums, R"(graph(%0: f32[2, 3, 16]@cuda:0, %1: i64[2, 3]@cuda:0) {
    %2: f32[9, 16]@cuda:0 = aten.embedding_dense_backward(%0, %1, 9, 5, false)
    return %2
  })"),
            R"(graph(%0: f32[2, 3, 16]@cuda:0, %1: i64[2, 3]@cuda:0) {
  %2: f32[6, 16]@cuda:0 #%0 = aten.view(%0, [6, 16])
  %3: i64[6]@cuda:0 #%1 = aten.view(%1, [6])
  %4: f32[9, 16]@cuda:0 = braze.sum_by_place(%2, %3, 0, 9, 5, false, None)
  return %4
}
)");
}

TEST(PlaceSums, GradientOfColumns) {
  EXPECT_EQ(rewritten(use_place_sums, R"(graph(%0: f16[32, 5]@cuda:0, %1: i64[5]@cuda:0) {
    %2: f16[32, 6]@cuda:0 = aten.full([32, 6], 0.0, f16, None, cuda:0, None)
    %3: f16[32, 6]@cuda:0 = aten.index_put(%2, ?[None, %1], %0, true)
    return %3
  })"),
            R"(graph(%0: f16[32, 5]@cuda:0, %1: i64[5]@cuda:0) {
  %2: f16[32, 6]@cuda:0 = aten.full([32, 6], 0.0, f16, None, cuda:0, None)
  %3: f16[32, 5, 1]@cuda:0 #%0 = aten.view(%0, [32, 5, 1])
  %4: bool[5]@cuda:0 = aten.lt.Scalar(%1, 0)
  %5: i64[5]@cuda:0 = aten.add.Scalar(%1, 6, 1)
  %6: i64[5]@cuda:0 = aten.where.self(%4, %5, %1)
  %7: f16[32, 6, 1]@cuda:0 = braze.sum_by_place(%3, %6, 1, 6, -1, true, None)
  %8: f16[32, 6]@cuda:0 #%7 = aten.view(%7, [32, 6])
  return %8
}
)");
}

TEST(PlaceSums, GradientOfPairsIsCheckedForEachIndex) {
  EXPECT_EQ(rewritten(use_place_sums,
                      R"(graph(%0: f32[5, 16]@cuda:0, %1: i64[5]@cuda:0, %2: i32[5]@cuda:0) {
    %3: f32[3, 4, 16]@cuda:0 = aten.full([3, 4, 16], 0.0, f32, None, cuda:0, None)
    %4: f32[3, 4, 16]@cuda:0 = aten.index_put(%3, ?[%1, %2], %0, true)
    return %4
  })"),
            R"(graph(%0: f32[5, 16]@cuda:0, %1: i64[5]@cuda:0, %2: i32[5]@cuda:0) {
  %3: f32[3, 4, 16]@cuda:0 = aten.full([3, 4, 16], 0.0, f32, None, cuda:0, None)
  %4: f32[1, 5, 16]@cuda:0 #%0 = aten.view(%0, [1, 5, 16])
  %5: bool[5]@cuda:0 = aten.lt.Scalar(%1, 0)
  %6: i64[5]@cuda:0 = aten.add.Scalar(%1, 3, 1)
  %7: i64[5]@cuda:0 = aten.where.self(%5, %6, %1)
  %8: bool[5]@cuda:0 = aten.ge.Scalar(%7, 0)
  %9: bool[5]@cuda:0 = aten.lt.Scalar(%7, 3)
  %10: bool[5]@cuda:0 = aten.logical_and(%8, %9)
  %11: i64[5]@cuda:0 = aten._to_copy(%2, i64, None, None, None, false, None)
  %12: bool[5]@cuda:0 = aten.lt.Scalar(%11, 0)
  %13: i64[5]@cuda:0 = aten.add.Scalar(%11, 4, 1)
  %14: i64[5]@cuda:0 = aten.where.self(%12, %13, %11)
  %15: bool[5]@cuda:0 = aten.ge.Scalar(%14, 0)
  %16: bool[5]@cuda:0 = aten.lt.Scalar(%14, 4)
  %17: bool[5]@cuda:0 = aten.logical_and(%15, %16)
  %18: bool[5]@cuda:0 = aten.logical_and(%10, %17)
  %19: i64[5]@cuda:0 = aten.mul.Scalar(%7, 4)
  %20: i64[5]@cuda:0 = aten.add.Tensor(%19, %14, 1)
  %21: i64[]@cuda:0 = aten.full([], -1, i64, None, cuda:0, None)
  %22: i64[5]@cuda:0 = aten.where.self(%18, %20, %21)
  %23: f32[1, 12, 16]@cuda:0 = braze.sum_by_place(%4, %22, 1, 12, -1, true, None)
  %24: f32[3, 4, 16]@cuda:0 #%23 = aten.view(%23, [3, 4, 16])
  return %24
}
)");
}

TEST(PlaceSums, RowsAreAddedToWhatIsThere) {
  EXPECT_EQ(rewritten(use_place_sums,
                      R"(graph(%0: f32[5, 16]@cuda:0, %1: i64[5]@cuda:0, %2: f32[3, 16]@cuda:0) {
    %3: f32[3, 16]@cuda:0 = aten.index_put(%2, ?[%1], %0, true)
    return %3
  })"),
            R"(graph(%0: f32[5, 16]@cuda:0, %1: i64[5]@cuda:0, %2: f32[3, 16]@cuda:0) {
  %3: f32[1, 3, 16]@cuda:0 #%2 = aten.view(%2, [1, 3, 16])
  %4: f32[1, 5, 16]@cuda:0 #%0 = aten.view(%0, [1, 5, 16])
  %5: bool[5]@cuda:0 = aten.lt.Scalar(%1, 0)
  %6: i64[5]@cuda:0 = aten.add.Scalar(%1, 3, 1)
  %7: i64[5]@cuda:0 = aten.where.self(%5, %6, %1)
  %8: f32[1, 3, 16]@cuda:0 = braze.sum_by_place(%4, %7, 1, 3, -1, true, %3)
  %9: f32[3, 16]@cuda:0 #%8 = aten.view(%8, [3, 16])
  return %9
}
)");
}

TEST(PlaceSums, LargeRowsInMemory) {
  EXPECT_EQ(
      rewritten(
          use_place_sums,
          R"(graph(%0: f32[65536, 64]@cuda:0, %1: i64[65536]@cuda:0, %2: f32[9000, 64]@cuda:0) {
    %3: f32[9000, 64]@cuda:0 = aten.index_add(%2, 0, %1, %0, 1)
    return %3
  })"),
      R"(graph(%0: f32[65536, 64]@cuda:0, %1: i64[65536]@cuda:0, %2: f32[9000, 64]@cuda:0) {
  %3: f32[9000, 64]@cuda:0 = braze.sum_by_place(%0, %1, 0, 9000, -1, true, %2)
  return %3
}
)");
}

TEST(PlaceSums, AKernelAddsWhatItMakesAsItGoesAndLongLists) {
  // The messages of a graph network.
  expect_unchanged_by(
      use_place_sums,
      R"(graph(%0: f32[9000, 64]@cuda:0, %1: i64[65536]@cuda:0, %2: i64[65536]@cuda:0, %3: f32[9000, 64]@cuda:0) {
    %4: f32[65536, 64]@cuda:0 = aten.index_select(%0, 0, %2)
    %5: f32[9000, 64]@cuda:0 = aten.index_add(%3, 0, %1, %4, 1)
    return %5
  })");
  expect_unchanged_by(
      use_place_sums,
      R"(graph(%0: f32[65536, 64]@cuda:0, %1: i64[65536]@cuda:0, %2: f32[9000, 64]@cuda:0) {
    %3: f32[65536, 64]@cuda:0 = aten.exp(%0)
    %4: f32[9000, 64]@cuda:0 = aten.index_add(%2, 0, %1, %3, 1)
    return %4
  })");
  expect_unchanged_by(
      use_place_sums,
      R"(graph(%0: f32[65536, 64]@cuda:0, %1: i64[65536]@cuda:0, %2: f32[90, 64]@cuda:0) {
    %3: f32[90, 64]@cuda:0 = aten.index_add(%2, 0, %1, %0, 1)
    return %3
  })");
  expect_unchanged_by(
      use_place_sums,
      R"(graph(%0: f32[65536, 64]@cuda:0, %1: i64[65536]@cuda:0, %2: f32[9000, 64]@cuda:0) {
    %3: f32[9000, 64]@cuda:0 = aten.index_add(%2, 0, %1, %0, 2)
    return %3
  })");
}

TEST(PlaceSums, WhatIsLeftToPyTorch) {
  // An element of each of few rows: lists would be larger than the matrix.
  expect_unchanged_by(use_place_sums, R"(graph(%0: f32[5]@cuda:0, %1: i64[5]@cuda:0) {
    %2: f32[3, 50257]@cuda:0 = aten.full([3, 50257], 0.0, f32, None, cuda:0, None)
    %3: f32[3, 50257]@cuda:0 = aten.index_put(%2, ?[%1, %1], %0, true)
    return %3
  })");
  // Scaled by frequency.
  expect_unchanged_by(use_place_sums, R"(graph(%0: f32[6, 16]@cuda:0, %1: i64[6]@cuda:0) {
    %2: f32[9, 16]@cuda:0 = aten.embedding_dense_backward(%0, %1, 9, -1, true)
    return %2
  })");
  // On a CPU there is a kernel.
  expect_unchanged_by(use_place_sums, R"(graph(%0: f32[6, 16], %1: i64[6]) {
    %2: f32[9, 16] = aten.embedding_dense_backward(%0, %1, 9, -1, false)
    return %2
  })");
  // Indices of a CPU.
  expect_unchanged_by(use_place_sums, R"(graph(%0: f32[5, 16]@cuda:0, %1: i64[5]) {
    %2: f32[3, 16]@cuda:0 = aten.full([3, 16], 0.0, f32, None, cuda:0, None)
    %3: f32[3, 16]@cuda:0 = aten.index_put(%2, ?[%1], %0, true)
    return %3
  })");
  // Indices that are apart, integers.
  expect_unchanged_by(use_place_sums, R"(graph(%0: f32[5, 16]@cuda:0, %1: i64[5]@cuda:0) {
    %2: f32[3, 16, 4]@cuda:0 = aten.full([3, 16, 4], 0.0, f32, None, cuda:0, None)
    %3: f32[3, 16, 4]@cuda:0 = aten.index_put(%2, ?[%1, None, %1], %0, true)
    return %3
  })");
  expect_unchanged_by(use_place_sums,
                      R"(graph(%0: i32[5]@cuda:0, %1: i64[5]@cuda:0, %2: i32[3]@cuda:0) {
    %3: i32[3]@cuda:0 = aten.index_put(%2, ?[%1], %0, true)
    return %3
  })");
}

}  // namespace
}  // namespace braze::passes
