#include "target/target.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "target/costs.h"

namespace braze::target {
namespace {

TEST(Target, WithoutWordsItIsAnyCpu) {
  EXPECT_EQ(Target(), Target(Cpu{.isa = Isa::kGeneric, .threads = 1}));
}

TEST(Target, TextSaysEverything) {
  EXPECT_EQ(to_string(Cpu{Isa::kAvx512, 4}), "cpu avx512 threads 4");
  EXPECT_EQ(
      to_string(cuda(90, 132, 3350000)),
      "cuda sm_90 processors 132 resident_threads 2048 shared_bytes 232448 bandwidth 3350000");
  std::set<std::string> texts;
  for (Isa isa : {Isa::kGeneric, Isa::kAvx2, Isa::kAvx512})
    for (int threads : {1, 11}) EXPECT_TRUE(texts.insert(to_string(Cpu{isa, threads})).second);
  for (int sm : {80, 90})
    for (int processors : {11, 110})
      for (int bandwidth : {1000, 2000})
        EXPECT_TRUE(texts.insert(to_string(cuda(sm, processors, bandwidth))).second);
}

TEST(Target, TheCapabilityGivesWhatABlockMayHave) {
  EXPECT_EQ(cuda(75, 40, 320000).shared_bytes, 64 * 1024);
  EXPECT_EQ(cuda(89, 128, 1000000).resident_threads, 1536);
  try {
    cuda(61, 28, 320000);
    FAIL() << "a device of capability 6.1";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "no kernels can be made for a CUDA device of compute capability 6.1: choose "
                 "another device, or the CPU");
  }
}

// Results follow from the parts of a reduction.
TEST(Costs, OfACpuSplitReductionsWithoutLookingAtItsThreads) {
  const SplitCosts one = costs_of(Cpu{Isa::kAvx2, 1}).split;
  const SplitCosts many = costs_of(Cpu{Isa::kAvx512, 64}).split;
  EXPECT_EQ(one.most_rows, many.most_rows);
  EXPECT_EQ(one.part_points, many.part_points);
  EXPECT_EQ(one.fewest_of_a_row, many.fewest_of_a_row);
  EXPECT_EQ(one.most_parts, many.most_parts);
  EXPECT_EQ(one.part_multiple, many.part_multiple);
}

TEST(Costs, FollowFromTheMachine) {
  EXPECT_EQ(costs_of(Cpu{.threads = 8}).workers, 8);
  const Costs small = costs_of(cuda(75, 40, 320000)), large = costs_of(cuda(90, 132, 3350000));
  EXPECT_LT(small.workers, large.workers);
  EXPECT_LT(small.launch_bytes, large.launch_bytes);
  EXPECT_LT(small.parallel_points, large.parallel_points);
}

}  // namespace
}  // namespace braze::target
