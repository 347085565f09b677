#include <gtest/gtest.h>

#include "schedule/liveness.h"
#include "schedule/programs.h"

namespace braze::schedule {
namespace {

TEST(MemoryPlan, Homes) {
  ProgramBuilder b;
  int x = b.input({4, 4});
  int m = b.call("aten.mm", {x, x}, {4, 4});
  int other = b.call("aten.convolution", {m}, {4, 4});
  int e = b.unary({4, 4}, other, ExprKind::kExp);
  int half = b.view(e, {2, 4}, 8);
  int out = b.call("aten.mm", {half, e}, {2, 4});
  int dead = b.buffer(loop::Buffer::Kind::kComputed, {4});
  b.program.outputs = {out, x};
  MemoryPlan plan = plan_memory(b.program, {});
  EXPECT_EQ(plan.home[x], Home::kInput);
  EXPECT_EQ(plan.home[m], Home::kArena);
  EXPECT_EQ(plan.home[other], Home::kExtern);
  EXPECT_EQ(plan.home[e], Home::kArena);
  EXPECT_EQ(plan.home[half], Home::kView);
  EXPECT_EQ(plan.home[out], Home::kOutput);
  EXPECT_EQ(plan.home[dead], Home::kNone);
  EXPECT_EQ(plan.offset[out], -1);
}

TEST(MemoryPlan, ByNeedLargeBuffersHaveMemoryOfTheirOwn) {
  ProgramBuilder b;
  int x = b.input({64, 128});
  int small = b.unary({4}, b.input({4}), ExprKind::kExp);
  int m = b.call("aten.mm", {x, x}, {64, 128});
  int e = b.unary({64, 128}, m, ExprKind::kExp);  // in the memory of m
  int n = b.call("aten.mm", {e, small}, {64, 128});
  int f = b.unary({64, 128}, e, ExprKind::kAbs);  // of the type of what the call has made
  int g = b.unary({64, 128}, x, ExprKind::kAbs);
  int h = b.unary({64, 128}, g, ExprKind::kExp);  // g is a part of h, which is handed out
  b.program.outputs = {b.call("aten.mm", {n, n}, {64, 128}), f, h};
  const MemoryPlan plan = plan_memory(b.program, {}, /*own_above=*/1024);
  EXPECT_EQ(plan.home[small], Home::kArena);
  EXPECT_EQ(plan.arena_bytes, 64);
  for (const int buffer : {m, e, n, g}) EXPECT_EQ(plan.home[buffer], Home::kOwn) << buffer;
  for (const int buffer : {f, h}) EXPECT_EQ(plan.home[buffer], Home::kOutput) << buffer;
  EXPECT_EQ(plan.place[m], f);
  EXPECT_EQ(plan.place[e], f);
  EXPECT_EQ(plan.place[n], n);
  EXPECT_EQ(plan.place[f], f);
  EXPECT_EQ(plan.place[g], h);
  EXPECT_EQ(plan.place[h], h);
  EXPECT_EQ(plan.offset[m], -1);
}

TEST(MemoryPlan, ByNeedASumThatGrowsByProductsIsOneTensor) {
  ProgramBuilder b;
  int x = b.input({64, 64});
  int first = b.call("aten.mm", {x, x}, {64, 64});
  int second = b.call("aten.addmm", {first, x, x}, {64, 64});
  int third = b.call("aten.addmm", {second, x, x}, {64, 64});
  int own = b.call("aten.mm", {x, x}, {64, 64});
  int of_itself = b.call("aten.addmm", {own, own, x}, {64, 64});
  int read = b.call("aten.mm", {x, x}, {64, 64});
  int beside = b.call("aten.addmm", {read, x, x}, {64, 64});
  int sum = b.call("aten.addmm", {beside, read, x}, {64, 64});
  b.program.outputs = {third, of_itself, b.call("aten.mm", {sum, sum}, {64, 64})};
  const MemoryPlan plan = plan_memory(b.program, {}, /*own_above=*/1024);
  for (const int part : {first, second, third}) EXPECT_EQ(plan.place[part], third) << part;
  EXPECT_NE(plan.place[of_itself], plan.place[own]);
  EXPECT_NE(plan.place[beside], plan.place[read]);
  EXPECT_EQ(plan.place[sum], plan.place[beside]);
  // In an arena each has a place of its own.
  const MemoryPlan arena = plan_memory(b.program, {});
  EXPECT_NE(arena.offset[beside], arena.offset[sum]);
}

TEST(MemoryPlan, ACallsMemoryIsNoPartOfAnOutputOfAnotherType) {
  ProgramBuilder b;
  int x = b.input({64, 128});
  int m = b.call("aten.mm", {x, x}, {64, 128});
  int e = b.unary({1, 64, 128}, m, ExprKind::kExp);
  b.program.outputs = {e};
  const MemoryPlan plan = plan_memory(b.program, {}, /*own_above=*/1024);
  EXPECT_EQ(plan.place[m], m);
  EXPECT_EQ(plan.place[e], e);
}

TEST(MemoryPlan, CopiesOfABufferOntoItselfGo) {
  for (const bool dies : {true, false}) {
    ProgramBuilder b;
    int x = b.input({64, 128});
    int m = b.call("aten.mm", {x, x}, {64, 128});
    int copy = b.copy({64, 128}, m);
    b.program.outputs = {b.call("aten.mm", {copy, dies ? x : m}, {64, 128})};
    const MemoryPlan plan = plan_memory(b.program, {});
    const size_t items = b.program.items.size();
    remove_copies_in_place(b.program, plan);
    EXPECT_EQ(b.program.items.size(), items - (dies ? 1 : 0));
    loop::verify(b.program);
    // Who read the copy reads what it was a copy of.
    const auto& last = std::get<loop::ExternCall>(b.program.items.back());
    EXPECT_EQ(std::get<int>(last.args[0]), dies ? m : copy);
  }
}

// A copy that is added to afterwards is a buffer of its own from there on.
TEST(MemoryPlan, CopiesThatAreWrittenToStayWhatTheyAre) {
  ProgramBuilder b;
  int x = b.input({64, 128});
  int m = b.call("aten.mm", {x, x}, {64, 128});
  int sum = b.scatter({64, 128}, m, {32, 128}, b.input({32, 128}));
  b.program.outputs = {b.call("aten.mm", {sum, x}, {64, 128})};
  const MemoryPlan plan = plan_memory(b.program, {});
  ASSERT_EQ(plan.place[sum], plan.place[m]);
  remove_copies_in_place(b.program, plan);
  EXPECT_EQ(b.program.items.size(), 3u);
  EXPECT_EQ(std::get<int>(std::get<loop::ExternCall>(b.program.items.back()).args[0]), sum);
}

TEST(MemoryPlan, ViewsOfCopiesThatGoAreViewsOfTheOriginal) {
  ProgramBuilder b;
  int x = b.input({64, 128});
  int m = b.call("aten.mm", {x, x}, {64, 128});
  int second = b.copy({64, 128}, b.copy({64, 128}, m));
  int view = b.view(second, {128, 64}, 0);
  b.program.outputs = {b.call("aten.mm", {view, x}, {64, 128})};
  const MemoryPlan plan = plan_memory(b.program, {});
  remove_copies_in_place(b.program, plan);
  EXPECT_EQ(b.program.items.size(), 2u);
  EXPECT_EQ(b.program.buffers[view].base, m);
  loop::verify(b.program);
}

TEST(MemoryPlan, AnOutputThatIsAViewKeepsItsBaseOutOfTheArena) {
  ProgramBuilder b;
  int e = b.unary({4, 4}, b.input({4, 4}), ExprKind::kExp);
  int f = b.unary({4, 4}, e, ExprKind::kAbs);
  int view = b.call("aten.detach", {f}, {4, 4}, {.results_alias = {0}});
  b.program.outputs = {b.view(e, {2, 4}, 0), view};
  MemoryPlan plan = plan_memory(b.program, {});
  EXPECT_EQ(plan.home[e], Home::kOutput);
  EXPECT_EQ(plan.home[f], Home::kOutput);
  EXPECT_EQ(plan.home[view], Home::kExtern);
}

TEST(MemoryPlan, ExternViewKeepsTheArenaAlive) {
  ProgramBuilder b;
  int x = b.input({16});
  int e = b.unary({16}, x, ExprKind::kExp);
  int view = b.call("aten.detach", {e}, {16}, {.results_alias = {0}});
  int f = b.unary({16}, x, ExprKind::kAbs);  // e itself is dead here, its view is not
  int g = b.call("aten.mm", {f, view}, {16});
  b.program.outputs = {b.call("aten.mm", {g, g}, {16})};
  MemoryPlan plan = plan_memory(b.program, {});
  EXPECT_NE(plan.offset[e], plan.offset[f]);
  EXPECT_EQ(plan.arena_bytes, 3 * 64);
}

TEST(MemoryPlan, PointwiseTakesThePlaceOfADyingOperand) {
  ProgramBuilder b;
  int x = b.input({64, 128});
  int m = b.call("aten.mm", {x, x}, {64, 128});
  int e = b.unary({64, 128}, m, ExprKind::kExp);
  b.program.outputs = {b.call("aten.mm", {e, e}, {64, 128})};
  MemoryPlan plan = plan_memory(b.program, {});
  EXPECT_EQ(plan.offset[m], plan.offset[e]);
  EXPECT_EQ(plan.arena_bytes, 64 * 128 * 4);
}

TEST(MemoryPlan, WhatRunsInPlaceLivesAsLongAsItsLastResult) {
  ProgramBuilder b;
  Shape sizes{64};
  int x = b.input(sizes);
  int m = b.call("aten.mm", {x, x}, sizes);
  int e = b.unary(sizes, m, ExprKind::kExp);
  int f = b.call("aten.mm", {x, x}, sizes);
  b.program.outputs = {b.call("aten.mm", {e, f}, sizes)};
  MemoryPlan plan = plan_memory(b.program, {});
  EXPECT_EQ(plan.offset[m], plan.offset[e]);
  EXPECT_NE(plan.offset[e], plan.offset[f]);
  EXPECT_EQ(plan.arena_bytes, 2 * 256);
}

// A kernel made by `make(draft, operand, result)`: whether it runs in place.
template <class Make>
bool runs_in_place(const Shape& outer, const Shape& inner, Make&& make) {
  ProgramBuilder b;
  Shape sizes = outer;
  sizes.insert(sizes.end(), inner.begin(), inner.end());
  int m = b.call("aten.mm", {b.input(sizes)}, sizes);
  auto k = b.draft("test", outer, inner);
  int t = b.buffer(loop::Buffer::Kind::kComputed, sizes);
  make(k, m, t);
  k.finish();
  b.program.outputs = {b.call("aten.mm", {t, t}, sizes)};
  MemoryPlan plan = plan_memory(b.program, {});
  return plan.offset[m] == plan.offset[t];
}

TEST(MemoryPlan, InPlaceOnlyWherePointsStayApart) {
  auto copy = [](auto& k, int m, int t) {
    k.store(t, k.all_axes(), k.load(m, k.all_axes()), !k.kernel.inner.empty());
  };
  EXPECT_TRUE(runs_in_place({64, 64}, {}, copy));
  EXPECT_FALSE(runs_in_place({64, 60}, {}, copy));  // the last vector may be computed twice
  EXPECT_FALSE(runs_in_place({64}, {64}, copy));    // several sweeps
  EXPECT_FALSE(runs_in_place({64, 64}, {}, [](auto& k, int m, int t) {
    k.store(t, k.all_axes(), k.load(m, {k.axis(1), k.axis(0)}), false);
  }));
}

TEST(MemoryPlan, NotInPlaceWhenTheOperandIsReadAfterTheStore) {
  ProgramBuilder b;
  Shape sizes{64};
  int m = b.call("aten.mm", {b.input(sizes)}, sizes);
  auto k = b.draft("two", sizes);
  int first = b.buffer(loop::Buffer::Kind::kComputed, sizes);
  int second = b.buffer(loop::Buffer::Kind::kComputed, sizes);
  ExprRef value = k.load(m, k.all_axes());
  k.store(first, k.all_axes(), b.pool().unary(ExprKind::kExp, value), false);
  k.store(second, k.all_axes(), value, false);
  k.finish();
  b.program.outputs = {b.call("aten.mm", {first, second}, sizes)};
  MemoryPlan plan = plan_memory(b.program, {});
  EXPECT_NE(plan.offset[m], plan.offset[first]);
  EXPECT_EQ(plan.offset[m], plan.offset[second]);
}

TEST(Order, LowersThePeakWhenItCan) {
  // Three long-lived results made first, each consumed to a small one: better one after the other.
  ProgramBuilder b;
  int x = b.input({1024});
  std::vector<int> wide, small;
  for (int i = 0; i < 3; ++i) wide.push_back(b.call("aten.wide", {x}, {1024}));
  for (int w : wide) small.push_back(b.call("aten.small", {w}, {1}));
  b.program.outputs = {b.call("aten.end", small, {1})};
  Aliases aliases(b.program);
  int64_t before = peak_live_bytes(b.program, aliases);
  order_items(b.program, aliases);
  EXPECT_EQ(before, 3 * 4096 + 4);
  EXPECT_EQ(peak_live_bytes(b.program, aliases), 4096 + 3 * 4);
  loop::verify(b.program);
}

}  // namespace
}  // namespace braze::schedule
