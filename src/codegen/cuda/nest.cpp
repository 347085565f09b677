#include "codegen/cuda/nest.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "sym/facts.h"

namespace braze::codegen::cuda {
namespace {

using loop::ExprKind;
using loop::ExprRef;
using loop::Statement;

constexpr int kMostLanes = 8;
constexpr int64_t kPackBytes = 16;      // of one instruction
constexpr int64_t kMostPackBytes = 32;  // of a pack, in several
constexpr int64_t kMostSharers = 1024;

struct Access {
  Affine index;
  int64_t bytes = 1;  // of an element
  bool inner = false;
};

// Loads that are made in any case, and stores.
class Accesses {
 public:
  explicit Accesses(const Nest& nest) : nest_(nest) {
    for (const Statement& statement : nest.kernel->body) {
      inner_ = statement.inner;
      collect(statement.value);
      if (statement.index) collect(statement.index);
      if (statement.is_store()) add(statement.index, statement.value->dtype);
    }
  }
  std::vector<Access> all;

 private:
  void add(ExprRef index, graph::DType dtype) {
    all.push_back({affine_of(index, nest_.extent), graph::size_of(dtype), inner_});
  }
  void collect(ExprRef expr) {
    if (!seen_.insert(expr).second) return;
    if (expr->kind == ExprKind::kLoad) add(expr->args[0], expr->dtype);
    if (expr->kind == ExprKind::kMasked) {
      collect(expr->args[0]);
      collect(expr->args[2]);
      return;
    }
    for (ExprRef arg : expr->args) collect(arg);
  }

  const Nest& nest_;
  bool inner_ = false;
  std::unordered_set<ExprRef> seen_;
};

bool steps_by_one(const Access& access, int axis) {
  return axis >= 0 && access.index.stride(axis) == sym::Int(1);
}

bool uses_result(ExprRef expr, const std::unordered_set<int64_t>& results,
                 std::unordered_set<ExprRef>& seen) {
  if (!seen.insert(expr).second) return false;
  if (expr->kind == ExprKind::kReduced && results.contains(expr->ival)) return true;
  return std::ranges::any_of(expr->args,
                             [&](ExprRef arg) { return uses_result(arg, results, seen); });
}

bool loads_from(ExprRef expr, const std::unordered_set<int64_t>& buffers,
                std::unordered_set<ExprRef>& seen) {
  if (!seen.insert(expr).second) return false;
  if (expr->kind == ExprKind::kLoad && buffers.contains(expr->ival)) return true;
  return std::ranges::any_of(expr->args,
                             [&](ExprRef arg) { return loads_from(arg, buffers, seen); });
}

// Statements that need no result or store of each other.
void group_statements(Nest& nest) {
  std::unordered_set<int64_t> results, stored;
  const Statement* last = nullptr;
  for (const Statement& statement : nest.kernel->body) {
    std::unordered_set<ExprRef> seen_results, seen_loads;
    const bool joins = last && last->inner && statement.inner &&
                       !uses_result(statement.value, results, seen_results) &&
                       !loads_from(statement.value, stored, seen_loads);
    if (!joins) {
      nest.groups.emplace_back();
      results.clear();
      stored.clear();
    }
    nest.groups.back().push_back(&statement);
    if (statement.is_reduction()) results.insert(statement.reduced);
    if (statement.is_store()) stored.insert(statement.buffer);
    last = &statement;
  }
}

int last_axis(const Nest& nest, int begin, int end) {
  for (int axis = end; axis-- > begin;)
    if (!cpp::is_trivial(nest.extent[axis])) return axis;
  return -1;
}

Shape shape_of(const Nest& nest, const Accesses& accesses) {
  if (nest.kernel->inner.empty()) return Shape::kPoints;
  const int outer = last_axis(nest, 0, nest.outer_count);
  const int inner = last_axis(nest, nest.outer_count, static_cast<int>(nest.extent.size()));
  bool along_outer = false;
  for (const Access& access : accesses.all) {
    if (steps_by_one(access, inner)) return Shape::kRows;
    along_outer |= access.inner && steps_by_one(access, outer);
  }
  return along_outer ? Shape::kColumns : Shape::kRows;
}

// Points along the axis at a time: as many as one instruction loads of the smallest elements.
int lanes_along(const Nest& nest, const Accesses& accesses, int axis, bool tail) {
  int64_t smallest = kPackBytes, largest = 1;
  for (const Access& access : accesses.all) {
    if (!steps_by_one(access, axis)) continue;
    smallest = std::min(smallest, access.bytes);
    largest = std::max(largest, access.bytes);
  }
  int64_t lanes = std::min({kPackBytes / smallest, kMostPackBytes / largest, int64_t{kMostLanes}});
  const auto fits = [&](int64_t count) {
    return (tail || sym::mod(nest.extent[axis], count) == sym::Int(0)) &&
           std::ranges::any_of(accesses.all, [&](const Access& access) {
             return is_pack(access.index, axis, static_cast<int>(count));
           });
  };
  while (lanes > 1 && !fits(lanes)) lanes /= 2;
  return static_cast<int>(lanes);
}

void choose_lanes(Nest& nest, const Accesses& accesses, const target::Cuda& cuda) {
  if (nest.shape == Shape::kColumns) return;
  const bool points = nest.shape == Shape::kPoints;
  const int begin = points ? 0 : nest.outer_count;
  const int axis = last_axis(nest, begin, static_cast<int>(nest.extent.size()));
  if (axis < 0) return;
  const bool alone = last_axis(nest, begin, axis) < 0;
  int lanes = lanes_along(nest, accesses, axis, points && alone);
  // Many threads hide what each waits for, rather than few that do more.
  const int64_t busy = int64_t{cuda.processors} * kThreadsOfBlock;
  while (points && lanes > 1 && nest.outer_points().hint() / lanes < busy) lanes /= 2;
  if (lanes < 2) return;
  nest.lanes = lanes;
  nest.vector_axis = axis;
  nest.has_tail = sym::mod(nest.extent[axis], lanes) != sym::Int(0);
}

void choose_tile(Nest& nest, const Accesses& accesses) {
  constexpr int kTileBytes = 128;
  constexpr int64_t kLeastPoints = 1 << 16;  // fewer are in the caches anyway
  const int last = last_axis(nest, 0, nest.outer_count);
  if (nest.shape != Shape::kPoints || last < 0 || nest.outer_points().hint() < kLeastPoints) return;
  for (const Access& access : accesses.all) {
    for (int axis = 0; axis < last; ++axis) {
      if (!steps_by_one(access, axis) || access.index.stride(last) == sym::Int(0)) continue;
      const Tile tile{axis, last, kTileBytes / static_cast<int>(access.bytes)};
      const sym::Int along = nest.extent[last];
      const int64_t packs = (last == nest.vector_axis ? nest.packs(along) : along).hint();
      if (nest.extent[axis].hint() * 2 < tile.width || packs * 2 < tile.packs()) continue;
      nest.tile = tile;
      return;
    }
  }
}

int power_of_two(int64_t least, int64_t most) {
  return static_cast<int>(
      std::bit_floor(static_cast<uint64_t>(std::clamp<int64_t>(least * 2 - 1, 1, most))));
}

// The most sharers whose partial results fit the shared memory of a block of kColumns.
int most_in_shared_memory(const Nest& nest) {
  constexpr int64_t kSharedBytes = 46 * 1024;  // less than what every device gives unasked
  constexpr int64_t kLargestResult = 24;       // Welford's in f64
  const int64_t reductions = std::ranges::count_if(nest.kernel->body, &Statement::is_reduction);
  const int64_t bytes = kLargestResult * kColumnsOfBlock * std::max<int64_t>(reductions, 1);
  return static_cast<int>(
      std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(kSharedBytes / bytes, 1))));
}

// How many threads share an outer point. Each takes a few packs, so that it can keep them in
// registers: short rows get a warp or a part of one, longer rows and few ones a block.
int sharers_of(const Nest& nest, const target::Cuda& cuda) {
  const int64_t rows = std::max<int64_t>(nest.outer_points().hint(), 1);
  const int64_t packs = std::max<int64_t>(nest.packs(nest.inner_points()).hint(), 1);
  if (nest.shape == Shape::kColumns)
    return std::min(power_of_two((packs + 3) / 4, kMostSharers / kColumnsOfBlock),
                    most_in_shared_memory(nest));
  constexpr int64_t kPacksOfThread = 4;
  constexpr int64_t kPacksOfWarp = kPacksOfThread * kThreadsOfWarp;
  const bool idle = rows * kThreadsOfWarp < int64_t{cuda.processors} * kThreadsOfBlock;
  if (packs <= kThreadsOfWarp || (packs <= kPacksOfWarp && !idle))
    return power_of_two((packs + 1) / 2, kThreadsOfWarp);
  const int64_t wanted = idle ? packs : packs / kPacksOfThread;
  return power_of_two(std::max<int64_t>(wanted, 2 * kThreadsOfWarp), kMostSharers);
}

}  // namespace

sym::Int Nest::outer_points() const { return sym::product(std::span(extent).first(outer_count)); }
sym::Int Nest::inner_points() const { return sym::product(std::span(extent).subspan(outer_count)); }
sym::Int Nest::packs(sym::Int points) const {
  return lanes == 1 ? points : sym::floordiv(points + sym::Int(lanes - 1), lanes);
}

bool is_pack(const Affine& index, int axis, int lanes) {
  const auto whole = [&](sym::Int value) { return sym::mod(value, lanes) == sym::Int(0); };
  if (index.stride(axis) != sym::Int(1) || !whole(index.constant)) return false;
  for (int other = 0; other < static_cast<int>(index.coefficient.size()); ++other)
    if (other != axis && !whole(index.stride(other))) return false;
  AxesOf axes_of;
  return std::ranges::all_of(index.terms, [&](const auto& term) {
    return whole(term.second) && !(axes_of(term.first) >> axis & 1);
  });
}

uint64_t AxesOf::operator()(ExprRef expr) {
  if (auto found = known_.find(expr); found != known_.end()) return found->second;
  uint64_t axes = expr->kind == ExprKind::kAxis ? uint64_t{1} << expr->ival : 0;
  for (ExprRef arg : expr->args) axes |= (*this)(arg);
  return known_[expr] = axes;
}

Nest plan_nest(const loop::Kernel& kernel, const target::Cuda& cuda) {
  Nest nest{.kernel = &kernel};
  for (const loop::Axis& axis : kernel.outer) nest.extent.push_back(axis.extent);
  nest.outer_count = static_cast<int>(kernel.outer.size());
  for (const loop::Axis& axis : kernel.inner) nest.extent.push_back(axis.extent);
  group_statements(nest);
  const Accesses accesses(nest);
  nest.shape = shape_of(nest, accesses);
  choose_lanes(nest, accesses, cuda);
  choose_tile(nest, accesses);
  if (nest.shape != Shape::kPoints) nest.sharers = sharers_of(nest, cuda);
  return nest;
}

}  // namespace braze::codegen::cuda
