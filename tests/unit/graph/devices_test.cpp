// The device of results: that of the operands, or the one that is asked for.
#include "graph/devices.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/emitter.h"
#include "graph/infer/infer.h"

namespace braze::graph {
namespace {

constexpr Device kCuda0{Device::Type::kCUDA, 0}, kCuda1{Device::Type::kCUDA, 1};

// Every node has the types that are inferred for it.
void expect_inferred(std::string_view text) {
  const Graph graph = parse(text);
  for (const auto& node : graph.nodes()) {
    SCOPED_TRACE(to_string(*node));
    const auto types = infer_types(node->op(), node->args());
    ASSERT_TRUE(types);
    ASSERT_EQ(types->size(), node->results().size());
    for (size_t i = 0; i < types->size(); ++i)
      EXPECT_EQ(to_string(types->at(i)), to_string(node->results()[i]->type()));
  }
}

TEST(Devices, ResultsAreWhereTheOperandsAre) {
  expect_inferred(
      R"(graph(%0: f32[4, 8]@cuda:0, %1: f32[8, 4]@cuda:0, %2: f32[4]@cuda:0, %3: i64[5]@cuda:0) {
  %10: f32[4, 8]@cuda:0 = aten.mul.Tensor(%0, %0)
  %11: bool[4, 8]@cuda:0 = aten.gt.Scalar(%0, 0)
  %12: f32[8, 4]{1, 8}@cuda:0 = aten.t(%0)
  %13: f32[4]@cuda:0 = aten.sum.dim_IntList(%0, [1], false, None)
  %14: f32[4, 4]@cuda:0 = aten.mm(%0, %1)
  %15: f32[4, 4]@cuda:0 = aten.addmm(%2, %0, %1, 1, 1)
  %16: f32[1, 4, 8]@cuda:0 = aten.unsqueeze(%0, 0)
  %17: f32[1, 8, 4]@cuda:0 = aten.unsqueeze(%1, 0)
  %18: f32[1, 4, 4]@cuda:0 = aten.bmm(%16, %17)
  %19: f32[8, 8]@cuda:0 = aten.cat([%0, %0], 0)
  %20: f32[5, 8]@cuda:0 = aten.index_select(%0, 0, %3)
  %21: f32[4, 8]@cuda:0 = aten.zeros_like(%0)
  return %10, %11, %12, %13, %14, %15, %18, %19, %20, %21
}
)");
}

TEST(Devices, ANumberOnTheCpuMayStandBesideAnyTensor) {
  expect_inferred(
      R"(graph(%0: f32[], %1: f32[8]@cuda:1, %2: bool[]) {
  %3: f32[8]@cuda:1 = aten.add.Tensor(%0, %1, 1)
  %4: f32[8]@cuda:1 = aten.add.Tensor(%1, %0, 1)
  %5: f32[8]@cuda:1 = aten.where.self(%2, %0, %1)
  %6: f32[] = aten.mul.Tensor(%0, %0)
  return %3, %4, %5, %6
}
)");
}

TEST(Devices, TheArgumentDecides) {
  expect_inferred(
      R"(graph(%0: f32[8], %1: f32[8]@cuda:0) {
  %2: f32[3]@cuda:0 = aten.full([3], 1.0, None, None, cuda:0, None)
  %3: f32[3]@cuda:1 = aten.zeros([3], None, None, cuda:1, None)
  %4: f32[3]@cuda:1 = aten.ones([3], f32, None, cuda:1, None)
  %5: f32[3]@cuda:0 = aten.empty.memory_format([3], f32, None, cuda:0, None, None)
  %6: i64[3]@cuda:0 = aten.arange(3, None, None, cuda:0, None)
  %7: i64[2]@cuda:0 = aten.arange.start(1, 3, None, None, cuda:0, None)
  %8: f32[2]@cuda:0 = aten.arange.start_step(0, 4, 2, f32, None, cuda:0, None)
  %9: f32[]@cuda:0 = aten.scalar_tensor(2.0, None, None, cuda:0, None)
  %10: f32[8]@cuda:1 = aten.full_like(%0, 1, None, None, cuda:1, None, None)
  %11: f32[8] = aten.ones_like(%1, None, None, cpu, None, None)
  %12: f32[8]@cuda:0 = aten._to_copy(%0, None, None, cuda:0, None, false, None)
  %13: f32[8] = aten._to_copy(%1, None, None, cpu, None, false, None)
  %14: f32[3] = aten.zeros([3], None, None, None, None)
  return %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14
}
)");
}

TEST(Devices, OperandsThatEagerRefusesAreADefect) {
  for (const char* operands : {"%0, %1", "%1, %0", "%1, %2", "%1, %3"}) {
    const Graph graph = parse(
        "graph(%0: f32[8], %1: f32[8]@cuda:0, %2: f32[8]@cuda:1, %3: f32[]@cuda:1) {"
        " %4: f32[8]@cuda:0 = aten.mul.Tensor(" +
        std::string(operands) + ") return %4 }");
    const Node& node = *graph.nodes().front();
    EXPECT_THROW(infer_types(node.op(), node.args()), InternalError) << operands;
  }
}

TEST(Devices, ACpuHasNoNumber) {
  EXPECT_TRUE(same_device({}, {Device::Type::kCPU, 0}));
  EXPECT_FALSE(same_device(kCuda0, kCuda1));
  EXPECT_FALSE(same_device({}, kCuda0));
}

TEST(Emitter, MakesValuesOnTheDeviceThatIsAskedFor) {
  Graph graph = parse("graph(%0: f32[4]@cuda:0) { return %0 }");
  Emitter emit(graph, nullptr);
  Value* x = graph.inputs()[0].value;
  Value* filled = emit.full(x->type(), 2.0);
  EXPECT_EQ(to_string(*filled->producer()),
            "%1: f32[4]@cuda:0 = aten.full([4], 2.0, f32, None, cuda:0, None)");
  EXPECT_EQ(emit.cast(x, DType::kFloat32, kCuda0), x);
  EXPECT_EQ(emit.cast(x, DType::kFloat64)->type().device, kCuda0);
  EXPECT_EQ(emit.cast(x, DType::kFloat32, kCuda1)->type().device, kCuda1);
  EXPECT_EQ(to_string(emit.cast(x, DType::kInt64, {})->type()), "i64[4]");
}

}  // namespace
}  // namespace braze::graph
