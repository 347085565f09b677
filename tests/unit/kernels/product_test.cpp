#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/on_threads.h"

namespace braze::kernels {
namespace {

using target::Isa;

struct ProductCase {
  int64_t rows, inner, columns;
  bool transposed = false, bias = false;
  Activation activation = Activation::kNone;
  int64_t gap = 0;  // between rows
  bool a_transposed = false;
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

constexpr float kUnwritten = -777;

std::vector<float> multiplied(const Variant& variant, const ProductCase& c, int threads) {
  const int64_t a_stride = (c.a_transposed ? c.rows : c.inner) + c.gap;
  const int64_t c_stride = c.columns + c.gap;
  const int64_t b_stride = (c.transposed ? c.inner : c.columns) + c.gap;
  const auto a = random_floats((c.a_transposed ? c.inner : c.rows) * a_stride, 1);
  const auto b = random_floats((c.transposed ? c.columns : c.inner) * b_stride, 2);
  const auto bias = random_floats(c.columns, 3);
  std::vector<float> out(c.rows * c_stride, kUnwritten);
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
            .a_transposed = c.a_transposed,
            .b_stride = b_stride,
            .b_transposed = c.transposed,
            .activation = c.activation},
           threads, on_threads);
  for (int64_t i = 0; i < c.rows; ++i)
    for (int64_t j = 0; j < c.columns; ++j) {
      double sum = 0, size = 0;
      for (int64_t k = 0; k < c.inner; ++k) {
        const double x = c.a_transposed ? a[k * a_stride + i] : a[i * a_stride + k];
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
      EXPECT_EQ(out[i * c_stride + j], kUnwritten) << "a gap was written";
  return out;
}

class ProductTest : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > target::host_isa())
      GTEST_SKIP() << "not on this processor; one with these instructions lifts it";
    variant_ = variant_for(GetParam());
  }
  const Variant* variant_ = nullptr;
};

TEST_P(ProductTest, AllSizesAroundTilesAndPanels) {
  for (int64_t rows : {1, 2, 3, 5, 8, 12, 13, 48, 49, 55})
    for (int64_t inner : {1, 15, 16, 17, 40})
      for (int64_t columns : {1, 7, 16, 63, 64, 65, 130})
        for (bool transposed : {false, true})
          multiplied(*variant_, {rows, inner, columns, transposed, rows % 2 == 1}, 1);
}

TEST_P(ProductTest, InnerInSeveralBlocks) {
  for (int64_t rows : {2, 9, 50})
    for (bool transposed : {false, true})
      for (int64_t inner : {31, 32, 33, 256, 300, 512, 519, 1024, 1025, 2500})
        multiplied(*variant_, {rows, inner, 100, transposed, true, Activation::kGelu}, 1);
}

TEST_P(ProductTest, FewRowsOfManyColumns) {
  for (bool transposed : {false, true})
    for (int64_t columns : {511, 512, 1100, 2049})
      for (int threads : {1, 3})
        multiplied(*variant_, {3, 40, columns, transposed, true, Activation::kGeluTanh, 3},
                   threads);
}

TEST_P(ProductTest, AddsToWhatIsThere) {
  for (const int64_t rows : {3, 20, 55})
    for (const int64_t inner : {7, 1100})
      for (const int64_t columns : {5, 64, 130})
        for (const bool transposed : {false, true}) {
          const auto a = random_floats(rows * inner, 1), b = random_floats(inner * columns, 2);
          const std::vector<float> before = random_floats(rows * columns, 3);
          std::vector<float> alone(rows * columns), sum = before;
          Product product{.a = a.data(),
                          .b = b.data(),
                          .c = alone.data(),
                          .rows = rows,
                          .inner = inner,
                          .columns = columns,
                          .a_stride = inner,
                          .c_stride = columns,
                          .b_stride = transposed ? inner : columns,
                          .b_transposed = transposed};
          multiply(*variant_, product, 1, on_threads);
          product.c = sum.data();
          product.adds = true;
          multiply(*variant_, product, 2, on_threads);
          for (size_t i = 0; i < sum.size(); ++i)
            ASSERT_NEAR(sum[i], before[i] + alone[i], 1e-4)
                << rows << "x" << inner << "x" << columns;
        }
}

TEST_P(ProductTest, EmptyInnerGivesTheBias) {
  for (int64_t rows : {1, 4, 50})
    for (bool transposed : {false, true})
      for (int64_t columns : {3, 64})
        multiplied(*variant_, {rows, 0, columns, transposed, true}, 1);
}

TEST_P(ProductTest, NothingToDo) {
  multiplied(*variant_, {0, 5, 4}, 2);
  multiplied(*variant_, {4, 5, 0}, 2);
}

TEST_P(ProductTest, ActivationsAndGaps) {
  for (Activation activation : {Activation::kGelu, Activation::kGeluTanh})
    for (bool transposed : {false, true})
      for (int64_t rows : {4, 20, 60})
        multiplied(*variant_, {rows, 33, 97, transposed, true, activation, 5}, 1);
}

TEST_P(ProductTest, ThreadsShareTheRowsOfFewPanels) {
  const ProductCase few{700, 64, 70, true, true, Activation::kGelu};
  const auto alone = multiplied(*variant_, few, 1);
  for (int threads : {2, 5, 16}) EXPECT_EQ(multiplied(*variant_, few, threads), alone);
}

TEST_P(ProductTest, TransposedRowsArePacked) {
  for (int64_t rows : {49, 64, 600})
    for (int64_t inner : {1, 50})
      for (int64_t columns : {1, 130})
        for (bool transposed : {false, true}) {
          ProductCase c{rows, inner, columns, transposed, true, Activation::kGelu, 3};
          c.a_transposed = true;
          ASSERT_TRUE(packs_rows(rows, inner));
          const auto alone = multiplied(*variant_, c, 1);
          for (int threads : {2, 5, 16}) EXPECT_EQ(multiplied(*variant_, c, threads), alone);
        }
}

TEST_P(ProductTest, RowsThatMeetInACacheArePacked) {
  for (int64_t rows : {49, 64, 600})
    for (int64_t inner : {1, 7, 8, 16, 23, 400, 1000})
      for (int64_t columns : {128, 203})
        for (bool transposed : {false, true}) {
          const ProductCase c{rows,        inner, columns, transposed, true, Activation::kGelu,
                              1024 - inner};
          const auto alone = multiplied(*variant_, c, 1);
          for (int threads : {2, 5}) EXPECT_EQ(multiplied(*variant_, c, threads), alone);
        }
}

// Its inner extent leaves room for few rows at a time, so that memory of blocks is used again.
TEST_P(ProductTest, ManyBlocksOfTransposedRows) {
  ProductCase c{300, 9000, 10};
  c.a_transposed = true;
  const auto alone = multiplied(*variant_, c, 1);
  for (int threads : {2, 7}) EXPECT_EQ(multiplied(*variant_, c, threads), alone);
}

TEST_P(ProductTest, FewOrVeryLongRowsAreNotPacked) {
  EXPECT_FALSE(packs_rows(48, 100));
  EXPECT_FALSE(packs_rows(1000, 0));
  EXPECT_FALSE(packs_rows(1000, 1 << 20));
  EXPECT_TRUE(packs_rows(1000, 20'000));
}

TEST_P(ProductTest, ThreadsChangeNothingForFewRows) {
  for (bool transposed : {false, true})
    for (int64_t rows : {1, 7}) {
      const ProductCase few{rows, 300, 700, transposed, true, Activation::kGelu};
      const auto alone = multiplied(*variant_, few, 1);
      for (int threads : {2, 5, 64}) EXPECT_EQ(multiplied(*variant_, few, threads), alone);
    }
}

TEST_P(ProductTest, ANanReachesItsRowAndNoOther) {
  for (bool transposed : {false, true})
    for (int64_t rows : {2, 4, 60}) {
      std::vector<float> a(rows * 20, 1.0f), b(20 * 30, 1.0f), c(rows * 30);
      a[3] = NAN;
      multiply(*variant_,
               {.a = a.data(),
                .b = b.data(),
                .c = c.data(),
                .rows = rows,
                .inner = 20,
                .columns = 30,
                .a_stride = 20,
                .c_stride = 30,
                .b_stride = transposed ? 20 : 30,
                .b_transposed = transposed},
               1, on_threads);
      for (int64_t i = 0; i < rows * 30; ++i) EXPECT_EQ(std::isnan(c[i]), i < 30) << i;
    }
}

INSTANTIATE_TEST_SUITE_P(Variants, ProductTest, ::testing::Values(Isa::kAvx2, Isa::kAvx512),
                         [](const auto& info) { return std::string(to_string(info.param)); });

}  // namespace
}  // namespace braze::kernels
