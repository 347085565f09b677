// Index checks through fusion.
#include <gtest/gtest.h>

#include "loop/run_program.h"
#include "schedule/schedule.h"

namespace braze::schedule {
namespace {

// Fusion drops what nothing reads, but no index check.
TEST(Checks, IndexChecksStay) {
  const std::string head =
      "graph(%0: f32[8, 4], %1: i64[6]) { %2: f32[6, 4] = aten.index_select(%0, 0, %1)";
  for (const char* rest :
       {" return %0 }",
        " %3: f32[4] = aten.select.int(%2, 0, 1) %4: f32[4] = aten.neg(%3) return %4 }",
        " %3: f32[6, 4] = aten.mul.Tensor(%2, 2) %4: f32[6, 4] = aten.add.Tensor(%2, %3) return %4 "
        "}",
        " %3: f32[6, 4] = aten.full([6, 4], 0) return %3 }"}) {
    loop::Program program = loop::lower(graph::parse(head + rest), {});
    fuse(program, {});
    loop::Numbers table(32, 1.0);
    EXPECT_TRUE(loop::ProgramRunner(program).run({table, {0, 7, 1, 2, 3, 4}}))
        << loop::to_string(program);
    EXPECT_FALSE(loop::ProgramRunner(program).run({table, {0, 8, 1, 2, 3, 4}}))
        << loop::to_string(program);
  }
}

// With its producer in place, an index is known to lie outside: nothing is added, but it is
// refused.
TEST(Checks, IndexChecksStayWhereAConditionIsDecided) {
  for (const auto& [from, fits] : {std::pair("-9", false), std::pair("0", true)}) {
    loop::Program program = loop::lower(
        graph::parse(std::string("graph(%0: f32[9, 4], %1: i64[6]) {"
                                 " %2: i64[6] = aten.remainder.Scalar(%1, 9)"
                                 " %3: i64[6] = aten.add.Scalar(%2, ") +
                     from +
                     ", 1) %4: f32[6, 4] = aten.index_select(%0, 0, %3)"
                     " %5: f32[9, 4] = aten.embedding_dense_backward(%4, %3, 9, -1, false)"
                     " return %5 }"),
        {});
    fuse(program, {});
    const loop::Numbers table(36, 1.0);
    EXPECT_EQ(loop::ProgramRunner(program).run({table, {0, 8, 1, 2, 3, 4}}).has_value(), fits)
        << loop::to_string(program);
  }
}

TEST(Checks, CheckedValuesOfOneKernelAreNotStored) {
  loop::Program program = loop::lower(
      graph::parse(
          "graph(%0: f32[8, 4], %1: i64[6], %9: f32[4]) { %2: f32[6, 4] = aten.embedding(%0, %1)"
          " %3: f32[6, 4] = aten.add.Tensor(%2, %9) %4: f32[6, 4] = aten.exp(%3)"
          " %5: f32[6, 4] = aten.mul.Tensor(%4, %3) return %5 }"),
      {});
  fuse(program, {});
  EXPECT_EQ(loop::kernel_count(program), 1) << loop::to_string(program);
  EXPECT_EQ(std::get<loop::ScheduledKernel>(program.items[0]).kernel.body.size(), 1u);
}

// A producer whose elements are all read is inlined, one that is read by another index is not.
TEST(Checks, ProducersAreInlinedWhereAllElementsAreRead) {
  const std::string head =
      "graph(%0: f32[8, 4], %1: i64[6], %2: f32[4, 6], %3: i64[2]) {"
      " %4: f32[6, 4] = aten.index_select(%0, 0, %1)";
  for (const auto& [rest, kernels] : std::vector<std::pair<std::string, int>>{
           {" %5: f32[6, 4] = aten.mul.Tensor(%4, 2) %6: f32[2, 4] = aten.index_select(%5, 0, %3)"
            " return %6 }",
            2},
           {" %5: f32[6, 4] = aten.mul.Tensor(%4, 2) %6: f32[4, 6]{1, 4} = aten.permute(%5, [1, 0])"
            " %7: f32[4, 6] = aten.add.Tensor(%6, %2) return %7 }",
            1}}) {
    loop::Program program = loop::lower(graph::parse(head + rest), {});
    fuse(program, {});
    EXPECT_EQ(loop::kernel_count(program), kernels) << loop::to_string(program);
    const loop::Numbers table(32, 1.0), other(24, 0.0);
    const auto fits = [&](double index) {
      return loop::ProgramRunner(program).run({table, {0, 7, 1, index, 3, 4}, other, {0, 1}});
    };
    EXPECT_TRUE(fits(2));
    EXPECT_FALSE(fits(8));
  }
}

}  // namespace
}  // namespace braze::schedule
