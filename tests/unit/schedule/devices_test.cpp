// Kernels and memory of several devices.
#include <gtest/gtest.h>

#include "schedule/programs.h"
#include "target/costs.h"

namespace braze::schedule {
namespace {

constexpr graph::Device kCuda0{graph::Device::Type::kCUDA, 0};
constexpr graph::Device kCuda1{graph::Device::Type::kCUDA, 1};
const target::Target kCuda = target::cuda(90, 132, 3350000);

void put(ProgramBuilder& b, graph::Device device, std::initializer_list<int> buffers) {
  for (int buffer : buffers) b.program.buffers[buffer].type.device = device;
}

int kernels_after_fusion(std::string_view text, const target::Target& target) {
  loop::Program program = loop::lower(graph::parse(text), target);
  fuse(program, target);
  loop::verify(program);
  for (const loop::Item& item : program.items)
    if (const auto* scheduled = std::get_if<loop::ScheduledKernel>(&item))
      for (const loop::BufferParam& param : scheduled->kernel.params)
        EXPECT_EQ(program.buffers[param.buffer].type.device,
                  program.buffers[scheduled->kernel.params[0].buffer].type.device);
  return kernel_count(program);
}

TEST(FuseDevices, GraphsOfTwoDevicesKeepTwoKernels) {
  const auto text = [](const char* second) {
    const std::string device(second);
    return "graph(%0: f32[64]@cuda:0, %1: f32[64]@" + device +
           ") { %2: f32[64]@cuda:0 = aten.exp(%0) %3: f32[64]@cuda:0 = aten.add.Tensor(%2, %0, 1)"
           " %4: f32[64]@cuda:0 = aten.sub.Tensor(%2, %0, 1) %5: f32[64]@" +
           device + " = aten.exp(%1) %6: f32[64]@" + device +
           " = aten.add.Tensor(%5, %1, 1) %7: f32[64]@" + device +
           " = aten.sub.Tensor(%5, %1, 1) return %3, %4, %6, %7 }";
  };
  EXPECT_EQ(kernels_after_fusion(text("cuda:1"), kCuda), 2);
  EXPECT_EQ(kernels_after_fusion(text("cpu"), kCuda), 1);
  EXPECT_EQ(kernels_after_fusion(text("cpu"), target::Cpu{}), 1);
}

// A number of the CPU that kernels of a GPU are given by value keeps none apart.
TEST(FuseDevices, ANumberByValueIsOnNoDevice) {
  for (const bool by_value : {true, false}) {
    ProgramBuilder b;
    const int x = b.input({64}), s = b.input({});
    const int e = b.unary({64}, x, ExprKind::kExp);
    const int out = b.mul({64}, e, s);
    put(b, kCuda0, {x, e, out});
    auto& scales = std::get<loop::ScheduledKernel>(b.program.items.back()).kernel;
    for (loop::BufferParam& param : scales.params)
      if (param.buffer == s) param.by_value = b.program.buffers[s].by_value = by_value;
    b.program.outputs = {e, out};
    fuse(b.program, kCuda);
    loop::verify(b.program);
    EXPECT_EQ(kernel_count(b.program), by_value ? 1 : 2);
  }
}

// Kernels as no lowering makes them: one that reaches the memory of two devices is joined to none.
TEST(FuseDevices, KernelsThatShareABufferStayApart) {
  for (graph::Device device : {kCuda0, kCuda1}) {
    ProgramBuilder vertical;
    int x = vertical.input({64, 64});
    int e = vertical.unary({64, 64}, x, ExprKind::kExp);
    int out = vertical.unary({64, 64}, e, ExprKind::kTanh);
    put(vertical, kCuda0, {x, e});
    put(vertical, device, {out});
    vertical.program.outputs = {out};
    fuse(vertical.program, kCuda);
    EXPECT_EQ(kernel_count(vertical.program), device == kCuda0 ? 1 : 2);

    ProgramBuilder horizontal;
    x = horizontal.input({64, 64});
    int a = horizontal.unary({64, 64}, x, ExprKind::kExp);
    int b = horizontal.unary({64, 64}, x, ExprKind::kTanh);
    put(horizontal, kCuda0, {x, a});
    put(horizontal, device, {b});
    horizontal.program.outputs = {a, b};
    fuse(horizontal.program, kCuda);
    EXPECT_EQ(kernel_count(horizontal.program), device == kCuda0 ? 1 : 2);

    // A scale that is read at other points than it is stored is computed anew.
    ProgramBuilder inlined;
    int s = inlined.input({64});
    x = inlined.input({128, 64});
    int scale = inlined.unary({64}, s, ExprKind::kAbs);
    out = inlined.mul({128, 64}, x, scale);
    put(inlined, kCuda0, {s, scale});
    put(inlined, device, {x, out});
    inlined.program.outputs = {out};
    fuse(inlined.program, kCuda);
    EXPECT_EQ(kernel_count(inlined.program), device == kCuda0 ? 1 : 2);
  }
}

TEST(FuseDevices, PartsOfAReductionAreWhereItIs) {
  ProgramBuilder b;
  int x = b.input({1 << 20});
  int sum = b.reduce({1 << 20}, 0, x, loop::ReduceOp::kSum);
  put(b, kCuda1, {x, sum});
  b.program.outputs = {sum};
  fuse(b.program, kCuda);
  EXPECT_GT(kernel_count(b.program), 1);
  for (const loop::Buffer& buffer : b.program.buffers) EXPECT_EQ(buffer.type.device, kCuda1);
}

TEST(MemoryPlanDevices, ResultsOfCallsOnAnotherDeviceHaveMemoryOfTheirOwn) {
  ProgramBuilder b;
  int x = b.input({64, 64});
  int m = b.call("aten.mm", {x, x}, {64, 64});
  int out = b.call("aten.mm", {m, x}, {64, 64});
  put(b, kCuda0, {x, m, out});
  b.program.outputs = {out};
  const MemoryPlan cpu = plan_memory(b.program, target::Cpu{}),
                   cuda = plan_memory(b.program, kCuda);
  EXPECT_EQ(cpu.home[m], Home::kExtern);
  EXPECT_EQ(cpu.home[out], Home::kExtern);
  EXPECT_EQ(cuda.home[m], Home::kArena);
  EXPECT_EQ(cuda.home[out], Home::kOutput);
}

// On a CPU the ends of an axis that is no multiple of the lanes may be computed twice.
TEST(MemoryPlanDevices, TheTargetSaysWhatMayRunInPlace) {
  ProgramBuilder b;
  int x = b.input({63});
  int m = b.unary({63}, x, ExprKind::kExp);
  int call = b.call("aten.other", {m}, {63});
  int e = b.add({63}, m, call);
  b.program.outputs = {b.call("aten.other", {e}, {63})};
  EXPECT_NE(plan_memory(b.program, target::Cpu{}).offset[e],
            plan_memory(b.program, target::Cpu{}).offset[m]);
  EXPECT_EQ(plan_memory(b.program, kCuda).offset[e], plan_memory(b.program, kCuda).offset[m]);
}

}  // namespace
}  // namespace braze::schedule
