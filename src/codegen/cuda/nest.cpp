#include "codegen/cuda/nest.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "codegen/cuda/accesses.h"
#include "codegen/cuda/accumulate.h"
#include "codegen/cuda/kept_rows.h"
#include "codegen/cuda/parts.h"
#include "codegen/cuda/scans.h"
#include "sym/facts.h"

namespace braze::codegen::cuda {
namespace {

using loop::ExprKind;
using loop::ExprRef;
using loop::Statement;

constexpr int kFirstWithAddedPacks = 90;
constexpr int kMostLanes = 8;
constexpr int64_t kMostPackBytes = 32;  // of a pack, in several

bool uses_result(const Nest& nest, ExprRef expr, const std::unordered_set<int64_t>& results) {
  bool uses = false;
  for_each_below(*nest.kernel, expr, [&](ExprRef e) {
    uses |= e->kind == ExprKind::kReduced && results.contains(e->ival);
  });
  return uses;
}

bool loads_from(const Nest& nest, ExprRef expr, const std::unordered_set<int64_t>& buffers) {
  bool loads = false;
  for_each_below(*nest.kernel, expr, [&](ExprRef e) {
    loads |= e->kind == ExprKind::kLoad && buffers.contains(e->ival);
  });
  return loads;
}

// Statements that need no result or store of each other.
void group_statements(Nest& nest) {
  std::unordered_set<int64_t> results, stored;
  const Statement* last = nullptr;
  for (const Statement& statement : nest.kernel->body) {
    if (statement.is_scan()) continue;
    const bool joins = last && last->inner && statement.inner &&
                       !uses_result(nest, statement.value, results) &&
                       !loads_from(nest, statement.value, stored);
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

bool moves_along(const Affine& index, int axis) {
  if (index.stride(axis) != sym::Int(0)) return true;
  AxesOf axes_of;
  return std::ranges::any_of(index.terms,
                             [&](const auto& term) { return axes_of(term.first) >> axis & 1; });
}

Shape shape_of(const Nest& nest, const Accesses& accesses) {
  if (nest.kernel->inner.empty()) return Shape::kPoints;
  if (nest.parts > 0) return Shape::kRows;
  const int outer = last_axis(nest, 0, nest.outer_count);
  const int inner = last_axis(nest, nest.outer_count, static_cast<int>(nest.extent.size()));
  // What neighbours along both axes read alike does not count: the numbers of each row beside the
  // columns of a matrix.
  bool along_inner = false, along_outer = false;
  for (const Access& access : accesses.all) {
    if (!access.inner || outer < 0 || inner < 0 || !moves_along(access.index, outer) ||
        !moves_along(access.index, inner))
      continue;
    along_inner |= steps_by_one(access, inner) || access.index.stride(inner) == sym::Int(-1);
    along_outer |= steps_by_one(access, outer);
  }
  return along_outer && !along_inner ? Shape::kColumns : Shape::kRows;
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

void choose_lanes(Nest& nest, const Accesses& accesses, const target::Cuda& cuda, int most) {
  const bool points = nest.shape == Shape::kPoints, rows = nest.shape == Shape::kRows;
  if (nest.shape == Shape::kColumns && has_scans(*nest.kernel)) return;
  const int begin = rows ? nest.outer_count : 0;
  const int end = rows ? static_cast<int>(nest.extent.size()) : nest.outer_count;
  const int axis = last_axis(nest, begin, end);
  if (axis < 0) return;
  const bool alone = last_axis(nest, begin, axis) < 0;
  int lanes = lanes_along(nest, accesses, axis, points && alone);
  if (points) lanes = lanes_of_windows(accesses, axis, lanes);
  lanes = lanes_of_sums(nest, axis, lanes);
  // Many threads hide what each waits for, rather than few that do more.
  const int64_t busy = cuda.processors * int64_t{points ? kThreadsOfBlock : kColumnsOfBlock};
  while (!rows && lanes > 1 && nest.outer_points().hint() / lanes < busy) lanes /= 2;
  while (most > 0 && lanes > most) lanes /= 2;
  if (lanes < 2) return;
  nest.lanes = lanes;
  nest.vector_axis = axis;
  nest.has_tail = sym::mod(nest.extent[axis], lanes) != sym::Int(0);
}

// On an H200 the backward of a softmax of 2,047 halves took 98 us with packs from boundaries on and
// 122 us by elements, that of a log-softmax of 50,257 144 and 160; but a softmax of 2,047 133 and
// 91, a layer norm of 1,023 159 and 117, the backward of an RMS norm of 65,535 404 and 314: kernels
// with more to do for each element than for what they load, or with loads that are by elements
// anyway.
bool shifts_pay(const Nest& nest, const Accesses& accesses, int axis) {
  constexpr int64_t kLeastWidth = 1024;
  int loads = 0, others = 0;
  for (const Access& access : accesses.all) {
    if (!access.inner || !moves_along(access.index, axis)) continue;
    const auto shift = shift_of(access.index, axis, nest.outer_count, kMostLanes);
    const bool is_row = shift && *shift != Shift{0, std::vector<int64_t>(nest.outer_count)};
    ++(is_row ? loads : others);
  }
  const bool sums = std::ranges::all_of(nest.kernel->body, [](const Statement& s) {
    return !s.is_reduction() || s.op == loop::ReduceOp::kSum;
  });
  constexpr int kTwoAndAStore = 3;
  return sums && others == 0 && loads >= kTwoAndAStore &&
         nest.extent[axis].constant() >= kLeastWidth;
}

// Rows that begin between packs are read from a boundary of packs before them. All that are read
// and written in packs begin equally far behind one; what lies otherwise is done by elements.
void choose_shift(Nest& nest, const Accesses& accesses, const Wanted& wanted) {
  constexpr int64_t kWideEnough = 8;  // bytes that an access has anyway
  constexpr int64_t kLeastPacks = 4;
  const int axis = last_axis(nest, nest.outer_count, static_cast<int>(nest.extent.size()));
  if (nest.shape != Shape::kRows || axis < 0 || has_scans(*nest.kernel) ||
      last_axis(nest, nest.outer_count, axis) >= 0 || !nest.extent[axis].is_constant() ||
      std::ranges::any_of(nest.kernel->body, [](const Statement& s) { return s.combines(); }))
    return;
  int64_t smallest = kPackBytes, largest = 1;
  const auto is_of_rows = [&](const Access& access) {
    return access.inner && shift_of(access.index, axis, nest.outer_count, 2);
  };
  for (const Access& access : accesses.all) {
    if (!is_of_rows(access)) continue;
    smallest = std::min(smallest, access.bytes);
    largest = std::max(largest, access.bytes);
  }
  const int lanes = static_cast<int>(
      std::min({kPackBytes / smallest, kMostPackBytes / largest, int64_t{kMostLanes}}));
  if (lanes < 2 || (wanted.most_lanes > 0 && lanes > wanted.most_lanes) ||
      nest.lanes * smallest >= kWideEnough || nest.extent[axis].constant() < kLeastPacks * lanes)
    return;
  if (wanted.shifts == Shifts::kWherePays && !shifts_pay(nest, accesses, axis)) return;
  for (const Access& access : accesses.all) {
    if (!is_of_rows(access)) continue;
    const std::optional<Shift> shift = shift_of(access.index, axis, nest.outer_count, lanes);
    if (*shift == Shift{0, std::vector<int64_t>(nest.outer_count)}) continue;
    nest.shift = shift;
    nest.lanes = lanes;
    nest.vector_axis = axis;
    nest.has_tail = false;
    return;
  }
}

void choose_tile(Nest& nest, const Accesses& accesses) {
  constexpr int kTileBytes = 128;
  constexpr int64_t kLeastPoints = 1 << 16;  // fewer are in the caches anyway
  const int last = last_axis(nest, 0, nest.outer_count);
  if (nest.shape != Shape::kPoints || last < 0 || !nest.own_parts.empty() ||
      nest.outer_points().hint() < kLeastPoints)
    return;
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

// Of a partial result: at most three numbers, or one and its place.
int64_t bytes_of_result(const Statement& reduction) {
  const int64_t number = std::max<int64_t>(graph::size_of(reduction.accumulate), 4);
  switch (reduction.op) {
    case loop::ReduceOp::kWelford:
      return 3 * number;
    case loop::ReduceOp::kArgMax:
    case loop::ReduceOp::kArgMin:
      return 16;
    default:
      return number;
  }
}

// How many threads share an outer point. Each takes a few packs, so that it can keep them in
// registers: short rows get a warp or a part of one, longer rows and few ones a block.
int sharers_of(const Nest& nest, const target::Cuda& cuda) {
  const int64_t rows = std::max<int64_t>(nest.outer_points().hint(), 1);
  const int64_t packs = std::max<int64_t>(nest.inner_steps().hint(), 1);
  if (nest.shape == Shape::kColumns) {
    // A thread with packs of columns has more to remember.
    const int64_t most = kMostSharers / kColumnsOfBlock / (nest.lanes > 1 ? 2 : 1);
    return std::min(power_of_two((packs + 3) / 4, most), most_sharers(nest));
  }
  const int64_t packs_of_thread = nest.lanes > 1 ? 4 : 16;
  constexpr int64_t kPacksOfWarp = 4 * kThreadsOfWarp;
  const bool idle = rows * kThreadsOfWarp < int64_t{cuda.processors} * kThreadsOfBlock;
  if (packs <= kThreadsOfWarp || (packs <= kPacksOfWarp && !idle))
    return power_of_two((packs + 1) / 2, kThreadsOfWarp);
  const int64_t wanted = idle ? packs : packs / packs_of_thread;
  // Places take longer to bring together: another block of the processor loads meanwhile.
  const bool finds_place = std::ranges::any_of(nest.kernel->body, [](const Statement& s) {
    return s.is_reduction() && (s.op == loop::ReduceOp::kArgMax || s.op == loop::ReduceOp::kArgMin);
  });
  const int64_t most = finds_place && rows > 2 * cuda.processors ? kMostSharers / 2 : kMostSharers;
  return power_of_two(std::max<int64_t>(wanted, 2 * kThreadsOfWarp), most);
}

// The number of the result that a distance is measured from: that of a reduction, or of one whose
// infinities count as 0, as a sum of exponentials has it whose logarithm is wanted. -1: neither.
int64_t top_of(ExprRef top) {
  if (top->kind == ExprKind::kReduced) return top->ival;
  if (top->kind != ExprKind::kWhere || top->args[2]->kind != ExprKind::kReduced) return -1;
  const ExprRef condition = top->args[0], zero = top->args[1];
  const bool is_zero = zero->is_constant() && zero->fval == 0;
  return condition->kind == ExprKind::kIsInf && condition->args[0] == top->args[2] && is_zero
             ? top->args[2]->ival
             : -1;
}

// The maximum of X, for a sum of exp(X - maximum) in single or double precision.
const Statement* maximum_under(const Nest& nest, const Statement& sum) {
  const ExprRef exponential = sum.value;
  if (!sum.is_reduction() || sum.op != loop::ReduceOp::kSum || !sum.inner ||
      exponential->kind != ExprKind::kExp || exponential->args[0]->kind != ExprKind::kSub)
    return nullptr;
  const ExprRef distance = exponential->args[0];
  const int64_t top = top_of(distance->args[1]);
  for (const Statement& s : nest.kernel->body)
    if (s.is_reduction() && s.inner && s.reduced == top)
      return s.op == loop::ReduceOp::kMax && s.value == distance->args[0] &&
                     s.accumulate == sum.accumulate && !graph::is_half(s.accumulate)
                 ? &s
                 : nullptr;
  return nullptr;
}

bool occurs_in(ExprRef part, ExprRef expr, std::unordered_set<ExprRef>& seen) {
  if (expr == part) return true;
  if (!expr || !seen.insert(expr).second) return false;
  return std::ranges::any_of(expr->args, [&](ExprRef arg) { return occurs_in(part, arg, seen); });
}

// Joins sums of exponentials with the maximum that they need. Rows whose exponentials are asked for
// once more, by a thread that has them, are better off with two walks.
void join_soft_sums(Nest& nest, const Wanted& wanted) {
  std::unordered_set<int64_t> stored;
  for (const Statement& s : nest.kernel->body)
    if (s.is_store()) stored.insert(s.buffer);
  for (auto group = nest.groups.begin(); group != nest.groups.end(); ++group) {
    if (group->size() != 1) continue;
    const Statement* sum = group->front();
    const Statement* top = maximum_under(nest, *sum);
    if (!top || loads_from(nest, sum->value, stored)) continue;
    if (!wanted.stages && sum->value->args[0]->args[1]->kind != ExprKind::kReduced) continue;
    const bool asked_again = std::ranges::any_of(nest.kernel->body, [&](const Statement& s) {
      std::unordered_set<ExprRef> seen;
      return &s != sum && s.inner && occurs_in(sum->value, s.value, seen);
    });
    if (asked_again && nest.rounds > 0) continue;
    if (nest.is_soft_maximum(*top)) continue;
    for (auto earlier = nest.groups.begin(); earlier != group; ++earlier)
      if (std::ranges::find(*earlier, top) != earlier->end()) earlier->push_back(sum);
    nest.soft_sums[sum] = top;
    group->clear();
  }
  std::erase_if(nest.groups, [](const auto& group) { return group.empty(); });
}

}  // namespace

sym::Int Nest::outer_points() const { return sym::product(std::span(extent).first(outer_count)); }
sym::Int Nest::inner_points() const { return sym::product(std::span(extent).subspan(outer_count)); }
sym::Int Nest::packs(sym::Int points) const {
  return lanes == 1 ? points : sym::floordiv(points + sym::Int(lanes - 1), lanes);
}

bool Nest::is_soft_maximum(const Statement& statement) const {
  return std::ranges::any_of(soft_sums,
                             [&](const auto& joined) { return joined.second == &statement; });
}

int most_sharers(const Nest& nest) {
  constexpr int64_t kSharedBytes = 46 * 1024;  // less than what every device gives unasked
  int64_t bytes = 1;
  for (const Statement& s : nest.kernel->body)
    if (s.is_reduction()) bytes += bytes_of_result(s) * kColumnsOfBlock * nest.lanes;
  return static_cast<int>(
      std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(kSharedBytes / bytes, 1))));
}

bool is_pack(const Affine& index, int axis, int lanes) {
  const auto whole = [&](sym::Int value) { return sym::mod(value, lanes) == sym::Int(0); };
  if (index.stride(axis) != sym::Int(1) || !whole(index.constant)) return false;
  for (int other = 0; other < static_cast<int>(index.coefficient.size()); ++other)
    if (other != axis && !whole(index.stride(other))) return false;
  AxesOf axes_of(/*reduced=*/~uint64_t{0});
  return std::ranges::all_of(index.terms, [&](const auto& term) {
    return whole(term.second) && !(axes_of(term.first) >> axis & 1);
  });
}

std::optional<Shift> shift_of(const Affine& index, int axis, int outer_count, int lanes) {
  if (index.stride(axis) != sym::Int(1) || !index.terms.empty() || !index.constant.is_constant())
    return std::nullopt;
  const auto within = [&](const sym::Int& value) { return value.constant() & (lanes - 1); };
  Shift shift{.constant = within(index.constant)};
  for (int outer = 0; outer < outer_count; ++outer) {
    if (!index.stride(outer).is_constant()) return std::nullopt;
    shift.coefficient.push_back(within(index.stride(outer)));
  }
  return shift;
}

bool is_whole(const Affine& index, int lanes) {
  const auto whole = [&](sym::Int value) { return sym::mod(value, lanes) == sym::Int(0); };
  return whole(index.constant) && std::ranges::all_of(index.coefficient, whole) &&
         std::ranges::all_of(index.terms, [&](const auto& term) { return whole(term.second); });
}

uint64_t AxesOf::operator()(ExprRef expr) {
  if (auto found = known_.find(expr); found != known_.end()) return found->second;
  uint64_t axes = expr->kind == ExprKind::kAxis      ? uint64_t{1} << expr->ival
                  : expr->kind == ExprKind::kReduced ? reduced_
                  : expr->kind == ExprKind::kScanned ? ~uint64_t{0}
                                                     : 0;
  for (ExprRef arg : expr->args) axes |= (*this)(arg);
  return known_[expr] = axes;
}

Nest plan_nest(const loop::Kernel& kernel, const target::Cuda& cuda, const Wanted& wanted) {
  Nest nest{.kernel = &kernel};
  for (const loop::Axis& axis : kernel.outer) nest.extent.push_back(axis.extent);
  nest.outer_count = static_cast<int>(kernel.outer.size());
  for (const loop::Axis& axis : kernel.inner) nest.extent.push_back(axis.extent);
  group_statements(nest);
  for (const Statement& s : kernel.body)
    if (s.is_part()) nest.parts = s.parts;
  const Accesses accesses(nest);
  nest.shape = shape_of(nest, accesses);
  nest.adds_packs = cuda.sm >= kFirstWithAddedPacks;
  plan_own_parts(nest, cuda);
  choose_lanes(nest, accesses, cuda, wanted.most_lanes);
  if (wanted.shifts != Shifts::kNone && nest.parts == 0) choose_shift(nest, accesses, wanted);
  choose_tile(nest, accesses);
  if (nest.shape == Shape::kPoints) return nest;
  if (has_scans(kernel)) {
    plan_scans(nest, cuda);
    return nest;
  }
  if (nest.parts > 0) {
    spread_parts(nest, cuda);
    join_soft_sums(nest, wanted);
    return nest;
  }
  const int sharers = wanted.sharers > 0 ? wanted.sharers : sharers_of(nest, cuda);
  nest.sharers = sharers;
  choose_rounds(nest, cuda);
  if (nest.shape != Shape::kRows) return nest;
  if (wanted.stages && !nest.shift && wanted.shifts == Shifts::kWherePays) {
    // Copies of packs pay for rows that begin between packs, too.
    Wanted shifted = wanted;
    shifted.shifts = Shifts::kWherePossible;
    Nest other = plan_nest(kernel, cuda, shifted);
    if (other.shift && !other.staged.empty()) return other;
  }
  if (wanted.stages) {
    Nest staged = nest;
    staged.rounds = 0;
    join_soft_sums(staged, wanted);
    if (stage_rows(staged, cuda)) return staged;
  }
  join_soft_sums(nest, wanted);
  if (!nest.soft_sums.empty()) {
    nest.sharers = sharers;
    nest.rounds = 0;
    choose_rounds(nest, cuda);
  }
  if (wanted.cluster != 1) choose_cluster(nest, cuda);
  return nest;
}

}  // namespace braze::codegen::cuda
