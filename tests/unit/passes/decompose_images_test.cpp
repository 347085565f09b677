// Operators over images that are decomposed on CPUs: batch norm in training, maxima of windows,
// depthwise convolutions' gradients.
#include <gtest/gtest.h>

#include "passes/decompose.h"
#include "passes/rewriting.h"

namespace braze::passes {
namespace {

std::string after(std::string_view text) { return rewritten(decompose, text); }

TEST(DecomposeImages, BatchNormInTraining) {
  EXPECT_EQ(after(R"(graph(%0: f32[2, 3, 4, 4], %1: f32[3], %2: f32[3]) {
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

}  // namespace
}  // namespace braze::passes
