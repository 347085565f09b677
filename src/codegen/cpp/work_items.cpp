// What threads share out: the outer axes, blocks of lanes, or the places that rows are added to.
#include "codegen/cpp/work_items.h"

#include <algorithm>
#include <optional>

#include "loop/linear_form.h"
#include "sym/facts.h"

namespace braze::codegen::cpp {

using loop::ExprKind;
using loop::ExprRef;
using loop::Statement;

namespace {

constexpr int64_t kChunkNanoseconds = 15000;
constexpr int64_t kManyItems = 16;  // enough for all threads, most of the time

// Reductions, scans and accumulating stores over an axis of large stride use each row of memory
// better, and hide the latency of the sums, when several vectors of neighbouring outer points share
// one walk.
int columns_of(const Nest& nest, const Survey& facts, int64_t other_items, Isa isa) {
  int reductions = 0;
  for (const Statement& s : nest.kernel->body)
    reductions += s.is_reduction() || s.is_scan() || (s.inner && s.accumulates());
  if (!nest.vector_is_outer() || reductions == 0 || facts.operations > 16) return 1;
  const int registers = isa == Isa::kAvx512 ? 16 : 8;
  for (int columns : {8, 4, 2}) {
    const int64_t items = nest.extent[nest.vector_axis].hint() / (nest.lanes * columns);
    if (items >= 1 && items * other_items >= 4 && columns * reductions <= registers) return columns;
  }
  return 1;
}

// Scans of several rows at once do not wait for each other. One that chooses between a new value
// and the one before does not wait either: the processor guesses which it will be.
int rows_of(const Nest& nest, const Survey& facts) {
  constexpr int kRows = 4;
  constexpr int64_t kMostOperations = 24;
  const std::vector<Statement>& body = nest.kernel->body;
  const bool scans =
      std::ranges::any_of(body, [](const Statement& s) { return s.is_scan() && !chooses(s); });
  const bool reduces =
      std::ranges::any_of(body, [](const Statement& s) { return s.is_reduction(); });
  if (nest.vector_axis >= 0 || nest.parallel.empty() || nest.inner.empty() || !scans || reduces ||
      facts.operations > kMostOperations)
    return 1;
  return nest.extent[nest.parallel.back()].hint() >= kRows ? kRows : 1;
}

// How many work items it pays to wake a thread for. An item is `points` outer points, each of which
// takes `fixed` nanoseconds and `per_inner` more for each inner point.
sym::Int grain_of(const Nest& nest, double fixed, double per_inner, sym::Int points,
                  sym::Int items) {
  sym::Int inner = 1;
  for (size_t axis = nest.outer_count; axis < nest.extent.size(); ++axis)
    inner = inner * nest.extent[axis];
  const auto chunk = static_cast<double>(kChunkNanoseconds);
  if (inner.is_constant() && points.is_constant()) {
    const double item = (fixed + per_inner * static_cast<double>(inner.constant())) *
                        static_cast<double>(points.constant());
    const auto grain = static_cast<int64_t>(chunk / std::max(item, 0.01));
    if (!items.is_constant()) return std::max<int64_t>(grain, 1);
    return std::clamp<int64_t>(grain, 1, std::max<int64_t>(items.constant(), 1));
  }
  const auto picoseconds = [](double time) { return static_cast<int64_t>(time * 1000) + 1; };
  const sym::Int item =
      (sym::Int(picoseconds(fixed)) + sym::Int(picoseconds(per_inner)) * inner) * points;
  return sym::max(sym::floordiv(picoseconds(chunk), item), 1);
}

// Nanoseconds: memory at about 10 bytes in one, arithmetic in lanes.
struct PointTimes {
  double outer = 0;  // at an outer point, beside its inner points
  double inner = 0;  // at an inner point
};

PointTimes times_of(const Nest& nest, const Survey& facts) {
  PointTimes times;
  for (const Access& access : facts.accesses)
    (access.inner ? times.inner : times.outer) +=
        static_cast<double>(graph::size_of(nest.kernel->params[access.buffer].dtype)) / 10;
  times.inner += static_cast<double>(facts.operations) / nest.lanes * 0.5;
  return times;
}

}  // namespace

void plan_work_items(Nest& nest, const Survey& facts, Isa isa) {
  for (int axis = 0; axis < nest.outer_count; ++axis)
    if (!is_trivial(nest.extent[axis]) && axis != nest.vector_axis && axis != nest.tile_axis)
      nest.parallel.push_back(axis);
  for (int axis = nest.outer_count; axis < static_cast<int>(nest.extent.size()); ++axis)
    if (!is_trivial(nest.extent[axis]) && axis != nest.vector_axis) nest.inner.push_back(axis);
  if (nest.vector_is_inner()) nest.inner.push_back(nest.vector_axis);

  nest.rows = rows_of(nest, facts);

  sym::Int items = 1;
  for (int axis : nest.parallel) items = items * nest.extent[axis];
  items = items * nest.tiles();
  const int axes = static_cast<int>(nest.extent.size());
  const int64_t inner_points = product(nest.extent, nest.outer_count, axes);
  const PointTimes times = times_of(nest, facts);
  const double per_point = times.outer + times.inner * static_cast<double>(inner_points);
  sym::Int points = 1;  // of an item
  if (nest.vector_is_outer()) {
    const sym::Int length = nest.extent[nest.vector_axis];
    nest.columns = columns_of(nest, facts, items.hint(), isa);
    const int64_t unit = nest.columns > 1 ? nest.columns * nest.lanes : 4 * nest.lanes;
    // Blocks long enough that the loop around them costs nothing, short enough to share out.
    const auto wanted = static_cast<int64_t>(2000 / std::max(per_point, 0.01));
    int64_t block = std::max<int64_t>(unit, wanted / unit * unit);
    if (length.is_constant() && block * 2 > length.constant()) block = length.constant();
    // A symbolic axis may have several blocks in another call; that costs a little where it is
    // short.
    const bool whole =
        !length.is_constant() && length.hint() <= block && items.hint() >= kManyItems;
    nest.block = whole ? 0 : block;
    points = (whole ? length : sym::Int(block)) * (nest.tile_axis >= 0 ? nest.lanes : 1);
    items = items * nest.blocks();
  }
  nest.code.extent = items;
  nest.code.grain = grain_of(nest, times.outer, times.inner, points, items);
}

namespace {

// One more than the greatest value of an index that is checked or clamped to sizes from 0 on.
std::optional<sym::Int> places_of(ExprRef index) {
  if (index->kind != ExprKind::kCheckIndex && index->kind != ExprKind::kMin) return std::nullopt;
  const ExprRef bound = index->args[1];
  if (!loop::is_size(bound)) return std::nullopt;
  const sym::Int value = loop::size_value(bound);
  if (index->kind == ExprKind::kCheckIndex) return value;
  const ExprRef clamped = index->args[0];
  const bool is_from_zero = clamped->kind == ExprKind::kMax && clamped->args[1]->is_constant() &&
                            clamped->args[1]->ival == 0 && sym::known_at_least(value, 0);
  if (!is_from_zero) return std::nullopt;
  return value + sym::Int(1);
}

// The place, such an index, of the row that a kernel of accumulating stores adds to: its
// stores go to rows along the vector axis that lie apart, one for each place. Null: there is none.
ExprRef place_of_rows(const Nest& nest) {
  ExprRef place = nullptr;
  const sym::Int length = nest.extent[nest.vector_axis];
  for (const Statement& s : nest.kernel->body) {
    const Affine index = affine_of(s.index, nest.extent);
    if (index.terms.size() != 1) return nullptr;
    const auto& [term, apart] = index.terms[0];
    if ((place && term != place) || opaque_along(index, nest.vector_axis, nest.extent.size()) ||
        !sym::known_at_most(length, apart))
      return nullptr;
    for (int axis = 0; axis < static_cast<int>(nest.extent.size()); ++axis)
      if (index.stride(axis) != sym::Int(axis == nest.vector_axis)) return nullptr;
    place = term;
  }
  return place;
}

}  // namespace

void share_out_places(Nest& nest, const Survey& facts) {
  constexpr int64_t kFewestPlaces = 64;       // fewer are not shared out evenly
  constexpr int64_t kLongestBytes = 1 << 15;  // of a row: parts of longer ones lie apart
  constexpr double kSkipNanoseconds = 1;      // to see that a row is another thread's
  if (!nest.row_by_row || !nest.parallel.empty()) return;
  const ExprRef place = place_of_rows(nest);
  if (!place) return;
  const auto count = places_of(place);
  if (!count) return;
  const sym::Int places = *count, length = nest.extent[nest.vector_axis];
  if (places.hint() < kFewestPlaces || length.hint() * nest.mask_bytes > kLongestBytes) return;
  nest.place = place;
  nest.block = 0;
  nest.code.extent = sym::max(places, 1);  // where there is none, an index is wrong
  sym::Int rows = 1;
  for (size_t axis = nest.outer_count; axis < nest.extent.size(); ++axis)
    rows = rows * nest.extent[axis];
  // A chunk is worth a thread, and takes longer than to skip the rows of the others.
  const double row = times_of(nest, facts).inner * static_cast<double>(length.hint());
  const auto picoseconds = [](double time) { return static_cast<int64_t>(time * 1000) + 1; };
  const sym::Int all = sym::Int(picoseconds(row)) * rows + 1;
  nest.code.grain = sym::max(sym::floordiv(places * sym::Int(picoseconds(kChunkNanoseconds)), all),
                             sym::floordiv(places * sym::Int(picoseconds(kSkipNanoseconds)),
                                           sym::Int(picoseconds(row)))) +
                    1;
}

}  // namespace braze::codegen::cpp
