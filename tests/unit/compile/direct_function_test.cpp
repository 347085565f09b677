#include "compile/direct_function.h"

#include <gtest/gtest.h>

namespace braze::compile {
namespace {

std::string plan_text(std::string_view graph) {
  const plan::Function function = direct_function(graph::parse(graph));
  plan::verify(function);
  return plan::to_string(function);
}

TEST(DirectPlan, FreesAfterLastUse) {
  EXPECT_EQ(plan_text("graph(%0 x: f32[4, 8]) {\n"
                      "  %1: f32[4, 8] = aten.relu(%0)\n"
                      "  %2: f32[4, 8] = aten.add.Tensor(%1, %0, 1)\n"
                      "  %3: f32[4, 8] = aten.mul.Tensor(%2, %1)\n"
                      "  return %3, %0\n"
                      "}\n"),
            "function(s0: f32[4, 8]) arena 0 bytes {\n"
            "  s1: extern f32[4, 8]\n"
            "  s2: extern f32[4, 8]\n"
            "  s3: extern f32[4, 8]\n"
            "  s1 = aten.relu(s0)\n"
            "  s2 = aten.add.Tensor(s1, s0, 1)\n"
            "  s3 = aten.mul.Tensor(s2, s1)\n"
            "  free s1\n"
            "  free s2\n"
            "  return s3, s0\n"
            "}\n");
}

TEST(DirectPlan, InPlaceResultIsTheArgumentsSlot) {
  EXPECT_EQ(plan_text("graph(%0 x: f32[8]) {\n"
                      "  %1: f32[8] #%0 = aten.add_.Tensor(%0, %0, 1)\n"
                      "  %2: f32[4] #%0 = aten.slice.Tensor(%1, 0, 0, 4, 1)\n"
                      "  %3: f32[4] #%0 = aten.mul_.Tensor(%2, %2)\n"
                      "  return %1\n"
                      "}\n"),
            "function(s0: f32[8]) arena 0 bytes {\n"
            "  s1: extern f32[4]\n"
            "  s0 = aten.add_.Tensor(s0, s0, 1)\n"
            "  s1 = aten.slice.Tensor(s0, 0, 0, 4, 1)\n"
            "  s1 = aten.mul_.Tensor(s1, s1)\n"
            "  free s1\n"
            "  return s0\n"
            "}\n");
}

TEST(DirectPlan, CopiesAreIntoFreshMemory) {
  EXPECT_EQ(plan_text("graph(%0 x: f32[4, 2]) {\n"
                      "  %1: f32[1]{2}+6 #%0 = aten.as_strided(%0, [1], [2], 6)\n"
                      "  %2: f32[1] = aten.relu(%1)\n"
                      "  %3: f32[1]{2} = aten.copy(%1, %2, false)\n"
                      "  return %3\n"
                      "}\n"),
            "function(s0: f32[4, 2]) arena 0 bytes {\n"
            "  s1: extern f32[1]{2}+6\n"
            "  s2: extern f32[1]\n"
            "  s3: extern f32[1]{2}\n"
            "  s1 = aten.as_strided(s0, [1], [2], 6)\n"
            "  s2 = aten.relu(s1)\n"
            "  s3 = aten.new_empty_strided(s1, [1], [2], none, none, none, none)\n"
            "  free s1\n"
            "  s3 = aten.copy_(s3, s2, false)\n"
            "  free s2\n"
            "  return s3\n"
            "}\n");
}

TEST(DirectPlan, CopiesWithStridesAreNotMadeByPython) {
  EXPECT_EQ(plan_text("graph(%0 x: f32[2, 3]) {\n"
                      "  %1: f32[2, 3]{7, 2} = prims.copy_strided(%0, [7, 2])\n"
                      "  return %1\n"
                      "}\n"),
            "function(s0: f32[2, 3]) arena 0 bytes {\n"
            "  s1: extern f32[2, 3]{7, 2}\n"
            "  s1 = aten.new_empty_strided(s0, [2, 3], [7, 2], none, none, none, none)\n"
            "  s1 = aten.copy_(s1, s0, false)\n"
            "  return s1\n"
            "}\n");
}

TEST(DirectPlan, MutationsAreCopiesAndUnusedResultsHaveNoSlot) {
  EXPECT_EQ(plan_text("graph(%0 x: f32[8], %1 y: f32[8]) {\n"
                      "  %2: f32[], %3: i64[] = aten.max.dim(%0, 0, false)\n"
                      "  %4: f32[8] = aten.add.Tensor(%1, %2, 1)\n"
                      "  return\n"
                      "  mutate %1 <- %4\n"
                      "}\n"),
            "function(s0: f32[8], s1: f32[8]) arena 0 bytes {\n"
            "  s2: extern f32[]\n"
            "  s3: extern f32[8]\n"
            "  s2, _ = aten.max.dim(s0, 0, false)\n"
            "  s3 = aten.add.Tensor(s1, s2, 1)\n"
            "  free s2\n"
            "  copy s1 <- s3\n"
            "  free s3\n"
            "  return \n"
            "}\n");
}

}  // namespace
}  // namespace braze::compile
