#include "passes/fold.h"

#include <gtest/gtest.h>

#include "passes/dce.h"
#include "passes/rewriting.h"

namespace braze::passes {
namespace {

using graph::Graph;

// After folding and removing what is left over.
std::string folded(std::string_view text) {
  graph::Graph graph = graph::parse(rewritten(fold, text));
  eliminate_dead_code(graph);
  return graph::canonical(graph);
}

TEST(Fold, Identities) {
  EXPECT_EQ(folded(R"(graph(%0: f32[4]) {
    %1: f32[4] = aten.mul.Tensor(%0, 1)
    %2: f32[4] = aten.clone(%1, None)
    %3: f32[4] = aten.sub.Tensor(%2, 0.0, 1)
    %4: f32[4] = aten.div.Tensor(%3, 1.0)
    %5: f32[4] = aten._to_copy(%4, f32, None, None, None, false, None)
    %6: f32[4] = aten.pow.Tensor_Scalar(%5, 1)
    %7: f32[4] = aten.exp(%6)
    return %7
  })"),
            "graph(%0: f32[4]) {\n  %1: f32[4] = aten.exp(%0)\n  return %1\n}\n");
}

TEST(Fold, AddingZeroIsExactForIntegersOnly) {
  EXPECT_EQ(folded(R"(graph(%0: i64[4]) {
    %1: i64[4] = aten.add.Tensor(%0, 0, 1)
    %2: i64[4] = aten.neg(%1)
    return %2
  })"),
            "graph(%0: i64[4]) {\n  %1: i64[4] = aten.neg(%0)\n  return %1\n}\n");
  expect_unchanged_by(fold, R"(graph(%0: f32[4]) {
    %1: f32[4] = aten.add.Tensor(%0, 0, 1)
    %2: f32[4] = aten.neg(%1)
    return %2
  })");
  expect_unchanged_by(fold, R"(graph(%0: f32[4]) {
    %1: f32[4] = aten.sub.Tensor(%0, -0.0, 1)
    %2: f32[4] = aten.neg(%1)
    return %2
  })");
}

TEST(Fold, WhatChangesTheTypeStays) {
  expect_unchanged_by(fold, R"(graph(%0: f32[4], %1: f32[2, 3]{1, 2}) {
    %2: f64[4] = aten._to_copy(%0, f64, None, None, None, false, None)
    %3: f32[2, 3] = aten.clone(%1, contiguous_format)
    %4: f32[2, 3] = aten.neg(%3)
    return %2, %4
  })");
}

TEST(Fold, OutputsKeepMemoryOfTheirOwn) {
  expect_unchanged_by(fold, "graph(%0: f32[4]) { %1: f32[4] = aten.clone(%0, None) return %1 }");
  expect_unchanged_by(fold, R"(graph(%0: f32[4]) {
    %1: f32[4] = aten.neg(%0)
    %2: f32[4] = aten.clone(%1, None)
    return %1, %2
  })");
  expect_unchanged_by(fold, "graph(%0: f32[4]) { %1: f32[4] #%0 = aten.detach(%0) return %1 }");
}

TEST(Fold, MutationsDoNotReadWhatTheyOverwrite) {
  expect_unchanged_by(fold, R"(graph(%0: f32[4], %1: f32[4]) {
    %2: f32[4] = aten.clone(%1, None)
    %3: f32[4] = aten.neg(%1)
    return
    mutate %0 <- %2
    mutate %1 <- %3
  })");
  EXPECT_EQ(folded(R"(graph(%0: f32[4], %1: f32[4]) {
    %2: f32[4] = aten.clone(%1, None)
    return
    mutate %0 <- %2
  })"),
            "graph(%0: f32[4], %1: f32[4]) {\n  return\n  mutate %0 <- %1\n}\n");
}

TEST(Fold, ViewsOfViews) {
  EXPECT_EQ(folded(R"(graph(%0: f32[2, 3, 4]) {
    %1: f32[6, 4] #%0 = aten.view(%0, [6, 4])
    %2: f32[24] #%0 = aten.view(%1, [24])
    %3: f32[4, 2, 3]{1, 12, 4} #%0 = aten.permute(%0, [2, 0, 1])
    %4: f32[3, 4, 2]{4, 1, 12} #%0 = aten.permute(%3, [2, 0, 1])
    %5: f32[2, 3, 4] #%0 = aten.permute(%4, [2, 0, 1])
    %6: f32[2, 3, 4] = aten.neg(%5)
    return %2, %4, %6
  })"),
            R"(graph(%0: f32[2, 3, 4]) {
  %1: f32[24] #%0 = aten.view(%0, [24])
  %2: f32[3, 4, 2]{4, 1, 12} #%0 = aten.permute(%0, [1, 2, 0])
  %3: f32[2, 3, 4] = aten.neg(%0)
  return %1, %2, %3
}
)");
}

TEST(Fold, UniformTensors) {
  EXPECT_EQ(folded(R"(graph(%0: f32[2, 3]) {
    %1: f32[3] = aten.full([3], 1, f32, None, None, None)
    %2: f32[3] = aten.sub.Tensor(%1, 3.5, 1)
    %3: f32[2, 3]{0, 1} #%2 = aten.expand(%2, [2, 3], false)
    %4: bool[3] = aten.lt.Scalar(%2, 0)
    %5: f32[2, 3] = aten.where.self(%4, %0, -1.0)
    %6: f32[3] = aten.mul.Tensor(%2, 2)
    %7: f32[3] = aten.neg(%6)
    return %5, %7
  })"),
            R"(graph(%0: f32[2, 3]) {
  %1: bool[3] = aten.full([3], true, bool, None, None, None)
  %2: f32[2, 3] = aten.where.self(%1, %0, -1.0)
  %3: f32[3] = aten.full([3], 5.0, f32, None, None, None)
  return %2, %3
}
)");
}

TEST(Fold, UniformThroughViewsAndCopies) {
  EXPECT_EQ(folded(R"(graph(%0: f32[3]) {
    %1: f32[3, 3] = aten.full([3, 3], 1, f32, None, None, None)
    %2: f32[3]+3 #%1 = aten.select.int(%1, 0, 1)
    %3: f32[3] = prims.copy_strided(%2, [1])
    %4: f32[3] = aten.rsub.Scalar(%3, 4, 1)
    %5: f32[3] = aten.mul.Tensor(%0, %4)
    %6: i32[3] #%3 = aten.view.dtype(%3, i32)
    return %5, %6
  })"),
            R"(graph(%0: f32[3]) {
  %1: f32[3] = aten.full([3], 1.0, f32, None, None, None)
  %2: f32[3] = aten.full([3], 3.0, f32, None, None, None)
  %3: f32[3] = aten.mul.Tensor(%0, %2)
  %4: i32[3] #%1 = aten.view.dtype(%1, i32)
  return %3, %4
}
)");
}

TEST(Fold, UniformArithmeticThatIsNotExactStays) {
  expect_unchanged_by(fold, R"(graph() {
    %1: f32[3] = aten.full([3], 1, f32, None, None, None)
    %2: f32[3] = aten.exp(%1)
    %3: u8[3] = aten.full([3], 250, u8, None, None, None)
    %4: u8[3] = aten.add.Tensor(%3, %3, 1)
    %5: i64[3] = aten.full([3], 9007199254740993, i64, None, None, None)
    %6: i64[3] = aten.add.Tensor(%5, 1, 1)
    %7: f32[3] = aten.full([3], inf, f32, None, None, None)
    %8: i64[3] = aten._to_copy(%7, i64, None, None, None, false, None)
    return %2, %4, %6, %8
  })");
}

}  // namespace
}  // namespace braze::passes
