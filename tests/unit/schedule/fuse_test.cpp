#include <gtest/gtest.h>

#include "schedule/programs.h"

namespace braze::schedule {
namespace {

using loop::ReduceOp;

std::string text(const loop::Program& program) { return loop::to_string(program); }

TEST(Fuse, PointwiseChainIsOneKernel) {
  ProgramBuilder b;
  int x = b.input({4, 8}), y = b.input({8});
  int s = b.add({4, 8}, x, y);
  int e = b.unary({4, 8}, s, ExprKind::kExp);
  b.program.outputs = {b.mul({4, 8}, e, s)};
  fuse_and_compare(b.program);
  EXPECT_EQ(kernel_count(b.program), 1) << text(b.program);
  const auto& kernel = std::get<loop::ScheduledKernel>(b.program.items[0]).kernel;
  EXPECT_EQ(kernel.body.size(), 1u);  // nothing stored but the output
  EXPECT_EQ(kernel.params.size(), 3u);
  EXPECT_EQ(kernel.name, "fused_add_exp_mul");
}

// y = (x - mean) * rsqrt(var) * w + b with mean and var reduced separately.
int layer_norm(ProgramBuilder& b, const Shape& sizes, int x, int weight, int bias) {
  size_t last = sizes.size() - 1;
  Shape kept = sizes;
  kept[last] = 1;
  int mean = b.reduce(sizes, last, x, ReduceOp::kSum);
  int centred = b.sub(sizes, x, mean);
  int square = b.mul(sizes, centred, centred);
  int var = b.reduce(sizes, last, square, ReduceOp::kSum);
  int scale = b.unary(kept, b.unary(kept, var, ExprKind::kAbs), ExprKind::kSqrt);
  int normal = b.pointwise("div", sizes, {centred, scale}, ExprKind::kDiv);
  return b.add(sizes, b.mul(sizes, normal, weight), bias);
}

TEST(Fuse, ResidualAndLayerNormIsOneKernel) {
  ProgramBuilder b;
  Shape sizes{2, 4, 16};
  int x = b.input(sizes), y = b.input(sizes), w = b.input({16}), bias = b.input({16});
  b.program.outputs = {layer_norm(b, sizes, b.add(sizes, x, y), w, bias)};
  fuse_and_compare(b.program);
  EXPECT_EQ(kernel_count(b.program), 1) << text(b.program);
  const auto& kernel = std::get<loop::ScheduledKernel>(b.program.items[0]).kernel;
  ASSERT_EQ(kernel.outer.size(), 1u);
  EXPECT_EQ(kernel.outer[0].extent, sym::Int(8));
}

TEST(Fuse, ResidualIsStoredWhenItIsUsedAgain) {
  ProgramBuilder b;
  Shape sizes{8, 16};
  int x = b.input(sizes), y = b.input(sizes), w = b.input({16}), bias = b.input({16});
  int sum = b.add(sizes, x, y);
  int normal = layer_norm(b, sizes, sum, w, bias);
  int product = b.call("aten.mm", {normal, normal}, sizes);
  b.program.outputs = {b.add(sizes, product, sum)};
  fuse_and_compare(b.program);
  EXPECT_EQ(kernel_count(b.program), 2) << text(b.program);
}

TEST(Fuse, SoftmaxIsOneKernel) {
  ProgramBuilder b;
  Shape sizes{2, 3, 4, 8};
  int x = b.input(sizes), mask = b.input({2, 1, 1, 8});
  int masked = b.add(sizes, x, mask);
  int top = b.reduce(sizes, 3, masked, ReduceOp::kMax);
  int e = b.unary(sizes, b.sub(sizes, masked, top), ExprKind::kExp);
  int sum = b.reduce(sizes, 3, e, ReduceOp::kSum);
  b.program.outputs = {b.pointwise("div", sizes, {e, sum}, ExprKind::kDiv)};
  fuse_and_compare(b.program);
  EXPECT_EQ(kernel_count(b.program), 1) << text(b.program);
}

int stores_to_outputs(const loop::Kernel& kernel) {
  int count = 0;
  for (const auto& s : kernel.body) count += s.kind == loop::Statement::Kind::kStore;
  return count;
}

TEST(Fuse, SoftmaxKeepsItsExponentialsInTheOutput) {
  ProgramBuilder b;
  auto k = b.draft("softmax", {6}, {37});
  int x = b.input({6, 37});
  ExprRef top = k.reduce(ReduceOp::kMax, k.load(x, k.all_axes()));
  ExprRef difference = b.pool().binary(ExprKind::kSub, k.load(x, k.all_axes()), top);
  ExprRef e = b.pool().unary(ExprKind::kExp, difference);
  ExprRef sum = k.reduce(ReduceOp::kSum, e);
  int out = b.buffer(loop::Buffer::Kind::kComputed, {6, 37});
  k.store(out, k.all_axes(), b.pool().binary(ExprKind::kDiv, e, sum), true);
  k.finish();
  b.program.outputs = {out};
  fuse_and_compare(b.program);
  const auto& kernel = std::get<loop::ScheduledKernel>(b.program.items[0]).kernel;
  EXPECT_EQ(stores_to_outputs(kernel), 2) << text(b.program);
  EXPECT_EQ(kernel.body.back().value->args[0]->kind, ExprKind::kLoad) << text(b.program);
}

TEST(Fuse, AnExpensivePrologueIsComputedOnce) {
  ProgramBuilder b;
  Shape sizes{4, 16};
  int x = b.input(sizes), w = b.input({16}), bias = b.input({16});
  int gelu = b.mul(sizes, x, b.unary(sizes, x, ExprKind::kErf));
  b.program.outputs = {layer_norm(b, sizes, gelu, w, bias)};
  fuse_and_compare(b.program);
  EXPECT_EQ(kernel_count(b.program), 1) << text(b.program);
  // Stored in the first sweep, loaded back in the later ones.
  const auto& kernel = std::get<loop::ScheduledKernel>(b.program.items[0]).kernel;
  EXPECT_EQ(stores_to_outputs(kernel), 2) << text(b.program);
}

TEST(Fuse, GeluBetweenTwoMatmuls) {
  ProgramBuilder b;
  int x = b.input({4, 8}), w = b.input({8, 8});
  int h = b.call("aten.mm", {x, w}, {4, 8});
  int inner = b.mul({4, 8}, h, b.unary({4, 8}, h, ExprKind::kErf));
  b.program.outputs = {b.call("aten.mm", {inner, w}, {4, 8})};
  fuse_and_compare(b.program);
  EXPECT_EQ(kernel_count(b.program), 1) << text(b.program);
}

TEST(Fuse, RotaryOfQueryAndKeySharesOneKernel) {
  ProgramBuilder b;
  Shape sizes{2, 4, 6, 8}, table{6, 8};
  int q = b.input(sizes), k = b.input(sizes), cos = b.input(table), sin = b.input(table);
  std::vector<int> rotated;
  for (int x : {q, k}) {
    rotated.push_back(b.add(sizes, b.mul(sizes, x, cos), b.mul(sizes, x, sin)));
  }
  b.program.outputs = {b.call("aten.bmm", rotated, sizes)};
  fuse_and_compare(b.program);
  EXPECT_EQ(kernel_count(b.program), 1) << text(b.program);
}

TEST(Fuse, BatchNormReluAdd) {
  ProgramBuilder b;
  Shape sizes{2, 4, 3, 3}, channel{4, 1, 1};
  int x = b.input(sizes), other = b.input(sizes);
  int mean = b.input(channel), var = b.input(channel), w = b.input(channel);
  int conv = b.call("aten.convolution", {x}, sizes);
  int scale = b.mul(channel, b.unary(channel, var, ExprKind::kSqrt), w);
  int normal = b.mul(sizes, b.sub(sizes, conv, mean), scale);
  b.program.outputs = {b.unary(sizes, b.add(sizes, normal, other), ExprKind::kAbs)};
  fuse_and_compare(b.program);
  EXPECT_EQ(kernel_count(b.program), 1) << text(b.program);  // the scale of a channel is inlined
}

TEST(Fuse, NotAcrossAnExternInBetween) {
  ProgramBuilder b;
  int x = b.input({4, 8});
  int a = b.unary({4, 8}, x, ExprKind::kExp);
  int m = b.call("aten.mm", {a, x}, {4, 8});
  b.program.outputs = {b.add({4, 8}, a, m)};
  fuse_and_compare(b.program);
  EXPECT_EQ(kernel_count(b.program), 2) << text(b.program);
}

TEST(Fuse, NotWhenTheConsumerReadsAnotherPoint) {
  ProgramBuilder b;
  int x = b.input({6, 6});
  int e = b.unary({6, 6}, x, ExprKind::kExp);
  auto k = b.draft("transpose", {6, 6});
  int out = b.buffer(loop::Buffer::Kind::kComputed, {6, 6});
  k.store(out, k.all_axes(), k.load(e, {k.axis(1), k.axis(0)}), false);
  k.finish();
  b.program.outputs = {out, e};
  fuse_and_compare(b.program);
  EXPECT_EQ(kernel_count(b.program), 2) << text(b.program);
}

TEST(Fuse, OrderedCallsKeepTheirOrder) {
  ProgramBuilder b;
  int x = b.input({4});
  graph::Effects random{.random = true};
  int r1 = b.call("aten.rand_like", {x}, {4}, random);
  int big = b.unary({4}, b.unary({4}, r1, ExprKind::kExp), ExprKind::kAbs);
  int r2 = b.call("aten.randn_like", {x}, {4}, random);
  b.program.outputs = {b.add({4}, b.add({4}, big, r2), x)};
  fuse_and_compare(b.program);
  std::vector<std::string> calls;
  for (const auto& item : b.program.items) {
    if (const auto* call = std::get_if<loop::ExternCall>(&item)) calls.push_back(call->op);
  }
  EXPECT_EQ(calls, (std::vector<std::string>{"aten.rand_like", "aten.randn_like"}));
  EXPECT_EQ(kernel_count(b.program), 1) << text(b.program);
}

TEST(Fuse, DeadKernelsGo) {
  ProgramBuilder b;
  int x = b.input({4});
  b.unary({4}, x, ExprKind::kExp);
  b.program.outputs = {b.unary({4}, x, ExprKind::kAbs)};
  fuse_and_compare(b.program);
  EXPECT_EQ(kernel_count(b.program), 1) << text(b.program);
}

TEST(Fuse, CheapMaskIsInlinedIntoItsConsumers) {
  ProgramBuilder b;
  Shape sizes{2, 4, 8, 8};
  int mask = b.input({2, 1, 1, 8});
  int bias = b.unary({2, 1, 1, 8}, mask, ExprKind::kNeg);
  int x = b.input(sizes);
  for (int layer = 0; layer < 3; ++layer) {
    x = b.call("aten.bmm", {b.add(sizes, x, bias)}, sizes);
  }
  b.program.outputs = {x};
  fuse_and_compare(b.program);
  EXPECT_EQ(kernel_count(b.program), 3) << text(b.program);
}

TEST(Fuse, ExpensiveOrNeededKernelsAreNotInlined) {
  for (ExprKind op : {ExprKind::kCos, ExprKind::kNeg}) {
    ProgramBuilder b;
    Shape sizes{4, 8, 8};
    int table = b.unary({8, 8}, b.input({8, 8}), op);
    int x = b.call("aten.bmm", {b.add(sizes, b.input(sizes), table)}, sizes);
    b.program.outputs = {b.add(sizes, x, table)};
    if (op == ExprKind::kNeg) b.program.outputs.push_back(table);
    fuse_and_compare(b.program);
    EXPECT_EQ(kernel_count(b.program), 3) << text(b.program);
  }
}

TEST(Fuse, StoreThroughAViewIsSeenByItsBase) {
  ProgramBuilder b;
  int x = b.input({4, 8});
  int e = b.unary({8, 8}, b.input({8, 8}), ExprKind::kExp);
  int half = b.view(e, {4, 8}, 32);
  b.program.outputs = {b.add({4, 8}, half, x)};
  fuse_and_compare(b.program);
}

TEST(Fuse, LongPointwiseKeepsItsThreadsBesideAFullReduction) {
  for (int threads : {1, 8}) {
    ProgramBuilder b;
    int x = b.input({65536});
    b.program.outputs = {
        b.reduce({65536}, 0, b.unary({65536}, x, ExprKind::kExp), ReduceOp::kArgMax)};
    fuse(b.program, target::Cpu{.threads = threads});
    EXPECT_EQ(kernel_count(b.program), threads == 1 ? 1 : 2);
  }
}

TEST(Fuse, LongPointwiseIsPartOfAReductionThatIsSplit) {
  for (int threads : {1, 8}) {
    ProgramBuilder b;
    int x = b.input({65536});
    b.program.outputs = {b.reduce({65536}, 0, b.unary({65536}, x, ExprKind::kExp), ReduceOp::kMax)};
    fuse(b.program, target::Cpu{.threads = threads});
    EXPECT_EQ(kernel_count(b.program), 2);  // the parts, and the result of the parts
  }
}

}  // namespace
}  // namespace braze::schedule
