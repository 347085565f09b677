// Random programs: fused and unfused give the same values, in memory of their own and in the arena,
// and fusion never raises the peak.
#include <gtest/gtest.h>

#include "codegen/cuda/codegen.h"
#include "exhaustive.h"
#include "schedule/liveness.h"
#include "schedule/programs.h"
#include "schedule/put_off.h"
#include "schedule/together.h"

namespace braze::schedule {
namespace {

using loop::ReduceOp;

class RandomProgram {
 public:
  // `gpu`: scans have parts, and nothing is scattered.
  explicit RandomProgram(uint32_t seed, bool gpu = false) : random_(seed), gpu_(gpu) {}

  void make(ProgramBuilder& b) {
    for (const Shape& shape : kShapes) {
      if (below(2) == 0) add(b.input(shape), shape);
    }
    add(b.input({4, 6}), {4, 6});
    for (int steps = below(14) + 2; steps > 0; --steps) step(b);
    for (int i = below(3) + 1; i > 0; --i) {
      b.program.outputs.push_back(values_[values_.size() - 1 - below(3) % values_.size()].buffer);
    }
    if (below(3) == 0) {
      const Value& source = any();
      int target = b.input(source.shape);
      b.program.mutations.push_back({target, source.buffer});
    }
  }

 private:
  struct Value {
    int buffer;
    Shape shape;
  };
  inline static const Shape kShapes[] = {{4, 6},       {2, 2, 6}, {6},    {4, 1}, {24},
                                         {2, 2, 2, 3}, {4},       {6, 4}, {1, 6}, {3}};

  int below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  void add(int buffer, Shape shape) { values_.push_back({buffer, std::move(shape)}); }
  const Value& any() {
    // Recent values more often.
    size_t back = static_cast<size_t>(below(below(2) == 0 ? 3 : static_cast<int>(values_.size())));
    return values_[values_.size() - 1 - std::min(back, values_.size() - 1)];
  }

  static bool broadcasts(const Shape& from, const Shape& to) {
    if (from.size() > to.size()) return false;
    for (size_t i = 0; i < from.size(); ++i) {
      int64_t size = from[i];
      if (size != 1 && size != to[to.size() - from.size() + i]) return false;
    }
    return true;
  }

  void step(ProgramBuilder& b) {
    switch (below(11)) {
      case 0:
        return extern_call(b);
      case 1:
        return reduction(b);
      case 2:
        return normalisation(b);
      case 3:
        return transpose(b);
      case 4:
        return reshaped(b);
      case 5:
        return view(b);
      case 6:
        return gpu_ ? scan_along(b) : scan(b);
      case 7:
        return gpu_ ? flip(b) : scatter(b);
      default:
        return pointwise(b);
    }
  }

  void pointwise(ProgramBuilder& b) {
    Value a = any();
    std::vector<int> operands{a.buffer};
    for (int tries = below(4); tries > 0; --tries) {
      const Value& other = any();
      if (broadcasts(other.shape, a.shape)) operands.push_back(other.buffer);
    }
    if (operands.size() == 1) {
      add(b.unary(a.shape, a.buffer, below(2) == 0 ? ExprKind::kSin : ExprKind::kAbs), a.shape);
    } else {
      ExprKind ops[] = {ExprKind::kAdd, ExprKind::kSub, ExprKind::kMax};
      add(b.pointwise("op", a.shape, operands, ops[below(3)]), a.shape);
    }
  }

  void reduction(ProgramBuilder& b) {
    Value a = any();
    if (a.shape.empty()) return;
    size_t first = static_cast<size_t>(below(static_cast<int>(a.shape.size())));
    Shape kept = a.shape;
    for (size_t i = first; i < kept.size(); ++i) kept[i] = 1;
    add(b.reduce(a.shape, first, a.buffer, below(2) == 0 ? ReduceOp::kSum : ReduceOp::kMax), kept);
  }

  void scan(ProgramBuilder& b) {
    Value a = any();
    if (a.shape.empty()) return;
    add(b.scan(a.shape, static_cast<size_t>(below(static_cast<int>(a.shape.size()))), a.buffer),
        a.shape);
  }

  void scan_along(ProgramBuilder& b) {
    Value a = any();
    if (a.shape.empty()) return;
    const auto dim = static_cast<size_t>(below(static_cast<int>(a.shape.size())));
    const loop::ScanOp ops[] = {loop::ScanOp::kSum, loop::ScanOp::kMin, loop::ScanOp::kLogSumExp};
    const bool from_end = below(2) == 0;
    int operand = from_end ? b.flip(a.shape, dim, a.buffer) : a.buffer;
    int result = b.scan_along(a.shape, dim, operand, ops[below(3)]);
    add(from_end ? b.flip(a.shape, dim, result) : result, a.shape);
  }

  void flip(ProgramBuilder& b) {
    Value a = any();
    if (a.shape.empty()) return;
    const auto dim = static_cast<size_t>(below(static_cast<int>(a.shape.size())));
    add(b.flip(a.shape, dim, a.buffer), a.shape);
  }

  void scatter(ProgramBuilder& b) {
    Value a = any(), source = any();
    if (a.shape.size() != 2 || source.shape.size() != 2 || a.shape[1] != source.shape[1]) return;
    const loop::StoreOp op = below(2) ? loop::StoreOp::kAdd : loop::StoreOp::kLast;
    add(b.scatter(a.shape, a.buffer, source.shape, source.buffer, op), a.shape);
  }

  // max and sum of the row in one kernel, stored at both levels.
  void normalisation(ProgramBuilder& b) {
    Value a = any();
    if (a.shape.empty()) return;
    size_t first = static_cast<size_t>(below(static_cast<int>(a.shape.size())));
    Shape outer(a.shape.begin(), a.shape.begin() + first);
    auto k = b.draft("norm", outer, Shape(a.shape.begin() + first, a.shape.end()));
    ExprRef x = k.load(a.buffer, k.all_axes());
    ExprRef top = k.reduce(ReduceOp::kMax, x);
    ExprRef sum = k.reduce(ReduceOp::kSum, b.pool().binary(ExprKind::kSub, x, top));
    int rows = b.buffer(loop::Buffer::Kind::kComputed, outer);
    k.store(rows, k.outer_axes(), sum, false);
    int result = b.buffer(loop::Buffer::Kind::kComputed, a.shape);
    k.store(result, k.all_axes(),
            b.pool().binary(ExprKind::kSub, b.pool().unary(ExprKind::kSin, x), sum), true);
    k.finish();
    add(rows, outer);
    add(result, a.shape);
  }

  void transpose(ProgramBuilder& b) {
    Value a = any();
    if (a.shape.size() != 2) return;
    auto k = b.draft("transpose", {a.shape[1], a.shape[0]});
    int result = b.buffer(loop::Buffer::Kind::kComputed, {a.shape[1], a.shape[0]});
    k.store(result, k.all_axes(), k.load(a.buffer, {k.axis(1), k.axis(0)}), false);
    k.finish();
    add(result, {a.shape[1], a.shape[0]});
  }

  // Reads a value by its linear index under another shape.
  void reshaped(ProgramBuilder& b) {
    Value a = any();
    int64_t count = 1;
    for (int64_t size : a.shape) count *= size;
    for (const Shape& shape : kShapes) {
      int64_t other = 1;
      for (int64_t size : shape) other *= size;
      if (other != count || shape == a.shape) continue;
      auto k = b.draft("reshape", shape);
      int result = b.buffer(loop::Buffer::Kind::kComputed, shape);
      ExprRef index = k.index(result, k.all_axes());
      ExprRef x = b.pool().load(k.param(a.buffer, false), graph::DType::kFloat32, index);
      k.store(result, k.all_axes(), b.pool().unary(ExprKind::kNeg, x), false);
      k.finish();
      add(result, shape);
      return;
    }
  }

  void view(ProgramBuilder& b) {
    Value a = any();
    if (a.shape.empty() || a.shape[0] < 2) return;
    int64_t row = 1;
    for (size_t i = 1; i < a.shape.size(); ++i) row *= a.shape[i];
    Shape half = a.shape;
    half[0] = a.shape[0] / 2;
    add(b.view(a.buffer, half, below(2) * half[0] * row), half);
  }

  void extern_call(ProgramBuilder& b) {
    Value a = any();
    graph::Effects effects;
    switch (below(5)) {
      case 0:
        effects.random = true;
        break;
      case 1:
        effects.results_alias = {0};
        add(b.call("aten.detach", {a.buffer}, a.shape, effects), a.shape);
        return;
      default:
        break;
    }
    std::string op = below(2) == 0 ? "aten.mm" : "aten.other" + std::string(below(3), 'x');
    add(b.call(op, {a.buffer, any().buffer}, a.shape, effects), a.shape);
  }

  std::mt19937 random_;
  const bool gpu_;
  std::vector<Value> values_;
};

class FuseFuzz : public testing::TestWithParam<uint32_t> {};

TEST_P(FuseFuzz, SameValuesNoHigherPeak) {
  const uint32_t seeds = exhaustive() ? 20000 : 400;
  for (uint32_t seed = GetParam() * seeds; seed < (GetParam() + 1) * seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ProgramBuilder b;
    RandomProgram(seed).make(b);
    int64_t before = peak_live_bytes(b.program, Aliases(b.program));
    fuse_and_compare(b.program, target::Cpu{.threads = 1 + static_cast<int>(seed % 2) * 7}, seed);
    if (HasFatalFailure()) return;
    ASSERT_LE(peak_live_bytes(b.program, Aliases(b.program)), before);
  }
}

TEST_P(FuseFuzz, OfAGpuHasCodeForItsKernels) {
  const uint32_t seeds = exhaustive() ? 20000 : 200;
  const target::Cuda gpu = target::cuda(90, 132, 3350000);
  for (uint32_t seed = GetParam() * seeds; seed < (GetParam() + 1) * seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ProgramBuilder b;
    RandomProgram(seed, /*gpu=*/true).make(b);
    fuse_and_compare(b.program, gpu, seed);
    if (HasFatalFailure()) return;
    for (const loop::Item& item : b.program.items) {
      const auto* scheduled = std::get_if<loop::ScheduledKernel>(&item);
      if (!scheduled) continue;
      ASSERT_EQ(codegen::cuda::why_unsupported(scheduled->kernel), "");
      EXPECT_FALSE(codegen::cuda::generate(scheduled->kernel, gpu).text.empty());
    }
  }
}

// Kernels of one operation, of which many may wait.
TEST_P(FuseFuzz, WhatIsPutOffGivesTheSameValues) {
  const uint32_t seeds = exhaustive() ? 20000 : 400;
  const target::Cuda gpu = target::cuda(90, 132, 3350000);
  int moved = 0;
  for (uint32_t seed = GetParam() * seeds; seed < (GetParam() + 1) * seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ProgramBuilder b;
    RandomProgram(seed, /*gpu=*/true).make(b);
    const std::string before = loop::to_string(b.program);
    compare(b.program, gpu, seed, [&] {
      put_off(b.program, gpu, /*share=*/1);
      moved += loop::to_string(b.program) != before;
      bring_together(b.program, gpu);
    });
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(moved, static_cast<int>(seeds / 20));
}

INSTANTIATE_TEST_SUITE_P(Seeds, FuseFuzz, testing::Range(0u, 5u));

}  // namespace
}  // namespace braze::schedule
