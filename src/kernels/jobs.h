// What the variants of a kernel, one for each instruction set, are given. Plain data: a variant's
// source must not instantiate anything of the standard library, or the linker might take its
// instructions for everybody's.
#pragma once

#include <cstdint>

namespace braze::kernels {

enum class Activation : uint8_t { kNone, kGelu, kGeluTanh };

// c = activation(a @ b + bias), or, where it adds, c + a @ b, all f32. Strides in elements.
struct Product {
  const float* a = nullptr;     // [rows, inner], see a_transposed
  const float* b = nullptr;     // [inner, columns], see b_transposed
  const float* bias = nullptr;  // [columns], or null
  float* c = nullptr;           // [rows, columns], elements of a row side by side
  int64_t rows = 0, inner = 0, columns = 0;
  int64_t a_stride = 0, c_stride = 0;  // from row to row
  // Elements of a column of a lie side by side, as in the gradient of a weight, and a_stride is
  // from column to column; else those of a row.
  bool a_transposed = false;
  // Plain: from row to row of b, whose rows lie side by side. Transposed (`weight.t()` of a linear
  // layer): from column to column, the elements of a column lie side by side.
  int64_t b_stride = 0;
  bool b_transposed = false;
  Activation activation = Activation::kNone;
  bool adds = false;  // to what c holds; without a bias and an activation then
};

// How far a block of rows is; atomic.
struct RowBlockProgress {
  int64_t packed = 0;      // tasks that pack it
  int64_t multiplied = 0;  // panels
};

// A product cut into tasks: some columns, a panel of them where there are many rows, over a block
// of rows. The threads take one after the other. Before the panels of a block of rows come, where a
// is transposed or the variant packs all, tasks that pack it; two blocks in turn are in memory.
struct ProductJob {
  Product product;
  int64_t width = 0;                                  // columns of a task
  int64_t row_block = 0, row_blocks = 0, panels = 0;  // panels: tasks a block of rows
  int64_t inner_block = 0;
  int64_t packs = 0, packed_rows = 0;    // tasks that pack a block of rows, rows of one
  float* packed = nullptr;               // [2, row_block, inner]
  RowBlockProgress* progress = nullptr;  // [row_blocks], where there are packs
  int64_t threads = 1;
  int64_t next = 0;  // the first task that nobody has taken; atomic
};

// out = softmax(query key^T * scale + mask) value for each of `heads` heads of each of `batch`
// elements of a batch, all f32. The elements of a row of query, key, value and out lie side by
// side; strides from one element of the batch, head, row to the next. A row without a key that is
// seen (its mask is -inf throughout) gives zeros.
struct Attention {
  const float* query = nullptr;  // [batch, heads, queries, depth]
  const float* key = nullptr;    // [batch, key_heads, keys, depth]; key_heads divides heads
  const float* value = nullptr;  // like key
  const float* mask = nullptr;   // [batch, heads, queries, keys], or null
  float* out = nullptr;          // like query
  // [batch, heads, queries]: of each query, of e^(its scores); or null.
  float* logsumexp = nullptr;
  int64_t logsumexp_strides[3] = {};
  int64_t batch = 0, heads = 0, key_heads = 0, queries = 0, keys = 0, depth = 0;
  int64_t query_strides[3] = {}, key_strides[3] = {}, value_strides[3] = {}, out_strides[3] = {};
  int64_t mask_strides[4] = {};  // 0 where it is broadcast
  float scale = 1;
  bool causal = false;  // query i sees keys 0 to i
};

// Of attention that has given `out` and `logsumexp`, which are read.
struct AttentionGradient {
  Attention forward;
  const float* tangent = nullptr;                            // like out
  float *query = nullptr, *key = nullptr, *value = nullptr;  // to be written
  int64_t tangent_strides[3] = {}, query_strides[3] = {}, key_strides[3] = {},
          value_strides[3] = {};
};

// Some queries of a head and some keys.
struct ScoreBlock {
  float* weights = nullptr;    // [queries, keys]: scores at first
  float* gradients = nullptr;  // the same: of the weights at first
  int64_t stride = 0;          // from row to row of both
  int64_t queries = 0, keys = 0, first_query = 0, first_key = 0;
  const float* mask = nullptr;  // of the first of both, or null
  int64_t mask_strides[2] = {};
  const float* logsumexp = nullptr;
  int64_t logsumexp_stride = 0;
  const float* means = nullptr;  // by query, of the weights' gradients by the weights
  float scale = 1;
  bool causal = false;
};

// Attention cut into tasks: some queries of a head, at most a panel, of which the threads take one
// after the other.
struct AttentionJob {
  Attention attention;
  int64_t query_block = 0, query_blocks = 0;
  int64_t key_block = 0;  // keys whose scores are in memory at a time; whole vectors
  int64_t next = 0;       // the first task that nobody has taken; atomic
};

struct Variant {
  int64_t panel = 0;   // columns of a panel
  int64_t panels = 1;  // of a task
  int64_t tile_rows = 0;
  int64_t inner_block = 0;  // elements of a column of b in a packed panel, at most
  bool packs_rows = false;  // also where the elements of a row of a lie side by side
  // Takes tasks until none is left. `scratch`, 64-byte aligned: inner_block x panel floats.
  void (*multiply)(ProductJob& job, float* scratch) = nullptr;
  // The same for few rows, `scratch`: rows x width floats.
  void (*multiply_few_rows)(ProductJob& job, float* scratch) = nullptr;
  int64_t lanes = 0;  // of a vector; they divide `panel`
  // The same, `scratch`: key_block + 2 * depth rows of a panel.
  void (*attend)(AttentionJob& job, float* scratch) = nullptr;
  // attention_gradient.inc
  void (*weigh)(const ScoreBlock& block) = nullptr;
  void (*differentiate_weights)(const ScoreBlock& block) = nullptr;
  void (*multiply_and_sum_rows)(const float* a, int64_t a_stride, const float* b, int64_t b_stride,
                                int64_t rows, int64_t width, float* to) = nullptr;
};
extern const Variant kAvx2;
extern const Variant kAvx512;

}  // namespace braze::kernels
