// What operators over images become on a GPU.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace braze::compile
