#include <gtest/gtest.h>

#include "compile/function_runner.h"

namespace braze::compile {
namespace {

class EndToEnd : public testing::TestWithParam<Backend> {
 protected:
  plan::Function check(std::string_view text) {
    return compile_and_compare(text,
                               {.backend = GetParam(), .target = target::Cpu{target::host_isa()}});
  }
  bool kernels() const { return GetParam() == Backend::kKernels; }
};

std::string backend_name(const testing::TestParamInfo<Backend>& info) {
  switch (info.param) {
    case Backend::kKernels:
      return "Kernels";
    case Backend::kAten:
      return "Aten";
    case Backend::kEager:
      return "Eager";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Backends, EndToEnd,
                         testing::Values(Backend::kKernels, Backend::kAten, Backend::kEager),
                         backend_name);

TEST_P(EndToEnd, Pointwise) {
  plan::Function function = check(R"(graph(%0 x: f32[4, 37], %1 y: f32[37]) {
  %2: f32[4, 37] = aten.add.Tensor(%0, %1, 2)
  %3: f32[4, 37] = aten.relu(%2)
  %4: f32[4, 37] = aten.mul.Tensor(%3, %0)
  %5: f32[4, 37] = aten.exp(%4)
  return %5, %3
}
)");
  if (kernels()) EXPECT_EQ(count_steps<plan::KernelStep>(function), 1);
}

TEST_P(EndToEnd, TransformerBlock) {
  plan::Function function = check(
      R"(graph(%0 x: f32[2, 8, 16], %1 w: f32[16, 64] parameter, %2 b: f32[64] parameter, %3 w2: f32[64, 16] parameter, %4 b2: f32[16] parameter, %5 g: f32[16] parameter) {
  %6: f32[2, 8, 16], %7: f32[2, 8, 1], %8: f32[2, 8, 1] = aten.native_layer_norm(%0, [16], %5, %4, 1e-05)
  %9: f32[16, 16] #%6 = aten.view(%6, [16, 16])
  %10: f32[16, 64] = aten.addmm(%2, %9, %1, 1, 1)
  %11: f32[2, 8, 64] #%10 = aten.view(%10, [2, 8, 64])
  %12: f32[2, 8, 64] = aten.gelu(%11, "none")
  %13: f32[16, 64] #%12 = aten.view(%12, [16, 64])
  %14: f32[16, 16] = aten.addmm(%4, %13, %3, 1, 1)
  %15: f32[2, 8, 16] #%14 = aten.view(%14, [2, 8, 16])
  %16: f32[2, 8, 16] = aten.add.Tensor(%0, %15, 1)
  %17: f32[2, 8, 16], %18: f32[2, 8, 1], %19: f32[2, 8, 1] = aten.native_layer_norm(%16, [16], %5, %4, 1e-05)
  return %17, %16
}
)");
  if (kernels()) EXPECT_EQ(count_steps<plan::KernelStep>(function), 3);
}

// Expensive values are kept in memory between the sweeps; 37 is no multiple of the lanes.
TEST_P(EndToEnd, GeluLayerNormSoftmax) {
  plan::Function function = check(R"(graph(%0 x: f32[3, 5, 37], %1 g: f32[37], %2 b: f32[37]) {
  %3: f32[3, 5, 37] = aten.gelu(%0, "tanh")
  %4: f32[3, 5, 37], %5: f32[3, 5, 1], %6: f32[3, 5, 1] = aten.native_layer_norm(%3, [37], %1, %2, 1e-05)
  %7: f32[3, 5, 37] = aten.exp(%4)
  %8: f32[3, 5, 37] = aten._softmax(%7, 2, false)
  %9: f32[3, 5, 37] = aten._log_softmax(%8, 2, false)
  return %9, %3
}
)");
  if (kernels()) EXPECT_LE(count_steps<plan::KernelStep>(function), 3);
}

TEST_P(EndToEnd, Attention) {
  plan::Function function = check(
      R"(graph(%0 q: f32[2, 4, 8, 16], %1 k: f32[2, 4, 8, 16], %2 v: f32[2, 4, 8, 16], %3 mask: f32[2, 1, 1, 8]) {
  %4: f32[2, 4, 16, 8]{512, 128, 1, 16} #%1 = aten.transpose.int(%1, 2, 3)
  %5: f32[8, 8, 16] #%0 = aten.view(%0, [8, 8, 16])
  %6: f32[8, 16, 8]{128, 1, 16} #%1 = aten.view(%4, [8, 16, 8])
  %7: f32[8, 8, 8] = aten.bmm(%5, %6)
  %8: f32[2, 4, 8, 8] #%7 = aten.view(%7, [2, 4, 8, 8])
  %9: f32[2, 4, 8, 8] = aten.mul.Tensor(%8, 0.25)
  %10: f32[2, 4, 8, 8] = aten.add.Tensor(%9, %3, 1)
  %11: f32[2, 4, 8, 8] = aten._softmax(%10, -1, false)
  %12: f32[8, 8, 8] #%11 = aten.view(%11, [8, 8, 8])
  %13: f32[8, 8, 16] #%2 = aten.view(%2, [8, 8, 16])
  %14: f32[8, 8, 16] = aten.bmm(%12, %13)
  %15: f32[2, 4, 8, 16] #%14 = aten.view(%14, [2, 4, 8, 16])
  %16: f32[2, 8, 4, 16]{512, 16, 128, 1} #%14 = aten.permute(%15, [0, 2, 1, 3])
  %17: f32[2, 8, 4, 16] = aten.clone(%16, contiguous_format)
  %18: f32[16, 64] #%17 = aten.view(%17, [16, 64])
  return %18
}
)");
  if (kernels()) EXPECT_EQ(count_steps<plan::KernelStep>(function), 2);
}

TEST_P(EndToEnd, InPlaceOnInputs) {
  plan::Function function = check(R"(graph(%0 x: f32[4, 8], %1 y: f32[8]) {
  %2: f32[4, 8] #%0 = aten.add_.Tensor(%0, %1, 1)
  %3: f32[2, 8]+8 #%0 = aten.slice.Tensor(%2, 0, 1, 3, 1)
  %4: f32[2, 8]+8 #%0 = aten.mul_.Tensor(%3, 3.0)
  %5: f32[4, 8] = aten.sin(%0)
  return %5, %0
}
)");
  if (GetParam() != Backend::kEager) EXPECT_EQ(count_steps<plan::CopyStep>(function), 1);
}

TEST_P(EndToEnd, SwapOfTwoInputs) {
  check(R"(graph(%0 x: f32[6], %1 y: f32[6]) {
  %2: f32[6] = aten.clone(%0, None)
  %3: f32[6] #%0 = aten.copy_(%0, %1, false)
  %4: f32[6] #%1 = aten.copy_(%1, %2, false)
  return
}
)");
}

TEST_P(EndToEnd, EmptyTensors) {
  check(R"(graph(%0 x: f32[0, 3], %1 y: f32[3]) {
  %2: f32[0, 3] = aten.add.Tensor(%0, %1, 1)
  %3: f32[3] = aten.sum.dim_IntList(%2, [0], false, None)
  %4: f32[0] = aten.sum.dim_IntList(%2, [1], false, None)
  return %2, %3, %4
}
)");
}

TEST_P(EndToEnd, OutputsThatAreInputsAndViews) {
  check(R"(graph(%0 x: f32[4, 8]) {
  %1: f32[8, 4]{1, 8} #%0 = aten.t(%0)
  %2: f32[4, 8] = aten.exp(%0)
  %3: f32[8]+16 #%2 = aten.select.int(%2, 0, 2)
  return %1, %0, %3, %2, %2
}
)");
}

TEST_P(EndToEnd, Integers) {
  check(R"(graph(%0 ids: i64[2, 5], %1 table: f32[3, 8] parameter) {
  %2: f32[2, 5, 8] = aten.embedding(%1, %0, -1, false, false)
  %3: bool[2, 5] = aten.gt.Scalar(%0, 0)
  %4: bool[2, 5, 1] #%3 = aten.unsqueeze(%3, 2)
  %5: f32[2, 5, 8] = aten.mul.Tensor(%2, %4)
  %6: f32[2, 8] = aten.sum.dim_IntList(%5, [1], false, None)
  return %6
}
)");
}

TEST(EndToEndKernels, RepeatedLayersShareKernels) {
  std::string text = "graph(%0 x: f32[8, 16], %1 w: f32[16, 16] parameter) {\n";
  std::string last = "%0";
  int next = 2;
  auto value = [&](const std::string& call) {
    std::string name = "%" + std::to_string(next++);
    text += "  " + name + ": f32[8, 16] = " + call + "\n";
    return name;
  };
  for (int layer = 0; layer < 6; ++layer) {
    std::string product = value("aten.mm(" + last + ", %1)");
    std::string relu = value("aten.relu(" + product + ")");
    std::string sum = value("aten.add.Tensor(" + relu + ", " + last + ", 1)");
    last = value("aten._softmax(" + sum + ", 1, false)");
  }
  plan::Function function = compile_and_compare(text + "  return " + last + "\n}\n");
  EXPECT_EQ(count_steps<plan::KernelStep>(function), 6);
  EXPECT_EQ(function.kernels.size(), 1u);
}

TEST(EndToEndKernels, IndexOutOfRangeAsksForEager) {
  graph::Graph graph = graph::parse(R"(graph(%0 ids: i64[2], %1 table: f32[3, 8]) {
  %2: f32[2, 8] = aten.embedding(%1, %0, -1, false, false)
  return %2
}
)");
  std::vector<graph::Tensor> inputs = random_inputs(graph, 1), outputs;
  int64_t index[] = {1};
  inputs[0].set(index, graph::Number::of(int64_t{7}));
  const plan::Module module = compile(graph.clone(), {});
  EXPECT_FALSE(FunctionRunner(module.functions[0], module.code).run(inputs, outputs));
}

TEST(EndToEndKernels, WhatCannotBeFunctionalisedRunsAsTraced) {
  graph::Graph graph = graph::parse(R"(graph(%0 x: f32[4]) {
  %1: f32[4] #%0 = aten.normal_(%0, 0.0, 1.0)
  %2: f32[4] = aten.exp(%0)
  return %2
}
)");
  std::string reason;
  Options options;
  options.dump = [&](const char* stage, const std::string& text) {
    if (std::string_view(stage) == "unsupported") reason = text;
  };
  const plan::Module module = compile(std::move(graph), options);
  const plan::Function& function = module.functions[0];
  EXPECT_NE(reason.find("aten.normal_"), std::string::npos) << reason;
  EXPECT_EQ(count_steps<plan::KernelStep>(function), 0);
  EXPECT_EQ(count_steps<plan::ExternStep>(function), 2);
}

TEST(EndToEndKernels, TimingsAndDumps) {
  std::vector<std::string> stages;
  Options options;
  options.dump = [&](const char* stage, const std::string& text) {
    EXPECT_FALSE(text.empty());
    stages.push_back(stage);
  };
  Timings timings;
  compile(graph::parse("graph(%0 x: f32[4]) {\n  %1: f32[4] = aten.exp(%0)\n  return %1\n}\n"),
          options, &timings);
  EXPECT_EQ(stages, (std::vector<std::string>{"graph", "loops", "schedule", "code"}));
  for (double seconds : {timings.passes, timings.lower, timings.schedule, timings.codegen})
    EXPECT_GT(seconds, 0);
}

}  // namespace
}  // namespace braze::compile
