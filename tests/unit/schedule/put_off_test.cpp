#include "schedule/put_off.h"

#include <gtest/gtest.h>

#include "schedule/programs.h"
#include "schedule/together.h"

namespace braze::schedule {
namespace {

const target::Target kGpu = target::cuda(90, 132, 4'800'000);

// Names of kernels and operators, in order.
std::string order_of(const loop::Program& program) {
  std::string text;
  for (const loop::Item& item : program.items) {
    const auto* scheduled = std::get_if<loop::ScheduledKernel>(&item);
    text += (text.empty() ? "" : " ") +
            (scheduled ? scheduled->kernel.name : std::get<loop::ExternCall>(item).op);
  }
  return text;
}

// Two sums in parts, each with an operator behind it whose result is a large output.
struct Sums {
  ProgramBuilder b;
  int x, parts[2], sums[2];

  explicit Sums(int64_t width = 64) {
    x = b.input({1 << 20});
    for (int i : {0, 1}) {
      const int matrix = b.input({width, 8});
      parts[i] = b.unary({width, 8}, matrix, ExprKind::kNeg);
      sums[i] = b.reduce({width, 8}, 1, parts[i], loop::ReduceOp::kSum);
      add_operator();
      b.program.outputs.push_back(sums[i]);
    }
  }
  void add_operator(std::optional<int> operand = {}) {
    const int result = b.call("aten.cos", {operand.value_or(x)}, {1 << 20});
    b.program.outputs.push_back(result);
  }
};

TEST(PutOff, LastAdditionsOfSums) {
  Sums sums;
  put_off(sums.b.program, kGpu);
  EXPECT_EQ(order_of(sums.b.program), "fused_neg aten.cos fused_neg aten.cos fused_sum fused_sum");
  const auto ranges = bring_together(sums.b.program, kGpu);
  EXPECT_EQ(ranges[4], (std::pair{4, 5}));
  EXPECT_EQ(ranges[5], (std::pair{4, 5}));
}

TEST(PutOff, NothingOnACpu) {
  Sums sums;
  const std::string before = order_of(sums.b.program);
  put_off(sums.b.program, target::Cpu{target::Isa::kAvx2, 1});
  EXPECT_EQ(order_of(sums.b.program), before);
}

TEST(PutOff, NotWhatIsReadLater) {
  Sums sums;
  sums.add_operator(sums.sums[0]);
  put_off(sums.b.program, kGpu);
  EXPECT_EQ(order_of(sums.b.program),
            "fused_neg fused_sum aten.cos fused_neg aten.cos aten.cos fused_sum");
}

TEST(PutOff, NotWhatIsWrittenBack) {
  Sums sums;
  sums.b.program.mutations.push_back({sums.b.input({64, 1}), sums.sums[0]});
  put_off(sums.b.program, kGpu);
  EXPECT_EQ(order_of(sums.b.program), "fused_neg fused_sum aten.cos fused_neg aten.cos fused_sum");
}

// What is kept for it until the end is no large part of the results.
TEST(PutOff, NotWhereTooMuchIsKept) {
  Sums few(1 << 13), many(1 << 16);  // a quarter of a megabyte and two, beside results of eight
  put_off(few.b.program, kGpu);
  put_off(many.b.program, kGpu);
  EXPECT_EQ(order_of(few.b.program), "fused_neg aten.cos fused_neg aten.cos fused_sum fused_sum");
  EXPECT_EQ(order_of(many.b.program), "fused_neg fused_sum aten.cos fused_neg fused_sum aten.cos");
}

}  // namespace
}  // namespace braze::schedule
