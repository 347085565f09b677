// Operators over images that are decomposed: batch norm in training, maxima of windows, depthwise
// convolutions' gradients.
#include <gtest/gtest.h>

#include "passes/decompose.h"
#include "passes/rewriting.h"

namespace braze::passes {
namespace {

TEST(DecomposeImages, BatchNormInTraining) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[2, 3, 4, 4], %1: f32[3], %2: f32[3]) {
    %3: f32[2, 3, 4, 4], %4: f32[3], %5: f32[3], %6: f32[3], %7: f32[3] = aten._native_batch_norm_legit_functional(%0, None, None, %1, %2, true, 0.1, 1e-05)
    return %3, %6, %7
  })"),
            R"(graph(%0: f32[2, 3, 4, 4], %1: f32[3], %2: f32[3]) {
  %3: f32[1, 3, 1, 1], %4: f32[1, 3, 1, 1] = aten.var_mean.correction(%0, [0, 2, 3], 0, true)
  %5: f32[1, 3, 1, 1] = aten.add.Scalar(%3, 1e-05, 1)
  %6: f32[1, 3, 1, 1] = aten.rsqrt(%5)
  %7: f32[2, 3, 4, 4] = aten.sub.Tensor(%0, %4, 1)
  %8: f32[2, 3, 4, 4] = aten.mul.Tensor(%7, %6)
  %9: f32[3] #%4 = aten.view(%4, [3])
  %10: f32[3] #%6 = aten.view(%6, [3])
  %11: f32[1, 3, 1, 1] = aten.mul.Scalar(%3, 32.0)
  %12: f32[1, 3, 1, 1] = aten.div.Scalar(%11, 31.0)
  %13: f32[3] = aten.mul.Scalar(%1, 0.9)
  %14: f32[3] #%4 = aten.view(%4, [3])
  %15: f32[3] = aten.mul.Scalar(%14, 0.1)
  %16: f32[3] = aten.add.Tensor(%15, %13, 1)
  %17: f32[3] = aten.mul.Scalar(%2, 0.9)
  %18: f32[3] #%12 = aten.view(%12, [3])
  %19: f32[3] = aten.mul.Scalar(%18, 0.1)
  %20: f32[3] = aten.add.Tensor(%19, %17, 1)
  return %8, %16, %20
}
)");
}

TEST(DecomposeImages, BatchNormOfHalvesStays) {
  expect_unchanged_by(decompose, R"(graph(%0: bf16[2, 3, 4, 4], %1: f32[3], %2: f32[3]) {
    %3: bf16[2, 3, 4, 4], %4: f32[3], %5: f32[3], %6: f32[3], %7: f32[3] = aten._native_batch_norm_legit_functional(%0, None, None, %1, %2, true, 0.1, 1e-05)
    return %3
  })");
}

TEST(DecomposeImages, MaximaOfWindows) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[1, 3, 4, 6]) {
    %1: f32[1, 3, 4, 3], %2: i64[1, 3, 4, 3] = aten.max_pool2d_with_indices(%0, [1, 2], [1, 2])
    return %1, %2
  })"),
            R"(graph(%0: f32[1, 3, 4, 6]) {
  %1: f32[] = aten.full([], -inf, f32, None, None, None)
  %2: i64[3] = aten.arange.start_step(0, 6, 2, i64, None, None, None)
  %3: i64[3] = aten.clamp_min(%2, 0)
  %4: i64[4] = aten.arange.start_step(0, 24, 6, i64, None, None, None)
  %5: i64[4] = aten.clamp_min(%4, 0)
  %6: i64[4, 1] #%5 = aten.view(%5, [4, 1])
  %7: i64[4, 3] = aten.add.Tensor(%6, %3, 1)
  %8: f32[1, 3, 4, 6] #%0 = aten.slice.Tensor(%0, 2, 0, 4, 1)
  %9: i64[4] = aten.arange.start_step(0, 24, 6, i64, None, None, None)
  %10: f32[1, 3, 4, 3]{72, 24, 6, 2} #%0 = aten.slice.Tensor(%8, 3, 0, 5, 2)
  %11: bool[1, 3, 4, 3] = aten.gt.Tensor(%10, %1)
  %12: bool[1, 3, 4, 3] = aten.isnan(%10)
  %13: bool[1, 3, 4, 3] = aten.bitwise_or.Tensor(%11, %12)
  %14: f32[1, 3, 4, 3] = aten.where.self(%13, %10, %1)
  %15: i64[3] = aten.arange.start_step(0, 6, 2, i64, None, None, None)
  %16: i64[4, 1] #%9 = aten.view(%9, [4, 1])
  %17: i64[4, 3] = aten.add.Tensor(%16, %15, 1)
  %18: i64[1, 3, 4, 3] = aten.where.self(%13, %17, %7)
  %19: f32[1, 3, 4, 3]{72, 24, 6, 2}+1 #%0 = aten.slice.Tensor(%8, 3, 1, 6, 2)
  %20: bool[1, 3, 4, 3] = aten.gt.Tensor(%19, %14)
  %21: bool[1, 3, 4, 3] = aten.isnan(%19)
  %22: bool[1, 3, 4, 3] = aten.bitwise_or.Tensor(%20, %21)
  %23: f32[1, 3, 4, 3] = aten.where.self(%22, %19, %14)
  %24: i64[3] = aten.arange.start_step(1, 7, 2, i64, None, None, None)
  %25: i64[4, 1] #%9 = aten.view(%9, [4, 1])
  %26: i64[4, 3] = aten.add.Tensor(%25, %24, 1)
  %27: i64[1, 3, 4, 3] = aten.where.self(%22, %26, %18)
  return %23, %27
}
)");
}

TEST(DecomposeImages, MaximaAlone) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[1, 3, 4, 5]) {
    %1: f32[1, 3, 4, 3], %2: i64[1, 3, 4, 3] = aten.max_pool2d_with_indices(%0, [1, 2], [1, 2], [0, 1])
    return %1
  })"),
            R"(graph(%0: f32[1, 3, 4, 5]) {
  %1: f32[1, 3, 4, 6] = aten.constant_pad_nd(%0, [1, 0, 0, 0], -inf)
  %2: f32[] = aten.full([], -inf, f32, None, None, None)
  %3: f32[1, 3, 4, 6] #%1 = aten.slice.Tensor(%1, 2, 0, 4, 1)
  %4: f32[1, 3, 4, 3]{72, 24, 6, 2} #%1 = aten.slice.Tensor(%3, 3, 0, 5, 2)
  %5: bool[1, 3, 4, 3] = aten.gt.Tensor(%4, %2)
  %6: bool[1, 3, 4, 3] = aten.isnan(%4)
  %7: bool[1, 3, 4, 3] = aten.bitwise_or.Tensor(%5, %6)
  %8: f32[1, 3, 4, 3] = aten.where.self(%7, %4, %2)
  %9: f32[1, 3, 4, 3]{72, 24, 6, 2}+1 #%1 = aten.slice.Tensor(%3, 3, 1, 6, 2)
  %10: bool[1, 3, 4, 3] = aten.gt.Tensor(%9, %8)
  %11: bool[1, 3, 4, 3] = aten.isnan(%9)
  %12: bool[1, 3, 4, 3] = aten.bitwise_or.Tensor(%10, %11)
  %13: f32[1, 3, 4, 3] = aten.where.self(%12, %9, %8)
  return %13
}
)");
}

TEST(DecomposeImages, LargeWindowsStay) {
  expect_unchanged_by(decompose, R"(graph(%0: f32[1, 3, 8, 8]) {
    %1: f32[1, 3, 4, 4], %2: i64[1, 3, 4, 4] = aten.max_pool2d_with_indices(%0, [5, 5], [1, 1])
    return %1
  })");
}

TEST(DecomposeImages, MaximaOnAGpuAreReadAtClampedPlaces) {
  EXPECT_EQ(decomposed(R"(graph(%0: f16[1, 3, 5, 4]@cuda:0) {
    %1: f16[1, 3, 5, 3]@cuda:0, %2: i64[1, 3, 5, 3]@cuda:0 = aten.max_pool2d_with_indices(%0, [1, 2], [1, 2], [0, 1])
    return %1
  })"),
            R"(graph(%0: f16[1, 3, 5, 4]@cuda:0) {
  %1: f32[]@cuda:0 = aten.full([], -inf, f32, None, cuda:0, None)
  %2: i64[5]@cuda:0 = aten.arange.start_step(0, 5, 1, i64, None, cuda:0, None)
  %3: i64[5, 1]@cuda:0 #%2 = aten.view(%2, [5, 1])
  %4: i64[3]@cuda:0 = aten.arange.start_step(-1, 5, 2, i64, None, cuda:0, None)
  %5: i64[3]@cuda:0 = aten.clamp(%4, 0, 3)
  %6: f16[1, 3, 5, 3]@cuda:0 = aten.index.Tensor(%0, ?[None, None, %3, %5])
  %7: f32[1, 3, 5, 3]@cuda:0 = aten._to_copy(%6, f32, None, None, None, false, None)
  %8: bool[1, 3, 5, 3]@cuda:0 = aten.gt.Tensor(%7, %1)
  %9: bool[1, 3, 5, 3]@cuda:0 = aten.isnan(%7)
  %10: bool[1, 3, 5, 3]@cuda:0 = aten.bitwise_or.Tensor(%8, %9)
  %11: f32[1, 3, 5, 3]@cuda:0 = aten.where.self(%10, %7, %1)
  %12: i64[5]@cuda:0 = aten.arange.start_step(0, 5, 1, i64, None, cuda:0, None)
  %13: i64[5, 1]@cuda:0 #%12 = aten.view(%12, [5, 1])
  %14: i64[3]@cuda:0 = aten.arange.start_step(0, 6, 2, i64, None, cuda:0, None)
  %15: i64[3]@cuda:0 = aten.clamp(%14, 0, 3)
  %16: f16[1, 3, 5, 3]@cuda:0 = aten.index.Tensor(%0, ?[None, None, %13, %15])
  %17: f32[1, 3, 5, 3]@cuda:0 = aten._to_copy(%16, f32, None, None, None, false, None)
  %18: bool[1, 3, 5, 3]@cuda:0 = aten.gt.Tensor(%17, %11)
  %19: bool[1, 3, 5, 3]@cuda:0 = aten.isnan(%17)
  %20: bool[1, 3, 5, 3]@cuda:0 = aten.bitwise_or.Tensor(%18, %19)
  %21: f32[1, 3, 5, 3]@cuda:0 = aten.where.self(%20, %17, %11)
  %22: f16[1, 3, 5, 3]@cuda:0 = aten._to_copy(%21, f16, None, None, None, false, None)
  return %22
}
)");
}

TEST(DecomposeImages, MaximaOfWholeWindowsOnAGpuAreOfSlices) {
  const std::string text = decomposed(R"(graph(%0: f32[2, 3, 4, 6]@cuda:0) {
    %1: f32[2, 3, 2, 3]@cuda:0, %2: i64[2, 3, 2, 3]@cuda:0 = aten.max_pool2d_with_indices(%0, [2, 2])
    return %1, %2
  })");
  EXPECT_EQ(text.find("aten.index"), std::string::npos) << text;
  EXPECT_EQ(text.find("aten.constant_pad_nd"), std::string::npos) << text;
}

TEST(DecomposeImages, MaximaWithChannelsLastOnAGpuAreComputedSo) {
  const std::string text = decomposed(R"(graph(%0: f32[2, 3, 4, 6]{72, 1, 18, 3}@cuda:0) {
    %1: f32[2, 3, 2, 3]{18, 1, 9, 3}@cuda:0, %2: i64[2, 3, 2, 3]{18, 1, 9, 3}@cuda:0 = aten.max_pool2d_with_indices(%0, [3, 3], [2, 2], [1, 1])
    return %1, %2
  })");
  EXPECT_EQ(text.find("aten.clone"), std::string::npos) << text;
  EXPECT_NE(text.find("f32[2, 3, 2, 3]{18, 1, 9, 3}@cuda:0 #"), std::string::npos) << text;
}

TEST(DecomposeImages, VeryLargeWindowsOnAGpuStay) {
  expect_unchanged_by(decompose, R"(graph(%0: f32[1, 3, 8, 8]@cuda:0) {
    %1: f32[1, 3, 3, 3]@cuda:0, %2: i64[1, 3, 3, 3]@cuda:0 = aten.max_pool2d_with_indices(%0, [6, 6], [1, 1])
    return %1
  })");
}

TEST(DecomposeImages, GradientOfADepthwiseWeight) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[2, 3, 8, 8], %1: f32[2, 3, 8, 8], %2: f32[3, 1, 5, 5]) {
    %3: f32[2, 3, 8, 8], %4: f32[3, 1, 5, 5], %5: f32[3] = aten.convolution_backward(%0, %1, %2, [3], [1, 1], [2, 2], [1, 1], false, [0, 0], 3, [true, true, true])
    return %3, %4, %5
  })"),
            R"(graph(%0: f32[2, 3, 8, 8], %1: f32[2, 3, 8, 8], %2: f32[3, 1, 5, 5]) {
  %3: f32[3] = aten.sum.dim_IntList(%0, [0, 2, 3], false, None)
  %4: f32[2, 3, 8, 8], _, _ = aten.convolution_backward(%0, %1, %2, [3], [1, 1], [2, 2], [1, 1], false, [0, 0], 3, [true, false, false])
  %5: f32[2, 3, 12, 12] = aten.constant_pad_nd(%1, [2, 2, 2, 2], 0)
  %6: f32[2, 3, 8, 12, 5]{432, 144, 12, 1, 12} #%5 = aten.unfold(%5, 2, 5, 1)
  %7: f32[2, 3, 8, 8, 5, 5]{432, 144, 12, 1, 12, 1} #%5 = aten.unfold(%6, 3, 5, 1)
  %8: f32[2, 3, 8, 8, 1] #%0 = aten.unsqueeze(%0, -1)
  %9: f32[2, 3, 8, 8, 1, 1] #%0 = aten.unsqueeze(%8, -1)
  %10: f32[2, 3, 8, 8, 5, 5]{4800, 1600, 200, 5, 40, 1} = aten.mul.Tensor(%7, %9)
  %11: f32[3, 5, 5] = aten.sum.dim_IntList(%10, [0, 2, 3], false, None)
  %12: f32[3, 1, 5, 5] #%11 = aten.unsqueeze(%11, 1)
  return %4, %12, %3
}
)");
}

TEST(DecomposeImages, GradientOfAWeightOfPatchesIsAProduct) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[2, 4, 3, 2], %1: f32[2, 3, 12, 4], %2: f32[4, 3, 4, 2]) {
    %3: f32[2, 3, 12, 4], %4: f32[4, 3, 4, 2], %5: f32[4] = aten.convolution_backward(%0, %1, %2, [4], [4, 2], [0, 0], [1, 1], false, [0, 0], 1, [false, true, true])
    return %4, %5
  })"),
            R"(graph(%0: f32[2, 4, 3, 2], %1: f32[2, 3, 12, 4], %2: f32[4, 3, 4, 2]) {
  %3: f32[2, 3, 3, 4, 2, 2] #%1 = aten.view(%1, [2, 3, 3, 4, 2, 2])
  %4: f32[2, 3, 2, 3, 4, 2]{144, 16, 2, 48, 4, 1} #%1 = aten.permute(%3, [0, 2, 4, 1, 3, 5])
  %5: f32[2, 3, 2, 3, 4, 2] = aten.clone(%4, contiguous_format)
  %6: f32[12, 24] #%5 = aten.view(%5, [12, 24])
  %7: f32[2, 3, 2, 4]{24, 2, 1, 6} #%0 = aten.permute(%0, [0, 2, 3, 1])
  %8: f32[2, 3, 2, 4] = aten.clone(%7, contiguous_format)
  %9: f32[12, 4] #%8 = aten.view(%8, [12, 4])
  %10: f32[4, 12]{1, 4} #%8 = aten.permute(%9, [1, 0])
  %11: f32[4, 24] = aten.mm(%10, %6)
  %12: f32[4, 3, 4, 2] #%11 = aten.view(%11, [4, 3, 4, 2])
  %13: f32[4] = aten.sum.dim_IntList(%0, [0, 2, 3], false, None)
  return %12, %13
}
)");
}

TEST(DecomposeImages, GradientsOfOtherConvolutionsStay) {
  // Overlapping windows, images that are not covered, a border, an image's gradient.
  for (const auto& [sizes, of_dy, stride, padding, wanted] :
       std::vector<std::array<std::string, 5>>{
           {"2, 3, 9, 9", "2, 4, 4, 4", "2, 2", "0, 0", "false"},
           {"2, 3, 10, 9", "2, 4, 3, 3", "3, 3", "0, 0", "false"},
           {"2, 3, 7, 7", "2, 4, 3, 3", "3, 3", "1, 1", "false"},
           {"2, 3, 9, 9", "2, 4, 3, 3", "3, 3", "0, 0", "true"}})
    expect_unchanged_by(decompose, "graph(%0: f32[" + of_dy + "], %1: f32[" + sizes +
                                       "], %2: f32[4, 3, 3, 3]) {\n    %3: f32[" + sizes +
                                       "], %4: f32[4, 3, 3, 3], %5: f32[4] = "
                                       "aten.convolution_backward(%0, %1, %2, [4], [" +
                                       stride + "], [" + padding +
                                       "], [1, 1], false, [0, 0], 1, [" + wanted +
                                       ", true, true])\n    return %3, %4, %5\n  }");
  expect_unchanged_by(decompose,
                      R"(graph(%0: f32[2, 3, 8, 8], %1: f32[2, 3, 8, 8], %2: f32[3, 1, 3, 3]) {
    %3: f32[2, 3, 8, 8], %4: f32[3, 1, 3, 3], %5: f32[3] = aten.convolution_backward(%0, %1, %2, [3], [1, 1], [1, 1], [1, 1], false, [0, 0], 3, [true, true, true])
    return %4
  })");
  expect_unchanged_by(decompose,
                      R"(graph(%0: f32[2, 3, 8, 8], %1: f32[2, 3, 8, 8], %2: f32[3, 3, 5, 5]) {
    %3: f32[2, 3, 8, 8], %4: f32[3, 3, 5, 5], %5: f32[3] = aten.convolution_backward(%0, %1, %2, [3], [1, 1], [2, 2], [1, 1], false, [0, 0], 1, [true, true, true])
    return %4
  })");
}

TEST(DecomposeImages, BiasOnAGpuIsAddedByWhatReadsTheConvolution) {
  EXPECT_EQ(
      decomposed(
          R"(graph(%0: f16[2, 3, 8, 8]{192, 1, 24, 3}@cuda:0, %1: f16[4, 3, 3, 3]{27, 1, 9, 3}@cuda:0, %2: f16[4]@cuda:0) {
    %3: f16[2, 4, 8, 8]{256, 1, 32, 4}@cuda:0 = aten.convolution(%0, %1, %2, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
    %4: f16[2, 4, 8, 8]{256, 1, 32, 4}@cuda:0 = aten.relu(%3)
    return %4
  })"),
      R"(graph(%0: f16[2, 3, 8, 8]{192, 1, 24, 3}@cuda:0, %1: f16[4, 3, 3, 3]{27, 1, 9, 3}@cuda:0, %2: f16[4]@cuda:0) {
  %3: f16[2, 4, 8, 8]{256, 1, 32, 4}@cuda:0 = aten.convolution(%0, %1, None, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %4: f16[1, 4, 1, 1]@cuda:0 #%2 = aten.view(%2, [1, 4, 1, 1])
  %5: f16[2, 4, 8, 8]{256, 1, 32, 4}@cuda:0 = aten.add.Tensor(%3, %4, 1)
  %6: f16[2, 4, 8, 8]{256, 1, 32, 4}@cuda:0 = aten.relu(%5)
  return %6
}
)");
}

TEST(DecomposeImages, BiasOfATransposedConvolutionInThreeDimensions) {
  EXPECT_EQ(
      decomposed(
          R"(graph(%0: f32[2, 4, 3, 3, 3]@cuda:0, %1: f32[4, 3, 2, 2, 2]@cuda:0, %2: f32[6]@cuda:0) {
    %3: f32[2, 6, 6, 6, 6]@cuda:0 = aten.convolution(%0, %1, %2, [2, 2, 2], [0, 0, 0], [1, 1, 1], true, [0, 0, 0], 2)
    %4: f32[2, 6, 6, 6, 6]@cuda:0 = aten.relu(%3)
    return %4
  })"),
      R"(graph(%0: f32[2, 4, 3, 3, 3]@cuda:0, %1: f32[4, 3, 2, 2, 2]@cuda:0, %2: f32[6]@cuda:0) {
  %3: f32[2, 6, 6, 6, 6]@cuda:0 = aten.convolution(%0, %1, None, [2, 2, 2], [0, 0, 0], [1, 1, 1], true, [0, 0, 0], 2)
  %4: f32[1, 6, 1, 1, 1]@cuda:0 #%2 = aten.view(%2, [1, 6, 1, 1, 1])
  %5: f32[2, 6, 6, 6, 6]@cuda:0 = aten.add.Tensor(%3, %4, 1)
  %6: f32[2, 6, 6, 6, 6]@cuda:0 = aten.relu(%5)
  return %6
}
)");
}

TEST(DecomposeImages, BiasOfABatchThatVaries) {
  EXPECT_EQ(
      decomposed(
          R"(graph(s0 = size(%0, 0) hint 4, %0: bf16[s0, 3, 8]@cuda:0, %1: bf16[4, 3, 3]@cuda:0, %2: bf16[4]@cuda:0) {
    %3: bf16[s0, 4, 6]@cuda:0 = aten.convolution(%0, %1, %2, [1], [0], [1], false, [0], 1)
    %4: bf16[s0, 4, 6]@cuda:0 = aten.relu(%3)
    return %4
  })"),
      R"(graph(s0 = size(%0, 0) hint 4, %0: bf16[s0, 3, 8]@cuda:0, %1: bf16[4, 3, 3]@cuda:0, %2: bf16[4]@cuda:0) {
  %3: bf16[s0, 4, 6]@cuda:0 = aten.convolution(%0, %1, None, [1], [0], [1], false, [0], 1)
  %4: bf16[1, 4, 1]@cuda:0 #%2 = aten.view(%2, [1, 4, 1])
  %5: bf16[s0, 4, 6]@cuda:0 = aten.add.Tensor(%3, %4, 1)
  %6: bf16[s0, 4, 6]@cuda:0 = aten.relu(%5)
  return %6
}
)");
}

TEST(DecomposeImages, BiasStaysWithItsConvolution) {
  // On a CPU, of doubles, where PyTorch's kernel of depthwise convolutions adds it, and where only
  // another operator of PyTorch's reads the result.
  for (const std::string_view text :
       {R"(graph(%0: f32[2, 3, 8, 8], %1: f32[4, 3, 3, 3], %2: f32[4]) {
    %3: f32[2, 4, 6, 6] = aten.convolution(%0, %1, %2, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
    %4: f32[2, 4, 6, 6] = aten.relu(%3)
    return %4
  })",
        R"(graph(%0: f64[2, 3, 8, 8]@cuda:0, %1: f64[4, 3, 3, 3]@cuda:0, %2: f64[4]@cuda:0) {
    %3: f64[2, 4, 6, 6]@cuda:0 = aten.convolution(%0, %1, %2, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
    %4: f64[2, 4, 6, 6]@cuda:0 = aten.relu(%3)
    return %4
  })",
        R"(graph(%0: f32[2, 4, 8, 8]@cuda:0, %1: f32[4, 1, 3, 3]@cuda:0, %2: f32[4]@cuda:0) {
    %3: f32[2, 4, 6, 6]@cuda:0 = aten.convolution(%0, %1, %2, [1, 1], [0, 0], [1, 1], false, [0, 0], 4)
    %4: f32[2, 4, 6, 6]@cuda:0 = aten.relu(%3)
    return %4
  })",
        R"(graph(%0: f32[2, 4, 8, 8]@cuda:0, %1: f32[4, 4, 1, 1]@cuda:0, %2: f32[4]@cuda:0) {
    %3: f32[2, 4, 8, 8]@cuda:0 = aten.convolution(%0, %1, %2, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
    %4: f32[2, 4, 8, 8]@cuda:0 = aten.convolution(%3, %1, None, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
    return %4
  })"})
    expect_unchanged_by(decompose, text);
}

TEST(DecomposeImages, GradientOfABiasOnAGpuIsASum) {
  EXPECT_EQ(
      decomposed(
          R"(graph(%0: f16[2, 4, 8, 8]@cuda:0, %1: f16[2, 3, 8, 8]@cuda:0, %2: f16[4, 3, 3, 3]@cuda:0) {
    %3: f16[2, 3, 8, 8]@cuda:0, %4: f16[4, 3, 3, 3]@cuda:0, %5: f16[4]@cuda:0 = aten.convolution_backward(%0, %1, %2, [4], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [true, true, true])
    return %3, %4, %5
  })"),
      R"(graph(%0: f16[2, 4, 8, 8]@cuda:0, %1: f16[2, 3, 8, 8]@cuda:0, %2: f16[4, 3, 3, 3]@cuda:0) {
  %3: f16[2, 3, 8, 8]@cuda:0, %4: f16[4, 3, 3, 3]@cuda:0, _ = aten.convolution_backward(%0, %1, %2, [4], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [true, true, false])
  %5: f16[4]@cuda:0 = aten.sum.dim_IntList(%0, [0, 2, 3], false, None)
  return %3, %4, %5
}
)");
}

TEST(DecomposeImages, GradientOfABiasAloneNeedsNoConvolution) {
  EXPECT_EQ(
      decomposed(
          R"(graph(%0: f32[2, 4, 8]@cuda:0, %1: f32[2, 3, 8]@cuda:0, %2: f32[4, 3, 1]@cuda:0) {
    _, _, %3: f32[4]@cuda:0 = aten.convolution_backward(%0, %1, %2, [4], [1], [0], [1], false, [0], 1, [false, false, true])
    return %3
  })"),
      R"(graph(%0: f32[2, 4, 8]@cuda:0, %1: f32[2, 3, 8]@cuda:0, %2: f32[4, 3, 1]@cuda:0) {
  %3: f32[4]@cuda:0 = aten.sum.dim_IntList(%0, [0, 2], false, None)
  return %3
}
)");
}

TEST(DecomposeImages, GradientsOfADepthwiseConvolutionOnAGpu) {
  // Of the weight alone: the gradient of the input is not wanted.
  EXPECT_EQ(
      decomposed(
          R"(graph(%0: f32[2, 4, 8, 8]@cuda:0, %1: f32[2, 4, 8, 8]@cuda:0, %2: f32[4, 1, 5, 5]@cuda:0) {
    _, %3: f32[4, 1, 5, 5]@cuda:0, %4: f32[4]@cuda:0 = aten.convolution_backward(%0, %1, %2, [4], [1, 1], [2, 2], [1, 1], false, [0, 0], 4, [false, true, true])
    return %3, %4
  })"),
      R"(graph(%0: f32[2, 4, 8, 8]@cuda:0, %1: f32[2, 4, 8, 8]@cuda:0, %2: f32[4, 1, 5, 5]@cuda:0) {
  _, %3: f32[4, 1, 5, 5]@cuda:0, _ = aten.convolution_backward(%0, %1, %2, [4], [1, 1], [2, 2], [1, 1], false, [0, 0], 4, [false, true, false])
  %4: f32[4]@cuda:0 = aten.sum.dim_IntList(%0, [0, 2, 3], false, None)
  return %3, %4
}
)");
}

}  // namespace
}  // namespace braze::passes
