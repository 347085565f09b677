// Scatters on GPUs with what is around them: fused programs against those that are not, by the
// interpreter.
#include <algorithm>
#include <random>

#include "loop/run_program.h"
#include "schedule/in_place.h"
#include "schedule/schedule.h"

namespace braze::schedule {
namespace {

using loop::Numbers;

const target::Target& gpu() {
  static const target::Target gpu = target::cuda(90, 132, 3350000);
  return gpu;
}

int kernels_of(const loop::Program& program) {
  EXPECT_TRUE(std::ranges::all_of(program.items, [](const loop::Item& item) {
    return std::holds_alternative<loop::ScheduledKernel>(item);
  })) << loop::to_string(program);
  return static_cast<int>(program.items.size());
}

// Of inputs y: f32[6, 8], i: i64[40], x: f32[40, 8] and n: i64[6]. The number of kernels.
int check(const std::string& lines, const std::string& results) {
  const std::string text =
      "graph(%0 y: f32[6, 8]@cuda:0, %1 i: i64[40]@cuda:0, %2 x: f32[40, 8]@cuda:0, %3 n: "
      "i64[6]@cuda:0) {\n" +
      lines + "  return " + results + "\n}\n";
  const graph::Graph graph = graph::parse(text);
  std::mt19937 random(7);
  std::vector<Numbers> inputs(4);
  const auto fill = [&](Numbers& numbers, int count, int bound) {
    for (int n = 0; n < count; ++n) numbers.push_back(static_cast<double>(random() % bound));
  };
  fill(inputs[0], 48, 9);
  fill(inputs[1], 40, 6);
  fill(inputs[2], 320, 9);
  fill(inputs[3], 6, 9);
  const loop::Program whole = loop::lower(graph, gpu());
  loop::Program fused = loop::lower(graph, gpu());
  const std::vector<bool> alone(4, true);
  fuse(fused, gpu(), alone);
  write_inputs_in_place(fused, gpu(), alone);
  loop::verify(fused);
  kernels_of(whole);
  const auto want = loop::ProgramRunner(whole).run(inputs);
  const auto got = loop::ProgramRunner(fused).run(inputs);
  EXPECT_TRUE(want && got);
  if (!want || !got) return 0;
  EXPECT_EQ(want->size(), got->size());
  for (size_t r = 0; r < want->size(); ++r)
    for (size_t e = 0; e < want->at(r).size(); ++e)
      EXPECT_NEAR(got->at(r)[e], want->at(r)[e], 1e-4 * (1 + std::abs(want->at(r)[e])))
          << text << loop::to_string(fused);
  return kernels_of(fused);
}

const std::string kY = "f32[6, 8]@cuda:0", kX = "f32[40, 8]@cuda:0";

TEST(FuseScatters, WhatIsAddedIsComputedThere) {
  EXPECT_EQ(
      check("  %4: " + kX + " = aten.sin(%2)\n  %5: " + kX +
                " = aten.mul.Tensor(%4, %2)\n  %6: " + kY + " = aten.index_add(%0, 0, %1, %5, 1)\n",
            "%6"),
      2);
  EXPECT_EQ(check("  %4: " + kX + " = aten.sin(%2)\n  %5: " + kY +
                      " = aten.index_add(%0, 0, %1, %4, 1)\n",
                  "%4, %5"),
            2);
}

TEST(FuseScatters, WhatIsReadBehindThem) {
  EXPECT_EQ(check("  %4: " + kY + " = aten.index_add(%0, 0, %1, %2, 1)\n  %5: " + kY +
                      " = aten.exp(%4)\n  %6: f32[6]@cuda:0 = aten.sum.dim_IntList(%5, [1])\n",
                  "%4, %6"),
            3);
}

TEST(FuseScatters, SeveralOfThem) {
  check("  %4: " + kY + " = aten.index_add(%0, 0, %1, %2, 1)\n  %5: " + kY +
            " = aten.index_add(%4, 0, %1, %2, 1)\n  %6: " + kY + " = aten.add.Tensor(%4, %5, 1)\n",
        "%6");
  // Two sums that begin with the same zeros.
  check("  %4: " + kY + " = aten.full([6, 8], 0)\n  %5: " + kY +
            " = aten.index_add(%4, 0, %1, %2, 1)\n  %6: " + kX + " = aten.neg(%2)\n  %7: " + kY +
            " = aten.index_add(%4, 0, %1, %6, 1)\n  %8: " + kY + " = aten.mul.Tensor(%5, %7)\n",
        "%4, %5, %8");
}

TEST(FuseScatters, BesideReductionsOfTheSame) {
  check("  %4: " + kX + " = aten._softmax(%2, 1, false)\n  %5: " + kY +
            " = aten.index_add(%0, 0, %1, %4, 1)\n  %6: f32[8]@cuda:0 = aten.sum.dim_IntList(%2, "
            "[0])\n  %7: f32[]@cuda:0 = aten.sum(%4)\n",
        "%4, %5, %6, %7");
  check(
      "  %4: f32[40]@cuda:0 = aten.amax(%2, [1])\n  %5: f32[6]@cuda:0 = aten.full([6], 0)\n  %6: "
      "f32[6]@cuda:0 = aten.index_add(%5, 0, %1, %4, 1)\n  %7: " +
          kY + " = aten.index_add(%0, 0, %1, %2, 1)\n",
      "%6, %7");
}

TEST(FuseScatters, CountsAndMeans) {
  check(
      "  %4: i64[40]@cuda:0 = aten.full([40], 1)\n  %5: i64[6]@cuda:0 = aten.index_add(%3, 0, %1, "
      "%4, 1)\n",
      "%5");
  for (const std::string with_self : {"true", "false"})
    check(
        "  %4: f32[40]@cuda:0 = aten.amax(%2, [1])\n  %5: f32[6]@cuda:0 = aten.amax(%0, [1])\n"
        "  %6: f32[6]@cuda:0 = aten.scatter_reduce.two(%5, 0, %1, %4, \"mean\", " +
            with_self + ")\n  %7: f32[6]@cuda:0 = aten.add.Tensor(%6, %5, 1)\n",
        "%7");
}

TEST(FuseScatters, IntoArguments) {
  const std::string text =
      "graph(%0 y: f32[6, 8]@cuda:0, %1 i: i64[40]@cuda:0, %2 x: f32[40, 8]@cuda:0) {\n"
      "  %3: f32[6, 8]@cuda:0 = aten.index_add(%0, 0, %1, %2, 1)\n  return %3\n}\n";
  loop::Program program = loop::lower(graph::parse(text), gpu());
  program.mutations = {{0, program.outputs[0]}};
  program.outputs.clear();
  fuse(program, gpu(), {true, true, true});
  write_inputs_in_place(program, gpu(), {true, true, true});
  // Neither the copy that comes first nor what is added to it goes into what is read.
  EXPECT_EQ(program.mutations.size(), 1u);
  EXPECT_EQ(kernels_of(program), 2);
}

}  // namespace
}  // namespace braze::schedule
