// Which memory CUDA graphs read and give, by a recorder that repeats the steps on a CPU.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "../../hooks/repeater.h"
#include "compile/compile.h"
#include "runtime/executable.h"

namespace braze::runtime {
namespace {

// x is the caller's, w a parameter.
constexpr const char* kLayer = R"(graph(%0 x: f32[4, 8], %1 w: f32[8, 8] parameter) {
  %2: f32[4, 8] = aten.mm(%0, %1)
  %3: f32[4, 8] = aten.relu(%2)
  %4: f32[4, 8] = aten.mm(%3, %1)
  return %4
}
)";

class GraphedFunction : public testing::Test {
 protected:
  void SetUp() override { cuda::install(std::make_unique<Repeater>()); }
  void TearDown() override { cuda::install(nullptr); }

  static std::unique_ptr<Executable> make(std::string_view text) {
    compile::Options options{.target = target::Cpu{target::host_isa(), 2}};
    return std::make_unique<Executable>(compile::compile(graph::parse(text), options),
                                        std::vector<at::Tensor>{}, nullptr, /*cuda_graphs=*/true);
  }
  static at::Tensor call(Executable& executable, const std::vector<at::Tensor>& inputs) {
    std::vector<c10::TensorImpl*> impls;
    for (const at::Tensor& input : inputs) impls.push_back(input.unsafeGetTensorImpl());
    std::vector<at::Tensor> outputs;
    executable.run(impls, outputs);
    return outputs.at(0);
  }
  static at::Tensor layer(const at::Tensor& x, const at::Tensor& w) {
    return at::mm(at::relu(at::mm(x, w)), w);
  }

  at::Tensor w = at::randn({8, 8});
};

TEST_F(GraphedFunction, IsRecordedWhenACallComesAgain) {
  const auto executable = make(kLayer);
  const at::Tensor x = at::randn({4, 8});
  EXPECT_EQ(executable->graphs(), "none yet, calls that come again are recorded");
  for (int i = 0; i < 4; ++i)
    EXPECT_TRUE(at::allclose(call(*executable, {x, w}), layer(x, w), 1e-4, 1e-5));
  EXPECT_EQ(executable->graphs(), "1 recorded, 3 launches");
}

TEST_F(GraphedFunction, TheCallersTensorsAreCopiedOnceTheyMove) {
  const auto executable = make(kLayer);
  std::vector<at::Tensor> kept;
  for (int i = 0; i < 6; ++i) {
    kept.push_back(at::randn({4, 8}));
    EXPECT_TRUE(
        at::allclose(call(*executable, {kept.back(), w}), layer(kept.back(), w), 1e-4, 1e-5));
  }
  EXPECT_EQ(executable->graphs(), "1 recorded, 5 launches");
}

TEST_F(GraphedFunction, AnotherParameterIsAnotherGraph) {
  const auto executable = make(kLayer);
  const at::Tensor x = at::randn({4, 8}), other = at::randn({8, 8});
  for (int i = 0; i < 3; ++i)
    for (const at::Tensor& weight : {w, other})
      EXPECT_TRUE(at::allclose(call(*executable, {x, weight}), layer(x, weight), 1e-4, 1e-5));
  EXPECT_EQ(executable->graphs(), "2 recorded, 4 launches");
}

TEST_F(GraphedFunction, NoResultInUseIsWrittenOver) {
  const auto executable = make(kLayer);
  std::vector<std::pair<at::Tensor, at::Tensor>> results;
  for (int i = 0; i < 12; ++i) {
    const at::Tensor x = at::randn({4, 8});
    results.emplace_back(call(*executable, {x, w}), layer(x, w));
  }
  for (const auto& [got, expected] : results) EXPECT_TRUE(at::allclose(got, expected, 1e-4, 1e-5));
  // A few graphs, and step by step from then on.
  EXPECT_EQ(executable->graphs(), "4 recorded, 4 launches");
}

TEST_F(GraphedFunction, ResultsOutliveTheirGraph) {
  auto executable = make(kLayer);
  const at::Tensor x = at::randn({4, 8});
  at::Tensor result;
  for (int i = 0; i < 3; ++i) result = call(*executable, {x, w});
  executable = nullptr;
  EXPECT_TRUE(at::allclose(result, layer(x, w), 1e-4, 1e-5));
}

TEST_F(GraphedFunction, SaysWhatCannotBeRecorded) {
  const auto executable = make(R"(graph(%0 x: f32[4, 4]) {
  %1: f32[4, 4] = aten.relu(%0)
  %2: f32[4, 4], %3: i32[] = aten.linalg_inv_ex(%1, false)
  return %2, %3
}
)");
  EXPECT_EQ(executable->graphs(), "none, as aten.linalg_inv_ex reads data of the GPU on the CPU");
}

}  // namespace
}  // namespace braze::runtime
