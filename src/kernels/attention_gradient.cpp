// The gradient of attention, by the formulas of T. Dao et al., FlashAttention (NeurIPS 2022),
// appendix B: of a block of queries and a block of keys the weights w are computed again from the
// logarithms of their sums, and
//
//   dvalue += w^T dout     dw = dout value^T     ds = w * (dw - mean) * scale, mean = dout . out
//   dquery += ds key       dkey += ds^T query
//
// One head of keys is one thread's, so that no two add to the same place.
#include <algorithm>
#include <atomic>

#include "kernels/kernels.h"
#include "kernels/scratch.h"

namespace braze::kernels {
namespace {

// Two blocks of scores are 512 KiB.
constexpr int64_t kQueriesAtOnce = 128, kKeysAtOnce = 512;
// Where later keys are not seen: blocks of which no query sees a key are left out.
constexpr int64_t kCausalKeysAtOnce = 128;

thread_local Scratch scores;

class HeadGradient {
 public:
  HeadGradient(const Variant& variant, const AttentionGradient& gradient, int64_t head)
      : variant_(variant),
        g_(gradient),
        a_(gradient.forward),
        batch_(head / a_.key_heads),
        key_head_(head % a_.key_heads),
        key_block_(std::min(a_.causal ? kCausalKeysAtOnce : kKeysAtOnce, a_.keys)),
        stride_((key_block_ + variant.lanes - 1) / variant.lanes * variant.lanes) {
    weights_ = scores.of(kQueriesAtOnce * (3 * stride_ + 1));
    gradients_ = weights_ + kQueriesAtOnce * stride_;
    turned_ = gradients_ + kQueriesAtOnce * stride_;
    means_ = turned_ + kQueriesAtOnce * stride_;
  }

  void run() {
    const int64_t shared = a_.heads / a_.key_heads;
    for (int64_t key = 0; key < a_.keys; key += key_block_) {
      keys_ = std::min(key_block_, a_.keys - key);
      is_added_ = false;
      for (int64_t head = key_head_ * shared; head < (key_head_ + 1) * shared; ++head)
        for (int64_t query = 0; query < a_.queries; query += kQueriesAtOnce) {
          queries_ = std::min(kQueriesAtOnce, a_.queries - query);
          if (a_.causal && key >= query + queries_) continue;
          add_block(head, query, key);
          is_added_ = true;
        }
      if (!is_added_) clear(key);
    }
  }

 private:
  template <class T>
  T* row(T* of, const int64_t (&strides)[3], int64_t head, int64_t i) const {
    return of + batch_ * strides[0] + head * strides[1] + i * strides[2];
  }

  void add_block(int64_t head, int64_t query, int64_t key) {
    const float* queries = row(a_.query, a_.query_strides, head, query);
    const float* keys = row(a_.key, a_.key_strides, key_head_, key);
    const float* values = row(a_.value, a_.value_strides, key_head_, key);
    const float* out = row(static_cast<const float*>(a_.out), a_.out_strides, head, query);
    const float* tangent = row(g_.tangent, g_.tangent_strides, head, query);
    const ScoreBlock block{
        .weights = weights_,
        .gradients = gradients_,
        .stride = stride_,
        .queries = queries_,
        .keys = keys_,
        .first_query = query,
        .first_key = key,
        .mask = a_.mask ? a_.mask + batch_ * a_.mask_strides[0] + head * a_.mask_strides[1] +
                              query * a_.mask_strides[2] + key * a_.mask_strides[3]
                        : nullptr,
        .mask_strides = {a_.mask_strides[2], a_.mask_strides[3]},
        .logsumexp =
            row(static_cast<const float*>(a_.logsumexp), a_.logsumexp_strides, head, query),
        .logsumexp_stride = a_.logsumexp_strides[2],
        .means = means_,
        .scale = a_.scale,
        .causal = a_.causal && key + keys_ > query};
    multiply_by_columns(queries, a_.query_strides[2], keys, a_.key_strides[2], weights_);
    variant_.weigh(block);
    add_to_keys(weights_, tangent, g_.tangent_strides[2],
                row(g_.value, g_.value_strides, key_head_, key), g_.value_strides[2]);
    multiply_by_columns(tangent, g_.tangent_strides[2], values, a_.value_strides[2], gradients_);
    variant_.multiply_and_sum_rows(tangent, g_.tangent_strides[2], out, a_.out_strides[2], queries_,
                                   a_.depth, means_);
    variant_.differentiate_weights(block);
    multiply({.a = gradients_,
              .b = keys,
              .c = row(g_.query, g_.query_strides, head, query),
              .rows = queries_,
              .inner = keys_,
              .columns = a_.depth,
              .a_stride = stride_,
              .c_stride = g_.query_strides[2],
              .b_stride = a_.key_strides[2],
              .adds = key > 0});
    add_to_keys(gradients_, queries, a_.query_strides[2],
                row(g_.key, g_.key_strides, key_head_, key), g_.key_strides[2]);
  }

  void multiply(const Product& product) const {
    kernels::multiply(variant_, product, 1, [](int, const std::function<void()>& body) { body(); });
  }

  // [queries, depth] @ [keys, depth]^T
  void multiply_by_columns(const float* a, int64_t a_stride, const float* b, int64_t b_stride,
                           float* to) const {
    multiply({.a = a,
              .b = b,
              .c = to,
              .rows = queries_,
              .inner = a_.depth,
              .columns = keys_,
              .a_stride = a_stride,
              .c_stride = stride_,
              .b_stride = b_stride,
              .b_transposed = true});
  }

  // to += block^T @ b, of [queries, keys] and [queries, depth].
  void add_to_keys(const float* block, const float* b, int64_t b_stride, float* to,
                   int64_t to_stride) const {
    const bool packs = packs_rows(keys_, queries_);
    if (!packs)
      for (int64_t q = 0; q < queries_; ++q)
        for (int64_t k = 0; k < keys_; ++k) turned_[k * queries_ + q] = block[q * stride_ + k];
    multiply({.a = packs ? block : turned_,
              .b = b,
              .c = to,
              .rows = keys_,
              .inner = queries_,
              .columns = a_.depth,
              .a_stride = packs ? stride_ : queries_,
              .c_stride = to_stride,
              .a_transposed = packs,
              .b_stride = b_stride,
              .adds = is_added_});
  }

  void clear(int64_t key) const {
    for (int64_t k = key; k < key + keys_; ++k) {
      std::fill_n(row(g_.key, g_.key_strides, key_head_, k), a_.depth, 0.0f);
      std::fill_n(row(g_.value, g_.value_strides, key_head_, k), a_.depth, 0.0f);
    }
  }

  const Variant& variant_;
  const AttentionGradient& g_;
  const Attention& a_;
  const int64_t batch_, key_head_, key_block_, stride_;
  int64_t queries_ = 0, keys_ = 0;  // of the block
  bool is_added_ = false;           // to the gradients of this block's keys
  float *weights_, *gradients_, *turned_, *means_;
};

}  // namespace

void differentiate(const Variant& variant, const AttentionGradient& gradient, int threads,
                   const OnThreads& run) {
  const Attention& a = gradient.forward;
  const int64_t heads = a.batch * a.key_heads;
  if (heads == 0 || a.depth == 0) return;
  std::atomic<int64_t> next = 0;
  run(static_cast<int>(std::min<int64_t>(threads, heads)), [&] {
    for (int64_t head = next++; head < heads; head = next++)
      HeadGradient(variant, gradient, head).run();
  });
}

}  // namespace braze::kernels
