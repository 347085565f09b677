#include <gtest/gtest.h>

#include "passes/rewriting.h"

namespace braze::passes {
namespace {

TEST(DecomposeOrder, TheLargestTwo) {
  EXPECT_EQ(decomposed(R"(graph(%0: bf16[6, 9]@cuda:0) {
    %1: bf16[6, 2]@cuda:0, %2: i64[6, 2]@cuda:0 = aten.topk(%0, 2, -1, true, true)
    return %1, %2
  })"),
            R"(graph(%0: bf16[6, 9]@cuda:0) {
  %1: f32[]@cuda:0 = aten.full([], -inf, f32, None, cuda:0, None)
  %2: f32[]@cuda:0 = aten.full([], -3.4028234663852886e+38, f32, None, cuda:0, None)
  %3: f32[6, 9]@cuda:0 = aten._to_copy(%0, f32, None, None, None, false, None)
  %4: bool[6, 9]@cuda:0 = aten.eq.Scalar(%3, -inf)
  %5: f32[6, 9]@cuda:0 = aten.where.self(%4, %2, %3)
  %6: i64[9]@cuda:0 = aten.arange.start_step(0, 9, 1, i64, None, cuda:0, None)
  %7: i64[1, 9]@cuda:0 #%6 = aten.view(%6, [1, 9])
  %8: f32[6, 1]@cuda:0, %9: i64[6, 1]@cuda:0 = aten.max.dim(%5, 1, true)
  %10: bool[6, 1]@cuda:0 = aten.eq.Tensor(%8, %2)
  %11: f32[6, 1]@cuda:0 = aten.where.self(%10, %1, %8)
  %12: bf16[6, 1]@cuda:0 = aten._to_copy(%11, bf16, None, None, None, false, None)
  %13: bool[6, 9]@cuda:0 = aten.eq.Tensor(%7, %9)
  %14: f32[6, 9]@cuda:0 = aten.where.self(%13, %1, %5)
  %15: f32[6, 1]@cuda:0, %16: i64[6, 1]@cuda:0 = aten.max.dim(%14, 1, true)
  %17: bool[6, 1]@cuda:0 = aten.eq.Tensor(%15, %2)
  %18: f32[6, 1]@cuda:0 = aten.where.self(%17, %1, %15)
  %19: bf16[6, 1]@cuda:0 = aten._to_copy(%18, bf16, None, None, None, false, None)
  %20: bf16[6, 2]@cuda:0 = aten.cat([%12, %19], 1)
  %21: i64[6, 2]@cuda:0 = aten.cat([%9, %16], 1)
  return %20, %21
}
)");
}

TEST(DecomposeOrder, WhatIsLeftToPyTorch) {
  expect_unchanged_by(decompose, R"(graph(%0: f32[6, 9]) {
    %1: f32[6, 2], %2: i64[6, 2] = aten.topk(%0, 2, -1, true, true)
    return %1, %2
  })");
  expect_unchanged_by(decompose, R"(graph(%0: f32[6, 9]@cuda:0) {
    %1: f32[6, 2]@cuda:0, %2: i64[6, 2]@cuda:0 = aten.topk(%0, 2, -1, false, true)
    return %1, %2
  })");
  expect_unchanged_by(decompose, R"(graph(%0: f64[6, 9]@cuda:0) {
    %1: f64[6, 2]@cuda:0, %2: i64[6, 2]@cuda:0 = aten.topk(%0, 2, -1, true, true)
    return %1, %2
  })");
  expect_unchanged_by(decompose, R"(graph(%0: f32[6, 19]@cuda:0) {
    %1: f32[6, 9]@cuda:0, %2: i64[6, 9]@cuda:0 = aten.topk(%0, 9, -1, true, true)
    return %1, %2
  })");
}

}  // namespace
}  // namespace braze::passes
