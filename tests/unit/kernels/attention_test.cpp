#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/on_threads.h"

namespace braze::kernels {
namespace {

using target::Isa;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kUntouched = -777;

enum class Mask { kNone, kRandom, kHoles, kAllHidden };

struct AttentionCase {
  int64_t batch = 1, heads = 1, key_heads = 1, queries = 1, keys = 1, depth = 1;
  bool causal = false;
  Mask mask = Mask::kNone;
  bool mask_varies[4] = {true, true, true, true};
  bool mask_keys_first = false;  // in memory keys are the outer dimension
  bool heads_inside = false;     // [batch, rows, heads, depth] in memory
  int64_t gap = 0;               // between rows
  float scale = 0.3f;
};

// A tensor of four dimensions in memory of its own.
struct Tensor {
  std::vector<float> data;
  int64_t strides[4] = {};
  float& at(int64_t b, int64_t h, int64_t i, int64_t d) {
    return data[b * strides[0] + h * strides[1] + i * strides[2] + d * strides[3]];
  }
};

Tensor tensor(const AttentionCase& c, int64_t heads, int64_t rows, int seed) {
  Tensor result;
  const int64_t row = c.depth + c.gap;
  result.strides[0] = heads * rows * row;
  result.strides[1] = c.heads_inside ? row : rows * row;
  result.strides[2] = c.heads_inside ? heads * row : row;
  result.strides[3] = 1;
  result.data.resize(c.batch * result.strides[0], kUntouched);
  if (seed == 0) return result;
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t d = 0; d < c.depth; ++d) result.at(b, h, i, d) = normal(random);
  return result;
}

Tensor mask_of(const AttentionCase& c) {
  const int64_t all[4] = {c.batch, c.heads, c.queries, c.keys};
  const int order[4] = {c.mask_keys_first ? 2 : 3, c.mask_keys_first ? 3 : 2, 1, 0};
  Tensor result;
  int64_t size = 1;
  for (int dim : order) {
    if (!c.mask_varies[dim]) continue;
    result.strides[dim] = size;
    size *= all[dim];
  }
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  result.data.resize(size);
  for (float& x : result.data) {
    x = normal(random);
    if (c.mask == Mask::kAllHidden || (c.mask == Mask::kHoles && x < 0)) x = -kInf;
  }
  return result;
}

// What one query gets.
std::vector<double> expected(const AttentionCase& c, Tensor& q, Tensor& k, Tensor& v, Tensor& mask,
                             int64_t b, int64_t h, int64_t i) {
  const int64_t key_head = h / (c.heads / c.key_heads);
  std::vector<double> scores(c.keys), result(c.depth);
  double most = -kInf, sum = 0;
  for (int64_t j = 0; j < c.keys; ++j) {
    for (int64_t d = 0; d < c.depth; ++d)
      scores[j] += double(q.at(b, h, i, d)) * k.at(b, key_head, j, d);
    scores[j] *= c.scale;
    if (c.mask != Mask::kNone) scores[j] += mask.at(b, h, i, j);
    if (c.causal && j > i) scores[j] = -kInf;
    most = std::max(most, scores[j]);
  }
  if (most == -kInf) return result;
  for (double& score : scores) sum += score = std::exp(score - most);
  for (int64_t j = 0; j < c.keys; ++j)
    for (int64_t d = 0; d < c.depth; ++d) result[d] += scores[j] / sum * v.at(b, key_head, j, d);
  return result;
}

class AttentionTest : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > target::host_isa())
      GTEST_SKIP() << "not on this processor; one with these instructions lifts it";
    variant_ = variant_for(GetParam());
  }

  std::vector<float> attended(const AttentionCase& c, int threads) const {
    Tensor q = tensor(c, c.heads, c.queries, 1), k = tensor(c, c.key_heads, c.keys, 2);
    Tensor v = tensor(c, c.key_heads, c.keys, 3), out = tensor(c, c.heads, c.queries, 0);
    Tensor mask = mask_of(c);
    Attention job{.query = q.data.data(),
                  .key = k.data.data(),
                  .value = v.data.data(),
                  .mask = c.mask == Mask::kNone ? nullptr : mask.data.data(),
                  .out = out.data.data(),
                  .batch = c.batch,
                  .heads = c.heads,
                  .key_heads = c.key_heads,
                  .queries = c.queries,
                  .keys = c.keys,
                  .depth = c.depth,
                  .scale = c.scale,
                  .causal = c.causal};
    for (int i = 0; i < 3; ++i) {
      job.query_strides[i] = q.strides[i];
      job.key_strides[i] = k.strides[i];
      job.value_strides[i] = v.strides[i];
      job.out_strides[i] = out.strides[i];
    }
    std::copy(mask.strides, mask.strides + 4, job.mask_strides);
    attend(*variant_, job, threads, on_threads);
    const std::vector<float> result = out.data;
    for (int64_t b = 0; b < c.batch; ++b)
      for (int64_t h = 0; h < c.heads; ++h)
        for (int64_t i = 0; i < c.queries; ++i) {
          const auto right = expected(c, q, k, v, mask, b, h, i);
          for (int64_t d = 0; d < c.depth; ++d) {
            EXPECT_NEAR(out.at(b, h, i, d), right[d], 4e-6 * std::max(1.0f, c.scale))
                << c.queries << " queries, " << c.keys << " keys, depth " << c.depth << ", at " << b
                << ", " << h << ", " << i << ", " << d;
            if (HasFailure()) return result;
            out.at(b, h, i, d) = kUntouched;
          }
        }
    for (float x : out.data) EXPECT_EQ(x, kUntouched) << "a gap was written";
    return result;
  }

  const Variant* variant_ = nullptr;
};

TEST_P(AttentionTest, AllSizesAroundTilesAndPanels) {
  for (int64_t queries : {1, 2, 4, 5, 7, 8, 9, 15, 16, 17, 24, 25, 33, 49, 64, 65, 130})
    for (int64_t keys : {1, 6, 17, 64})
      for (int64_t depth : {1, 6, 15, 16, 40})
        for (bool causal : {false, true})
          attended({.queries = queries, .keys = keys, .depth = depth, .causal = causal}, 1);
}

TEST_P(AttentionTest, KeysInSeveralBlocks) {
  for (int64_t queries : {1, 6, 300})
    for (int64_t keys : {256, 257, 700})
      for (bool causal : {false, true})
        for (Mask mask : {Mask::kNone, Mask::kHoles}) {
          AttentionCase c{.queries = queries, .keys = keys, .depth = 8, .causal = causal};
          c.mask = mask;
          attended(c, 1);
        }
}

TEST_P(AttentionTest, CausalWithMoreQueriesThanKeysAndFewer) {
  for (int64_t queries : {3, 30, 100})
    for (int64_t keys : {2, 30, 100})
      for (Mask mask : {Mask::kNone, Mask::kRandom})
        attended({.queries = queries, .keys = keys, .depth = 16, .causal = true, .mask = mask}, 1);
}

TEST_P(AttentionTest, StridesAndSharedKeys) {
  for (bool inside : {false, true})
    for (int64_t gap : {0, 3})
      for (int64_t key_heads : {1, 2, 4})
        attended({.batch = 2,
                  .heads = 4,
                  .key_heads = key_heads,
                  .queries = 20,
                  .keys = 23,
                  .depth = 70,
                  .heads_inside = inside,
                  .gap = gap},
                 2);
}

TEST_P(AttentionTest, MasksOfAllBroadcasts) {
  for (int varies = 0; varies < 16; ++varies)
    for (bool keys_first : {false, true})
      for (Mask mask : {Mask::kRandom, Mask::kHoles}) {
        AttentionCase c{
            .batch = 2, .heads = 3, .key_heads = 3, .queries = 35, .keys = 29, .depth = 5};
        c.mask = mask;
        c.mask_keys_first = keys_first;
        for (int dim = 0; dim < 4; ++dim) c.mask_varies[dim] = varies >> dim & 1;
        attended(c, 1);
      }
}

TEST_P(AttentionTest, RowsThatSeeNothingGiveZeros) {
  for (int64_t queries : {2, 20})
    for (int64_t keys : {5, 600})
      attended({.queries = queries, .keys = keys, .depth = 8, .mask = Mask::kAllHidden}, 1);
  // A first block that is hidden, a second one that is not.
  AttentionCase c{.queries = 18, .keys = 600, .depth = 8, .mask = Mask::kHoles};
  c.mask_varies[3] = false;
  attended(c, 1);
}

TEST_P(AttentionTest, ScalesOfAllSigns) {
  for (float scale : {-0.7f, 0.0f, 20.0f})
    attended({.queries = 20, .keys = 300, .depth = 8, .scale = scale}, 1);
}

TEST_P(AttentionTest, NothingToDo) {
  attended({.batch = 0, .queries = 5, .keys = 5, .depth = 4}, 2);
  attended({.queries = 0, .keys = 5, .depth = 4}, 2);
  attended({.queries = 5, .keys = 0, .depth = 4}, 2);
}

TEST_P(AttentionTest, ANanReachesItsRowAndNoOther) {
  for (int64_t queries : {2, 10}) {
    std::vector<float> q(queries * 4, 1.0f), k(3 * 4, 1.0f), v(3 * 4, 2.0f), out(queries * 4);
    q[0] = NAN;
    Attention job{.query = q.data(), .key = k.data(), .value = v.data(), .out = out.data()};
    job.batch = job.heads = job.key_heads = 1;
    job.queries = queries, job.keys = 3, job.depth = 4;
    for (auto* strides : {job.query_strides, job.key_strides, job.value_strides, job.out_strides})
      strides[2] = 4;
    attend(*variant_, job, 1, on_threads);
    for (int64_t i = 0; i < queries * 4; ++i) {
      if (i < 4)
        EXPECT_TRUE(std::isnan(out[i]));
      else
        EXPECT_EQ(out[i], 2.0f);
    }
  }
}

TEST_P(AttentionTest, ThreadsChangeNothing) {
  for (bool causal : {false, true}) {
    const AttentionCase c{
        .heads = 2, .key_heads = 2, .queries = 146, .keys = 520, .depth = 20, .causal = causal};
    const auto alone = attended(c, 1);
    for (int threads : {2, 5, 16, 64}) EXPECT_EQ(attended(c, threads), alone);
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, AttentionTest, ::testing::Values(Isa::kAvx2, Isa::kAvx512),
                         [](const auto& info) { return std::string(to_string(info.param)); });

}  // namespace
}  // namespace braze::kernels
