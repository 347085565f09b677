#include "codegen/cpp/nest.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <unordered_set>

#include "base/error.h"
#include "codegen/cpp/work_items.h"
#include "loop/effects.h"
#include "sym/facts.h"

namespace braze::codegen::cpp {

using graph::DType;
using loop::ExprKind;
using loop::ExprRef;
using loop::Kernel;
using loop::ReduceOp;
using loop::Statement;

namespace {

sym::Dims extents_of(const Kernel& kernel) {
  sym::Dims extent;
  for (const loop::Axis& axis : kernel.outer) extent.push_back(axis.extent);
  for (const loop::Axis& axis : kernel.inner) extent.push_back(axis.extent);
  return extent;
}

// Walking both axes is walking one of them further.
bool is_one_walk(const Affine& index, const sym::Dims& extent, int a, int b) {
  if (index.stride(a) != index.stride(b) * extent[b]) return false;
  for (const auto& [term, factor] : index.terms) {
    // A loaded index is itself an access, whose own index is compared; anything else of these
    // axes in a term is not linear.
    std::vector<bool> axes(extent.size());
    note_axes(term, false, axes);
    if (axes[a] || axes[b]) return false;
  }
  return true;
}

bool can_merge(const Survey& facts, const sym::Dims& extent, int a, int b) {
  if (facts.used_as_value[a] || facts.used_as_value[b]) return false;
  const auto fits = [&](const Affine& index) { return is_one_walk(index, extent, a, b); };
  return std::ranges::all_of(facts.accesses, fits, &Access::index) &&
         std::ranges::all_of(facts.elements, fits);
}

// The bytes of the widest value, which has to fit a lane.
int widest_value(const Kernel& kernel, const Survey& facts, const sym::Dims& extent,
                 Limits& limits) {
  int widest = 1;
  for (ExprRef value : facts.values) {
    if (value->kind == ExprKind::kConst) continue;
    widest = std::max(widest, fits_int32(value, extent, limits) ? 4 : compute_bytes(value->dtype));
  }
  for (const Statement& s : kernel.body)
    if (!s.is_store()) widest = std::max(widest, compute_bytes(s.accumulate));
  return widest;
}

// Rough time of the whole kernel, in vector operations, when `axis` becomes `lanes` lanes.
double cost_with(const Kernel& kernel, const Survey& facts, const sym::Dims& extent, int axis,
                 int lanes) {
  const int axes = static_cast<int>(extent.size());
  const int outer_count = static_cast<int>(kernel.outer.size());
  const double outer_points = static_cast<double>(product(extent, 0, outer_count));
  const double inner_points = static_cast<double>(product(extent, outer_count, axes));
  const auto shrink = [&](double points) {
    if (axis < 0) return points;
    const int64_t length = std::max<int64_t>(extent[axis].hint(), 1);
    const double vectors = static_cast<double>((length + lanes - 1) / lanes);
    return points / static_cast<double>(length) * vectors;
  };
  const bool inner_axis = axis >= outer_count;
  const double at_inner = shrink(outer_points * inner_points);
  const double at_outer = axis >= 0 && !inner_axis ? shrink(outer_points) : outer_points;
  const bool has_inner = std::any_of(kernel.body.begin(), kernel.body.end(),
                                     [](const Statement& s) { return s.inner; });
  // One by one, a scan waits for itself, and what it loads and stores costs little beside.
  const bool scans =
      std::ranges::any_of(kernel.body, [](const Statement& s) { return s.is_scan(); });
  double cost = static_cast<double>(facts.operations) * 0.5 * (has_inner ? at_inner : at_outer);
  for (const Access& access : facts.accesses) {
    const double points = access.inner ? at_inner : at_outer;
    const bool applies = access.inner || !inner_axis;
    double each = 1;
    if (axis >= 0 && applies) {
      if (opaque_along(access.index, axis, extent.size()))
        each = 2.0 * lanes;
      else if (access.index.stride(axis) == sym::Int(0))
        each = 0.1;
      else if (access.index.stride(axis) != sym::Int(1))
        each = (scans ? 3 : access.store ? 1.5 : 1.2) * lanes;
    }
    cost += each * points;
  }
  if (inner_axis)
    for (const Statement& s : kernel.body)
      if (s.is_reduction()) cost += outer_points * 6;
  return cost;
}

// Lanes for an axis of symbolic extent are those of a long one: it may be long another time.
int lanes_for(int widest, sym::Int length, Isa isa) {
  int lanes = vector_bytes(isa) / widest;
  if (!length.is_constant()) return lanes;
  const int64_t extent = length.constant();
  while (lanes > 4 && lanes > extent) lanes /= 2;
  return lanes > extent && extent < 3 ? 1 : lanes;
}

// A scan has no lanes along the axes that it walks. An accumulating store handles points one by
// one, which is faster if no lanes have to be taken apart.
bool may_be_lanes(const Nest& nest, int axis) {
  return axis < nest.outer_count || !loop::walks_once(*nest.kernel);
}

void choose_vector_axis(Nest& nest, const Survey& facts, Isa isa) {
  const Kernel& kernel = *nest.kernel;
  const int widest = widest_value(kernel, facts, nest.extent, nest.limits);
  nest.mask_bytes = widest;
  double best = cost_with(kernel, facts, nest.extent, -1, 1);
  for (int axis = static_cast<int>(nest.extent.size()) - 1; axis >= 0; --axis) {
    if (is_trivial(nest.extent[axis]) || !may_be_lanes(nest, axis)) continue;
    const int lanes = lanes_for(widest, nest.extent[axis], isa);
    if (lanes < 2) continue;
    const double cost = cost_with(kernel, facts, nest.extent, axis, lanes);
    if (cost >= best) continue;
    best = cost;
    nest.vector_axis = axis;
    nest.lanes = lanes;
  }
}

// The axis for which tiles pay: where a load is contiguous, if the vector axis is another one.
int tile_axis_of(const Nest& nest, const Survey& facts) {
  const bool has_inner = std::any_of(nest.kernel->body.begin(), nest.kernel->body.end(),
                                     [](const Statement& s) { return s.inner; });
  if (!nest.vector_is_outer() || has_inner || nest.rereads_stores || nest.lanes < 4 ||
      nest.extent[nest.vector_axis].hint() < nest.lanes)
    return -1;
  for (const Access& access : facts.accesses) {
    const sym::Int along = access.index.stride(nest.vector_axis);
    if (access.store || access.guarded || along == sym::Int(0) || along == sym::Int(1) ||
        opaque_along(access.index, nest.vector_axis, nest.extent.size()))
      continue;
    for (int axis = 0; axis < nest.outer_count; ++axis)
      if (axis != nest.vector_axis && access.index.stride(axis) == sym::Int(1) &&
          nest.extent[axis].hint() >= nest.lanes &&
          !opaque_along(access.index, axis, nest.extent.size()))
        return axis;
  }
  return -1;
}

// Values of a sweep outside of index position and of guards, mapped to the first sweep they are in.
void note_values(ExprRef expr, int sweep, std::unordered_map<ExprRef, int>& first) {
  if (expr->kind == ExprKind::kLoad || expr->kind == ExprKind::kMasked) return;
  if (!first.emplace(expr, sweep).second) return;
  for (ExprRef arg : expr->args) note_values(arg, sweep, first);
}

bool mentions_axis(ExprRef expr, int axis) {
  if (expr->kind == ExprKind::kAxis) return expr->ival == axis;
  return std::any_of(expr->args.begin(), expr->args.end(),
                     [axis](ExprRef arg) { return mentions_axis(arg, axis); });
}

// The topmost expensive values that a later walk over the row needs again.
void plan_kept_rows(Nest& nest) {
  constexpr size_t kMostRows = 2;
  if (!nest.vector_is_inner() || nest.inner.size() != 1 || nest.rereads_stores ||
      (nest.extent[nest.vector_axis].is_constant() &&
       nest.extent[nest.vector_axis].constant() > kLongestRow))
    return;
  std::unordered_map<ExprRef, int> first;
  std::unordered_set<ExprRef> seen;
  std::function<void(ExprRef, int)> visit = [&](ExprRef expr, int sweep) {
    const auto known = first.find(expr);
    if (known == first.end() || !seen.insert(expr).second) return;
    if (known->second < sweep && loop::cost_of(expr->kind) >= loop::kExpensive &&
        expr->dtype == DType::kFloat32 && mentions_axis(expr, nest.vector_axis) &&
        nest.kept_rows.size() < kMostRows) {
      nest.kept_rows[expr] = known->second;
      return;
    }
    for (ExprRef arg : expr->args) visit(arg, sweep);
  };
  for (size_t sweep = 0; sweep < nest.sweeps.size(); ++sweep) {
    for (const Task& task : nest.sweeps[sweep].inner)
      note_values(task.statement->value, static_cast<int>(sweep), first);
    seen.clear();
    for (const Task& task : nest.sweeps[sweep].inner)
      visit(task.statement->value, static_cast<int>(sweep));
  }
}

// Whether all that the kernel does is to accumulate at its inner points.
bool only_accumulates(const Kernel& kernel) {
  return std::ranges::all_of(kernel.body,
                             [](const Statement& s) { return s.inner && s.accumulates(); });
}

// Whether a condition is made of comparisons of what is linear along the lanes' axis: each of them
// changes once or twice in a row.
bool changes_rarely(const Nest& nest, ExprRef condition) {
  if (!mentions_axis(condition, nest.vector_axis)) return true;
  const auto& args = condition->args;
  if (condition->kind == ExprKind::kAnd || condition->kind == ExprKind::kOr ||
      condition->kind == ExprKind::kNot)
    return std::ranges::all_of(args, [&](ExprRef arg) { return changes_rarely(nest, arg); });
  return loop::is_comparison(condition->kind) && std::ranges::all_of(args, [&](ExprRef arg) {
           return arg->dtype == DType::kInt64 &&
                  !opaque_along(affine_of(arg, nest.extent), nest.vector_axis, nest.extent.size());
         });
}

// An index within one vector: how it changes from lane to lane, and whether it begins at a multiple
// of the number of lanes.
struct InVector {
  sym::Int stride = 0;
  bool aligned = false;
};

bool is_multiple(sym::Int value, int64_t of) {
  return value.is_constant() && value.constant() % of == 0;
}

std::optional<InVector> in_vector(const Nest& nest, const Affine& index);

// Lanes that are outer points have reductions and scans of their own.
bool mentions_reduced(ExprRef expr) {
  return expr->kind == ExprKind::kReduced || expr->kind == ExprKind::kScanned ||
         std::ranges::any_of(expr->args, mentions_reduced);
}

std::optional<InVector> term_in_vector(const Nest& nest, ExprRef term) {
  if (mentions_reduced(term)) return std::nullopt;
  if (!mentions_axis(term, nest.vector_axis)) return InVector{};
  if (term->kind != ExprKind::kFloorDiv && term->kind != ExprKind::kMod) return std::nullopt;
  const ExprRef divisor = term->args[1];
  if (!divisor->is_constant() || divisor->ival <= 0) return std::nullopt;
  const auto of = in_vector(nest, affine_of(term->args[0], nest.extent));
  if (!of) return std::nullopt;
  const bool whole = of->aligned && divisor->ival % nest.lanes == 0;  // vectors in the divisor
  const bool remains = term->kind == ExprKind::kMod;
  if (of->stride == sym::Int(0)) return InVector{0, remains && whole};
  if (of->stride != sym::Int(1) || !whole) return std::nullopt;
  return InVector{remains ? 1 : 0, remains};
}

std::optional<InVector> in_vector(const Nest& nest, const Affine& index) {
  InVector result{index.stride(nest.vector_axis), is_multiple(index.constant, nest.lanes)};
  for (size_t axis = 0; axis < index.coefficient.size(); ++axis)
    if (static_cast<int>(axis) != nest.vector_axis)
      result.aligned &= is_multiple(index.coefficient[axis], nest.lanes);
  for (const auto& [term, factor] : index.terms) {
    const auto part = term_in_vector(nest, term);
    if (!part) return std::nullopt;
    result.stride = result.stride + factor * part->stride;
    result.aligned &= part->aligned || is_multiple(factor, nest.lanes);
  }
  return result;
}

}  // namespace

std::optional<sym::Int> stride_in_vectors(const Nest& nest, const Affine& index) {
  // Neither a last vector that overlaps the one before nor a block begins elsewhere.
  if (!is_multiple(nest.extent[nest.vector_axis], nest.lanes) || nest.block % nest.lanes != 0)
    return std::nullopt;
  const auto walk = in_vector(nest, index);
  return walk ? std::optional(walk->stride) : std::nullopt;
}

bool is_worth_a_branch(const Nest& nest, ExprRef condition) {
  constexpr int64_t kLongRow = 8;  // vectors
  // A look at all lanes is one instruction where their masks have 32 bits.
  return nest.mask_bytes == 4 && nest.lanes >= 8 && nest.vectors == 0 &&
         nest.extent[nest.vector_axis].hint() >= kLongRow * nest.lanes &&
         changes_rarely(nest, condition);
}

bool chooses(const Statement& scan) {
  if (scan.value->kind != ExprKind::kWhere) return false;
  const auto is_before = [&](ExprRef expr) {
    return expr->kind == ExprKind::kScanned && expr->ival == scan.reduced && expr->component == 1;
  };
  return is_before(scan.value->args[1]) || is_before(scan.value->args[2]);
}

sym::Int Nest::blocks() const {
  if (!vector_is_outer() || block == 0) return 1;
  return sym::floordiv(extent[vector_axis] + sym::Int(block - 1), block);
}

sym::Int Nest::tiles() const {
  return tile_axis >= 0 ? sym::floordiv(extent[tile_axis] + sym::Int(lanes - 1), lanes) : 1;
}

int vector_bytes(Isa isa) {
  switch (isa) {
    case Isa::kGeneric:
      return 16;
    case Isa::kAvx2:
      return 32;
    case Isa::kAvx512:
      return 64;
  }
  BRAZE_UNREACHABLE("isa ", static_cast<int>(isa));
}

int compute_bytes(DType dtype) {
  if (dtype == DType::kFloat16 || dtype == DType::kBFloat16) return 4;
  return static_cast<int>(graph::size_of(dtype));
}

sym::Dims collapse_axes(const Kernel& kernel) {
  sym::Dims extent = extents_of(kernel);
  const int outer_count = static_cast<int>(kernel.outer.size());
  const int axes = static_cast<int>(extent.size());
  Survey facts = survey(kernel, extent);
  for (int b = axes - 1; b > 0; --b) {
    if (extent[b] == sym::Int(1)) continue;
    // The nearest axis before b on the same side that is not trivial.
    int a = b - 1;
    const int first = b >= outer_count ? outer_count : 0;
    while (a >= first && extent[a] == sym::Int(1)) --a;
    if (a < first || !can_merge(facts, extent, a, b)) continue;
    // `a` lives on as part of b; b must be seen again with its next neighbour.
    extent[b] = extent[b] * extent[a];
    extent[a] = 1;
    facts = survey(kernel, extent);
    ++b;
  }
  return extent;
}

Nest plan_nest(const Kernel& kernel, Isa isa) {
  Nest nest;
  nest.kernel = &kernel;
  nest.outer_count = static_cast<int>(kernel.outer.size());
  nest.extent = collapse_axes(kernel);
  for (const Statement& s : kernel.body)
    BRAZE_CHECK(!s.is_scan() || s.is_recurrence(), loop::to_string(s.scan), " on a CPU");
  const Survey facts = survey(kernel, nest.extent);
  choose_vector_axis(nest, facts, isa);
  std::vector<bool> stored(kernel.params.size());
  for (const Access& access : facts.accesses)
    if (access.store) stored[access.buffer] = true;
  for (const Access& access : facts.accesses)
    if (!access.store && stored[access.buffer]) nest.rereads_stores = true;
  nest.tile_axis = tile_axis_of(nest, facts);
  plan_work_items(nest, facts, isa);
  nest.sweeps = plan_sweeps(kernel);
  nest.row_by_row = nest.vector_is_outer() && !nest.inner.empty() && nest.tile_axis < 0 &&
                    nest.sweeps.size() == 1 && only_accumulates(kernel);
  share_out_places(nest, facts);
  plan_kept_rows(nest);
  nest.short_versions =
      plan_short_versions(nest, facts.operations + static_cast<int64_t>(facts.accesses.size()));
  return nest;
}

}  // namespace braze::codegen::cpp
