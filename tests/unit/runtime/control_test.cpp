// Functions of control steps on PyTorch's tensors.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "compile/compile.h"
#include "runtime/executable.h"

namespace braze::runtime {
namespace {

using Tensors = std::vector<at::Tensor>;

plan::Module module_of(std::string_view text, std::vector<int> data_symbols = {}) {
  const compile::Options options{.target = target::Cpu{target::host_isa(), 1}};
  return compile::compile(graph::parse(text), options, nullptr,
                          {.numbers = std::move(data_symbols)});
}

Tensors run(Executable& executable, const Tensors& inputs, std::vector<int64_t> symbols = {}) {
  std::vector<c10::TensorImpl*> impls;
  for (const at::Tensor& input : inputs) impls.push_back(input.unsafeGetTensorImpl());
  Tensors outputs;
  executable.run(impls, outputs, symbols);
  return outputs;
}

constexpr std::string_view kItem =
    "graph(s0 = scalar(0) hint 7 range [0, 9], %0 x: f32[4], %1 n: i64[]) {\n"
    "  %2: i64[] = aten.add.Scalar(%1, 1, 1)\n"
    "  braze.item(%2, s0)\n"
    "  %3: f32[4] = aten.mul.Scalar(%0, s0)\n"
    "  return %3\n"
    "}\n";

TEST(Control, ANumberFromDataIsASymbolBehindIt) {
  Executable executable(module_of(kItem, {0}), {});
  EXPECT_TRUE(executable.has_control());
  const at::Tensor x = at::arange(4, at::kFloat);
  for (int64_t n : {2, 0, 8})
    EXPECT_TRUE(
        at::equal(run(executable, {x, at::scalar_tensor(n, at::kLong)}, {7}).at(0), x * (n + 1)));
}

TEST(Control, ANumberOutOfItsRangeIsAFailure) {
  plan::Module module = module_of(kItem, {0});
  const Tensors inputs = {at::ones(4), at::scalar_tensor(50, at::kLong)};
  Executable again(module, {});
  EXPECT_THROW(run(again, inputs, {7}), NeedsEager);
  module.functions[0].on_failure = plan::OnFailure::kRaise;
  Executable raises(module, {});
  EXPECT_THROW(run(raises, inputs, {7}), c10::IndexError);
}

TEST(Control, KernelsFailByThePolicyOfTheirFunction) {
  plan::Module module = module_of(
      "graph(%0 x: f32[3], %1 i: i64[2]) {\n"
      "  %2: f32[2] = aten.index_select(%0, 0, %1)\n"
      "  %3: f32[2] = aten.exp(%2)\n"
      "  return %3\n"
      "}\n");
  const Tensors inputs = {at::ones(3), at::full({2}, 3, at::kLong)};
  Executable again(module, {});
  EXPECT_THROW(run(again, inputs), NeedsEager);
  module.functions[0].on_failure = plan::OnFailure::kRaise;
  Executable raises(module, {});
  EXPECT_THROW(run(raises, inputs), c10::IndexError);
}

TEST(Control, ASizeFromData) {
  Executable executable(module_of("graph(s0 = scalar(0) hint 7 range [0, 100], %0 x: f32[4]) {\n"
                                  "  %1: i64[s0, 1]{1, s0} = aten.nonzero(%0)\n"
                                  "  %2: i64[s0, 1]{1, s0} = aten.add.Scalar(%1, 1, 1)\n"
                                  "  return %2\n"
                                  "}\n",
                                  {0}),
                        {});
  for (const at::Tensor& x : {at::ones(4), at::zeros(4), at::arange(4, at::kFloat)})
    EXPECT_TRUE(at::equal(run(executable, {x}, {7}).at(0), at::nonzero(x) + 1));
}

TEST(Control, OneBranchRuns) {
  Executable executable(module_of("graph(%0 x: f32[4], %1 p: bool[]) {\n"
                                  "  braze.begin(0)\n"
                                  "  %3: f32[4] = aten.exp(%0)\n"
                                  "  braze.end(0, [%3])\n"
                                  "  braze.begin(1)\n"
                                  "  %4: f32[4] = aten.neg(%0)\n"
                                  "  braze.end(1, [%4])\n"
                                  "  %5: f32[4] = braze.cond(%1, 0, 1)\n"
                                  "  return %5\n"
                                  "}\n"),
                        {});
  const at::Tensor x = at::arange(4, at::kFloat);
  EXPECT_TRUE(at::allclose(run(executable, {x, at::scalar_tensor(true)}).at(0), x.exp()));
  EXPECT_TRUE(at::equal(run(executable, {x, at::scalar_tensor(false)}).at(0), -x));
}

constexpr std::string_view kLoop =
    "graph(%0 x: f32[4], %1 w: f32[4]) {\n"
    "  %2: f32[4] = braze.parameter(0)\n"
    "  braze.begin(0)\n"
    "  %3: bool[4] = aten.gt.Scalar(%2, 0)\n"
    "  %6: bool[] = aten.any(%3)\n"
    "  braze.end(0, [%6])\n"
    "  braze.begin(1)\n"
    "  %4: f32[4] = aten.sub.Tensor(%2, %1, 1)\n"
    "  braze.end(1, [%4])\n"
    "  %5: f32[4] = braze.while(0, 1, [%0])\n"
    "  return %5\n"
    "}\n";

TEST(Control, ALoopEndsByItsData) {
  int rounds = 0;
  Executable executable(module_of(kLoop), {}, [&] { ++rounds; });
  const at::Tensor x = at::arange(4, at::kFloat), w = at::ones(4);
  EXPECT_TRUE(at::equal(run(executable, {x, w}).at(0), x - 3));
  EXPECT_EQ(rounds, 3);
}

TEST(Control, WhatALoopGivesIsMemoryOfItsOwn) {
  Executable executable(module_of(kLoop), {});
  const at::Tensor x = at::zeros(4);
  const at::Tensor y = run(executable, {x, at::ones(4)}).at(0);
  EXPECT_TRUE(at::equal(y, x));
  EXPECT_NE(y.data_ptr(), x.data_ptr());
}

TEST(Control, ALoopCanBeInterrupted) {
  struct Stop {};
  int rounds = 0;
  Executable executable(module_of(kLoop), {}, [&] {
    if (++rounds == 2) throw Stop();
  });
  EXPECT_THROW(run(executable, {at::ones(4), at::zeros(4)}), Stop);
  EXPECT_EQ(rounds, 2);
}

}  // namespace
}  // namespace braze::runtime
