// What a module holds of its own: constants, states of outputs, conditions on symbols.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "base/error.h"
#include "compile/compile.h"
#include "graph/text.h"
#include "plan/round_trip.h"
#include "pytorch/convert.h"
#include "runtime/executable.h"
#include "runtime/memory.h"

namespace braze::runtime {
namespace {

std::string digits_of(const at::Tensor& tensor) {
  return graph::hexadecimal({static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()});
}

plan::Module stored(std::string_view text, compile::Backend backend = compile::Backend::kKernels) {
  const compile::Options options{.backend = backend, .target = target::Cpu{target::host_isa(), 1}};
  return plan::round_trip(compile::compile(graph::parse(text), options));
}

std::vector<at::Tensor> results_of(Executable& executable, const std::vector<at::Tensor>& inputs,
                                   std::vector<int64_t> symbols = {}) {
  std::vector<c10::TensorImpl*> impls;
  for (const at::Tensor& input : inputs)
    impls.push_back(input.defined() ? input.unsafeGetTensorImpl() : nullptr);
  std::vector<at::Tensor> outputs;
  executable.run(impls, outputs, symbols);
  return outputs;
}

// A copy of a constant of this type, made by a module that was stored.
at::Tensor copied(const at::Tensor& constant, compile::Backend backend) {
  graph::TensorType type;
  type.dtype = pytorch::dtype_of(constant.scalar_type());
  for (int64_t dim = 0; dim < constant.dim(); ++dim) {
    type.sizes.emplace_back(constant.size(dim));
    type.strides.emplace_back(constant.stride(dim));
  }
  const std::string text = graph::to_string(type);
  Executable executable(
      stored("graph(%0 c: " + text + " constant \"" + digits_of(constant) + "\") {\n  %1: " + text +
                 " = aten.clone(%0, None)\n  return %1\n}\n",
             backend),
      {});
  return results_of(executable, {at::Tensor()}).at(0);
}

constexpr std::array kBackends = {compile::Backend::kKernels, compile::Backend::kAten,
                                  compile::Backend::kEager};

TEST(Constants, OfAllDtypes) {
  for (const compile::Backend backend : kBackends)
    for (const at::ScalarType dtype :
         {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf,
          at::kBFloat16, at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble}) {
      const at::Tensor constant = at::arange(-2, 4, at::kFloat).to(dtype).reshape({2, 3});
      const at::Tensor copy = copied(constant, backend);
      EXPECT_EQ(copy.scalar_type(), dtype);
      EXPECT_TRUE(at::equal(copy, constant)) << c10::toString(dtype);
    }
}

TEST(Constants, BitForBit) {
  const float odd[] = {-0.0f, std::numeric_limits<float>::quiet_NaN(),
                       -std::numeric_limits<float>::infinity(),
                       std::numeric_limits<float>::denorm_min()};
  const at::Tensor constant = at::tensor(at::ArrayRef<float>(odd, 4));
  for (const compile::Backend backend : kBackends)
    EXPECT_EQ(digits_of(copied(constant, backend)), digits_of(constant));
}

TEST(Constants, EmptyStridedAndWithoutDimensions) {
  for (const compile::Backend backend : kBackends)
    for (const at::Tensor& constant :
         {at::zeros({0}), at::zeros({2, 0, 3}), at::scalar_tensor(2.5),
          at::arange(6, at::kFloat).reshape({2, 3}).t(),
          at::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast)}) {
      const at::Tensor copy = copied(constant, backend);
      EXPECT_EQ(copy.sizes(), constant.sizes());
      EXPECT_EQ(copy.strides(), constant.strides());
      EXPECT_TRUE(at::equal(copy, constant));
    }
}

TEST(Constants, OrdinaryTensorsWhereverTheModuleIsLoaded) {
  const c10::InferenceMode mode;
  const at::Tensor constant = at::arange(4, at::kFloat);
  for (const compile::Backend backend : kBackends)
    EXPECT_TRUE(at::equal(copied(constant, backend), constant));
}

// Two modules of the same code, whose constants differ, do not meet.
TEST(Constants, OfEachModule) {
  const auto module = [](const char* digits) {
    return stored("graph(%0 x: f32[2], %1 c: f32[] constant \"" + std::string(digits) +
                  "\") {\n  %2: f32[2] = aten.mul.Tensor(%0, %1)\n  return %2\n}\n");
  };
  Executable two(module("00000040"), {}), half(module("0000003f"), {});
  const at::Tensor x = at::arange(2, at::kFloat);
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(at::equal(results_of(two, {x, at::Tensor()}).at(0), x * 2));
    EXPECT_TRUE(at::equal(results_of(half, {x, at::Tensor()}).at(0), x * 0.5));
  }
}

TEST(Constants, ThatTheModuleDoesNotHoldAreBound) {
  const plan::Module module = stored(
      "graph(%0 x: f32[2], %1 c: f32[2] constant) {\n"
      "  %2: f32[2] = aten.mul.Tensor(%0, %1)\n"
      "  return %2\n"
      "}\n");
  EXPECT_TRUE(module.constants.empty());
  EXPECT_EQ(module.inputs.at(1).constant, -1);
  const at::Tensor x = at::arange(2, at::kFloat), own = at::full(2, 3, at::kFloat);
  Executable executable(module, {at::Tensor(), own});
  EXPECT_TRUE(at::equal(results_of(executable, {x, at::Tensor()}).at(0), x * 3));
  own.fill_(4);  // it is that very tensor
  EXPECT_TRUE(at::equal(results_of(executable, {x, at::Tensor()}).at(0), x * 4));
  EXPECT_THROW(Executable(module, {}), InternalError);
  EXPECT_THROW(Executable(module, {at::Tensor(), own.to(at::kDouble)}), InternalError);
  EXPECT_THROW(Executable(module, {at::Tensor(), at::zeros(3)}), InternalError);
}

TEST(Constants, ReachTheFunctionsThatAreCalled) {
  const compile::Options options{.target = target::Cpu{target::host_isa(), 1}};
  const graph::Graph graph = graph::parse(
      "graph(s0 = scalar(0) hint 7 range [0, 9], %0 x: f32[2], %1 n: i64[], "
      "%2 c: f32[2] constant \"0000803f00000040\") {\n"
      "  braze.item(%1, s0)\n"
      "  %3: f32[2] = aten.mul.Scalar(%0, s0)\n"
      "  %4: f32[2] = aten.add.Tensor(%3, %2, 1)\n"
      "  return %4\n"
      "}\n");
  Executable executable(
      plan::round_trip(compile::compile(graph.clone(), options, nullptr, {.numbers = {0}})), {});
  EXPECT_TRUE(executable.has_control());
  const at::Tensor x = at::ones(2);
  for (int64_t n : {3, 5})
    EXPECT_TRUE(at::equal(
        results_of(executable, {x, at::scalar_tensor(n, at::kLong), at::Tensor()}, {7}).at(0),
        x * n + at::arange(1, 3, at::kFloat)));
}

TEST(Signature, RolesAndStatesAreThoseOfTheGraph) {
  for (const compile::Backend backend : kBackends) {
    const plan::Module module = stored(
        "graph(%0 x: f32[2], %1 w: f32[2] parameter, %2 s: f64[] number, "
        "%3 c: f32[1] constant \"0000803f\", %4 t: f32[2] tangent) {\n"
        "  %5: f32[2] = aten.add.Tensor(%0, %1, 1)\n"
        "  %6: f32[2] = aten.add.Tensor(%5, %3, 1)\n"
        "  return %0, %5 view(one_of_many), %6 inference, %5 saved\n"
        "}\n",
        backend);
    const std::string text = plan::to_string(module);
    EXPECT_TRUE(text.starts_with("target cpu ")) << text;
    EXPECT_NE(text.find("\ninputs user, parameter, number, constant c0, tangent\n"
                        "outputs outside, user view(one_of_many), user inference, saved\n"
                        "c0: f32[1] 0000803f\n"),
              std::string::npos)
        << text;
    EXPECT_EQ(Executable(module, {}).outputs(), module.outputs);
  }
}

constexpr const char* kMultipleOfEight =
    "graph(s0 = size(%0, 0) hint 16, %0 x: f32[s0]) {\n"
    "  %1: f32[s0] = aten.exp(%0)\n"
    "  return %1\n"
    "  where s0 % 8 == 0\n"
    "}\n";

TEST(Conditions, AreAskedBeforeAFunctionIsBound) {
  for (const compile::Backend backend : kBackends) {
    Executable executable(stored(kMultipleOfEight, backend), {});
    for (int64_t size : {16, 8, 64, 16})
      EXPECT_EQ(results_of(executable, {at::ones(size)}, {size}).at(0).numel(), size);
    for (int64_t size : {12, 15, 12, 0})
      EXPECT_THROW(results_of(executable, {at::ones(size)}, {size}), NeedsEager);
  }
}

TEST(Conditions, AreAskedBeforeControlSteps) {
  const compile::Options options{.target = target::Cpu{target::host_isa(), 1}};
  const graph::Graph graph = graph::parse(
      "graph(s0 = size(%0, 0) hint 16, s1 = scalar(0) hint 7 range [0, 9], %0 x: f32[s0], "
      "%1 n: i64[]) {\n"
      "  braze.item(%1, s1)\n"
      "  %2: f32[s0] = aten.mul.Scalar(%0, s1)\n"
      "  return %2\n"
      "  where s0 % 8 == 0\n"
      "}\n");
  Executable executable(
      plan::round_trip(compile::compile(graph.clone(), options, nullptr, {.numbers = {1}})), {});
  const at::Tensor n = at::scalar_tensor(3, at::kLong);
  EXPECT_TRUE(at::equal(results_of(executable, {at::ones(8), n}, {8, 7}).at(0), at::full(8, 3.0f)));
  EXPECT_THROW(results_of(executable, {at::ones(9), n}, {9, 7}), NeedsEager);
}

}  // namespace
}  // namespace braze::runtime
