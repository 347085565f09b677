#include "passes/few_rows.h"

#include "passes/rewriting.h"

namespace braze::passes {
namespace {

// The loss's decomposition takes these for the elements that it picks.
TEST(FewRows, LogarithmsOfClassesAreDifferencesToTwoNumbersOfEachRow) {
  EXPECT_EQ(rewritten(touch_few_rows, R"(graph(%0: f32[4, 8], %1: i64[4]) {
    %2: f32[4, 8] = aten._log_softmax(%0, 1, false)
    %3: f32[4], %4: f32[] = aten.nll_loss_forward(%2, %1, None, 0, -100)
    return %3, %2
  })"),
            R"(graph(%0: f32[4, 8], %1: i64[4]) {
  %2: f32[4, 1] = aten.amax(%0, [1], true)
  %3: f32[4, 8] = aten.sub.Tensor(%0, %2, 1)
  %4: f32[4, 8] = aten.exp(%3)
  %5: f32[4, 1] = aten.sum.dim_IntList(%4, [1], true, None)
  %6: f32[4, 1] = aten.log(%5)
  %7: f32[4, 8] = aten.sub.Tensor(%3, %6, 1)
  %8: f32[4], %9: f32[] = aten.nll_loss_forward(%7, %1, None, 0, -100)
  return %8, %7
}
)");
}

TEST(FewRows, LogarithmsThatNoneArePickedFromStay) {
  expect_unchanged_by(touch_few_rows, R"(graph(%0: f32[4, 8]) {
    %1: f32[4, 8] = aten._log_softmax(%0, 1, false)
    return %1
  })");
  expect_unchanged_by(touch_few_rows, R"(graph(%0: bf16[4, 8], %1: i64[4]) {
    %2: bf16[4, 8] = aten._log_softmax(%0, 1, false)
    %3: bf16[], %4: bf16[] = aten.nll_loss_forward(%2, %1, None, 1, -100)
    return %3
  })");
}

// The rows are added to what they would be added to, here with -1 to be skipped.
TEST(FewRows, GradientsOfATableAreAddedToOthers) {
  EXPECT_EQ(rewritten(touch_few_rows, R"(graph(%0: f32[9, 4], %1: f32[2, 3, 4], %2: i64[2, 3]) {
    %3: f32[9, 4] = aten.embedding_dense_backward(%1, %2, 9, -1, false)
    %4: f32[9, 4] = aten.add.Tensor(%0, %3, 1)
    return %4
  })"),
            R"(graph(%0: f32[9, 4], %1: f32[2, 3, 4], %2: i64[2, 3]) {
  %3: f32[9, 4] = aten.embedding_dense_backward(%1, %2, 9, -1, false)
  %4: i64[6] #%2 = aten.view(%2, [6])
  %5: i64[6] = aten.clamp(%4, 0, 8)
  %6: bool[6] = aten.eq.Tensor(%4, %5)
  %7: bool[6] = aten.ne.Scalar(%4, -1)
  %8: bool[6] = aten.logical_and(%6, %7)
  %9: f32[] = aten.full([], -0.0, f32, None, None, None)
  %10: f32[6, 4] #%1 = aten.view(%1, [6, 4])
  %11: bool[6, 1] #%8 = aten.unsqueeze(%8, 1)
  %12: f32[6, 4] = aten.where.self(%11, %10, %9)
  %13: f32[9, 4] = aten.index_add(%0, 0, %5, %12, 1)
  return %13
}
)");
}

// A table's gradient that something else reads, and one whose rows are divided by their number.
TEST(FewRows, GradientsOfATableThatStandAlone) {
  expect_unchanged_by(touch_few_rows, R"(graph(%0: f32[9, 4], %1: f32[2, 4], %2: i64[2]) {
    %3: f32[9, 4] = aten.embedding_dense_backward(%1, %2, 9, -1, false)
    %4: f32[9, 4] = aten.add.Tensor(%0, %3, 1)
    return %4, %3
  })");
  expect_unchanged_by(touch_few_rows, R"(graph(%0: f32[9, 4], %1: f32[2, 4], %2: i64[2]) {
    %3: f32[9, 4] = aten.embedding_dense_backward(%1, %2, 9, -1, true)
    %4: f32[9, 4] = aten.add.Tensor(%0, %3, 1)
    return %4
  })");
}

// The operator of a GPU, and a graph with a table twice.
TEST(FewRows, WhatIsAddedToItselfAndWhatIsOnAGpuStays) {
  expect_unchanged_by(touch_few_rows, R"(graph(%0: f32[9, 4], %1: f32[2, 4], %2: i64[2]) {
    %3: f32[9, 4] = aten.embedding_dense_backward(%1, %2, 9, -1, false)
    %4: f32[9, 4] = aten.add.Tensor(%3, %3, 1)
    return %4
  })");
  expect_unchanged_by(touch_few_rows,
                      R"(graph(%0: f32[9, 4]@cuda:0, %1: f32[2, 4]@cuda:0, %2: i64[2]@cuda:0) {
    %3: f32[9, 4]@cuda:0 = aten.embedding_dense_backward(%1, %2, 9, -1, false)
    %4: f32[9, 4]@cuda:0 = aten.add.Tensor(%0, %3, 1)
    return %4
  })");
}

}  // namespace
}  // namespace braze::passes
