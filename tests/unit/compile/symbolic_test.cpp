// Symbolic graphs compiled once, run with many sizes, and compared with the interpreter on the
// static graph of those sizes.
#include <gtest/gtest.h>

#include "compile/function_runner.h"
#include "exhaustive.h"
#include "graph/substitute.h"
#include "plan/binder.h"
#include "plan/round_trip.h"

namespace braze::compile {
namespace {

using Values = std::vector<std::vector<int64_t>>;

const Values kSizes = {{2},  {3},  {7},  {8},  {15}, {16},  {17},
                       {31}, {33}, {63}, {64}, {65}, {130}, {1500}};
const Values kPairs = {{2, 2},  {3, 7},   {7, 3},  {8, 16}, {16, 8},  {17, 5},
                       {5, 17}, {33, 64}, {64, 2}, {2, 65}, {65, 63}, {4, 300}};

// For graphs of more dimensions, which the interpreter takes its time for.
const Values kFewPairs = {{2, 2}, {3, 7}, {7, 3}, {8, 16}, {17, 5}, {2, 65}, {2, 100}};
const Values& few_pairs() { return exhaustive() ? kPairs : kFewPairs; }

plan::Module compile_symbolic(const graph::Graph& graph, Backend backend) {
  Options options{
      .backend = backend, .target = target::Cpu{target::host_isa()}, .check_passes = true};
  const plan::Module module = compile(graph.clone(), options);
  // As a cache stores it.
  plan::Module stored = plan::round_trip(module);
  EXPECT_EQ(plan::to_string(stored), plan::to_string(module));
  return stored;
}

// The function, which is for all sizes.
plan::Function check(std::string_view text, const Values& values,
                     Backend backend = Backend::kKernels) {
  graph::Graph graph = graph::parse(text);
  graph::verify(graph);
  plan::Module module = compile_symbolic(graph, backend);
  const plan::Function& function = module.functions[0];
  SCOPED_TRACE(plan::to_string(module) + (module.code.empty() ? "" : module.code[0].text));
  for (const std::vector<int64_t>& sizes : values) {
    SCOPED_TRACE("sizes " + testing::PrintToString(sizes));
    graph::Graph fixed = graph::substitute(graph, sizes);
    std::vector<graph::Tensor> inputs = random_inputs(fixed, 1);
    std::vector<graph::Tensor> expected_inputs = copies(inputs);
    std::vector<graph::Tensor> expected = graph::interpret(fixed, expected_inputs);
    plan::Function bound = plan::bind(function, sizes);
    std::vector<graph::Tensor> outputs;
    EXPECT_TRUE(FunctionRunner(bound, module.code).run(inputs, outputs));
    for (size_t i = 0; i < expected.size() && i < outputs.size(); ++i)
      expect_close(outputs[i], expected[i], "output " + std::to_string(i));
    for (size_t i = 0; i < inputs.size(); ++i)
      expect_close(inputs[i], expected_inputs[i], "input " + std::to_string(i));
    EXPECT_EQ(sharing(inputs, outputs), sharing(expected_inputs, expected));
    if (testing::Test::HasFailure()) break;
  }
  return function;
}

TEST(Symbolic, Pointwise) {
  plan::Function function = check(R"(graph(s0 = size(%0, 0) hint 37, %0 x: f32[s0], %1 y: f32[s0]) {
  %2: f32[s0] = aten.add.Tensor(%0, %1, 2)
  %3: f32[s0] = aten.tanh(%2)
  %4: f32[s0] = aten.mul.Tensor(%3, %0)
  return %4
}
)",
                                  kSizes);
  EXPECT_EQ(count_steps<plan::KernelStep>(function), 1);
}

TEST(Symbolic, BroadcastOverRows) {
  plan::Function function = check(
      R"(graph(s0 = size(%0, 0) hint 4, s1 = size(%0, 1) hint 37, %0 x: f32[s0, s1], %1 y: f32[s1], %2 z: f32[s0, 1]) {
  %3: f32[s0, s1] = aten.add.Tensor(%0, %1, 2)
  %4: f32[s0, s1] = aten.mul.Tensor(%3, %2)
  %5: f32[s0, s1] = aten.relu(%4)
  return %5
}
)",
      kPairs);
  EXPECT_EQ(count_steps<plan::KernelStep>(function), 1);
}

TEST(Symbolic, SoftmaxOverASymbolicRow) {
  for (int hint : {3, 128}) {
    if (hint == 3 && !exhaustive()) continue;  // g++ takes a second for it
    plan::Function function = check("graph(s0 = size(%0, 0) hint 12, s1 = size(%0, 1) hint " +
                                        std::to_string(hint) + R"(, %0 x: f32[s0, s1]) {
  %1: f32[s0, s1] = aten.div.Scalar(%0, 8.0)
  %2: f32[s0, s1] = aten._softmax(%1, 1, false)
  %3: f32[s0, s1] = aten._log_softmax(%2, 1, false)
  return %2, %3
}
)",
                                    kPairs);
    EXPECT_EQ(count_steps<plan::ExternStep>(function), 0);
  }
}

TEST(Symbolic, LongRowsOfKeptValues) {
  check(R"(graph(s0 = size(%0, 0) hint 3, s1 = size(%0, 1) hint 64, %0 x: f32[s0, s1]) {
  %1: f32[s0, s1] = aten.gelu(%0, "tanh")
  %2: f32[s0, s1] = aten._softmax(%1, 1, false)
  %3: f32[s0, 1] = aten.sum.dim_IntList(%1, [1], true, None)
  %4: f32[s0, s1] = aten.sub.Tensor(%2, %3, 1)
  return %4
}
)",
        {{2, 3}, {3, 64}, {2, 4096}, {2, 4097}, {2, 9000}});
}

TEST(Symbolic, Reductions) {
  plan::Function function = check(
      R"(graph(s0 = size(%0, 0) hint 4, s1 = size(%0, 1) hint 37, %0 x: f32[s0, s1]) {
  %1: f32[s0] = aten.sum.dim_IntList(%0, [1], false, None)
  %2: f32[s1] = aten.mean.dim(%0, [0], false, None)
  %3: f32[s0] = aten.amax(%0, [1], false)
  %4: i64[s0] = aten.argmax(%0, 1, false)
  %5: i64[s1] = aten.argmin(%0, 0, false)
  %6: f32[] = aten.sum(%0, None)
  %7: f32[s0] = aten.var.correction(%0, [1], 1, false)
  return %1, %2, %3, %4, %5, %6, %7
}
)",
      kPairs);
  EXPECT_EQ(count_steps<plan::ExternStep>(function), 0);
}

TEST(Symbolic, LayerNormOfManyRows) {
  plan::Function function = check(
      R"(graph(s0 = size(%0, 0) hint 2, s1 = size(%0, 1) hint 8, %0 x: f32[s0, s1, 48], %1 g: f32[48] parameter, %2 b: f32[48] parameter) {
  %3: f32[s0, s1, 48] = aten.gelu(%0, "none")
  %4: f32[s0, s1, 48] = aten.add.Tensor(%0, %3, 1)
  %5: f32[s0, s1, 48], %6: f32[s0, s1, 1], %7: f32[s0, s1, 1] = aten.native_layer_norm(%4, [48], %1, %2, 1e-05)
  return %5
}
)",
      few_pairs());
  EXPECT_EQ(count_steps<plan::KernelStep>(function), 1);
}

TEST(Symbolic, LayerNormOfASymbolicRow) {
  check(R"(graph(s0 = size(%0, 0) hint 5, s1 = size(%0, 1) hint 48, %0 x: f32[s0, s1]) {
  %3: f32[s0, s1], %4: f32[s0, 1], %5: f32[s0, 1] = aten.native_layer_norm(%0, [s1], None, None, 1e-05)
  return %3
}
)",
        kPairs);
}

TEST(Symbolic, Transposes) {
  for (const char* hints : {"4 5", "64 48"}) {
    const std::string first(hints, 2), second(hints + 2);
    check("graph(s0 = size(%0, 0) hint " + first + ", s1 = size(%0, 1) hint " + second +
              R"(, %0 x: f32[s0, s1], %1 y: f32[s1, s0]) {
  %2: f32[s1, s0]{1, s1} #%0 = aten.t(%0)
  %3: f32[s1, s0] = aten.clone(%2, contiguous_format)
  %4: f32[s1, s0] = aten.add.Tensor(%1, %2, 1)
  return %3, %4
}
)",
          kPairs);
  }
}

TEST(Symbolic, HeadsOfAttention) {
  plan::Function function = check(
      R"(graph(s0 = size(%0, 0) hint 2, s1 = size(%0, 1) hint 16, %0 x: f32[s0, s1, 24], %1 w: f32[24, 24] parameter, %2 b: f32[24] parameter) {
  %3: f32[s0*s1, 24] #%0 = aten.view(%0, [s0*s1, 24])
  %4: f32[s0*s1, 24] = aten.addmm(%2, %3, %1, 1, 1)
  %5: f32[s0, s1, 24] #%4 = aten.view(%4, [s0, s1, 24])
  %6: f32[s0, s1, 3, 8] #%4 = aten.view(%5, [s0, s1, 3, 8])
  %7: f32[s0, 3, s1, 8]{24*s1, 8, 24, 1} #%4 = aten.transpose.int(%6, 1, 2)
  %8: f32[s0, 3, s1, 8] = aten.clone(%7, contiguous_format)
  %9: f32[3*s0, s1, 8] #%8 = aten.view(%8, [3*s0, s1, 8])
  %10: f32[3*s0, 8, s1]{8*s1, 1, 8} #%8 = aten.transpose.int(%9, 1, 2)
  %11: f32[3*s0, s1, s1] = aten.bmm(%9, %10)
  %12: f32[s0, 3, s1, s1] #%11 = aten.view(%11, [s0, 3, s1, s1])
  %13: f32[s0, 3, s1, s1] = aten.div.Scalar(%12, 2.5)
  %14: f32[s0, 3, s1, s1] = aten._softmax(%13, 3, false)
  %15: f32[3*s0, s1, s1] #%14 = aten.view(%14, [3*s0, s1, s1])
  %16: f32[3*s0, s1, 8] = aten.bmm(%15, %9)
  %17: f32[s0, 3, s1, 8] #%16 = aten.view(%16, [s0, 3, s1, 8])
  %18: f32[s0, s1, 3, 8]{24*s1, 8, 8*s1, 1} #%16 = aten.transpose.int(%17, 1, 2)
  %19: f32[s0, s1, 3, 8] = aten.clone(%18, contiguous_format)
  %20: f32[s0, s1, 24] #%19 = aten.view(%19, [s0, s1, 24])
  %21: f32[s0, s1, 24] = aten.add.Tensor(%0, %20, 1)
  return %21
}
)",
      few_pairs());
  EXPECT_EQ(count_steps<plan::ExternStep>(function), 3);
}

TEST(Symbolic, CausalMaskOfPositions) {
  plan::Function function = check(
      R"(graph(s0 = size(%0, 0) hint 3, s1 = size(%0, 1) hint 20, %0 x: f32[s0, s1, s1]) {
  %1: i64[s1] = aten.arange(s1, None, None, cpu, None)
  %2: i64[s1, 1] #%1 = aten.unsqueeze(%1, 1)
  %3: bool[s1, s1] = aten.le.Tensor(%1, %2)
  %4: f32[] = aten.scalar_tensor(-inf, f32, None, cpu, None)
  %5: f32[s0, s1, s1] = aten.where.self(%3, %0, %4)
  %6: f32[s0, s1, s1] = aten._softmax(%5, 2, false)
  return %6
}
)",
      few_pairs());
  EXPECT_EQ(count_steps<plan::ExternStep>(function), 0);
}

TEST(Symbolic, SlicesAndConcatenations) {
  plan::Function function = check(
      R"(graph(s0 = size(%0, 0) hint 5, s1 = size(%1, 0) hint 9, %0 x: f32[s0, 6], %1 y: f32[s1, 6]) {
  %2: f32[s0 + s1, 6] = aten.cat([%0, %1], 0)
  %3: f32[s0 - 1, 6]+6 #%0 = aten.slice.Tensor(%0, 0, 1, 9223372036854775807, 1)
  %4: f32[s0 - 1, 6] = aten.neg(%3)
  %5: f32[6]+6*s1 - 6 #%1 = aten.select.int(%1, 0, -1)
  %6: f32[s0 + s1, 6] = aten.mul.Tensor(%2, %5)
  return %6, %4
}
)",
      kPairs);
  EXPECT_EQ(count_steps<plan::ExternStep>(function), 0);
}

TEST(Symbolic, IntegersOfTheCall) {
  check(R"(graph(s0 = size(%0, 0) hint 5, s1 = scalar(0) hint 3 range [0, 100], %0 x: f32[s0, 6]) {
  %1: f32[s0, 6] = aten.mul.Scalar(%0, s1)
  %2: i64[s0] = aten.arange.start(s1, s0 + s1, None, None, cpu, None)
  %3: i64[s0] = aten.mul.Scalar(%2, s0)
  return %1, %3
}
)",
        {{5, 3}, {2, 0}, {17, 1}, {40, 100}});
}

TEST(Symbolic, MutationOfAnInput) {
  check(R"(graph(s0 = size(%0, 0) hint 5, %0 x: f32[s0, 6]) {
  %1: f32[s0, 6] #%0 = aten.mul_.Tensor(%0, %0)
  %2: f32[s0, 6] = aten.add.Tensor(%1, %0, 1)
  return %2
}
)",
        kSizes);
}

TEST(Symbolic, EveryOpThroughAten) {
  for (Backend backend : {Backend::kAten, Backend::kEager})
    check(R"(graph(s0 = size(%0, 0) hint 2, s1 = size(%0, 1) hint 8, %0 x: f32[s0, s1, 6]) {
  %1: f32[s0*s1, 6] #%0 = aten.view(%0, [s0*s1, 6])
  %2: f32[s0*s1, 6] = aten.relu(%1)
  %3: f32[s0, s1, 6] #%2 = aten.view(%2, [s0, s1, 6])
  return %3
}
)",
          kPairs, backend);
}

TEST(Symbolic, SizesOutsideOfTheRangeAreRefused) {
  graph::Graph graph = graph::parse(
      R"(graph(s0 = size(%0, 0) hint 5 range [4, 9], %0 x: f32[s0]) {
  %1: f32[s0] = aten.relu(%0)
  return %1
}
)");
  const plan::Module module = compile_symbolic(graph, Backend::kKernels);
  const plan::Function& function = module.functions[0];
  EXPECT_THROW(plan::bind(function, std::vector<int64_t>{3}), plan::Unbindable);
  EXPECT_THROW(plan::bind(function, std::vector<int64_t>{10}), plan::Unbindable);
  EXPECT_EQ(plan::bind(function, std::vector<int64_t>{9}).slots[0].type.sizes[0], sym::Int(9));
}

}  // namespace
}  // namespace braze::compile
