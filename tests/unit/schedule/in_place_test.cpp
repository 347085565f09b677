#include "schedule/in_place.h"

#include <gtest/gtest.h>

#include "schedule/programs.h"

namespace braze::schedule {
namespace {

using Mutations = std::vector<std::pair<int, int>>;

// What is left to be copied at the end.
Mutations left(ProgramBuilder& b, const std::vector<bool>& alone = {}) {
  const size_t inputs =
      std::ranges::count(b.program.buffers, loop::Buffer::Kind::kInput, &loop::Buffer::kind);
  write_inputs_in_place(b.program, {}, alone.empty() ? std::vector<bool>(inputs, true) : alone);
  return b.program.mutations;
}

const loop::Kernel& kernel(const ProgramBuilder& b, size_t item) {
  return std::get<loop::ScheduledKernel>(b.program.items[item]).kernel;
}

TEST(InPlace, AKernelStoresWhatAnInputBecomes) {
  ProgramBuilder b;
  const int x = b.input({64}), y = b.input({64});
  const int sum = b.add({64}, x, y);
  b.program.mutations = {{x, sum}};
  EXPECT_EQ(left(b), Mutations());
  const std::vector<loop::BufferParam>& params = kernel(b, 0).params;
  EXPECT_EQ(params[0].buffer, x);
  EXPECT_EQ(params[1].buffer, y);
  EXPECT_EQ(params[2].buffer, x);
  EXPECT_TRUE(params[2].written);
}

TEST(InPlace, WhatDoesNotReadTheInput) {
  ProgramBuilder b;
  const int x = b.input({64}), y = b.input({64});
  const int e = b.unary({64}, y, ExprKind::kExp);
  b.program.mutations = {{x, e}};
  EXPECT_EQ(left(b), Mutations());
}

TEST(InPlace, LanesMayNotDoElementsTwice) {
  ProgramBuilder b;
  const int x = b.input({7});
  const int e = b.unary({7}, x, ExprKind::kExp);
  b.program.mutations = {{x, e}};
  EXPECT_EQ(left(b), (Mutations{{x, e}}));
}

TEST(InPlace, ReadersComeFirst) {
  ProgramBuilder b;
  const int x = b.input({64}), y = b.input({64});
  const int e = b.unary({64}, x, ExprKind::kExp);
  const int f = b.unary({64}, x, ExprKind::kAbs);
  b.program.mutations = {{x, e}, {y, f}};
  EXPECT_EQ(left(b), (Mutations{{x, e}}));  // x is read behind, y by nobody

  ProgramBuilder swap;
  const int p = swap.input({64}), q = swap.input({64});
  const int r = swap.unary({64}, q, ExprKind::kExp), s = swap.unary({64}, p, ExprKind::kExp);
  swap.program.mutations = {{p, r}, {q, s}};
  EXPECT_EQ(left(swap), (Mutations{{p, r}}));
}

TEST(InPlace, WhatOthersSeeIsCopied) {
  {
    ProgramBuilder b;  // the value is a result, too
    const int x = b.input({64});
    const int e = b.unary({64}, x, ExprKind::kExp);
    b.program.outputs = {e};
    b.program.mutations = {{x, e}};
    EXPECT_EQ(left(b).size(), 1);
  }
  {
    ProgramBuilder b;  // the old value is
    const int x = b.input({64});
    const int e = b.unary({64}, x, ExprKind::kExp);
    b.program.outputs = {x};
    b.program.mutations = {{x, e}};
    EXPECT_EQ(left(b).size(), 1);
  }
  {
    ProgramBuilder b;  // two inputs become it
    const int x = b.input({64}), y = b.input({64});
    const int e = b.unary({64}, x, ExprKind::kExp);
    b.program.mutations = {{x, e}, {y, e}};
    EXPECT_EQ(left(b).size(), 2);
  }
  {
    ProgramBuilder b;  // another input becomes the old value
    const int x = b.input({64}), y = b.input({64});
    const int e = b.unary({64}, x, ExprKind::kExp);
    b.program.mutations = {{x, e}, {y, x}};
    EXPECT_EQ(left(b).size(), 2);
  }
  {
    ProgramBuilder b;  // an operator reads the value
    const int x = b.input({64});
    const int e = b.unary({64}, x, ExprKind::kExp);
    b.call("aten.mm", {e, e}, {64});
    b.program.mutations = {{x, e}};
    EXPECT_EQ(left(b).size(), 1);
  }
  {
    ProgramBuilder b;  // memory that another input shares
    const int x = b.input({64}), y = b.input({64});
    const int e = b.add({64}, x, y);
    b.program.mutations = {{x, e}};
    EXPECT_EQ(left(b, {false, false}).size(), 1);
  }
}

TEST(InPlace, OtherLayoutsAndOtherIndicesAreCopied) {
  ProgramBuilder b;
  const int x = b.input({64, 64});
  b.program.buffers[x].type.strides = {1, 64};
  const int e = b.unary({64, 64}, x, ExprKind::kExp);
  b.program.mutations = {{x, e}};
  EXPECT_EQ(left(b).size(), 1);

  ProgramBuilder turned;
  const int y = turned.input({64, 64});
  auto k = turned.draft("turned", {64, 64});
  const int t = turned.buffer(loop::Buffer::Kind::kComputed, {64, 64});
  k.store(t, k.all_axes(), k.load(y, {k.axis(1), k.axis(0)}), false);
  k.finish();
  turned.program.mutations = {{y, t}};
  EXPECT_EQ(left(turned).size(), 1);
}

TEST(InPlace, ACallThatMayRefuseItsDataRunsAgainFromTheInputsAsTheyWere) {
  ProgramBuilder b;
  const int x = b.input({64}), y = b.input({64, 64});
  const int e = b.unary({64}, x, ExprKind::kExp);
  b.program.outputs = {b.call("aten.mm", {y, y}, {64, 64})};
  b.program.mutations = {{x, e}};
  EXPECT_EQ(left(b).size(), 0);

  ProgramBuilder refuses;
  const int p = refuses.input({64}), q = refuses.input({64, 64});
  const int f = refuses.unary({64}, p, ExprKind::kExp);
  refuses.program.outputs = {refuses.call("aten.cholesky", {q}, {64, 64})};
  refuses.program.mutations = {{p, f}};
  EXPECT_EQ(left(refuses).size(), 1);

  ProgramBuilder behind;
  const int r = behind.input({64}), s = behind.input({64, 64});
  behind.program.outputs = {behind.call("aten.cholesky", {s}, {64, 64})};
  behind.program.mutations = {{r, behind.unary({64}, r, ExprKind::kExp)}};
  EXPECT_EQ(left(behind).size(), 0) << "what it refuses, it has refused by then";
}

// As an optimizer has it: each new value is stored, and what is stored last reads all old ones.
TEST(InPlace, StoresAreBroughtIntoAnOrderThatReadsBeforeItWrites) {
  ProgramBuilder b;
  const int p = b.input({64}), m = b.input({64}), g = b.input({64});
  auto k = b.draft("step", {64});
  const int new_m = b.buffer(loop::Buffer::Kind::kComputed, {64});
  const int new_p = b.buffer(loop::Buffer::Kind::kComputed, {64});
  const ExprRef momentum =
      b.pool().binary(ExprKind::kAdd, k.load(m, k.all_axes()), k.load(g, k.all_axes()));
  k.store(new_m, k.all_axes(), momentum, false);
  k.store(new_p, k.all_axes(), b.pool().binary(ExprKind::kSub, k.load(p, k.all_axes()), momentum),
          false);
  k.finish();
  b.program.mutations = {{p, new_p}, {m, new_m}};
  EXPECT_EQ(left(b), Mutations());
  const loop::Kernel& made = kernel(b, 0);
  EXPECT_EQ(made.params[made.body[0].buffer].buffer, p);
  EXPECT_EQ(made.params[made.body[1].buffer].buffer, m);
}

TEST(InPlace, ValuesThatNeedEachOtherKeepOneCopy) {
  ProgramBuilder b;
  const int x = b.input({64}), y = b.input({64});
  auto k = b.draft("cross", {64});
  const int new_x = b.buffer(loop::Buffer::Kind::kComputed, {64});
  const int new_y = b.buffer(loop::Buffer::Kind::kComputed, {64});
  k.store(new_x, k.all_axes(), k.load(y, k.all_axes()), false);
  k.store(new_y, k.all_axes(), k.load(x, k.all_axes()), false);
  k.finish();
  b.program.mutations = {{x, new_x}, {y, new_y}};
  EXPECT_EQ(left(b).size(), 1);
}

}  // namespace
}  // namespace braze::schedule
