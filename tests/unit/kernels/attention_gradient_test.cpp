#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/on_threads.h"

namespace braze::kernels {
namespace {

using target::Isa;

constexpr double kHidden = -std::numeric_limits<double>::infinity();

struct GradientCase {
  int64_t batch = 1, heads = 1, key_heads = 1, queries = 1, keys = 1, depth = 1;
  bool causal = false, masked = false, some_hidden = false;
  int64_t gap = 0;  // behind a row
  int threads = 1;
};

struct Rows {
  std::vector<float> data;
  int64_t strides[3] = {};
  int64_t depth = 0;
  double at(int64_t b, int64_t h, int64_t i, int64_t d) const {
    return data[b * strides[0] + h * strides[1] + i * strides[2] + d];
  }
};

Rows rows_of(const GradientCase& c, int64_t heads, int64_t rows, int seed) {
  Rows made;
  const int64_t row = c.depth + c.gap;
  const int64_t strides[3] = {heads * rows * row, row, heads * row};
  std::copy(strides, strides + 3, made.strides);
  made.data.resize(c.batch * strides[0], -777.0f);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (float& x : made.data) x = seed == 0 ? -777.0f : normal(random);
  return made;
}

using Grid = std::vector<double>;  // [batch, heads, rows, depth]

class AttentionGradientTest : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > target::host_isa())
      GTEST_SKIP() << "not on this processor; one with these instructions lifts it";
    variant_ = variant_for(GetParam());
  }

  std::vector<float> check(const GradientCase& c) const {
    const Rows q = rows_of(c, c.heads, c.queries, 1), k = rows_of(c, c.key_heads, c.keys, 2);
    const Rows v = rows_of(c, c.key_heads, c.keys, 3), tangent = rows_of(c, c.heads, c.queries, 4);
    Rows out = rows_of(c, c.heads, c.queries, 0), of_query = out;
    Rows of_key = rows_of(c, c.key_heads, c.keys, 0), of_value = of_key;
    std::vector<float> sums(c.batch * c.heads * c.queries), mask(c.queries * c.keys);
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < mask.size(); ++i) {
      mask[i] = normal(random);
      if (c.some_hidden && (mask[i] < -0.5f || i / c.keys == 0)) mask[i] = -INFINITY;
    }
    AttentionGradient gradient;
    Attention& a = gradient.forward;
    a = {.query = q.data.data(),
         .key = k.data.data(),
         .value = v.data.data(),
         .mask = c.masked ? mask.data() : nullptr,
         .out = out.data.data(),
         .logsumexp = sums.data(),
         .logsumexp_strides = {c.heads * c.queries, 1, c.heads},
         .batch = c.batch,
         .heads = c.heads,
         .key_heads = c.key_heads,
         .queries = c.queries,
         .keys = c.keys,
         .depth = c.depth,
         .mask_strides = {0, 0, c.keys, 1},
         .scale = 0.3f,
         .causal = c.causal};
    std::copy(q.strides, q.strides + 3, a.query_strides);
    std::copy(k.strides, k.strides + 3, a.key_strides);
    std::copy(v.strides, v.strides + 3, a.value_strides);
    std::copy(out.strides, out.strides + 3, a.out_strides);
    attend(*variant_, a, c.threads, on_threads);
    gradient.tangent = tangent.data.data();
    gradient.query = of_query.data.data();
    gradient.key = of_key.data.data();
    gradient.value = of_value.data.data();
    std::copy(tangent.strides, tangent.strides + 3, gradient.tangent_strides);
    std::copy(of_query.strides, of_query.strides + 3, gradient.query_strides);
    std::copy(of_key.strides, of_key.strides + 3, gradient.key_strides);
    std::copy(of_value.strides, of_value.strides + 3, gradient.value_strides);
    differentiate(*variant_, gradient, c.threads, on_threads);

    Grid dq(c.batch * c.heads * c.queries * c.depth), dk(c.batch * c.key_heads * c.keys * c.depth);
    Grid dv = dk;
    for (int64_t b = 0; b < c.batch; ++b)
      for (int64_t h = 0; h < c.heads; ++h) expect(c, mask, b, h, q, k, v, tangent, dq, dk, dv);
    compare(c, c.heads, c.queries, of_query, dq, "query");
    compare(c, c.key_heads, c.keys, of_key, dk, "key");
    compare(c, c.key_heads, c.keys, of_value, dv, "value");
    std::vector<float> all = of_query.data;
    all.insert(all.end(), of_key.data.begin(), of_key.data.end());
    all.insert(all.end(), of_value.data.begin(), of_value.data.end());
    return all;
  }

  static void expect(const GradientCase& c, const std::vector<float>& mask, int64_t b, int64_t h,
                     const Rows& q, const Rows& k, const Rows& v, const Rows& tangent, Grid& dq,
                     Grid& dk, Grid& dv) {
    const int64_t kh = h / (c.heads / c.key_heads);
    for (int64_t i = 0; i < c.queries; ++i) {
      Grid weights(c.keys), of_weights(c.keys);
      double most = kHidden, sum = 0, mean = 0;
      for (int64_t j = 0; j < c.keys; ++j) {
        for (int64_t d = 0; d < c.depth; ++d) {
          weights[j] += q.at(b, h, i, d) * k.at(b, kh, j, d);
          of_weights[j] += tangent.at(b, h, i, d) * v.at(b, kh, j, d);
        }
        weights[j] = weights[j] * 0.3f + (c.masked ? mask[i * c.keys + j] : 0.0f);
        if (c.causal && j > i) weights[j] = kHidden;
        most = std::max(most, weights[j]);
      }
      if (most == kHidden) continue;
      for (double& weight : weights) sum += weight = std::exp(weight - most);
      for (double& weight : weights) weight /= sum;
      for (int64_t j = 0; j < c.keys; ++j) mean += weights[j] * of_weights[j];
      for (int64_t j = 0; j < c.keys; ++j)
        for (int64_t d = 0; d < c.depth; ++d) {
          const double score = weights[j] * (of_weights[j] - mean) * 0.3f;
          const int64_t row = (b * c.heads + h) * c.queries + i;
          const int64_t key = (b * c.key_heads + kh) * c.keys + j;
          dv[key * c.depth + d] += weights[j] * tangent.at(b, h, i, d);
          dq[row * c.depth + d] += score * k.at(b, kh, j, d);
          dk[key * c.depth + d] += score * q.at(b, h, i, d);
        }
    }
  }

  static void compare(const GradientCase& c, int64_t heads, int64_t rows, const Rows& got,
                      const Grid& right, const char* what) {
    double scale = 1;
    for (const double x : right) scale = std::max(scale, std::abs(x));
    for (int64_t b = 0; b < c.batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t d = 0; d < c.depth; ++d)
            ASSERT_NEAR(got.at(b, h, i, d), right[((b * heads + h) * rows + i) * c.depth + d],
                        1.5e-5 * scale)
                << what << " of " << c.queries << " queries, " << c.keys << " keys, depth "
                << c.depth << ", at " << b << ", " << h << ", " << i << ", " << d;
          for (int64_t d = c.depth; d < c.depth + c.gap; ++d)
            ASSERT_EQ(got.at(b, h, i, d), -777) << "a gap was written";
        }
  }

  const Variant* variant_ = nullptr;
};

TEST_P(AttentionGradientTest, SizesAroundTilesAndVectors) {
  for (const int64_t queries : {1, 5, 16, 48, 49, 70})
    for (const int64_t keys : {1, 6, 17, 48, 49, 65})
      for (const int64_t depth : {1, 15, 32, 65})
        for (const bool causal : {false, true})
          check({.queries = queries, .keys = keys, .depth = depth, .causal = causal});
}

TEST_P(AttentionGradientTest, SeveralBlocks) {
  for (const int64_t queries : {127, 129, 300})
    for (const int64_t keys : {128, 129, 513, 1030})
      for (const bool causal : {false, true})
        for (const bool masked : {false, true})
          check({.queries = queries, .keys = keys, .depth = 8, .causal = causal, .masked = masked});
}

TEST_P(AttentionGradientTest, MasksThatHideKeysAndWholeRows) {
  for (const bool causal : {false, true})
    check({.heads = 2,
           .queries = 30,
           .keys = 40,
           .depth = 16,
           .causal = causal,
           .masked = true,
           .some_hidden = true});
}

TEST_P(AttentionGradientTest, SharedKeysStridesAndThreads) {
  for (const int64_t key_heads : {1, 2, 4}) {
    GradientCase c{.batch = 2,
                   .heads = 4,
                   .key_heads = key_heads,
                   .queries = 140,
                   .keys = 75,
                   .depth = 24,
                   .gap = 3};
    const std::vector<float> alone = check(c);
    c.threads = 3;
    EXPECT_EQ(check(c), alone);
  }
}

INSTANTIATE_TEST_SUITE_P(All, AttentionGradientTest, ::testing::Values(Isa::kAvx2, Isa::kAvx512),
                         [](const auto& info) {
                           return info.param == Isa::kAvx2 ? "Avx2" : "Avx512";
                         });

}  // namespace
}  // namespace braze::kernels
