#include "kernels/kernels.h"

#include <algorithm>
#include <vector>

#include "kernels/scratch.h"

namespace braze::kernels {
namespace {

// Rows that are multiplied with all panels before the next ones: 1.5 MiB of a with inner 768.
constexpr int64_t kMostRows = 512;
// Fewer rows do not pay for packing the panel again.
constexpr int64_t kLeastRows = 48;
// Up to which a product is computed from b as it lies.
constexpr int64_t kFewRows = 48, kFewRowsTransposed = 12;
// Of such a product in a task: 2 KiB of each row of b.
constexpr int64_t kMostColumns = 512;
// Of a packed a, in floats: 4 MiB for each of two blocks of rows.
constexpr int64_t kMostPacked = int64_t{1} << 20;
// In a task that packs: 8 tiles, 3 lines of each column.
constexpr int64_t kPackedRows = 48;
// Fewer columns do not pay for packing an a whose rows lie side by side.
constexpr int64_t kLeastColumns = 128;
// Floats between rows that meet in the same lines of a first-level cache.
constexpr int64_t kAliasing = 1024;
// So that a thread that was held up costs the others little.
constexpr int64_t kTasksPerThread = 3;
// 64 KiB of scores in panels of 64 columns.
constexpr int64_t kKeyBlock = 256;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

thread_local Scratch scratch;
thread_local Scratch packed;  // what the thread that asks for a product packs for all

void multiply_few_rows(const Variant& variant, const Product& product, int threads,
                       const OnThreads& run) {
  ProductJob job{.product = product};
  const int64_t share = ceil_div(product.columns, kTasksPerThread * threads);
  const int64_t unit = share < variant.panel ? variant.lanes : variant.panel;
  job.width = std::min(ceil_div(share, unit) * unit, kMostColumns);
  job.panels = ceil_div(product.columns, job.width);
  job.threads = std::min<int64_t>(threads, job.panels);
  const size_t count = product.rows * job.width;
  run(static_cast<int>(job.threads), [&] { variant.multiply_few_rows(job, scratch.of(count)); });
}

}  // namespace

const Variant* variant_for(target::Isa isa) {
  switch (isa) {
    case target::Isa::kGeneric:
      return nullptr;
    case target::Isa::kAvx2:
      return &kAvx2;
    case target::Isa::kAvx512:
      return &kAvx512;
  }
  return nullptr;
}

bool packs_rows(int64_t rows, int64_t inner) {
  return rows > kFewRows && inner > 0 && inner * kLeastRows <= kMostPacked;
}

void multiply(const Variant& variant, const Product& product, int threads, const OnThreads& run) {
  if (product.rows == 0 || product.columns == 0) return;
  if (product.rows <= (product.b_transposed ? kFewRowsTransposed : kFewRows))
    return multiply_few_rows(variant, product, threads, run);
  ProductJob job{.product = product, .width = variant.panels * variant.panel};
  job.panels = ceil_div(product.columns, job.width);
  const int64_t wanted = threads == 1 ? 1 : ceil_div(kTasksPerThread * threads, job.panels);
  const bool packs = product.a_transposed ||
                     (variant.packs_rows && product.a_stride % kAliasing == 0 &&
                      product.columns >= kLeastColumns && packs_rows(product.rows, product.inner));
  const int64_t most_rows = packs ? std::min(kMostRows, kMostPacked / product.inner) : kMostRows;
  const int64_t least_blocks = ceil_div(product.rows, most_rows);
  const int64_t blocks =
      std::clamp(wanted, least_blocks, std::max(least_blocks, product.rows / kLeastRows));
  job.row_block = ceil_div(ceil_div(product.rows, blocks), variant.tile_rows) * variant.tile_rows;
  job.row_blocks = ceil_div(product.rows, job.row_block);
  const int64_t inner_blocks = std::max<int64_t>(1, ceil_div(product.inner, variant.inner_block));
  job.inner_block = ceil_div(ceil_div(product.inner, inner_blocks), 16) * 16;
  const size_t count = std::max<int64_t>(job.inner_block, 1) * job.width;
  job.threads = std::min<int64_t>(threads, job.panels * job.row_blocks);
  std::vector<RowBlockProgress> progress;
  if (packs) {
    progress.resize(job.row_blocks);
    job.progress = progress.data();
    job.packed_rows = kPackedRows;
    job.packs = ceil_div(job.row_block, kPackedRows);
    job.packed = packed.of(2 * job.row_block * product.inner);
  }
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
  const int64_t keys = std::clamp<int64_t>(attention.keys, 1, kKeyBlock);
  job.key_block = ceil_div(keys, variant.lanes) * variant.lanes;
  const int useful = static_cast<int>(std::min<int64_t>(threads, tasks()));
  const size_t count = (job.key_block + 2 * attention.depth) * variant.panel;
  run(useful, [&] { variant.attend(job, scratch.of(count)); });
}

}  // namespace braze::kernels
