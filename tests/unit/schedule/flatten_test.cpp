// Rows that are no whole number of accesses long.
#include <gtest/gtest.h>

#include "schedule/programs.h"

namespace braze::schedule {
namespace {

const target::Target kFlattening = target::cuda(90, 132, 3350000);

// Outer axes of the program's only kernel, fused for a GPU.
size_t axes_on_gpu(ProgramBuilder& b, int output) {
  b.program.outputs = {output};
  fuse_and_compare(b.program, kFlattening);
  EXPECT_EQ(b.program.items.size(), 1u);
  return std::get<loop::ScheduledKernel>(b.program.items.at(0)).kernel.outer.size();
}

TEST(FlattenRows, NumbersOfRowsAndOfColumns) {
  ProgramBuilder b;
  const int x = b.input({700, 101}), row = b.input({700, 1}), column = b.input({101});
  const int scaled = b.mul({700, 101}, x, row);
  EXPECT_EQ(axes_on_gpu(b, b.add({700, 101}, scaled, column)), 1u);
}

TEST(FlattenRows, TheLastTwoOfThreeAxes) {
  ProgramBuilder b;
  const int x = b.input({9, 150, 51}), row = b.input({9, 1, 51}), column = b.input({150, 1});
  const int scaled = b.mul({9, 150, 51}, x, row);
  EXPECT_EQ(axes_on_gpu(b, b.add({9, 150, 51}, scaled, column)), 2u);
}

TEST(FlattenRows, WholeAccessesStay) {
  ProgramBuilder b;
  const int x = b.input({700, 102}), row = b.input({700, 1});
  EXPECT_EQ(axes_on_gpu(b, b.mul({700, 102}, x, row)), 2u);
}

TEST(FlattenRows, FewPointsStay) {
  ProgramBuilder b;
  const int x = b.input({70, 101}), row = b.input({70, 1});
  EXPECT_EQ(axes_on_gpu(b, b.mul({70, 101}, x, row)), 2u);
}

TEST(FlattenRows, WhatLiesInAnotherOrderStays) {
  ProgramBuilder b;
  const int x = b.input({700, 101}), turned = b.input({101, 700});
  ProgramBuilder::KernelDraft k = b.draft("mul", {700, 101});
  const int result = b.buffer(loop::Buffer::Kind::kComputed, {700, 101});
  const ExprRef value = b.pool().binary(ExprKind::kMul, k.load(x, k.all_axes()),
                                        k.load(turned, {k.axis(1), k.axis(0)}));
  k.store(result, k.all_axes(), value, false);
  k.finish();
  EXPECT_EQ(axes_on_gpu(b, result), 2u);
}

TEST(FlattenRows, ACpuKeepsRows) {
  ProgramBuilder b;
  const int x = b.input({700, 101}), row = b.input({700, 1});
  b.program.outputs = {b.mul({700, 101}, x, row)};
  fuse_and_compare(b.program);
  EXPECT_EQ(std::get<loop::ScheduledKernel>(b.program.items.at(0)).kernel.outer.size(), 2u);
}

}  // namespace
}  // namespace braze::schedule
