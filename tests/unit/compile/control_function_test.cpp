#include <gtest/gtest.h>

#include "compile/compile.h"
#include "plan/round_trip.h"

namespace braze::compile {
namespace {

std::string text(std::string_view graph, const graph::DataSymbols& data = {}) {
  const Options options{.backend = Backend::kAten};
  const plan::Module module = compile(graph::parse(graph), options, nullptr, data);
  EXPECT_EQ(plan::to_string(plan::round_trip(module)), plan::to_string(module));
  return plan::to_string(module);
}

TEST(ControlFunction, AnItemIsReadBetweenTwoCalls) {
  graph::Graph graph = graph::parse(
      "graph(s0 = scalar(0) hint 7 range [0, 9], %0 x: f32[4], %1 n: i64[]) {\n"
      "  %2: i64[] = aten.add.Scalar(%1, 1, 1)\n"
      "  braze.item(%2, s0)\n"
      "  %3: f32[4] = aten.mul.Scalar(%0, s0)\n"
      "  return %3\n"
      "}\n");
  const sym::ExprArena* arena = graph.arena().get();
  const graph::DataSymbols data{
      .numbers = {0},
      .assertions = {{sym::Relation::kLess, sym::Int(arena->symbol_expr(0)), sym::Int(5)}}};
  const Options options{.backend = Backend::kAten};
  const plan::Module module = compile(std::move(graph), options, nullptr, data);
  EXPECT_EQ(plan::to_string(module.functions[0]),
            "function(s0 = scalar(0) hint 7, s0: f32[4], s1: i64[]) arena 0 bytes {\n"
            "  s2: extern i64[]\n"
            "  s3: extern f32[4]\n"
            "  s2 = call 1(s1)\n"
            "  s0 = item(s2)\n"
            "  free s2\n"
            "  assert s0 < 5\n"
            "  s3 = call 2(s0)\n"
            "  return s3\n"
            "}\n");
  EXPECT_EQ(plan::to_string(plan::round_trip(module)), plan::to_string(module));
}

TEST(ControlFunction, WhatAnOperatorGivesIsExpectedToLieAsItWasTraced) {
  const std::string module = text(
      "graph(s0 = scalar(0) hint 7 range [0, inf], %0 x: f32[4]) {\n"
      "  %1: i64[s0, 1]{1, s0} = aten.nonzero(%0)\n"
      "  %2: i64[s0, 1] = aten.add.Scalar(%1, 1, 1)\n"
      "  return %2, %1\n"
      "}\n",
      {.numbers = {0}});
  EXPECT_NE(module.find("  s1 = aten.nonzero(s0)\n"
                        "  s0 = size(s1, 0)\n"
                        "  expect s1\n"
                        "  s2 = call 1(s1)\n"
                        "  return s2, s1\n"),
            std::string::npos)
      << module;
}

TEST(ControlFunction, BranchesAndLoopsAreFunctions) {
  const std::string branch = text(
      "graph(%0 x: f32[4], %1 p: bool[]) {\n"
      "  braze.begin(0)\n"
      "  %3: f32[4] = aten.sin(%0)\n"
      "  braze.end(0, [%3])\n"
      "  braze.begin(1)\n"
      "  %4: f32[4] = aten.cos(%0)\n"
      "  braze.end(1, [%4])\n"
      "  %5: f32[4] = braze.cond(%1, 0, 1)\n"
      "  return %5\n"
      "}\n");
  EXPECT_NE(branch.find("  s2 = if s1 call 1(s0) else call 2(s0)\n  return s2\n"),
            std::string::npos)
      << branch;
  const std::string loop = text(
      "graph(%0 x: f32[4], %1 w: f32[4]) {\n"
      "  %2: f32[4] = braze.parameter(0)\n"
      "  braze.begin(0)\n"
      "  %3: bool[] = aten.any(%2)\n"
      "  braze.end(0, [%3])\n"
      "  braze.begin(1)\n"
      "  %4: f32[4] = aten.sub.Tensor(%2, %1, 1)\n"
      "  braze.end(1, [%4])\n"
      "  %5: f32[4] = braze.while(0, 1, [%0])\n"
      "  return %5\n"
      "}\n");
  EXPECT_NE(loop.find("  s2 = from s0 while call 1(carried 0) do call 2(carried 0, s1)\n"),
            std::string::npos)
      << loop;
}

TEST(ControlFunction, OneCodeObjectHoldsTheKernelsOfAllFunctions) {
  const Options options{.target = target::Cpu{target::Isa::kAvx2, 1}};
  const plan::Module module = compile(graph::parse("graph(%0 x: f32[4], %1 p: bool[]) {\n"
                                                   "  braze.begin(0)\n"
                                                   "  %3: f32[4] = aten.exp(%0)\n"
                                                   "  braze.end(0, [%3])\n"
                                                   "  braze.begin(1)\n"
                                                   "  %4: f32[4] = aten.relu(%0)\n"
                                                   "  braze.end(1, [%4])\n"
                                                   "  %5: f32[4] = braze.cond(%1, 0, 1)\n"
                                                   "  return %5\n"
                                                   "}\n"),
                                      options);
  ASSERT_EQ(module.functions.size(), 3u);
  ASSERT_EQ(module.code.size(), 1u);
  EXPECT_TRUE(module.functions[0].kernels.empty());
  EXPECT_NE(module.functions[1].kernels.at(0).name, module.functions[2].kernels.at(0).name);
}

}  // namespace
}  // namespace braze::compile
