#include "target/costs.h"

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
  const int64_t blocks = kBlocksPerProcessor * cuda.processors;
  return {.launch_bytes = kLaunchMicroseconds * cuda.bandwidth,
          .workers = cuda.processors,
          .parallel_points = int64_t{cuda.processors} * cuda.resident_threads,
          .kept_points = 65536,  // the registers of a processor
          .rows_at_once = blocks,
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

Costs costs_of(const Target& target) {
  return std::visit([](const auto& kind) { return costs(kind); }, target);
}

}  // namespace braze::target
