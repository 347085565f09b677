#include "passes/decompose.h"
#include "passes/rewriting.h"

namespace braze::passes {
namespace {

// dy * (cdf + x * pdf).
TEST(DecomposeBackward, Gelu) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[8], %1: f32[8]) {
    %2: f32[8] = aten.gelu_backward(%0, %1, "none")
    return %2
  })"),
            R"(graph(%0: f32[8], %1: f32[8]) {
  %2: f32[8] = aten.mul.Scalar(%1, 0.7071067811865476)
  %3: f32[8] = aten.erf(%2)
  %4: f32[8] = aten.add.Scalar(%3, 1.0, 1)
  %5: f32[8] = aten.mul.Scalar(%4, 0.5)
  %6: f32[8] = aten.mul.Tensor(%1, %1)
  %7: f32[8] = aten.mul.Scalar(%6, -0.5)
  %8: f32[8] = aten.exp(%7)
  %9: f32[8] = aten.mul.Scalar(%8, 0.3989422804014327)
  %10: f32[8] = aten.mul.Tensor(%1, %9)
  %11: f32[8] = aten.add.Tensor(%5, %10, 1)
  %12: f32[8] = aten.mul.Tensor(%0, %11)
  return %12
}
)");
}

TEST(DecomposeBackward, GeluByTanh) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[8], %1: f32[8]) {
    %2: f32[8] = aten.gelu_backward(%0, %1, "tanh")
    return %2
  })"),
            R"(graph(%0: f32[8], %1: f32[8]) {
  %2: f32[8] = aten.mul.Tensor(%1, %1)
  %3: f32[8] = aten.mul.Tensor(%2, %1)
  %4: f32[8] = aten.mul.Scalar(%3, 0.044715)
  %5: f32[8] = aten.add.Tensor(%1, %4, 1)
  %6: f32[8] = aten.mul.Scalar(%5, 0.7978845608028654)
  %7: f32[8] = aten.tanh(%6)
  %8: f32[8] = aten.add.Scalar(%7, 1.0, 1)
  %9: f32[8] = aten.mul.Scalar(%8, 0.5)
  %10: f32[8] = aten.mul.Scalar(%2, 0.13414499163627625)
  %11: f32[8] = aten.add.Scalar(%10, 1.0, 1)
  %12: f32[8] = aten.mul.Scalar(%11, 0.7978845608028654)
  %13: f32[8] = aten.mul.Tensor(%7, %7)
  %14: f32[8] = aten.neg(%13)
  %15: f32[8] = aten.add.Scalar(%14, 1.0, 1)
  %16: f32[8] = aten.mul.Scalar(%1, 0.5)
  %17: f32[8] = aten.mul.Tensor(%16, %15)
  %18: f32[8] = aten.mul.Tensor(%17, %12)
  %19: f32[8] = aten.add.Tensor(%9, %18, 1)
  %20: f32[8] = aten.mul.Tensor(%0, %19)
  return %20
}
)");
}

TEST(DecomposeBackward, Silu) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[8], %1: f32[8]) {
    %2: f32[8] = aten.silu_backward(%0, %1)
    return %2
  })"),
            R"(graph(%0: f32[8], %1: f32[8]) {
  %2: f32[8] = aten.neg(%1)
  %3: f32[8] = aten.exp(%2)
  %4: f32[8] = aten.add.Scalar(%3, 1.0, 1)
  %5: f32[8] = aten.reciprocal(%4)
  %6: f32[8] = aten.neg(%5)
  %7: f32[8] = aten.add.Scalar(%6, 1.0, 1)
  %8: f32[8] = aten.mul.Tensor(%1, %7)
  %9: f32[8] = aten.add.Scalar(%8, 1.0, 1)
  %10: f32[8] = aten.mul.Tensor(%0, %5)
  %11: f32[8] = aten.mul.Tensor(%10, %9)
  return %11
}
)");
}

// Computed in f32 and rounded once.
TEST(DecomposeBackward, SiluOfHalves) {
  EXPECT_EQ(decomposed(R"(graph(%0: f16[8], %1: f16[8]) {
    %2: f16[8] = aten.silu_backward(%0, %1)
    return %2
  })"),
            R"(graph(%0: f16[8], %1: f16[8]) {
  %2: f32[8] = aten._to_copy(%1, f32, None, None, None, false, None)
  %3: f32[8] = aten._to_copy(%0, f32, None, None, None, false, None)
  %4: f32[8] = aten.neg(%2)
  %5: f32[8] = aten.exp(%4)
  %6: f32[8] = aten.add.Scalar(%5, 1.0, 1)
  %7: f32[8] = aten.reciprocal(%6)
  %8: f32[8] = aten.neg(%7)
  %9: f32[8] = aten.add.Scalar(%8, 1.0, 1)
  %10: f32[8] = aten.mul.Tensor(%2, %9)
  %11: f32[8] = aten.add.Scalar(%10, 1.0, 1)
  %12: f32[8] = aten.mul.Tensor(%3, %7)
  %13: f32[8] = aten.mul.Tensor(%12, %11)
  %14: f16[8] = aten._to_copy(%13, f16, None, None, None, false, None)
  return %14
}
)");
}

TEST(DecomposeBackward, Tanh) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[8], %1: f32[8]) {
    %2: f32[8] = aten.tanh_backward(%0, %1)
    return %2
  })"),
            R"(graph(%0: f32[8], %1: f32[8]) {
  %2: f32[8] = aten.add.Scalar(%1, 1.0, 1)
  %3: f32[8] = aten.neg(%1)
  %4: f32[8] = aten.add.Scalar(%3, 1.0, 1)
  %5: f32[8] = aten.mul.Tensor(%4, %2)
  %6: f32[8] = aten.mul.Tensor(%0, %5)
  return %6
}
)");
}

TEST(DecomposeBackward, LeakyRelu) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[8], %1: f32[8]) {
    %2: f32[8] = aten.leaky_relu_backward(%0, %1, 0.1, false)
    return %2
  })"),
            R"(graph(%0: f32[8], %1: f32[8]) {
  %2: f32[8] = aten.mul.Scalar(%0, 0.1)
  %3: bool[8] = aten.gt.Scalar(%1, 0.0)
  %4: f32[8] = aten.where.self(%3, %0, %2)
  return %4
}
)");
}

// Zero outside of the bounds and on them.
TEST(DecomposeBackward, Hardtanh) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[8], %1: f32[8]) {
    %2: f32[8] = aten.hardtanh_backward(%0, %1, -1.0, 2.0)
    return %2
  })"),
            R"(graph(%0: f32[8], %1: f32[8]) {
  %2: bool[8] = aten.gt.Scalar(%1, -1.0)
  %3: bool[8] = aten.lt.Scalar(%1, 2.0)
  %4: bool[8] = aten.logical_and(%2, %3)
  %5: f32[] = aten.full([], 0.0, f32, None, None, None)
  %6: f32[8] = aten.where.self(%4, %0, %5)
  return %6
}
)");
}

TEST(DecomposeBackward, EluOfItsArgument) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[8], %1: f32[8]) {
    %2: f32[8] = aten.elu_backward(%0, 1.5, 1.0, 2.0, false, %1)
    return %2
  })"),
            R"(graph(%0: f32[8], %1: f32[8]) {
  %2: f32[8] = aten.mul.Scalar(%0, 2.0)
  %3: f32[8] = aten.mul.Scalar(%1, 2.0)
  %4: f32[8] = aten.exp(%3)
  %5: f32[8] = aten.mul.Scalar(%2, 1.5)
  %6: f32[8] = aten.mul.Tensor(%5, %4)
  %7: f32[8] = aten.mul.Scalar(%0, 1.0)
  %8: bool[8] = aten.gt.Scalar(%1, 0.0)
  %9: f32[8] = aten.where.self(%8, %7, %6)
  return %9
}
)");
}

// The slope of the curve follows from its result.
TEST(DecomposeBackward, EluOfItsResult) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[8], %1: f32[8]) {
    %2: f32[8] = aten.elu_backward(%0, 1.5, 1.0, 2.0, true, %1)
    return %2
  })"),
            R"(graph(%0: f32[8], %1: f32[8]) {
  %2: f32[8] = aten.mul.Scalar(%0, 2.0)
  %3: f32[8] = aten.add.Scalar(%1, 1.5, 1)
  %4: f32[8] = aten.mul.Tensor(%2, %3)
  %5: f32[8] = aten.mul.Scalar(%0, 1.0)
  %6: bool[8] = aten.gt.Scalar(%1, 0.0)
  %7: f32[8] = aten.where.self(%6, %5, %4)
  return %7
}
)");
}

TEST(DecomposeBackward, Sigmoid) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[8], %1: f32[8]) {
    %2: f32[8] = aten.sigmoid_backward(%0, %1)
    return %2
  })"),
            R"(graph(%0: f32[8], %1: f32[8]) {
  %2: f32[8] = aten.neg(%1)
  %3: f32[8] = aten.add.Scalar(%2, 1.0, 1)
  %4: f32[8] = aten.mul.Tensor(%0, %3)
  %5: f32[8] = aten.mul.Tensor(%4, %1)
  return %5
}
)");
}

// Eager rounds it at each step, but bf16 only in the end.
TEST(DecomposeBackward, SigmoidOfFloat16) {
  EXPECT_EQ(decomposed(R"(graph(%0: f16[8], %1: f16[8]) {
    %2: f16[8] = aten.sigmoid_backward(%0, %1)
    return %2
  })"),
            R"(graph(%0: f16[8], %1: f16[8]) {
  %2: f16[8] = aten.neg(%1)
  %3: f16[8] = aten.add.Scalar(%2, 1.0, 1)
  %4: f16[8] = aten.mul.Tensor(%0, %3)
  %5: f16[8] = aten.mul.Tensor(%4, %1)
  return %5
}
)");
}

TEST(DecomposeBackward, SigmoidOfBFloat16) {
  EXPECT_EQ(decomposed(R"(graph(%0: bf16[8], %1: bf16[8]) {
    %2: bf16[8] = aten.sigmoid_backward(%0, %1)
    return %2
  })"),
            R"(graph(%0: bf16[8], %1: bf16[8]) {
  %2: f32[8] = aten._to_copy(%1, f32, None, None, None, false, None)
  %3: f32[8] = aten._to_copy(%0, f32, None, None, None, false, None)
  %4: f32[8] = aten.neg(%2)
  %5: f32[8] = aten.add.Scalar(%4, 1.0, 1)
  %6: f32[8] = aten.mul.Tensor(%3, %5)
  %7: f32[8] = aten.mul.Tensor(%6, %2)
  %8: bf16[8] = aten._to_copy(%7, bf16, None, None, None, false, None)
  return %8
}
)");
}

TEST(DecomposeBackward, Threshold) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[8], %1: f32[8]) {
    %2: f32[8] = aten.threshold_backward(%0, %1, 0)
    return %2
  })"),
            R"(graph(%0: f32[8], %1: f32[8]) {
  %2: f32[] = aten.full([], 0.0, f32, None, None, None)
  %3: bool[8] = aten.le.Scalar(%1, 0)
  %4: f32[8] = aten.where.self(%3, %2, %0)
  return %4
}
)");
}

TEST(DecomposeBackward, ThresholdOfIntegers) {
  EXPECT_EQ(decomposed(R"(graph(%0: i64[8], %1: i64[8]) {
    %2: i64[8] = aten.threshold_backward(%0, %1, 2)
    return %2
  })"),
            R"(graph(%0: i64[8], %1: i64[8]) {
  %2: i64[] = aten.full([], 0, i64, None, None, None)
  %3: bool[8] = aten.le.Scalar(%1, 2)
  %4: i64[8] = aten.where.self(%3, %2, %0)
  return %4
}
)");
}

TEST(DecomposeBackward, Dropout) {
  EXPECT_EQ(decomposed(R"(graph(%0: f32[8], %1: bool[8]) {
    %2: f32[8] = aten.native_dropout_backward(%0, %1, 2.0)
    return %2
  })"),
            R"(graph(%0: f32[8], %1: bool[8]) {
  %2: f32[8] = aten._to_copy(%1, f32, None, None, None, false, None)
  %3: f32[8] = aten.mul.Tensor(%0, %2)
  %4: f32[8] = aten.mul.Scalar(%3, 2.0)
  return %4
}
)");
}

TEST(DecomposeBackward, DropoutOfHalves) {
  EXPECT_EQ(decomposed(R"(graph(%0: bf16[8], %1: bool[8]) {
    %2: bf16[8] = aten.native_dropout_backward(%0, %1, 2.0)
    return %2
  })"),
            R"(graph(%0: bf16[8], %1: bool[8]) {
  %2: f32[8] = aten._to_copy(%1, f32, None, None, None, false, None)
  %3: f32[8] = aten._to_copy(%0, f32, None, None, None, false, None)
  %4: f32[8] = aten.mul.Tensor(%3, %2)
  %5: f32[8] = aten.mul.Scalar(%4, 2.0)
  %6: bf16[8] = aten._to_copy(%5, bf16, None, None, None, false, None)
  return %6
}
)");
}

// Operands that promote or broadcast.
TEST(DecomposeBackward, OtherDtypesAndSizesAreEagers) {
  expect_unchanged_by(decompose, R"(graph(%0: f32[8], %1: bf16[8]) {
    %2: f32[8] = aten.silu_backward(%0, %1)
    return %2
  })");
  expect_unchanged_by(decompose, R"(graph(%0: f32[8], %1: f32[2, 8]) {
    %2: f32[2, 8] = aten.tanh_backward(%0, %1)
    return %2
  })");
  expect_unchanged_by(decompose, R"(graph(%0: f32[8], %1: f32[8]) {
    %2: f32[8] = aten.native_dropout_backward(%0, %1, 2.0)
    return %2
  })");
}

TEST(DecomposeBackward, IntegersAgainstAFractionAreEagers) {
  expect_unchanged_by(decompose, R"(graph(%0: i64[8], %1: i64[8]) {
    %2: i64[8] = aten.threshold_backward(%0, %1, 0.5)
    return %2
  })");
}

}  // namespace
}  // namespace braze::passes
