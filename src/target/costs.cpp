#include "target/costs.h"

#include <algorithm>
#include <bit>

namespace braze::target {
namespace {

Costs costs(const Cpu& cpu) {
  return {.launch_bytes = 4096,
          .workers = cpu.threads,
          .parallel_points = 32768,
          .kept_points = 16384,
          .rows_at_once = cpu.threads,
          .split = {.most_rows = 64,
                    .part_points = 32768,
                    .fewest_of_a_row = 1024,
                    .most_parts = 32,
                    .part_multiple = 64},
          // The most lanes of any vector.
          .in_place_multiple = 64};
}

// Estimates: none has been measured.
Costs costs(const Cuda& cuda) {
  // Of one launch behind another on a stream.
  constexpr int64_t kLaunchMicroseconds = 2;
  // Blocks that hide each other's waits.
  constexpr int64_t kBlocksPerProcessor = 4;
  // Of a cluster, and what each keeps of a row (codegen/cuda/kept_rows.h).
  constexpr int64_t kRowSharers = 8;
  const int64_t shared_of_row = cuda.shared_bytes / 2 - (3 << 10);
  const bool has_clusters = cuda.sm >= 90;
  const int64_t blocks = kBlocksPerProcessor * cuda.processors;
  return {.launch_bytes = kLaunchMicroseconds * cuda.bandwidth,
          .workers = cuda.processors,
          .parallel_points = int64_t{cuda.processors} * cuda.resident_threads,
          .kept_points = 65536,  // the registers of a processor
          .rows_at_once = blocks,
          .shared_row_bytes = has_clusters ? kRowSharers * shared_of_row : 0,
          .row_sharers = kRowSharers,
          .split = {.most_rows = blocks,
                    .part_points = 8192,
                    .fewest_of_a_row = 1024,
                    .most_parts = blocks,
                    .part_multiple = 64,
                    .columns_together = 256,
                    .fewest_of_a_column = 64,
                    .points_read_beside = 1 << 17,
                    .places = true,
                    .equal_parts = true},
          .parts = {.processors = cuda.processors,
                    .least_bytes = 16 << 20,
                    .most_sums = 16384,
                    .many_sums = 16,
                    .many_packs = 512,
                    .bytes_per_byte_of_parts = 8},
          .bytes_launched_together = 4 * kLaunchMicroseconds * cuda.bandwidth,
          // What a cache holds is found there at any rate.
          .bytes_read_beside = 16 << 20,
          .keeps_between_sweeps = false,
          .least_access = 8,
          .in_place_beside_reductions = true,
          // Each point is computed once, by a thread of its own.
          .in_place_multiple = 1};
}

}  // namespace

// On an H200 the gradients of norms of 64 to 16,384 elements took at most a tenth longer so than
// with the best of 20 other ways. More threads have too few registers for what they keep.
SummedRow summed_row(int64_t packs) {
  constexpr int64_t kWarp = 32, kMostThreads = 512, kSharedBlock = 256;
  constexpr int64_t kResident = 1024, kKeptPacks = 2;
  const auto wanted = static_cast<uint64_t>(std::max<int64_t>(packs, 1));
  const int64_t threads = std::min(static_cast<int64_t>(std::bit_ceil(wanted)), kMostThreads);
  const int64_t block = threads <= kWarp ? kSharedBlock : threads;
  return {threads, (packs > kKeptPacks * threads ? kMostThreads : kResident) / block};
}

Costs costs_of(const Target& target) {
  return std::visit([](const auto& kind) { return costs(kind); }, target);
}

}  // namespace braze::target
