#include "runtime/cuda/place_sums.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/fork_mutex.h"
#include "runtime/cuda/driver.h"
#include "toolchain/nvrtc.h"

namespace braze::runtime::cuda {
namespace {

constexpr int kThreads = 256, kColumns = 8, kShort = 32;  // as in the source

struct Program {
  std::unique_ptr<LoadedCode> code;
  void *link = nullptr, *order = nullptr, *sum = nullptr;
  int processors = 0;
};

Program load(const PlaceSumKind& kind, int device) {
  const target::Cuda described = describe(device);
  const toolchain::CudaSource source{
      .text = place_sum_source(kind),
      .flags = {"--gpu-architecture=sm_" + std::to_string(described.sm), "--std=c++17",
                "--fmad=false"}};
  const toolchain::Cubins cubins = toolchain::cubins(std::array{source});
  Program program{.code = std::make_unique<LoadedCode>(device, cubins.code.at(0)),
                  .processors = described.processors};
  program.link = program.code->kernel("link_places");
  program.order = program.code->kernel("order_places");
  program.sum = program.code->kernel("sum_places");
  return program;
}

// Kept to the process's end: the driver may be gone before statics are.
const Program& program_of(const PlaceSumKind& kind, int device) {
  static ForkMutex mutex;
  static auto& programs = *new std::map<std::pair<PlaceSumKind, int>, Program>;
  const std::pair key(kind, device);
  {
    const std::scoped_lock lock(mutex);
    if (const auto found = programs.find(key); found != programs.end()) return found->second;
  }
  Program fresh = load(kind, device);  // of two threads' the first one's stays
  const std::scoped_lock lock(mutex);
  return programs.try_emplace(key, std::move(fresh)).first->second;
}

uint32_t blocks_for(int64_t threads) {
  const int64_t blocks = (threads + kThreads - 1) / kThreads;
  BRAZE_CHECK(blocks > 0 && blocks <= INT32_MAX, "a launch of ", blocks, " blocks");
  return static_cast<uint32_t>(blocks);
}

template <class... Arguments>
void launch_over(void* kernel, uint32_t blocks, void* stream, Arguments... arguments) {
  void* addresses[] = {&arguments...};
  launch({.kernel = kernel,
          .blocks = {blocks, 1, 1},
          .threads = {kThreads, 1, 1},
          .shared_bytes = 0,
          .arguments = addresses},
         stream);
}

int64_t size_of(SummedType type) {
  switch (type) {
    case SummedType::kFloat16:
    case SummedType::kBFloat16:
      return 2;
    case SummedType::kFloat32:
      return 4;
    case SummedType::kFloat64:
      return 8;
  }
  BRAZE_UNREACHABLE("a type that is not summed");
}

}  // namespace

int place_sum_pack(SummedType type, int64_t inner, std::span<const void* const> memory) {
  constexpr int64_t kBytes = 16;
  const int64_t pack = kBytes / size_of(type);
  const auto is_aligned = [](const void* address) {
    return reinterpret_cast<uintptr_t>(address) % kBytes == 0;
  };
  return inner % pack == 0 && std::ranges::all_of(memory, is_aligned) ? static_cast<int>(pack) : 1;
}

bool knows_place_sums() { return why_no_driver().empty() && toolchain::why_no_nvrtc().empty(); }

void sum_by_place(const PlaceSum& sum, void* stream) {
  const Program& program = program_of(sum.kind, sum.device);
  const CurrentContext current(primary_context(sum.device));
  const auto count = static_cast<int>(sum.count), rows = static_cast<int>(sum.rows);
  const auto outer = static_cast<int>(sum.outer);
  const auto packs = static_cast<int>(sum.inner / sum.kind.pack);
  // For a row as many threads as it has packs, up to a block.
  int log_threads = 0;
  while ((1 << log_threads) < std::min(packs, kThreads)) ++log_threads;
  const int64_t items = ((sum.outer + sum.kind.outer - 1) / sum.kind.outer * sum.rows)
                        << log_threads;
  // Of so many rows there are at most so many long lists.
  const int64_t long_items =
      sum.count / (kShort + 1) * sum.outer * ((packs + kColumns - 1) / kColumns);
  const auto long_blocks = static_cast<int>(std::min<int64_t>(long_items, 4 * program.processors));
  launch_over(program.link, blocks_for(sum.count), stream, sum.place, count, rows, sum.skipped,
              static_cast<int>(sum.refuses), sum.heads, sum.next);
  launch_over(program.order, blocks_for(sum.rows), stream, rows, count, sum.heads, sum.next,
              sum.ranges, sum.order);
  launch_over(program.sum, blocks_for(items) + static_cast<uint32_t>(long_blocks), stream,
              sum.source, sum.place, sum.heads, sum.ranges, sum.order, sum.base, sum.out, outer,
              count, rows, packs, log_threads, long_blocks);
}

}  // namespace braze::runtime::cuda
