// Symbolic plans on PyTorch's tensors: bound by the sizes of each call, and equal to what the ops
// give when they are called one by one.
#include "runtime/executable.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "compile/compile.h"
#include "plan/binder.h"
#include "plan/round_trip.h"

namespace braze::runtime {
namespace {

std::unique_ptr<Executable> make(std::string_view text) {
  compile::Options options{.target = target::Cpu{target::host_isa(), 2}};
  plan::Module module = compile::compile(graph::parse(text), options);
  return std::make_unique<Executable>(plan::round_trip(module), std::vector<at::Tensor>{});
}

// As guards give them.
std::vector<int64_t> symbol_values(const plan::Function& function,
                                   const std::vector<at::Tensor>& inputs,
                                   const std::vector<int64_t>& scalars) {
  std::vector<int64_t> values;
  for (const plan::Symbol& symbol : function.symbols)
    values.push_back(symbol.kind == plan::Symbol::Kind::kScalar ? scalars.at(symbol.index)
                     : symbol.kind == plan::Symbol::Kind::kSize
                         ? inputs.at(symbol.input).size(symbol.index)
                         : inputs.at(symbol.input).stride(symbol.index));
  return values;
}

std::vector<at::Tensor> call(Executable& executable, const std::vector<at::Tensor>& inputs,
                             const std::vector<int64_t>& scalars = {}) {
  std::vector<c10::TensorImpl*> impls;
  for (const at::Tensor& input : inputs) impls.push_back(input.unsafeGetTensorImpl());
  std::vector<at::Tensor> outputs;
  std::vector<int64_t> symbols = symbol_values(executable.function(), inputs, scalars);
  executable.run(impls, outputs, symbols);
  return outputs;
}

// A block of a transformer: kernels, products in place and in memory of their own, an arena.
constexpr const char* kBlock =
    R"(graph(s0 = size(%0, 0) hint 2, s1 = size(%0, 1) hint 16, %0 x: f32[s0, s1, 24], %1 w: f32[24, 24], %2 b: f32[24]) {
  %3: f32[s0*s1, 24] #%0 = aten.view(%0, [s0*s1, 24])
  %4: f32[s0*s1, 24] = aten.addmm(%2, %3, %1, 1, 1)
  %5: f32[s0*s1, 24] = aten.gelu(%4, "none")
  %6: f32[s0, s1, 24] #%5 = aten.view(%5, [s0, s1, 24])
  %7: f32[s0, 24, s1]{24*s1, 1, 24} #%5 = aten.transpose.int(%6, 1, 2)
  %8: f32[s0, s1, s1] = aten.bmm(%6, %7)
  %9: f32[s0, s1, s1] = aten._softmax(%8, 2, false)
  %10: f32[s0, s1, 24] = aten.bmm(%9, %6)
  %11: f32[s0, s1, 24] = aten.cumsum(%10, 1, None)
  %12: f32[s0, s1, 24] = aten.add.Tensor(%11, %0, 1)
  return %12
}
)";

at::Tensor block(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
  at::Tensor y = at::gelu(at::addmm(b, x.reshape({-1, 24}), w)).reshape(x.sizes());
  return at::cumsum(at::bmm(at::softmax(at::bmm(y, y.transpose(1, 2)), 2), y), 1) + x;
}

TEST(Executable, SizesOfEachCall) {
  auto executable = make(kBlock);
  EXPECT_TRUE(executable->function().is_symbolic());
  at::Tensor w = at::randn({24, 24}) * 0.1, b = at::randn({24});
  for (int round = 0; round < 2; ++round)
    for (auto [batch, length] : {std::pair{2, 16}, {3, 7}, {2, 2}, {5, 65}, {8, 128}, {2, 16}}) {
      at::Tensor x = at::randn({batch, length, 24});
      at::Tensor got = call(*executable, {x, w, b}).at(0);
      EXPECT_TRUE(at::allclose(got, block(x, w, b), 1e-4, 1e-4)) << batch << ", " << length;
    }
}

TEST(Executable, MoreSizesThanAreKept) {
  auto executable = make(kBlock);
  at::Tensor w = at::randn({24, 24}) * 0.1, b = at::randn({24});
  for (int round = 0; round < 2; ++round)
    for (int64_t length = 2; length < 50; ++length) {
      at::Tensor x = at::randn({2, length, 24});
      EXPECT_TRUE(at::allclose(call(*executable, {x, w, b}).at(0), block(x, w, b), 1e-4, 1e-4));
    }
}

TEST(Executable, ThreadsWithSizesOfTheirOwn) {
  auto executable = make(kBlock);
  at::Tensor w = at::randn({24, 24}) * 0.1, b = at::randn({24});
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int64_t number = 0; number < 4; ++number)
    threads.emplace_back([&, number] {
      for (int64_t round = 0; round < 20; ++round) {
        at::Tensor x = at::randn({2 + number, 2 + round % 5, 24});
        if (!at::allclose(call(*executable, {x, w, b}).at(0), block(x, w, b), 1e-4, 1e-4)) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Executable, IntegersAndArgumentsOfTheCall) {
  auto executable = make(
      R"(graph(s0 = size(%0, 0) hint 5, s1 = scalar(0) hint 3 range [1, 100], %0 x: f32[s0, 6]) {
  %1: f32[s0, 6] = aten.mul.Scalar(%0, s1)
  %2: f32[s0, s1] = aten.new_zeros(%0, [s0, s1], None, None, None, None)
  %3: f32[s0, s1] = aten.bernoulli.p(%2, 0.0, None)
  return %1, %3
}
)");
  for (int64_t number : {3, 1, 100}) {
    at::Tensor x = at::randn({number + 1, 6});
    std::vector<at::Tensor> got = call(*executable, {x}, {number});
    EXPECT_TRUE(at::allclose(got[0], x * number));
    EXPECT_EQ(got[1].sizes(), (std::vector<int64_t>{number + 1, number}));
  }
  EXPECT_THROW(call(*executable, {at::randn({4, 6})}, {101}), NeedsEager);
}

// A library of a GPU picks the layout of some results by what a trace does not see.
TEST(Executable, ResultsOfAnotherLayoutThanTheTraces) {
  auto executable = make(
      R"(graph(%0 x: f32[3, 4]) {
  %1: f32[3, 4]{1, 3}, %2: i64[3, 4]{1, 3} = aten.sort(%0, 1, false)
  %3: f32[3, 4]{1, 3} = aten.mul.Scalar(%1, 2)
  return %3, %2
}
)");
  const at::Tensor x = at::randn({3, 4});
  const auto [values, indices] = at::sort(x, 1);
  for (int round = 0; round < 2; ++round) {
    const std::vector<at::Tensor> got = call(*executable, {x});
    EXPECT_TRUE(at::equal(got[0], values * 2));
    EXPECT_TRUE(at::equal(got[1], indices));
    EXPECT_EQ(got[1].strides(), (std::vector<int64_t>{1, 3}));
  }
}

constexpr std::string_view kNumbers =
    "graph(%0 s: f64[] number, %1 x: f32[4], %2 t: f64[] number) {\n"
    "  %3: f32[4] = aten.mul.Tensor(%1, %0)\n"
    "  %4: f32[4] = aten.add.Tensor(%3, %2, 1)\n"
    "  return %4\n"
    "}\n";

TEST(Executable, NumbersAreGivenByValue) {
  for (const compile::Backend backend : {compile::Backend::kKernels, compile::Backend::kAten}) {
    const compile::Options options{.backend = backend,
                                   .target = target::Cpu{target::host_isa(), 2}};
    const plan::Module module = compile::compile(graph::parse(kNumbers), options);
    EXPECT_NE(plan::to_string(module).find("s2: f64[] number 1"), std::string::npos);
    Executable executable(plan::round_trip(module), {});
    const at::Tensor x = at::arange(4, at::kFloat);
    std::vector<c10::TensorImpl*> inputs = {nullptr, x.unsafeGetTensorImpl(), nullptr};
    for (const std::array<double, 2>& numbers : {std::array{2.0, 1.0}, {0.5, -3.0}, {0.0, 0.0}}) {
      std::vector<at::Tensor> outputs;
      executable.run(inputs, outputs, {}, numbers);
      EXPECT_TRUE(at::equal(outputs.at(0), x * numbers[0] + numbers[1]));
    }
  }
}

TEST(Executable, ATensorOfANumberThatIsKeptStaysAsItWas) {
  const compile::Options options{.backend = compile::Backend::kEager};
  Executable executable(compile::compile(graph::parse("graph(%0 s: f64[] number) {\n"
                                                      "  %1: f64[1] #%0 = aten.view(%0, [1])\n"
                                                      "  return %1\n"
                                                      "}\n"),
                                         options),
                        {});
  std::vector<c10::TensorImpl*> inputs = {nullptr};
  std::vector<at::Tensor> outputs;
  for (double number : {1.0, 2.0, 3.0})
    executable.run(inputs, outputs, {}, std::span<const double>(&number, 1));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(outputs.at(i).item<double>(), i + 1);
}

constexpr const char* kBackward =
    "graph(%0 tangent: f32[512, 1024] tangent, %1 kept: f32[512, 1024] saved, %2 w: f32[1024, "
    "1024]) {\n"
    "  %3: f32[512, 1024] = aten.mul.Tensor(%0, %1)\n"
    "  %4: f32[512, 1024] = aten.mm(%3, %2)\n"
    "  %5: f32[512, 1024] = aten.mul.Tensor(%4, %4)\n"
    "  %6: f32[512, 1024] = aten.tanh(%5)\n"
    "  return %6\n"
    "}\n";

TEST(Executable, WhatIsHandedOverIsFreedAsSoonAsNoStepNeedsIt) {
  for (const compile::Backend backend : {compile::Backend::kKernels, compile::Backend::kAten}) {
    const compile::Options options{.backend = backend,
                                   .target = target::Cpu{target::host_isa(), 1}};
    const plan::Module module = compile::compile(graph::parse(kBackward), options);
    const plan::Function& function = module.functions[0];
    const std::string text = plan::to_string(function);
    EXPECT_EQ(function.arena_bytes, 0);
    for (const char* slot : {"free s0", "free s1"}) {
      const size_t freed = text.find(slot);
      ASSERT_NE(freed, std::string::npos) << text;
      EXPECT_LT(freed, text.find("aten.mm")) << text;
    }
    EXPECT_EQ(text.find("free s2"), std::string::npos) << text;

    Executable executable(plan::round_trip(module), {});
    const at::Tensor weight = at::randn({1024, 1024}) / 32;
    for (const bool hand_over : {true, false}) {
      std::vector<at::Tensor> given = {at::randn({512, 1024}), at::randn({512, 1024})};
      const at::Tensor expected = at::mm(given[0] * given[1], weight).square().tanh();
      std::vector<c10::TensorImpl*> inputs;
      for (const at::Tensor& tensor : given) inputs.push_back(tensor.unsafeGetTensorImpl());
      inputs.push_back(weight.unsafeGetTensorImpl());
      given.emplace_back();
      std::vector<at::Tensor> outputs;
      executable.run(inputs, outputs, {}, {},
                     hand_over ? std::span(given) : std::span<at::Tensor>());
      EXPECT_NE(given[0].defined(), hand_over);
      EXPECT_NE(given[1].defined(), hand_over);
      EXPECT_TRUE(at::allclose(outputs.at(0), expected, 1e-4, 1e-5));
      EXPECT_FALSE(outputs[0].is_view());
    }
  }
}

}  // namespace
}  // namespace braze::runtime
