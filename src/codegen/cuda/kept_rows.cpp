#include "codegen/cuda/kept_rows.h"

#include <algorithm>
#include <span>
#include <unordered_set>

#include "codegen/cuda/accesses.h"

namespace braze::codegen::cuda {
namespace {

using loop::ExprKind;
using loop::ExprRef;
using loop::Statement;

// Loads below an expression, in order; `masked`: those that are made under masks alone as well.
void collect_loads(ExprRef expr, bool masked, std::vector<ExprRef>& loads,
                   std::unordered_set<ExprRef>& seen) {
  if (!expr || !seen.insert(expr).second) return;
  if (expr->kind == ExprKind::kLoad) loads.push_back(expr);
  for (size_t i = 0; i < expr->args.size(); ++i)
    if (masked || expr->kind != ExprKind::kMasked || i != 1)
      collect_loads(expr->args[i], masked, loads, seen);
}

// The loads along inner axes that a later walk makes again.
std::vector<ExprRef> loads_made_again(const Nest& nest) {
  std::unordered_set<ExprRef> before, again;
  std::vector<ExprRef> in_order;
  AxesOf axes_of;
  for (const auto& group : nest.groups) {
    std::vector<ExprRef> loads;
    std::unordered_set<ExprRef> seen;
    for (const Statement* s : group)
      if (s->inner) collect_loads(s->value, /*masked=*/true, loads, seen);
    for (ExprRef load : loads)
      if (axes_of(load) >> nest.outer_count && !before.insert(load).second &&
          again.insert(load).second)
        in_order.push_back(load);
  }
  return in_order;
}

// Of a pack.
int64_t bytes_loaded_again(const Nest& nest) {
  int64_t bytes = 0;
  for (ExprRef load : loads_made_again(nest)) bytes += graph::size_of(load->dtype) * nest.lanes;
  return bytes;
}

// Rounds whose packs a thread can keep, of which each loads so many bytes again.
int64_t most_rounds(const Nest& nest, int64_t again) {
  constexpr int64_t kKeptBytes = 128;  // half the registers of a thread of the largest block
  constexpr int64_t kMostElements = 64, kMostAlone = 32;
  const int64_t elements = again && nest.lanes > 1 ? kMostElements : kMostAlone;
  return std::min(again ? kKeptBytes / again : elements, elements / nest.lanes);
}

bool lies_in_packs(const Nest& nest, const Affine& index) {
  if (nest.lanes == 1) return true;
  if (!nest.shift) return is_pack(index, nest.vector_axis, nest.lanes);
  return shift_of(index, nest.vector_axis, nest.outer_count, nest.lanes) == nest.shift;
}

// Of the loads that are made again those of rows that lie as they do in memory, made in any case.
std::vector<ExprRef> loads_to_stage(const Nest& nest) {
  constexpr int64_t kLeastBytes = 4;  // that one copy takes
  std::vector<ExprRef> loads, certain;
  std::unordered_set<ExprRef> seen;
  std::unordered_set<int64_t> stored;
  for (const Statement& s : nest.kernel->body) {
    collect_loads(s.value, /*masked=*/false, certain, seen);
    if (s.is_store()) stored.insert(s.buffer);
  }
  for (ExprRef load : loads_made_again(nest)) {
    const Affine index = affine_of(load->args[0], nest.extent);
    const bool of_rows = std::ranges::any_of(std::span(index.coefficient).first(nest.outer_count),
                                             [](sym::Int by) { return by != sym::Int(0); });
    if (of_rows && !nest.kernel->params[load->ival].by_value && !stored.contains(load->ival) &&
        std::ranges::find(certain, load) != certain.end() && is_of_axes(load->args[0]) &&
        graph::size_of(load->dtype) * nest.lanes >= kLeastBytes && lies_in_packs(nest, index))
      loads.push_back(load);
  }
  return loads;
}

}  // namespace

// Longer rows get more threads than they would for their work, so that each keeps what it has.
void choose_rounds(Nest& nest, const target::Cuda& cuda) {
  const sym::Int packs = nest.inner_steps();
  if (!packs.is_constant()) return;
  const int64_t again = bytes_loaded_again(nest);
  const int64_t most = most_rounds(nest, again);
  const auto rounds = [&](int sharers) { return (packs.constant() + sharers - 1) / sharers; };
  int sharers = nest.sharers;
  if (nest.shape == Shape::kRows && again)
    while (rounds(sharers) > most && sharers < kMostSharers) sharers *= 2;
  if (rounds(sharers) > most) {
    // Two blocks of a processor: while one comes to its end the other one loads.
    constexpr int kSharersOfLongRows = 512;
    if (nest.shape == Shape::kRows && nest.outer_points().hint() > 2 * cuda.processors)
      nest.sharers = std::min(nest.sharers, kSharersOfLongRows);
    return;
  }
  nest.sharers = sharers;
  nest.rounds = static_cast<int>(rounds(sharers));
}

void choose_cluster(Nest& nest, const target::Cuda& cuda) {
  constexpr int kFirstWithClusters = 90, kMostBlocks = 8;  // that every device can run as one
  constexpr int kLeastThreads = 512;
  const sym::Int packs = nest.inner_steps();
  if (cuda.sm < kFirstWithClusters || nest.shape != Shape::kRows || nest.rounds > 0 ||
      nest.sharers < kLeastThreads || !packs.is_constant())
    return;
  const int64_t again = bytes_loaded_again(nest);
  const auto rounds = [&](int64_t threads) { return (packs.constant() + threads - 1) / threads; };
  if (again > 0) {
    const int64_t most = most_rounds(nest, again);
    for (const int threads : {kLeastThreads, 2 * kLeastThreads})
      for (int blocks = 2; blocks <= kMostBlocks; blocks *= 2) {
        if (rounds(int64_t{threads} * blocks) > most) continue;
        nest.sharers = threads * blocks;
        nest.cluster = blocks;
        nest.rounds = static_cast<int>(rounds(nest.sharers));
        return;
      }
    return;
  }
  // The share of the time in which all processors are busy. From some hundred rows on memory is:
  // sums of exponentials of 1,334 rows of 50,304 halves took 42 us so on an H200, 44 us with two
  // blocks for each and 57 us with eight.
  const int64_t at_once = int64_t{cuda.processors} * (cuda.resident_threads / kLeastThreads);
  const auto busy = [&](int64_t blocks) {
    const int64_t all = nest.outer_points().hint() * blocks;
    return static_cast<double>(all) / static_cast<double>((all + at_once - 1) / at_once * at_once);
  };
  constexpr double kEnough = 0.9, kWorth = 1.1;
  constexpr int64_t kLeastRounds = 4;
  const int64_t rows = nest.outer_points().hint();
  if (rows < cuda.processors || rows > at_once || busy(1) >= kEnough) return;
  int best = 1;
  for (int blocks = 2; blocks <= kMostBlocks; blocks *= 2)
    if (rounds(int64_t{kLeastThreads} * blocks) >= kLeastRounds && busy(best) < kEnough &&
        busy(blocks) > busy(best) * kWorth)
      best = blocks;
  if (best == 1) return;
  nest.sharers = kLeastThreads * best;
  nest.cluster = best;
}

// On an H200 softmaxes of 25,088, 32,768, 50,304 and 131,072 halves and of 65,536 floats took 73,
// 74, 75, 85 and 80 us so, and 75, 91, 81, 106 and 81 us in the best of all ways with registers; a
// log-softmax of 50,257 halves 80 us, and 160 us by elements. Sums alone, which store nothing of a
// row, and rows of two tensors that one block keeps in its registers are no faster.
bool stage_rows(Nest& nest, const target::Cuda& cuda) {
  constexpr int kFirstWithCopies = 80, kFirstWithClusters = 90, kMostBlocks = 4, kThreads = 512;
  constexpr int64_t kKeptPacks = 2048;      // of a row, that registers keep
  constexpr int64_t kKeptBytes = 32 << 10;  // the same
  constexpr int64_t kOwnBytes = 3 << 10;    // of a block, beside what it stages
  const sym::Int packs = nest.inner_steps();
  if (cuda.sm < kFirstWithCopies || nest.has_tail || nest.parts > 0 || !packs.is_constant() ||
      packs.constant() <= kKeptPacks)
    return false;
  const std::vector<ExprRef> loads = loads_to_stage(nest);
  int64_t of_pack = 0;
  for (ExprRef load : loads) of_pack += graph::size_of(load->dtype) * nest.lanes;
  if (of_pack * packs.constant() <= kKeptBytes) return false;
  const auto rounds = [&](int blocks) {
    return (packs.constant() + int64_t{kThreads} * blocks - 1) / (int64_t{kThreads} * blocks);
  };
  const int64_t most = (cuda.shared_bytes - 2 * kOwnBytes) / 2;
  int blocks = 1;
  const auto bytes = [&] { return rounds(blocks) * kThreads * of_pack; };
  const int most_blocks = cuda.sm < kFirstWithClusters ? 1 : kMostBlocks;
  while (bytes() > most && blocks < most_blocks) blocks *= 2;
  if (bytes() > most) return false;
  const bool stores = std::ranges::any_of(
      nest.kernel->body, [](const Statement& s) { return s.inner && s.is_store(); });
  const bool is_kept =
      packs.constant() <= kMostSharers * most_rounds(nest, bytes_loaded_again(nest));
  if (blocks > 1 && (!stores || is_kept)) return false;
  // Few rows are no work for all processors.
  while (blocks < most_blocks && rounds(2 * blocks) > 1 &&
         nest.outer_points().hint() * blocks * 2 <= cuda.processors)
    blocks *= 2;
  nest.sharers = kThreads * blocks;
  nest.cluster = blocks;
  nest.rounds = 0;
  nest.blocks_at_once = 2;
  for (ExprRef load : loads) {
    nest.staged.emplace_back(load, nest.staged_bytes);
    nest.staged_bytes += rounds(blocks) * kThreads * graph::size_of(load->dtype) * nest.lanes;
  }
  return true;
}

}  // namespace braze::codegen::cuda
