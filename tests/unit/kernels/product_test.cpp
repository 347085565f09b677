#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "kernels/kernels.h"

namespace braze::kernels {
namespace {

using codegen::cpp::Isa;

struct Case {
  int64_t rows, inner, columns;
  bool transposed = false, bias = false;
  Activation activation = Activation::kNone;
  int64_t gap = 0;  // between rows
};

std::vector<float> random_floats(size_t count, int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> result(count);
  for (float& x : result) x = normal(random);
  return result;
}

double activated(double x, Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kGelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  return NAN;
}

void on_threads(int threads, const std::function<void()>& body) {
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(body);
  body();
  for (std::thread& thread : others) thread.join();
}

constexpr float kUntouched = -777;

std::vector<float> multiplied(const Variant& variant, const Case& c, int threads) {
  const int64_t a_stride = c.inner + c.gap, c_stride = c.columns + c.gap;
  const int64_t b_stride = (c.transposed ? c.inner : c.columns) + c.gap;
  const auto a = random_floats(c.rows * a_stride, 1);
  const auto b = random_floats((c.transposed ? c.columns : c.inner) * b_stride, 2);
  const auto bias = random_floats(c.columns, 3);
  std::vector<float> out(c.rows * c_stride, kUntouched);
  multiply(variant,
           {.a = a.data(),
            .b = b.data(),
            .bias = c.bias ? bias.data() : nullptr,
            .c = out.data(),
            .rows = c.rows,
            .inner = c.inner,
            .columns = c.columns,
            .a_stride = a_stride,
            .c_stride = c_stride,
            .b_stride = b_stride,
            .b_transposed = c.transposed,
            .activation = c.activation},
           threads, on_threads);
  for (int64_t i = 0; i < c.rows; ++i)
    for (int64_t j = 0; j < c.columns; ++j) {
      double sum = 0, size = 0;
      for (int64_t k = 0; k < c.inner; ++k) {
        const double x = a[i * a_stride + k];
        const double y = c.transposed ? b[j * b_stride + k] : b[k * b_stride + j];
        sum += x * y;
        size += std::abs(x * y);
      }
      if (c.bias) sum += bias[j];
      const double bound = 1e-6 * (1 + size);
      EXPECT_NEAR(out[i * c_stride + j], activated(sum, c.activation), bound)
          << c.rows << "x" << c.inner << "x" << c.columns << " at " << i << ", " << j;
      if (::testing::Test::HasFailure()) return out;
    }
  for (int64_t i = 0; i < c.rows; ++i)
    for (int64_t j = c.columns; j < c_stride; ++j)
      EXPECT_EQ(out[i * c_stride + j], kUntouched) << "a gap was written";
  return out;
}

class ProductTest : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > codegen::cpp::host_isa()) GTEST_SKIP() << "not on this processor";
    variant_ = variant_for(GetParam());
  }
  const Variant* variant_ = nullptr;
};

TEST_P(ProductTest, AllSizesAroundTilesAndPanels) {
  for (int64_t rows : {1, 5, 6, 7, 13})
    for (int64_t inner : {1, 15, 16, 17, 40})
      for (int64_t columns : {1, 7, 16, 63, 64, 65, 130})
        for (bool transposed : {false, true})
          multiplied(*variant_, {rows, inner, columns, transposed, rows % 2 == 1}, 1);
}

TEST_P(ProductTest, InnerInSeveralBlocks) {
  for (bool transposed : {false, true})
    for (int64_t inner : {1024, 1025, 2500})
      multiplied(*variant_, {9, inner, 100, transposed, true, Activation::kGelu}, 1);
}

TEST_P(ProductTest, EmptyInnerGivesTheBias) {
  for (int64_t columns : {3, 64}) multiplied(*variant_, {4, 0, columns, true, true}, 1);
}

TEST_P(ProductTest, NothingToDo) {
  multiplied(*variant_, {0, 5, 4}, 2);
  multiplied(*variant_, {4, 5, 0}, 2);
}

TEST_P(ProductTest, ActivationsAndGaps) {
  for (Activation activation : {Activation::kGelu, Activation::kGeluTanh})
    for (bool transposed : {false, true})
      multiplied(*variant_, {20, 33, 97, transposed, true, activation, 5}, 1);
}

TEST_P(ProductTest, ThreadsShareTheRowsOfFewPanels) {
  const Case few{700, 64, 70, true, true, Activation::kGelu};
  const auto alone = multiplied(*variant_, few, 1);
  for (int threads : {2, 5, 16}) EXPECT_EQ(multiplied(*variant_, few, threads), alone);
}

INSTANTIATE_TEST_SUITE_P(Variants, ProductTest, ::testing::Values(Isa::kAvx2, Isa::kAvx512),
                         [](const auto& info) { return std::string(to_string(info.param)); });

}  // namespace
}  // namespace braze::kernels
