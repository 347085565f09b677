// Scans and accumulating stores among other kernels.
#include <gtest/gtest.h>

#include "schedule/kernel_edit.h"
#include "schedule/programs.h"
#include "schedule/split_reductions.h"
#include "schedule/sweeps.h"

namespace braze::schedule {
namespace {

using loop::ReduceOp;

std::string text_of(const loop::Program& program) { return loop::to_string(program); }
const loop::Kernel& kernel_of(const loop::Program& program, size_t item) {
  return std::get<loop::ScheduledKernel>(program.items[item]).kernel;
}

TEST(Scan, FusesWithCheapOpsAroundIt) {
  ProgramBuilder b;
  const Shape sizes{4, 8};
  int x = b.input(sizes), y = b.input({8});
  int running = b.scan(sizes, 1, b.add(sizes, x, y));
  b.program.outputs = {b.mul(sizes, running, y)};
  fuse_and_compare(b.program);
  EXPECT_EQ(kernel_count(b.program), 1) << text_of(b.program);
  EXPECT_EQ(kernel_of(b.program, 0).body.size(), 2u);
}

TEST(Scan, KeepsItsLanesFree) {
  ProgramBuilder b;
  const Shape sizes{4, 8};
  b.program.outputs = {b.scan(sizes, 1, b.unary(sizes, b.input(sizes), ExprKind::kExp))};
  fuse_and_compare(b.program);
  EXPECT_EQ(kernel_count(b.program), 2) << text_of(b.program);
}

TEST(Scan, IsNotDoneAgainForALaterSweep) {
  ProgramBuilder b;
  const Shape sizes{4, 8};
  int running = b.scan(sizes, 1, b.input(sizes));
  int total = b.reduce(sizes, 1, running, ReduceOp::kSum);
  b.program.outputs = {b.pointwise("div", sizes, {running, total}, ExprKind::kDiv)};
  fuse_and_compare(b.program);
  ASSERT_EQ(kernel_count(b.program), 1) << text_of(b.program);
  const loop::Kernel& kernel = kernel_of(b.program, 0);
  bool loads_back = false;
  for_each_expr(kernel, [&](ExprRef e) {
    loads_back |= e->kind == ExprKind::kLoad && kernel.params[e->ival].written;
  });
  EXPECT_TRUE(loads_back) << text_of(b.program);
}

TEST(Scan, KeepsTheOrderOfItsAxes) {
  ProgramBuilder b;
  auto k = b.draft("scan", {}, {3, 5});
  ExprRef running = k.scan(k.load(b.input({3, 5}), k.all_axes()));
  int result = b.buffer(loop::Buffer::Kind::kComputed, {5, 3});
  k.store(result, {k.axis(1), k.axis(0)}, running, true);
  k.finish();
  b.program.outputs = {result};
  fuse_and_compare(b.program);
  EXPECT_EQ(kernel_of(b.program, 0).inner[0].extent, sym::Int(3));
}

TEST(Scan, OfOneElementKeepsItsLevel) {
  ProgramBuilder b;
  b.program.outputs = {b.scan({4, 1}, 1, b.input({4, 1}))};
  fuse_and_compare(b.program);
  EXPECT_EQ(kernel_of(b.program, 0).inner.size(), 1u);
}

TEST(Scan, IsNotSplit) {
  ProgramBuilder b;
  const Shape sizes{1, 1 << 20};
  auto k = b.draft("scan", {1}, {1 << 20});
  ExprRef running = k.scan(k.load(b.input(sizes), k.all_axes()));
  int result = b.buffer(loop::Buffer::Kind::kComputed, {1});
  k.store(result, k.outer_axes(), k.reduce(ReduceOp::kMax, running), false);
  EXPECT_FALSE(will_be_split(k.kernel, {}));
}

TEST(Scan, TwoOfOneValueStayTwo) {
  ProgramBuilder b;
  const Shape sizes{4, 8};
  int x = b.input(sizes);
  b.program.outputs = {b.scan(sizes, 1, x), b.scan(sizes, 1, x)};
  fuse_and_compare(b.program);
  EXPECT_EQ(kernel_count(b.program), 1) << text_of(b.program);
}

TEST(AccumulatingStore, StaysBehindWhatItAddsToAndBeforeItsReaders) {
  ProgramBuilder b;
  const Shape target{3, 8}, source{6, 8};
  int sum = b.scatter(target, b.input(target), source, b.input(source));
  b.program.outputs = {b.unary(target, sum, ExprKind::kNeg)};
  fuse_and_compare(b.program);
  EXPECT_EQ(kernel_count(b.program), 3) << text_of(b.program);
  const Access access = access_of(b.program.items[1], Aliases(b.program));
  EXPECT_EQ(access.writes.size(), 1u);
  EXPECT_TRUE(contains(access.reads, access.writes[0]));
}

TEST(AccumulatingStore, TakesItsSourceIn) {
  ProgramBuilder b;
  const Shape target{3, 8}, source{6, 8};
  int doubled = b.add(source, b.input(source), b.input({8}));
  b.program.outputs = {b.scatter(target, b.input(target), source, doubled)};
  fuse_and_compare(b.program);
  EXPECT_EQ(kernel_count(b.program), 2) << text_of(b.program);
}

TEST(AccumulatingStore, GoesWithItsResult) {
  ProgramBuilder b;
  const Shape target{3, 8}, source{6, 8};
  int x = b.input(target), y = b.input(source);
  b.scatter(target, x, source, y);
  b.program.outputs = {b.unary(target, x, ExprKind::kNeg)};
  fuse_and_compare(b.program);
  EXPECT_EQ(kernel_count(b.program), 1) << text_of(b.program);
}

TEST(Sweeps, AScanIsSeenInItsOwn) {
  loop::ExprPool pool;
  const loop::Kernel kernel = loop::parse_kernel(
      "kernel k(b0: f32 in) inner(i0 < 4) {\n"
      " r0 = sum(load(b0, i0)) inner\n"
      " r1 = scan(0:f32, add(r1.before, sub(load(b0, i0), r0))) inner\n"
      " r2 = max(add(r1, r1.before)) inner\n}",
      pool);
  Sweeps sweeps;
  for (const loop::Statement& statement : kernel.body) sweeps.add(statement);
  EXPECT_EQ(sweeps.of(pool.scanned(1, graph::DType::kFloat32)), 1);
  EXPECT_EQ(sweeps.of(pool.scanned_before(1, graph::DType::kFloat32)), 1);
  EXPECT_EQ(sweeps.of(pool.reduced(2, graph::DType::kFloat32)), 2);
  EXPECT_TRUE(is_expensive(pool.scanned(1, graph::DType::kFloat32)));
}

}  // namespace
}  // namespace braze::schedule
