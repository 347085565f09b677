#include "schedule/in_place.h"

#include <gtest/gtest.h>

#include "schedule/liveness.h"
#include "schedule/programs.h"

namespace braze::schedule {
namespace {

using Mutations = std::vector<std::pair<int, int>>;

// What is left to be copied at the end.
Mutations left(ProgramBuilder& b, const std::vector<bool>& alone = {},
               const target::Target& target = {}) {
  const size_t inputs =
      std::ranges::count(b.program.buffers, loop::Buffer::Kind::kInput, &loop::Buffer::kind);
  write_inputs_in_place(b.program, target, alone.empty() ? std::vector<bool>(inputs, true) : alone);
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

// On GPUs, where a thread has its points to itself.
TEST(InPlace, BesideReductionsOnGpus) {
  const target::Target gpu = target::cuda(90, 132, 3350000);
  const auto rows = [](const std::function<void(ProgramBuilder::KernelDraft&, int x, int y)>& fill,
                       const target::Target& target) {
    ProgramBuilder b;
    const int x = b.input({64, 128});
    const int y = b.buffer(loop::Buffer::Kind::kComputed, {64, 128});
    const int sums = b.buffer(loop::Buffer::Kind::kComputed, {64});
    auto k = b.draft("rows", {64}, {128});
    fill(k, x, y);
    k.store(sums, {k.axis(0)}, b.pool().reduced(0, graph::DType::kFloat32), false);
    k.finish();
    b.program.outputs = {sums};
    b.program.mutations = {{x, y}};
    const size_t copies = left(b, {}, target).size();
    const auto& params = kernel(b, 0).params;
    if (copies == 0) EXPECT_EQ(std::ranges::count(params, true, &loop::BufferParam::aliased), 2);
    return copies;
  };
  const auto normalise = [](ProgramBuilder::KernelDraft& k, int x, int y) {
    ExprRef value = k.load(x, k.all_axes());
    ExprRef sum = k.reduce(loop::ReduceOp::kSum, value);
    k.store(y, k.all_axes(), k.builder.pool().binary(ExprKind::kDiv, value, sum), true);
  };
  EXPECT_EQ(rows(normalise, gpu), 0u);
  EXPECT_EQ(rows(normalise, {}), 1u);
  const auto neighbours = [](ProgramBuilder::KernelDraft& k, int x, int y) {
    ExprRef value = k.load(x, {k.axis(0), k.builder.pool().integer(0)});
    ExprRef sum = k.reduce(loop::ReduceOp::kSum, k.load(x, k.all_axes()));
    k.store(y, k.all_axes(), k.builder.pool().binary(ExprKind::kDiv, value, sum), true);
  };
  EXPECT_EQ(rows(neighbours, gpu), 1u);
  const auto read_again = [](ProgramBuilder::KernelDraft& k, int x, int y) {
    ExprRef value = k.load(x, k.all_axes());
    k.store(y, k.all_axes(), k.builder.pool().unary(ExprKind::kExp, value), true);
    k.reduce(loop::ReduceOp::kSum, value);
  };
  EXPECT_EQ(rows(read_again, gpu), 0u);  // the store comes last then
  const auto scanned = [](ProgramBuilder::KernelDraft& k, int x, int y) {
    ExprRef value = k.load(x, k.all_axes());
    k.reduce(loop::ReduceOp::kSum, value);
    k.store(y, k.all_axes(), k.scan(loop::ScanOp::kSum, value), true);
  };
  EXPECT_EQ(rows(scanned, gpu), 1u);
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

// table[index * scale], where a buffer gives the index: a gather with a check.
int gather(ProgramBuilder& b, int table, int index, double scale = 2) {
  auto k = b.draft("gather", {64});
  const ExprRef factor = b.pool().constant(graph::DType::kFloat32, scale);
  const ExprRef at = b.pool().cast(
      b.pool().binary(ExprKind::kMul, k.load(index, k.all_axes()), factor), graph::DType::kInt64);
  const ExprRef checked = b.pool().binary(ExprKind::kCheckIndex, at, b.pool().integer(4));
  const int result = b.buffer(loop::Buffer::Kind::kComputed, {64});
  const ExprRef value = b.pool().load(k.param(table, false), graph::DType::kFloat32, checked);
  k.store(result, k.all_axes(), value, false);
  k.finish();
  return result;
}

TEST(InPlace, AnIndexThatHasBeenCheckedIsNotRefused) {
  ProgramBuilder b;
  const int x = b.input({64}), index = b.input({64}), table = b.input({4});
  const int before = gather(b, table, index);
  b.program.mutations = {{x, b.add({64}, x, before)}};
  b.program.outputs = {gather(b, x, index)};  // of the old x, so that it is a copy below
  EXPECT_EQ(left(b).size(), 1);

  ProgramBuilder again;
  const int y = again.input({64}), same = again.input({64}), rows = again.input({4});
  again.program.mutations = {{y, again.add({64}, y, gather(again, rows, same))}};
  again.program.outputs = {gather(again, rows, same)};
  EXPECT_EQ(left(again).size(), 0);

  ProgramBuilder scaled;  // by numbers that are equal to six digits
  const int v = scaled.input({64}), same_too = scaled.input({64}), table_too = scaled.input({4});
  const int once = gather(scaled, table_too, same_too, 1e-8);
  scaled.program.mutations = {{v, scaled.add({64}, v, once)}};
  scaled.program.outputs = {gather(scaled, table_too, same_too, 2e-8)};
  EXPECT_EQ(left(scaled).size(), 1);

  ProgramBuilder other;
  const int z = other.input({64}), first = other.input({64}), second = other.input({64});
  const int lines = other.input({4});
  other.program.mutations = {{z, other.add({64}, z, gather(other, lines, first))}};
  other.program.outputs = {gather(other, lines, second)};
  EXPECT_EQ(left(other).size(), 1);
}

// A long pointwise chain ends in a sum for each of three inputs, which an update takes away from
// it. What is summed dies where it is summed, and every input is written in place behind the
// products.
TEST(InPlace, UpdatesComeLastAndKeepNothingAlive) {
  constexpr int kLayers = 3, kBetween = 80;
  ProgramBuilder b;
  const int x = b.input({64, 4096});
  int h = x;
  std::vector<int> biases, sums;
  for (int layer = 0; layer < kLayers; ++layer) {
    biases.push_back(b.input({64}));
    h = b.call("aten.mm", {h, h}, {64, 4096});
    const int sum = b.reduce({64, 4096}, 1, h, loop::ReduceOp::kSum);
    sums.push_back(b.view(sum, {64}, 0));
    int small = biases.back();
    for (int i = 0; i < kBetween; ++i) small = b.call("aten.mm", {small, small}, {64});
    b.program.outputs.push_back(small);
  }
  for (int layer = 0; layer < kLayers; ++layer)
    b.program.mutations.emplace_back(biases[layer], b.sub({64}, biases[layer], sums[layer]));
  const std::vector<bool> alone(kLayers + 1, true);
  fuse(b.program, {}, alone);
  loop::verify(b.program);
  EXPECT_LE(peak_live_bytes(b.program, Aliases(b.program)), 64 * 4096 * 4 * 2 + 64 * 4 * 250);
  write_inputs_in_place(b.program, {}, alone);
  EXPECT_EQ(b.program.mutations, Mutations());
  const auto last_call =
      std::find_if(b.program.items.rbegin(), b.program.items.rend(),
                   [](auto& i) { return std::holds_alternative<loop::ExternCall>(i); });
  for (auto item = b.program.items.begin(); item != last_call.base(); ++item) {
    const auto* scheduled = std::get_if<loop::ScheduledKernel>(&*item);
    for (int bias : biases)
      EXPECT_TRUE(!scheduled || std::ranges::none_of(scheduled->kernel.params, [&](auto& param) {
        return param.buffer == bias && param.written;
      }));
  }
}

// As an optimizer has it: each new value is stored, and what is stored last reads all old ones;
// whichever input is looked at first.
class UpdatesOfTwo : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(InPlace, UpdatesOfTwo, testing::Bool());
TEST_P(UpdatesOfTwo, AreBroughtIntoAnOrderThatReadsBeforeItWrites) {
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
  if (GetParam()) std::ranges::reverse(b.program.mutations);
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
