// Graphs of elementwise ops as one kernel.
#include <gtest/gtest.h>

#include "loop/program.h"
#include "loop/run_program.h"

namespace braze::loop {
namespace {

std::optional<Program> elements_of(std::string_view text) {
  return lower_elements(graph::parse(text), target::Cpu{});
}

TEST(Elements, AStoreForEachOutputOverTheFirstInput) {
  const auto program = elements_of(
      "graph(%0: f32[2, 3], %1: f32[3], %2: i64[4]) {\n"
      "  %3: f32[2, 3] = aten.add.Tensor(%0, %1, 1)\n"
      "  %4: f32[2, 3] = aten.mul.Tensor(%3, %3)\n"
      "  %5: i64[3] = aten.arange.start_step(0, 3, 1, i64, None, cpu, None)\n"
      "  %6: i64[3] = aten.index.Tensor(%2, ?[%5])\n"
      "  %7: bool[3] = aten.gt.Scalar(%6, 1)\n"
      "  return %4, %7, %0\n}\n");
  ASSERT_TRUE(program);
  ASSERT_EQ(program->items.size(), 1u);
  const Kernel& kernel = std::get<ScheduledKernel>(program->items[0]).kernel;
  EXPECT_EQ(kernel.body.size(), 3u);
  EXPECT_EQ(kernel.outer.size(), 2u);
  EXPECT_TRUE(kernel.inner.empty());
  const auto outputs = ProgramRunner(*program).run({{1, 2, 3, 4, 5, 6}, {1, 1, 0}, {0, 1, 2, 9}});
  ASSERT_TRUE(outputs);
  EXPECT_EQ(outputs->at(0), (Numbers{4, 9, 9, 25, 36, 36}));
  EXPECT_EQ(outputs->at(1), (Numbers{0, 0, 1, 0, 0, 1}));  // as large as the first input
  EXPECT_EQ(outputs->at(2), (Numbers{1, 2, 3, 4, 5, 6}));
}

TEST(Elements, IndicesAreChecked) {
  const auto program = elements_of(
      "graph(%0: f32[2], %1: i64[2], %2: f32[3]) {\n"
      "  %3: f32[2] = aten.index.Tensor(%2, ?[%1])\n"
      "  %4: f32[2] = aten.add.Tensor(%0, %3, 1)\n"
      "  return %4\n}\n");
  ASSERT_TRUE(program);
  EXPECT_EQ(ProgramRunner(*program).run({{1, 2}, {0, 2}, {5, 6, 7}})->at(0), (Numbers{6, 9}));
  EXPECT_FALSE(ProgramRunner(*program).run({{1, 2}, {0, 3}, {5, 6, 7}}));
}

TEST(Elements, NothingWhereSomethingIsStoredOnTheWay) {
  EXPECT_FALSE(
      elements_of("graph(%0: f32[2, 3]) {\n"
                  "  %1: f32[2, 1] = aten.sum.dim_IntList(%0, [1], true, None)\n"
                  "  %2: f32[2, 3] = aten.sub.Tensor(%0, %1, 1)\n"
                  "  return %2\n}\n"));
  EXPECT_FALSE(
      elements_of("graph(%0: f32[2, 3]) {\n"
                  "  %1: f32[2, 3] = my.op(%0)\n"
                  "  return %1\n}\n"));
}

}  // namespace
}  // namespace braze::loop
