#include "kernels/kernels.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace braze::kernels {
namespace {

// Elements of a column of b in a packed panel: 256 KiB with 64 columns, which half of a second-level
// cache holds.
constexpr int64_t kInnerBlock = 1024;
// Rows that are multiplied with all panels before the next ones: 1.5 MiB of a with inner 768.
constexpr int64_t kMostRows = 512;
// Fewer rows do not pay for packing the panel again.
constexpr int64_t kLeastRows = 48;
// So that a thread that was held up costs the others little.
constexpr int64_t kTasksPerThread = 3;
// 64 KiB of scores in panels of 64 columns.
constexpr int64_t kKeyBlock = 256;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Of the calling thread, kept for its next call.
class Scratch {
 public:
  ~Scratch() { std::free(data_); }
  float* of(size_t count) {
    if (count > count_) {
      std::free(data_);
      data_ = nullptr;
      count_ = 0;
      void* memory = nullptr;
      if (posix_memalign(&memory, 64, count * sizeof(float)) != 0) throw std::bad_alloc();
      data_ = static_cast<float*>(memory);
      count_ = count;
    }
    return data_;
  }

 private:
  float* data_ = nullptr;
  size_t count_ = 0;
};
thread_local Scratch scratch;

}  // namespace

const Variant* variant_for(codegen::cpp::Isa isa) {
  switch (isa) {
    case codegen::cpp::Isa::kGeneric:
      return nullptr;
    case codegen::cpp::Isa::kAvx2:
      return &kAvx2;
    case codegen::cpp::Isa::kAvx512:
      return &kAvx512;
  }
  return nullptr;
}

void multiply(const Variant& variant, const Product& product, int threads, const OnThreads& run) {
  if (product.rows == 0 || product.columns == 0) return;
  ProductJob job{.product = product};
  job.panels = ceil_div(product.columns, variant.panel);
  const int64_t wanted = threads == 1 ? 1 : ceil_div(kTasksPerThread * threads, job.panels);
  const int64_t blocks =
      std::clamp(wanted, ceil_div(product.rows, kMostRows),
                 std::max(ceil_div(product.rows, kMostRows), product.rows / kLeastRows));
  job.row_block = ceil_div(ceil_div(product.rows, blocks), variant.tile_rows) * variant.tile_rows;
  job.row_blocks = ceil_div(product.rows, job.row_block);
  const int64_t inner_blocks = std::max<int64_t>(1, ceil_div(product.inner, kInnerBlock));
  job.inner_block = ceil_div(ceil_div(product.inner, inner_blocks), 16) * 16;
  const size_t count = std::max<int64_t>(job.inner_block, 1) * variant.panel;
  job.threads = std::min<int64_t>(threads, job.panels * job.row_blocks);
  run(static_cast<int>(job.threads), [&] { variant.multiply(job, scratch.of(count)); });
}

void attend(const Variant& variant, const Attention& attention, int threads, const OnThreads& run) {
  const int64_t heads = attention.batch * attention.heads;
  if (heads == 0 || attention.queries == 0 || attention.depth == 0) return;
  AttentionJob job{.attention = attention};
  // Whole panels use the registers best; where they give too few tasks, parts of them.
  job.query_block = variant.panel;
  auto tasks = [&] { return heads * ceil_div(attention.queries, job.query_block); };
  while (job.query_block > variant.lanes && tasks() < threads) job.query_block /= 2;
  job.query_blocks = ceil_div(attention.queries, job.query_block);
  job.key_block = std::clamp<int64_t>(attention.keys, 1, kKeyBlock);
  const size_t count = (job.key_block + 2 * attention.depth) * variant.panel;
  const int useful = static_cast<int>(std::min<int64_t>(threads, tasks()));
  run(useful, [&] { variant.attend(job, scratch.of(count)); });
}

}  // namespace braze::kernels
