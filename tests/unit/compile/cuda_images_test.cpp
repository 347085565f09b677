// What operators over images become on a GPU.
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/cuda_modules.h"

namespace braze::compile {
namespace {

size_t kernels_of(const Compiled& compiled) {
  return steps<plan::KernelStep>(compiled.function()).size();
}

TEST(CompileImagesForGpu, ABiasIsAddedWhereTheConvolutionIsRead) {
  const std::string image = "f16[8, 64, 56, 56]@cuda:0", weight = "f16[64, 64, 3, 3]@cuda:0";
  const Compiled compiled = compile_for_gpu(
      "graph(%0 x: " + image + ", %1 w: " + weight + ", %2 b: f16[64]@cuda:0) {\n  %3: " + image +
      " = aten.convolution(%0, %1, %2, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)\n  %4: " + image +
      " = aten.relu(%3)\n  return %4\n}\n");
  EXPECT_EQ(compiled.unsupported, "");
  EXPECT_EQ(kernels_of(compiled), 1u);
  const auto externs = steps<plan::ExternStep>(compiled.function());
  ASSERT_EQ(externs.size(), 1u);
  EXPECT_EQ(externs[0]->op, "aten.convolution");
  const plan::KernelStep* kernel = steps<plan::KernelStep>(compiled.function())[0];
  EXPECT_EQ(kernel->args.size(), 3u);  // the convolution, the bias, the result
}

TEST(CompileImagesForGpu, TheSumOfABiasGradientIsAKernel) {
  const std::string image = "f16[8, 64, 56, 56]@cuda:0", weight = "f16[64, 64, 3, 3]@cuda:0";
  const Compiled compiled = compile_for_gpu(
      "graph(%0 dy: " + image + ", %1 x: " + image + ", %2 w: " + weight + ") {\n  %3: " + image +
      ", %4: " + weight +
      ", %5: f16[64]@cuda:0 = aten.convolution_backward(%0, %1, %2, [64], [1, 1], [1, 1], [1, 1], "
      "false, [0, 0], 1, [true, true, true])\n  return %3, %4, %5\n}\n");
  EXPECT_EQ(compiled.unsupported, "");
  EXPECT_EQ(steps<plan::ExternStep>(compiled.function()).size(), 1u);
  EXPECT_GE(kernels_of(compiled), 1u);
  EXPECT_LE(kernels_of(compiled), 2u);  // parts of sums, sums of parts
}

TEST(CompileImagesForGpu, RearrangedImagesAreOneKernel) {
  const std::string rows = "f16[8, 64, 28, 28]@cuda:0";
  const std::string last = "f16[8, 64, 28, 28]{50176, 1, 1792, 64}@cuda:0";
  for (const std::string& image : {rows, last}) {
    for (const std::string& call : {
             "f16[8, 16, 56, 56]@cuda:0 = aten.pixel_shuffle(%0, 2)",
             "f16[8, 256, 14, 14]@cuda:0 = aten.pixel_unshuffle(%0, 2)",
             "f16[8, 64, 28, 28]@cuda:0 = aten.channel_shuffle(%0, 4)",
             "f16[8, 576, 784]@cuda:0 = aten.im2col(%0, [3, 3], [1, 1], [1, 1], [1, 1])",
             "f16[8, 256, 196]@cuda:0 = aten.im2col(%0, [2, 2], [1, 1], [0, 0], [2, 2])",
         }) {
      const Compiled compiled =
          compile_for_gpu("graph(%0 x: " + image + ") {\n  %1: " + call + "\n  return %1\n}\n");
      EXPECT_EQ(kernels_of(compiled), 1u) << image << " " << call;
      EXPECT_TRUE(steps<plan::ExternStep>(compiled.function()).empty()) << image << " " << call;
    }
  }
}

TEST(CompileImagesForGpu, SumsOfColumnsAreOneKernel) {
  for (const std::string& text : {
           "graph(%0 x: f16[8, 576, 784]@cuda:0) {\n  %1: f16[8, 64, 28, 28]@cuda:0 = "
           "aten.col2im(%0, [28, 28], [3, 3], [1, 1], [1, 1], [1, 1])\n  return %1\n}\n",
           "graph(%0 x: f32[8, 576, 196]@cuda:0) {\n  %1: f32[8, 64, 28, 28]@cuda:0 = "
           "aten.col2im(%0, [28, 28], [3, 3], [1, 1], [1, 1], [2, 2])\n  return %1\n}\n",
       }) {
    const Compiled compiled = compile_for_gpu(text);
    EXPECT_EQ(kernels_of(compiled), 1u) << text;
    EXPECT_TRUE(steps<plan::ExternStep>(compiled.function()).empty()) << text;
  }
}

// The sums over each channel's pixels, those of groups, the gradient of the input; and the sums
// over the batch.
TEST(CompileImagesForGpu, GradientsOfAGroupNormReadTheImageTwice) {
  const std::string rows = "f16[32, 256, 56, 56]@cuda:0";
  const std::string last = "f16[32, 256, 56, 56]{802816, 1, 14336, 256}@cuda:0";
  for (const std::string& image : {rows, last}) {
    const Compiled compiled = compile_for_gpu(
        "graph(%0 dy: " + image + ", %1 x: " + image +
        ", %2 mean: f16[32, 32]@cuda:0, %3 rstd: f16[32, 32]@cuda:0, %4 w: f16[256]@cuda:0) {\n"
        "  %5: " +
        image +
        ", %6: f16[256]@cuda:0, %7: f16[256]@cuda:0 = "
        "aten.native_group_norm_backward(%0, %1, %2, %3, %4, 32, 256, 3136, 32, "
        "[true, true, true])\n  return %5, %6, %7\n}\n");
    EXPECT_TRUE(steps<plan::ExternStep>(compiled.function()).empty());
    int readers = 0;
    for (const plan::KernelStep* step : steps<plan::KernelStep>(compiled.function()))
      readers += std::ranges::find(step->args, 1) != step->args.end();
    EXPECT_EQ(readers, 2) << image;
    EXPECT_LE(kernels_of(compiled), 5u) << image;
  }
}

}  // namespace
}  // namespace braze::compile
