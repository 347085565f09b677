#include "schedule/follow.h"

#include <gtest/gtest.h>

#include "schedule/programs.h"

namespace braze::schedule {
namespace {

// Buffers of the program are numbered as the parameters are, the second kernel's from the last of
// the first on.
std::string followed(const std::string& scans, const std::string& points) {
  loop::ExprPool pool;
  loop::Kernel first = loop::parse_kernel(scans, pool), second = loop::parse_kernel(points, pool);
  int buffer = 0;
  for (loop::BufferParam& param : first.params) param.buffer = buffer++;
  --buffer;
  for (loop::BufferParam& param : second.params) param.buffer = buffer++;
  if (!may_follow(first, second)) return "no";
  const auto result = following(pool, first, second);
  if (!result) return "nothing";
  loop::verify(*result);
  return loop::to_string(*result, /*with_name=*/false);
}

std::string scan(const std::string& axes, const std::string& index) {
  return "kernel scan(b0: f32 in, b1: f32 out) " + axes + " {\n r0 = scan_sum(load(b0, " + index +
         ")) inner\n store(b1, " + index + ", r0) inner\n}";
}
std::string twice(const std::string& axes, const std::string& from, const std::string& to) {
  return "kernel (b0: f32 in, b1: f32 out) " + axes + " {\n  store(b1, " + to + ", mul(load(b0, " +
         from + "), 2:f32))\n}\n";
}

TEST(Follow, ColumnsTakeTheAxesOfTheScan) {
  EXPECT_EQ(followed(scan("outer(o0 < 12) inner(i0 < 40)", "i0*12 + o0"),
                     twice("outer(o0 < 480)", "o0", "o0")),
            twice("outer(o0 < 12, o1 < 40)", "o0 + o1*12", "o0 + o1*12"));
  EXPECT_EQ(followed(scan("outer(o0 < 3, o1 < 12) inner(i0 < 40)", "o0*480 + i0*12 + o1"),
                     twice("outer(o0 < 120, o1 < 12)", "o0*12 + o1", "o0*12 + o1")),
            twice("outer(o0 < 3, o1 < 12, o2 < 40)", "o0*480 + o1 + o2*12", "o0*480 + o1 + o2*12"));
}

TEST(Follow, RowsFromTheirEnd) {
  EXPECT_EQ(followed(scan("outer(o0 < 5) inner(i0 < 16)", "o0*16 + i0"),
                     twice("outer(o0 < 5, o1 < 16)", "o0*16 + o1*-1 + 15", "o0*16 + o1")),
            twice("outer(o0 < 5, o1 < 16)", "o0*16 + o1", "o0*16 + o1*-1 + 15"));
}

TEST(Follow, WhatCannot) {
  const std::string rows = scan("outer(o0 < 5) inner(i0 < 16)", "o0*16 + i0");
  EXPECT_EQ(followed(rows, twice("outer(o0 < 40)", "o0", "o0")), "no");
  EXPECT_EQ(followed(twice("outer(o0 < 80)", "o0", "o0"), twice("outer(o0 < 80)", "o0", "o0")),
            "no");
  EXPECT_EQ(followed(rows, twice("outer(o0 < 8, o1 < 10)", "o0*10 + o1", "o0*10 + o1")), "nothing");
  EXPECT_EQ(followed(rows, twice("outer(o0 < 80)", "o0*2", "o0")), "nothing");
  EXPECT_EQ(followed(rows, twice("outer(o0 < 80)", "o0 % 7", "o0")), "nothing");
}

TEST(Follow, FusesWithEitherSide) {
  for (const size_t dim : {0, 1}) {
    ProgramBuilder b;
    const Shape sizes{6, 10};
    const int x = b.input(sizes), y = b.input({10});
    const int before = b.add(sizes, x, y);
    const int running = b.scan_along(sizes, dim, before, loop::ScanOp::kSum);
    b.program.outputs = {b.mul(sizes, b.flip(sizes, dim, running), x), before};
    fuse_and_compare(b.program, target::cuda(90, 132, 3350000));
    EXPECT_LE(kernel_count(b.program), 2) << loop::to_string(b.program);
  }
}

}  // namespace
}  // namespace braze::schedule
