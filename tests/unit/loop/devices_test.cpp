// Which values of a graph over several devices kernels are made for.
#include <gtest/gtest.h>

#include "loop/run_program.h"

namespace braze::loop {
namespace {

// What runs, in order: the names of extern ops, and of kernels the device that they write to.
// Everything that a kernel reaches is there.
std::vector<std::string> items(const Program& program) {
  verify(program);
  std::vector<std::string> result;
  for (const Item& item : program.items) {
    if (const auto* call = std::get_if<ExternCall>(&item)) {
      result.push_back(call->op);
      continue;
    }
    const Kernel& kernel = std::get<ScheduledKernel>(item).kernel;
    auto device = [&](const BufferParam& param) {
      return to_string(program.buffers[param.buffer].type.device);
    };
    result.push_back(device(kernel.params.back()));
    for (const BufferParam& param : kernel.params) EXPECT_EQ(device(param), result.back());
  }
  return result;
}

constexpr std::string_view kBothSides =
    R"(graph(%0: f32[8]@cuda:0, %1: f32[8]) {
  %2: f32[8]@cuda:0 = aten.exp(%0)
  %3: f32[8] = aten._to_copy(%2, None, None, cpu, None, false, None)
  %4: f32[8] = aten.add.Tensor(%3, %1, 1)
  %5: f32[8] = aten.exp(%4)
  %6: f32[8]@cuda:0 = aten._to_copy(%5, None, None, cuda:0, None, false, None)
  %7: f32[8]@cuda:0 = aten.neg(%6)
  return %5, %7
}
)";

TEST(LoweringDevices, KernelsAreForTheTargetsDevice) {
  const graph::Graph graph = graph::parse(kBothSides);
  using Items = std::vector<std::string>;
  EXPECT_EQ(items(lower(graph, target::Cpu{})),
            (Items{"aten.exp", "aten._to_copy", "cpu", "aten._to_copy", "aten.neg"}));
  EXPECT_EQ(
      items(lower(graph, target::cuda(90, 132, 3350000))),
      (Items{"cuda:0", "aten._to_copy", "aten.add.Tensor", "aten.exp", "aten._to_copy", "cuda:0"}));
}

TEST(LoweringDevices, AKernelReachesOneDevice) {
  const graph::Graph graph = graph::parse(
      R"(graph(%0: f32[8]@cuda:0, %1: f32[]) {
  %2: f32[8]@cuda:1 = aten._to_copy(%0, None, None, cuda:1, None, false, None)
  %3: f32[8]@cuda:1 = aten.exp(%2)
  %4: f32[8]@cuda:0 = aten.mul.Tensor(%0, %1)
  %5: f32[8]@cuda:0 = aten.full([8], 1.0, f32, None, cuda:0, None)
  %6: f32[8]@cuda:0 = aten.sub.Tensor(%5, %0, 1)
  return %3, %4, %6
}
)");
  std::vector<std::string> all = items(lower(graph, target::cuda(80, 108, 2000000)));
  std::ranges::sort(all);
  EXPECT_EQ(all,
            (std::vector<std::string>{"aten._to_copy", "aten.mul.Tensor", "cuda:0", "cuda:1"}));
}

}  // namespace
}  // namespace braze::loop
