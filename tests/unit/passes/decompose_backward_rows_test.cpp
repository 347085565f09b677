#include "passes/decompose.h"
#include "passes/rewriting.h"

namespace braze::passes {
namespace {

TEST(DecomposeBackward, Softmax) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[2, 4], %1: f32[2, 4]) {
    %2: f32[2, 4] = aten._softmax_backward_data(%0, %1, -1, f32)
    return %2
  })"),
            R"(graph(%0: f32[2, 4], %1: f32[2, 4]) {
  %2: f32[2, 4] = aten.mul.Tensor(%0, %1)
  %3: f32[2, 1] = aten.sum.dim_IntList(%2, [-1], true, None)
  %4: f32[2, 4] = aten.sub.Tensor(%0, %3, 1)
  %5: f32[2, 4] = aten.mul.Tensor(%4, %1)
  return %5
}
)");
}

TEST(DecomposeBackward, LogSoftmax) {
  EXPECT_EQ(decomposed(R"(graph(%0: bf16[2, 4], %1: bf16[2, 4]) {
    %2: bf16[2, 4] = aten._log_softmax_backward_data(%0, %1, 1, bf16)
    return %2
  })"),
            R"(graph(%0: bf16[2, 4], %1: bf16[2, 4]) {
  %2: f32[2, 4] = aten._to_copy(%0, f32, None, None, None, false, None)
  %3: f32[2, 4] = aten._to_copy(%1, f32, None, None, None, false, None)
  %4: f32[2, 1] = aten.sum.dim_IntList(%2, [1], true, None)
  %5: f32[2, 4] = aten.exp(%3)
  %6: f32[2, 4] = aten.mul.Tensor(%5, %4)
  %7: f32[2, 4] = aten.sub.Tensor(%2, %6, 1)
  %8: bf16[2, 4] = aten._to_copy(%7, bf16, None, None, None, false, None)
  return %8
}
)");
}

TEST(DecomposeBackward, LayerNormInput) {
  EXPECT_EQ(
      decomposed(
          R"(graph(%0: f32[2, 3, 4], %1: f32[2, 3, 4], %2: f32[2, 3, 1], %3: f32[2, 3, 1], %4: f32[4], %5: f32[4]) {
    %6: f32[2, 3, 4], %7: f32[4], %8: f32[4] = aten.native_layer_norm_backward(%0, %1, [4], %2, %3, %4, %5, [true, true, true])
    return %6
  })"),
      R"(graph(%0: f32[2, 3, 4], %1: f32[2, 3, 4], %2: f32[2, 3, 1], %3: f32[2, 3, 1], %4: f32[4], %5: f32[4]) {
  %6: f32[2, 3, 4] = aten.mul.Tensor(%0, %1)
  %7: f32[2, 3, 4] = aten.mul.Tensor(%6, %4)
  %8: f32[2, 3, 1] = aten.sum.dim_IntList(%7, [2], true, None)
  %9: f32[2, 3, 4] = aten.mul.Tensor(%0, %4)
  %10: f32[2, 3, 1] = aten.sum.dim_IntList(%9, [2], true, None)
  %11: f32[2, 3, 1] = aten.mul.Tensor(%10, %2)
  %12: f32[2, 3, 1] = aten.sub.Tensor(%11, %8, 1)
  %13: f32[2, 3, 1] = aten.mul.Tensor(%12, %3)
  %14: f32[2, 3, 1] = aten.mul.Tensor(%13, %3)
  %15: f32[2, 3, 1] = aten.mul.Tensor(%14, %3)
  %16: f32[2, 3, 1] = aten.mul.Scalar(%15, 0.25)
  %17: f32[2, 3, 1] = aten.mul.Tensor(%10, %3)
  %18: f32[2, 3, 1] = aten.mul.Scalar(%17, 0.25)
  %19: f32[2, 3, 1] = aten.neg(%16)
  %20: f32[2, 3, 1] = aten.mul.Tensor(%19, %2)
  %21: f32[2, 3, 1] = aten.sub.Tensor(%20, %18, 1)
  %22: f32[2, 3, 4] = aten.mul.Tensor(%16, %1)
  %23: f32[2, 3, 4] = aten.mul.Tensor(%3, %0)
  %24: f32[2, 3, 4] = aten.mul.Tensor(%23, %4)
  %25: f32[2, 3, 4] = aten.add.Tensor(%24, %22, 1)
  %26: f32[2, 3, 4] = aten.add.Tensor(%25, %21, 1)
  return %26
}
)");
}

TEST(DecomposeBackward, RmsNorm) {
  EXPECT_EQ(
      decomposed(
          R"(graph(%0: f32[2, 3, 4], %1: f32[2, 3, 4], %2: f32[2, 3, 1], %3: f32[4]) {
    %4: f32[2, 3, 4], %5: f32[4] = aten._fused_rms_norm_backward(%0, %1, [4], %2, %3, [true, true])
    return %4, %5
  })"),
      R"(graph(%0: f32[2, 3, 4], %1: f32[2, 3, 4], %2: f32[2, 3, 1], %3: f32[4]) {
  %4: f32[2, 3, 4] = aten.mul.Tensor(%0, %1)
  %5: f32[2, 3, 4] = aten.mul.Tensor(%4, %3)
  %6: f32[2, 3, 1] = aten.sum.dim_IntList(%5, [2], true, None)
  %7: f32[2, 3, 1] = aten.mul.Scalar(%6, 0.25)
  %8: f32[2, 3, 1] = aten.mul.Tensor(%2, %2)
  %9: f32[2, 3, 1] = aten.mul.Tensor(%8, %2)
  %10: f32[2, 3, 1] = aten.mul.Tensor(%7, %9)
  %11: f32[2, 3, 4] = aten.mul.Tensor(%0, %2)
  %12: f32[2, 3, 4] = aten.mul.Tensor(%11, %3)
  %13: f32[2, 3, 4] = aten.mul.Tensor(%1, %10)
  %14: f32[2, 3, 4] = aten.sub.Tensor(%12, %13, 1)
  %15: f32[2, 3, 4] = aten.mul.Tensor(%1, %2)
  %16: f32[2, 3, 4] = aten.mul.Tensor(%0, %15)
  %17: f32[4] = aten.sum.dim_IntList(%16, [0, 1], false, None)
  return %14, %17
}
)");
}

// What nobody uses is not worked out: these need no sums over rows.
TEST(DecomposeBackward, LayerNormParameters) {
  EXPECT_EQ(
      decomposed(
          R"(graph(%0: f32[2, 3, 4], %1: f32[2, 3, 4], %2: f32[2, 3, 1], %3: f32[2, 3, 1], %4: f32[4], %5: f32[4]) {
    %6: f32[2, 3, 4], %7: f32[4], %8: f32[4] = aten.native_layer_norm_backward(%0, %1, [4], %2, %3, %4, %5, [true, true, true])
    return %7, %8
  })"),
      R"(graph(%0: f32[2, 3, 4], %1: f32[2, 3, 4], %2: f32[2, 3, 1], %3: f32[2, 3, 1], %4: f32[4], %5: f32[4]) {
  %6: f32[2, 3, 1] = aten.neg(%3)
  %7: f32[2, 3, 1] = aten.mul.Tensor(%6, %2)
  %8: f32[2, 3, 4] = aten.mul.Tensor(%3, %1)
  %9: f32[2, 3, 4] = aten.add.Tensor(%8, %7, 1)
  %10: f32[2, 3, 4] = aten.mul.Tensor(%0, %9)
  %11: f32[4] = aten.sum.dim_IntList(%10, [0, 1], false, None)
  %12: f32[4] = aten.sum.dim_IntList(%0, [0, 1], false, None)
  return %11, %12
}
)");
}

// Rows of symbolic length are divided by it.
TEST(DecomposeBackward, LayerNormWithoutWeight) {
  EXPECT_EQ(
      decomposed(
          R"(graph(s0 = size(%0, 0) hint 5, s1 = size(%0, 1) hint 16, %0: f32[s0, s1], %1: f32[s0, s1], %2: f32[s0, 1], %3: f32[s0, 1]) {
    %4: f32[s0, s1], %5: f32[s1], %6: f32[s1] = aten.native_layer_norm_backward(%0, %1, [s1], %2, %3, None, None, [true, false, false])
    return %4
  })"),
      R"(graph(s0 = size(%0, 0) hint 5, s1 = size(%0, 1) hint 16, %0: f32[s0, s1], %1: f32[s0, s1], %2: f32[s0, 1], %3: f32[s0, 1]) {
  %4: f32[s0, s1] = aten.mul.Tensor(%0, %1)
  %5: f32[s0, 1] = aten.sum.dim_IntList(%4, [1], true, None)
  %6: f32[s0, 1] = aten.sum.dim_IntList(%0, [1], true, None)
  %7: f32[s0, 1] = aten.mul.Tensor(%6, %2)
  %8: f32[s0, 1] = aten.sub.Tensor(%7, %5, 1)
  %9: f32[s0, 1] = aten.mul.Tensor(%8, %3)
  %10: f32[s0, 1] = aten.mul.Tensor(%9, %3)
  %11: f32[s0, 1] = aten.mul.Tensor(%10, %3)
  %12: f32[s0, 1] = aten.div.Scalar(%11, s1)
  %13: f32[s0, 1] = aten.mul.Tensor(%6, %3)
  %14: f32[s0, 1] = aten.div.Scalar(%13, s1)
  %15: f32[s0, 1] = aten.neg(%12)
  %16: f32[s0, 1] = aten.mul.Tensor(%15, %2)
  %17: f32[s0, 1] = aten.sub.Tensor(%16, %14, 1)
  %18: f32[s0, s1] = aten.mul.Tensor(%12, %1)
  %19: f32[s0, s1] = aten.mul.Tensor(%3, %0)
  %20: f32[s0, s1] = aten.add.Tensor(%19, %18, 1)
  %21: f32[s0, s1] = aten.add.Tensor(%20, %17, 1)
  return %21
}
)");
}

// Where the target is to be ignored, the place that is read is one that exists.
TEST(DecomposeBackward, NllLossOfEach) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[5, 3], %1: i64[5]) {
    %2: f32[5], %3: f32[] = aten.nll_loss_forward(%0, %1, None, 0, -100)
    return %2
  })"),
            R"(graph(%0: f32[5, 3], %1: i64[5]) {
  %2: bool[5] = aten.eq.Scalar(%1, -100)
  %3: i64[] = aten.full([], 0, i64, None, None, None)
  %4: i64[5] = aten.where.self(%2, %3, %1)
  %5: i64[5, 1] #%4 = aten.unsqueeze(%4, 1)
  %6: f32[5, 1] = aten.gather(%0, 1, %5, false)
  %7: f32[5] #%6 = aten.squeeze.dim(%6, 1)
  %8: f32[5] = aten.neg(%7)
  %9: f32[] = aten.full([], 0.0, f32, None, None, None)
  %10: f32[5] = aten.where.self(%2, %9, %8)
  return %10
}
)");
}

TEST(DecomposeBackward, NllLossMean) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[5, 3], %1: i64[5]) {
    %2: f32[], %3: f32[] = aten.nll_loss_forward(%0, %1, None, 1, -100)
    return %2, %3
  })"),
            R"(graph(%0: f32[5, 3], %1: i64[5]) {
  %2: bool[5] = aten.eq.Scalar(%1, -100)
  %3: i64[] = aten.full([], 0, i64, None, None, None)
  %4: i64[5] = aten.where.self(%2, %3, %1)
  %5: i64[5, 1] #%4 = aten.unsqueeze(%4, 1)
  %6: f32[5, 1] = aten.gather(%0, 1, %5, false)
  %7: f32[5] #%6 = aten.squeeze.dim(%6, 1)
  %8: f32[5] = aten.neg(%7)
  %9: f32[] = aten.full([], 0.0, f32, None, None, None)
  %10: f32[5] = aten.where.self(%2, %9, %8)
  %11: f32[] = aten.full([], 1.0, f32, None, None, None)
  %12: f32[5] = aten.where.self(%2, %9, %11)
  %13: f32[] = aten.sum(%12, None)
  %14: f32[] = aten.sum(%10, None)
  %15: f32[] = aten.div.Tensor(%14, %13)
  return %15, %13
}
)");
}

TEST(DecomposeBackward, NllLossSum) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[5, 3], %1: i64[5]) {
    %2: f32[], %3: f32[] = aten.nll_loss_forward(%0, %1, None, 2, -100)
    return %2
  })"),
            R"(graph(%0: f32[5, 3], %1: i64[5]) {
  %2: bool[5] = aten.eq.Scalar(%1, -100)
  %3: i64[] = aten.full([], 0, i64, None, None, None)
  %4: i64[5] = aten.where.self(%2, %3, %1)
  %5: i64[5, 1] #%4 = aten.unsqueeze(%4, 1)
  %6: f32[5, 1] = aten.gather(%0, 1, %5, false)
  %7: f32[5] #%6 = aten.squeeze.dim(%6, 1)
  %8: f32[5] = aten.neg(%7)
  %9: f32[] = aten.full([], 0.0, f32, None, None, None)
  %10: f32[5] = aten.where.self(%2, %9, %8)
  %11: f32[] = aten.sum(%10, None)
  return %11
}
)");
}

TEST(DecomposeBackward, NllLossWeighted) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[5, 3], %1: i64[5], %2: f32[3]) {
    %3: f32[], %4: f32[] = aten.nll_loss_forward(%0, %1, %2, 1, -100)
    return %3
  })"),
            R"(graph(%0: f32[5, 3], %1: i64[5], %2: f32[3]) {
  %3: bool[5] = aten.eq.Scalar(%1, -100)
  %4: i64[] = aten.full([], 0, i64, None, None, None)
  %5: i64[5] = aten.where.self(%3, %4, %1)
  %6: i64[5, 1] #%5 = aten.unsqueeze(%5, 1)
  %7: f32[5, 1] = aten.gather(%0, 1, %6, false)
  %8: f32[5] #%7 = aten.squeeze.dim(%7, 1)
  %9: f32[5] = aten.neg(%8)
  %10: f32[] = aten.full([], 0.0, f32, None, None, None)
  %11: f32[5] = aten.index_select(%2, 0, %5)
  %12: f32[5] = aten.mul.Tensor(%9, %11)
  %13: f32[5] = aten.where.self(%3, %10, %12)
  %14: f32[5] = aten.where.self(%3, %10, %11)
  %15: f32[] = aten.sum(%14, None)
  %16: f32[] = aten.sum(%13, None)
  %17: f32[] = aten.div.Tensor(%16, %15)
  return %17
}
)");
}

TEST(DecomposeBackward, Slice) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[2, 4]) {
    %1: f32[2, 8] = aten.slice_backward(%0, [2, 8], 1, 0, 8, 2)
    return %1
  })"),
            R"(graph(%0: f32[2, 4]) {
  %1: f32[2, 8] = aten.full([2, 8], 0.0, f32, None, None, None)
  %2: f32[2, 8] = aten.slice_scatter(%1, %0, 1, 0, 8, 2)
  return %2
}
)");
}

TEST(DecomposeBackward, Select) {
  EXPECT_EQ(decomposed(R"(graph(%0: i64[2]) {
    %1: i64[2, 8] = aten.select_backward(%0, [2, 8], 1, 3)
    return %1
  })"),
            R"(graph(%0: i64[2]) {
  %1: i64[2, 8] = aten.full([2, 8], 0, i64, None, None, None)
  %2: i64[2, 8] = aten.select_scatter(%1, %0, 1, 3)
  return %2
}
)");
}

// Eager adds the losses up in half precision.
TEST(DecomposeBackward, SumsOfHalvesAreEagers) {
  expect_unchanged_by(decompose, R"(graph(%0: bf16[5, 3], %1: i64[5]) {
    %2: bf16[], %3: bf16[] = aten.nll_loss_forward(%0, %1, None, 1, -100)
    return %2
  })");
}

// No dim to add up over, or a size that is divided by and zero.
TEST(DecomposeBackward, RowsOfNothingAreEagers) {
  expect_unchanged_by(decompose, R"(graph(%0: f32[], %1: f32[]) {
    %2: f32[] = aten._softmax_backward_data(%0, %1, 0, f32)
    return %2
  })");
  expect_unchanged_by(decompose,
                      R"(graph(%0: f32[2, 0], %1: f32[2, 0], %2: f32[2, 1], %3: f32[2, 1]) {
    %4: f32[2, 0], %5: f32[0], %6: f32[0] = aten.native_layer_norm_backward(%0, %1, [0], %2, %3, None, None, [true, false, false])
    return %4
  })");
}

}  // namespace
}  // namespace braze::passes
