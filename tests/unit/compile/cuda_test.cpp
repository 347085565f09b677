// Graphs of values on a GPU: their modules, without running them.
#include <gtest/gtest.h>

#include <set>

#include "compile/cuda_modules.h"
#include "plan/binder.h"

namespace braze::compile {
namespace {

TEST(CompileForGpu, PointwiseIsOneKernel) {
  const Compiled compiled = compile_for_gpu(
      "graph(%0 x: f16[64, 768]@cuda:1) {\n"
      "  %1: f16[64, 768]@cuda:1 = aten.add.Tensor(%0, 1, 1)\n"
      "  %2: f16[64, 768]@cuda:1 = aten.relu(%1)\n"
      "  %3: f16[64, 768]@cuda:1 = aten.mul.Tensor(%2, 2)\n"
      "  return %3\n}\n");
  const plan::Function& function = compiled.function();
  EXPECT_EQ(function.device, (graph::Device{graph::Device::Type::kCUDA, 1}));
  const auto kernels = steps<plan::KernelStep>(function);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(function.steps.size(), 1u);
  const auto& grid = std::get<plan::Grid>(kernels[0]->launch);
  EXPECT_EQ(grid.blocks[0] * grid.threads[0], sym::Int(64 * 768));
  ASSERT_EQ(compiled.module.code.size(), 1u);
  EXPECT_EQ(compiled.module.code[0].language, plan::Language::kCuda);
  EXPECT_EQ(compiled.module.code[0].flags[0], "--gpu-architecture=sm_90");
}

// What Triton has no kernel for is CUDA C++, in the same module.
TEST(CompileForGpu, KernelsInTriton) {
  const auto compiled = [](GpuCodegen gpu_codegen) {
    return compile_for_gpu(
        "graph(%0 x: f32[4096, 1000]@cuda:0, %1 y: f32[64, 500]@cuda:0) {\n"
        "  %2: f32[4096, 1000]@cuda:0 = aten._softmax(%0, 1, false)\n"
        "  %3: f32[64, 500]@cuda:0 = aten.cumsum(%1, 1)\n"
        "  return %2, %3\n}\n",
        passes::ChannelsLast::kNone, /*deterministic=*/false, gpu_codegen);
  };
  const plan::Module module = compiled(GpuCodegen::kTriton).module;
  std::set<plan::Language> languages;
  for (const plan::Code& code : module.code) {
    languages.insert(code.language);
    if (code.language == plan::Language::kCuda)
      EXPECT_TRUE(code.text.starts_with("// Not Triton: it keeps running values.\n")) << code.text;
    else
      EXPECT_NE(code.text.find("@triton.jit"), std::string::npos) << code.text;
  }
  EXPECT_EQ(languages, (std::set{plan::Language::kCuda, plan::Language::kTriton}));
  const Compiled without = compiled(GpuCodegen::kCuda);
  for (const plan::Code& code : without.module.code)
    EXPECT_EQ(code.language, plan::Language::kCuda);
}

TEST(CompileForGpu, SoftmaxIsOneKernelForAllSizes) {
  const Compiled compiled = compile_for_gpu(
      "graph(s0 = size(%0, 0) hint 4096 range [2, 100000], %0 x: f32[s0, 1000]@cuda:0) {\n"
      "  %1: f32[s0, 1000]@cuda:0 = aten._softmax(%0, 1, false)\n"
      "  return %1\n}\n");
  const plan::Function& function = compiled.function();
  ASSERT_EQ(steps<plan::KernelStep>(function).size(), 1u);
  const plan::Binder binder(function);
  for (int64_t rows : {2, 77, 100000}) {
    const plan::Numbers numbers = binder.numbers(std::vector<int64_t>{rows});
    EXPECT_EQ(numbers.launches.at(0).blocks[0], rows);
  }
}

TEST(CompileForGpu, LibraryCallsAndTheArenaAreOnTheDevice) {
  const Compiled compiled = compile_for_gpu(
      "graph(%0 x: f32[64, 64]@cuda:0, %1 w: f32[64, 64]@cuda:0) {\n"
      "  %2: f32[64, 64]@cuda:0 = aten.mm(%0, %1)\n"
      "  %3: f32[64, 64]@cuda:0 = aten.relu(%2)\n"
      "  return %3\n}\n");
  const plan::Function& function = compiled.function();
  ASSERT_EQ(steps<plan::ExternStep>(function).size(), 1u);
  EXPECT_EQ(steps<plan::ExternStep>(function)[0]->op, "aten.mm");
  EXPECT_EQ(steps<plan::KernelStep>(function).size(), 1u);
  for (const plan::Slot& slot : function.slots) EXPECT_EQ(slot.type.device, function.device);
}

TEST(CompileForGpu, WhatKernelsCannotHoldIsLeftToTheLibrary) {
  const Compiled compiled = compile_for_gpu(
      "graph(%0 w: f32[50, 8]@cuda:0, %1 i: i64[7]@cuda:0, %2 x: f32[7, 8]@cuda:0) {\n"
      "  %3: f32[7, 8]@cuda:0 = aten.embedding(%0, %1)\n"
      "  %4: f32[7, 8]@cuda:0 = aten.add.Tensor(%3, %2, 1)\n"
      "  %5: f32[50, 8]@cuda:0 = aten.embedding_dense_backward(%4, %1, 50, -1, false)\n"
      "  %6: f32[50, 8]@cuda:0 = aten.add.Tensor(%0, %5, 1)\n"
      "  return %6\n}\n");
  EXPECT_EQ(compiled.unsupported, "");
  EXPECT_EQ(steps<plan::ExternStep>(compiled.function()).size(), 1u);  // the sorted sums
  EXPECT_EQ(steps<plan::KernelStep>(compiled.function()).size(), 2u);
}

TEST(CompileForGpu, ScansAreKernelsWithWhatIsAroundThem) {
  const auto kernels = [](const std::string& sizes, const std::string& call,
                          const std::string& dtype = "f32") {
    const std::string type = dtype + "[" + sizes + "]@cuda:0";
    const Compiled compiled = compile_for_gpu(
        "graph(%0 x: " + type + ") {\n  %1: " + type + " = aten.exp(%0)\n  %2: " + type + " = " +
        call + "\n  %3: " + type + " = aten.mul.Tensor(%2, %0)\n  return %3\n}\n");
    EXPECT_EQ(compiled.unsupported, "");
    return std::pair(steps<plan::KernelStep>(compiled.function()).size(),
                     steps<plan::ExternStep>(compiled.function()).size());
  };
  const std::pair<size_t, size_t> one{1, 0}, beside{2, 1};
  for (const std::string dtype : {"f32", "f16", "f64"})
    for (const std::string dim : {"0", "1"})
      for (const std::string op : {"cumsum", "cumprod"})
        EXPECT_EQ(kernels("512, 512", "aten." + op + "(%1, " + dim + ", None)", dtype), one);
  EXPECT_EQ(kernels("512, 512", "aten.logcumsumexp(%1, 1)"), one);
  for (const std::string dim : {"0", "1", "2"})
    EXPECT_EQ(kernels("12, 100, 80", "aten.cumsum(%1, " + dim + ", None)"), one);
  EXPECT_EQ(kernels("4096", "aten.cumsum(%1, 0, None)"), one);
  for (const std::string dim : {"0", "1"}) {  // the gradient of a running sum
    const Compiled backwards = compile_for_gpu(
        "graph(%0 x: f32[100, 96]@cuda:0) {\n"
        "  %1: f32[100, 96]@cuda:0 = aten.flip(%0, [" +
        dim +
        "])\n"
        "  %2: f32[100, 96]@cuda:0 = aten.cumsum(%1, " +
        dim +
        ", None)\n"
        "  %3: f32[100, 96]@cuda:0 = aten.flip(%2, [" +
        dim +
        "])\n"
        "  %4: f32[100, 96]@cuda:0 = aten.mul.Tensor(%3, %0)\n"
        "  return %4\n}\n");
    EXPECT_EQ(steps<plan::KernelStep>(backwards.function()).size(), 1u);
    EXPECT_TRUE(steps<plan::ExternStep>(backwards.function()).empty());
  }
  // One long row is PyTorch's, whose operator shares it out.
  EXPECT_EQ(kernels("10000000", "aten.cumsum(%1, 0, None)"), beside);
}

TEST(CompileForGpu, NumbersFromTheCpu) {
  const Compiled compiled = compile_for_gpu(
      "graph(%0 x: f32[64]@cuda:0, %1 s: f32[]) {\n"
      "  %2: f32[64]@cuda:0 = aten.mul.Tensor(%0, %1)\n"
      "  %3: f32[64]@cuda:0 = aten.relu(%2)\n"
      "  return %3\n}\n");
  ASSERT_EQ(steps<plan::ExternStep>(compiled.function()).size(), 1u);
  EXPECT_EQ(steps<plan::KernelStep>(compiled.function()).size(), 1u);
}

TEST(CompileForGpu, FloatsOfTheCallAreGivenByValue) {
  const Compiled compiled = compile_for_gpu(
      "graph(%0 x: f32[64]@cuda:0, %1 s: f64[] number) {\n"
      "  %2: f32[64]@cuda:0 = aten.mul.Tensor(%0, %1)\n"
      "  %3: f32[64]@cuda:0 = aten.relu(%2)\n"
      "  return %3\n}\n");
  EXPECT_TRUE(steps<plan::ExternStep>(compiled.function()).empty());
  const auto kernels = steps<plan::KernelStep>(compiled.function());
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0]->args.size(), 3u);
  EXPECT_NE(compiled.module.code.at(0).text.find("const f64 p1"), std::string::npos);
}

TEST(CompileForGpu, ArithmeticOfFloatsIsDoneWhereItIsUsed) {
  const std::string beginning =
      "graph(%0 x: f32[64]@cuda:0, %1 s: f64[] number) {\n"
      "  %2: f64[] = aten.mul.Tensor(%1, 2.0)\n"
      "  %3: f32[] = aten._to_copy(%2, f32, None, None, None, false, None)\n"
      "  %4: f32[64]@cuda:0 = aten.mul.Tensor(%0, %3)\n"
      "  %5: f32[64]@cuda:0 = aten.add.Tensor(%4, %3, 1)\n";
  const Compiled compiled = compile_for_gpu(beginning + "  return %5\n}\n");
  EXPECT_TRUE(steps<plan::ExternStep>(compiled.function()).empty());
  EXPECT_EQ(steps<plan::KernelStep>(compiled.function()).size(), 1u);
  // As a tensor, where it is asked for.
  const Compiled given = compile_for_gpu(beginning + "  return %5, %2\n}\n");
  EXPECT_EQ(steps<plan::ExternStep>(given.function()).size(), 1u);
  EXPECT_EQ(steps<plan::KernelStep>(given.function()).size(), 1u);
}

TEST(CompileForGpu, PartsOfControlFlowHaveTheirKernels) {
  const Compiled compiled = compile_for_gpu(
      "graph(%0 x: f32[64]@cuda:1, %1 p: bool[]@cuda:1) {\n"
      "  %2: f32[64]@cuda:1 = aten.relu(%0)\n"
      "  braze.begin(0)\n"
      "  %3: f32[64]@cuda:1 = aten.sin(%2)\n"
      "  braze.end(0, [%3])\n"
      "  braze.begin(1)\n"
      "  %4: f32[64]@cuda:1 = aten.cos(%2)\n"
      "  braze.end(1, [%4])\n"
      "  %5: f32[64]@cuda:1 = braze.cond(%1, 0, 1)\n"
      "  return %5\n}\n");
  const plan::Module& module = compiled.module;
  ASSERT_EQ(module.functions.size(), 4u);
  ASSERT_EQ(module.code.size(), 3u);
  EXPECT_TRUE(module.functions[0].has_control());
  for (int32_t i = 1; i < 4; ++i) {
    const plan::Function& part = module.functions[i];
    EXPECT_EQ(part.device, (graph::Device{graph::Device::Type::kCUDA, 1}));
    ASSERT_EQ(part.kernels.size(), 1u);
    EXPECT_EQ(part.kernels[0].code, i - 1);
  }
}

// A batch norm at inference between two convolutions.
TEST(CompileForGpu, ChannelsThatAreInnermostAreReadInPacks) {
  const std::string image = "f16[64, 64, 56, 56]@cuda:0", weight = "f16[64, 64, 3, 3]@cuda:0";
  const std::string how = ", None, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)\n";
  const std::string text =
      "graph(%0 x: " + image + ", %1 w: " + weight +
      ", %2 m: f32[64]@cuda:0, %3 v: f32[64]@cuda:0) {\n  %4: " + image +
      " = aten.convolution(%0, %1" + how + "  %5: " + image +
      ", %6: f32[64]@cuda:0, %7: f32[64]@cuda:0 = aten._native_batch_norm_legit_no_training(%4, "
      "None, None, %2, %3, 0.1, 1e-05)\n  %8: " +
      image + " = aten.relu(%5)\n  %9: " + image + " = aten.convolution(%8, %1" + how +
      "  %10: f16[64, 64]@cuda:0 = aten.mean.dim(%9, [2, 3], false, None)\n  return %10\n}\n";
  for (const auto which : {passes::ChannelsLast::kNone, passes::ChannelsLast::kHalves}) {
    const Compiled compiled = compile_for_gpu(text, which);
    EXPECT_EQ(compiled.unsupported, "");
    const bool last = which == passes::ChannelsLast::kHalves;
    std::vector<std::string> packed;
    for (const plan::Code& code : compiled.module.code)
      if (code.text.find("load_pack<8>") != std::string::npos) packed.push_back(code.text);
    EXPECT_FALSE(packed.empty());
    for (const plan::ExternStep* step : steps<plan::ExternStep>(compiled.function())) {
      const plan::Slot& result = compiled.function().slots[step->results.at(0)];
      EXPECT_EQ(result.type.strides[1], sym::Int(last ? 1 : 56 * 56));
    }
    // Copies of the image and of the weight, and a mean over columns that is cut into parts.
    EXPECT_EQ(steps<plan::KernelStep>(compiled.function()).size(), last ? 5u : 2u);
  }
}

// Though not all that is cheap can be computed where it is read without holding more than eager.
TEST(CompileForGpu, TheCentredInputOfABatchNormIsNotStored) {
  const std::string image = "f16[64, 64, 56, 56]@cuda:0", weight = "f16[64, 64, 3, 3]@cuda:0";
  const std::string channels = "f32[64]@cuda:0", how = "[1, 1], [1, 1], [1, 1], false, [0, 0], 1";
  const std::string text =
      "graph(%0 x: " + image + ", %1 w: " + weight + ", %2 g: " + channels + ", %3 t: " + image +
      " tangent) {\n  %4: " + image + " = aten.convolution(%0, %1, None, " + how +
      ")\n  %5: " + image + ", %6: " + channels + ", %7: " + channels +
      ", %8: u8[0]@cuda:0 = aten.cudnn_batch_norm(%4, %2, %2, None, None, true, 0.1, 1e-05)\n  "
      "%9: " +
      image + " = aten.relu(%5)\n  %10: " + image + " = aten.convolution(%9, %1, None, " + how +
      ")\n  %11: " + image + ", _, _ = aten.convolution_backward(%3, %9, %1, None, " + how +
      ", [true, false, false])\n  %12: " + image +
      " = aten.threshold_backward(%11, %9, 0)\n  %13: " + image + ", %14: " + channels +
      ", %15: " + channels +
      " = aten.cudnn_batch_norm_backward(%4, %12, %2, None, None, %6, %7, 1e-05, %8)\n  %16: " +
      image + ", %17: " + weight + ", _ = aten.convolution_backward(%13, %0, %1, None, " + how +
      ", [true, true, false])\n  return %10, %14 gradient, %15 gradient, %16 gradient, %17 "
      "gradient\n}\n";
  for (const auto which : {passes::ChannelsLast::kNone, passes::ChannelsLast::kAll}) {
    const Compiled compiled = compile_for_gpu(text, which);
    EXPECT_EQ(compiled.unsupported, "");
    for (const plan::Slot& slot : compiled.function().slots)
      EXPECT_FALSE(slot.type.dtype == graph::DType::kFloat32 && slot.type.rank() == 4 &&
                   slot.type.numel() == sym::Int(64 * 64 * 56 * 56))
          << to_string(slot.type);
  }
}

TEST(CompileForGpu, SeveralGpusRunThroughAten) {
  const Compiled compiled = compile_for_gpu(
      "graph(%0 x: f32[64]@cuda:0, %1 y: f32[64]@cuda:1) {\n"
      "  %2: f32[64]@cuda:0 = aten.relu(%0)\n"
      "  %3: f32[64]@cuda:1 = aten.relu(%1)\n"
      "  return %2, %3\n}\n");
  EXPECT_EQ(compiled.unsupported, "values on several GPUs");
  EXPECT_TRUE(steps<plan::KernelStep>(compiled.function()).empty());
}

TEST(CompileForGpu, KernelsOfACpuStaySo) {
  plan::Module module = compile(graph::parse("graph(%0 x: f32[64]) {\n"
                                             "  %1: f32[64] = aten.relu(%0)\n"
                                             "  return %1\n}\n"),
                                {.target = target::Cpu{.isa = target::host_isa(), .threads = 1}});
  EXPECT_EQ(module.functions[0].device, graph::Device{});
  EXPECT_TRUE(std::holds_alternative<plan::Chunks>(
      steps<plan::KernelStep>(module.functions[0]).at(0)->launch));
}

std::string updates(const std::vector<std::pair<int, std::string>>& extents_and_ops) {
  std::string inputs, body, outputs;
  const size_t count = extents_and_ops.size();
  for (size_t i = 0; i < count; ++i) {
    const auto& [extent, op] = extents_and_ops[i];
    const std::string type = ": f32[" + std::to_string(extent) + "]@cuda:0";
    const std::string x = "%" + std::to_string(i), y = "%" + std::to_string(count + i);
    inputs += (i ? ", " : "") + x + type;
    body += "  " + y + type + " = " + op + "(" + x + ")\n";
    outputs += (i ? ", " : "") + y;
  }
  return "graph(" + inputs + ") {\n" + body + "  return " + outputs + "\n}\n";
}

TEST(CompileForGpu, UpdatesOfManyTensorsAreOneLaunch) {
  const std::string neg = "aten.neg", abs = "aten.abs";
  const Compiled compiled =
      compile_for_gpu(updates({{1000, neg}, {7, neg}, {50, abs}, {3000, neg}, {51, abs}}));
  const auto kernels = steps<plan::KernelStep>(compiled.function());
  ASSERT_EQ(kernels.size(), 2u);
  using Slots = std::vector<plan::SlotId>;
  const auto inputs = [&](const plan::KernelStep& step) {
    Slots slots;
    for (size_t i = 0; i < step.args.size(); i += 2) slots.push_back(step.args[i]);
    return slots;
  };
  EXPECT_EQ(inputs(*kernels[0]), (Slots{0, 1, 3}));
  EXPECT_EQ(inputs(*kernels[1]), (Slots{2, 4}));
  EXPECT_EQ(std::get<plan::Grid>(kernels[0]->launch).blocks[0], sym::Int(4 + 1 + 12));
  EXPECT_EQ(compiled.module.code.size(), 2u);
}

// As of gradients that are clipped: parts of sums, sums of parts, and products with a number.
TEST(CompileForGpu, ReductionsOfManyTensorsAreAFewLaunches) {
  constexpr int kTensors = 12;
  std::string inputs, norms, list, products, outputs;
  for (int i = 0; i < kTensors; ++i) {
    const std::string n = std::to_string(i), type = ": f32[300, 300]@cuda:0";
    inputs += (i ? ", %" : "%") + n + type;
    norms += "  %" + std::to_string(100 + i) + ": f32[]@cuda:0 = aten.linalg_vector_norm(%" + n +
             ", 2, None, false, None)\n";
    list += (i ? ", %" : "%") + std::to_string(100 + i);
    products += "  %" + std::to_string(200 + i) + type + " = aten.mul.Tensor(%" + n + ", %301)\n";
    outputs += (i ? ", %" : "%") + std::to_string(200 + i);
  }
  const Compiled compiled = compile_for_gpu(
      "graph(" + inputs + ") {\n" + norms + "  %300: f32[12]@cuda:0 = aten.stack([" + list +
      "], 0)\n  %301: f32[]@cuda:0 = aten.linalg_vector_norm(%300, 2, None, false, None)\n" +
      products + "  return " + outputs + "\n}\n");
  // Parts and sums of them, what the parts leave, the norm of the norms, the products.
  EXPECT_LE(steps<plan::KernelStep>(compiled.function()).size(), 5u);
}

TEST(CompileForGpu, WhatNeedsAnotherKernelIsLaunchedBehindIt) {
  // A product between them, a result of one for the other, and what takes longer than a launch.
  const Compiled between = compile_for_gpu(
      "graph(%0 x: f32[64, 64]@cuda:0, %1 y: f32[64]@cuda:0) {\n"
      "  %2: f32[64, 64]@cuda:0 = aten.neg(%0)\n"
      "  %3: f32[64, 64]@cuda:0 = aten.mm(%2, %0)\n"
      "  %4: f32[64, 64]@cuda:0 = aten.neg(%3)\n"
      "  return %2, %4\n}\n");
  EXPECT_EQ(steps<plan::KernelStep>(between.function()).size(), 2u);
  const Compiled needed = compile_for_gpu(
      "graph(%0 x: f32[64, 64]@cuda:0) {\n"
      "  %1: f32[64, 64]@cuda:0 = aten.cumsum(%0, 0, None)\n"
      "  %2: f32[64, 64]@cuda:0 = aten.cumsum(%1, 1, None)\n"
      "  return %2\n}\n");
  EXPECT_EQ(steps<plan::KernelStep>(needed.function()).size(), 2u);
  const Compiled large =
      compile_for_gpu(updates({{20'000'000, "aten.neg"}, {20'000'000, "aten.neg"}}));
  EXPECT_EQ(steps<plan::KernelStep>(large.function()).size(), 2u);
}

TEST(CompileForGpu, PoolingIsOneKernelEachWay) {
  const std::string x = "%0 x: f16[8, 64, 56, 56]", places = "i64[8, 64, 28, 28]";
  const std::string pooled = "f16[8, 64, 28, 28]", image = "f16[8, 64, 56, 56]";
  const std::string strides = "{200704, 1, 3584, 64}", strides_of_result = "{50176, 1, 1792, 64}";
  for (const bool channels_last : {false, true}) {
    const std::string of = (channels_last ? strides : "") + "@cuda:0";
    const std::string to = (channels_last ? strides_of_result : "") + "@cuda:0";
    const std::string window = "[3, 3], [2, 2], [1, 1]";
    const Compiled forward = compile_for_gpu(
        "graph(" + x + of + ") {\n  %1: " + image + of + " = aten.relu(%0)\n  %2: " + pooled + to +
        ", %3: " + places + to + " = aten.max_pool2d_with_indices(%1, " + window +
        ")\n  return %2, %3\n}\n");
    EXPECT_TRUE(steps<plan::ExternStep>(forward.function()).empty());
    EXPECT_EQ(steps<plan::KernelStep>(forward.function()).size(), 1u);
    const Compiled backward = compile_for_gpu(
        "graph(" + x + of + ", %1: " + pooled + to + ", %2: " + places + to +
        ") {\n  %3: " + image + of + " = aten.max_pool2d_with_indices_backward(%1, %0, " + window +
        ", [1, 1], false, %2)\n  %4: " + image + of +
        " = aten.threshold_backward(%3, %0, 0)\n  return %4\n}\n");
    EXPECT_TRUE(steps<plan::ExternStep>(backward.function()).empty());
    EXPECT_EQ(steps<plan::KernelStep>(backward.function()).size(), 1u);
  }
}

TEST(CompileForGpu, SizesOfTheCallAreTakenByLaunchesOfTheirOwn) {
  const Compiled compiled = compile_for_gpu(
      "graph(s0 = size(%0, 0) hint 64 range [2, 1000], %0 x: f32[s0]@cuda:0, "
      "%1 a: f32[10]@cuda:0, %2 b: f32[20]@cuda:0) {\n"
      "  %3: f32[10]@cuda:0 = aten.mul.Tensor(%1, s0)\n"
      "  %4: f32[20]@cuda:0 = aten.mul.Tensor(%2, s0)\n"
      "  return %3, %4\n}\n");
  EXPECT_EQ(compiled.unsupported, "");
  const auto kernels = steps<plan::KernelStep>(compiled.function());
  ASSERT_EQ(kernels.size(), 2u);
  for (const plan::KernelStep* step : kernels)
    EXPECT_EQ(compiled.function().kernels[step->kernel].sizes.size(), 1u);
}

TEST(CompileForGpu, ALaunchTakesNoMoreThanItsParametersHold) {
  std::vector<std::pair<int, std::string>> many;
  for (int i = 0; i < 300; ++i) many.emplace_back(100 + i, "aten.neg");
  const Compiled compiled = compile_for_gpu(updates(many));
  const auto kernels = steps<plan::KernelStep>(compiled.function());
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0]->args.size(), 480u);
  EXPECT_EQ(kernels[1]->args.size(), 120u);
}

constexpr std::string_view kNormAndSum =
    "graph(%0 x: f16[4096, 1024]@cuda:0, %1 y: f16[64, 100]@cuda:0) {\n"
    "  %2: f16[4096, 1024]@cuda:0 = aten._softmax(%0, 1, false)\n"
    "  %3: f16[64, 100]@cuda:0 = aten.relu(%1)\n"
    "  return %2, %3\n}\n";

TEST(CompileForGpu, ATunerChoosesBetweenWays) {
  const target::Target target = target::cuda(90, 132, 3350000);
  size_t asked = 0;
  std::vector<std::string> expected;
  Options options{.target = target};
  options.tuner = [&](std::span<const Candidates> all) {
    ++asked;
    std::vector<size_t> chosen;
    for (const Candidates& one : all) {
      EXPECT_GE(one.ways.size(), 2u);
      EXPECT_EQ(one.parameters.size(), 2u);
      EXPECT_GE(one.parameters[0].bytes, 64 * 100 * 2);
      chosen.push_back(one.ways.size() - 1);
      expected.push_back(one.ways.back().text);
    }
    return chosen;
  };
  const plan::Module module = compile(graph::parse(kNormAndSum), options);
  EXPECT_EQ(asked, 1u);
  ASSERT_FALSE(expected.empty());
  for (const std::string& text : expected)
    EXPECT_TRUE(std::ranges::any_of(module.code,
                                    [&](const plan::Code& code) { return code.text == text; }));
  EXPECT_NE(cache_key(graph::parse(kNormAndSum), options, {}),
            cache_key(graph::parse(kNormAndSum), {.target = target}, {}));
}

TEST(CompileForGpu, SizesOfTheCallAreNotTuned) {
  Options options{.target = target::cuda(90, 132, 3350000)};
  options.tuner = [](std::span<const Candidates>) -> std::vector<size_t> {
    ADD_FAILURE() << "nothing is to be chosen";
    return {};
  };
  const plan::Module module = compile(
      graph::parse(
          "graph(s0 = size(%0, 0) hint 4096 range [2, 100000], %0 x: f32[s0, 1000]@cuda:0) {\n"
          "  %1: f32[s0, 1000]@cuda:0 = aten._softmax(%0, 1, false)\n"
          "  return %1\n}\n"),
      options);
  EXPECT_EQ(module.code.size(), 1u);
}

}  // namespace
}  // namespace braze::compile
