#include "codegen/triton/tile.h"

#include <algorithm>
#include <bit>

namespace braze::codegen::triton {
namespace {

using cuda::kThreadsOfBlock;
using cuda::kThreadsOfWarp;
using cuda::Nest;

int power_of_two_above(int64_t count) {
  return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(count, 1))));
}

Tile tile_of_points(const Nest& nest) {
  if (nest.tile.axis < 0)
    return {.outer = kThreadsOfBlock * nest.lanes, .warps = kThreadsOfBlock / kThreadsOfWarp};
  // What is read along one axis and written along the other goes through shared memory.
  const int side = std::clamp(nest.tile.width, 32, 64);
  return {.form = Form::kSquare, .outer = side, .inner = side};
}

Tile tile_of_rows(const Nest& nest) {
  constexpr int64_t kMostInRegisters = 1 << 15;  // elements of a row
  constexpr int kPacksOfStep = 2;
  const bool several = nest.sharers <= kThreadsOfWarp;
  const int threads = several ? kThreadsOfBlock : nest.sharers;
  Tile tile{.form = Form::kRows,
            .outer = several ? nest.rows_of_block() : 1,
            .warps = threads / kThreadsOfWarp};
  const sym::Int rows = nest.outer_points(), length = nest.inner_points();
  while (rows.is_constant() && tile.outer > 1 && tile.outer / 2 >= rows.constant()) {
    tile.outer /= 2;
    tile.warps = std::max(tile.warps / 2, 1);
  }
  tile.whole = length.is_constant() && length.constant() <= kMostInRegisters;
  tile.inner = power_of_two_above(length.hint());
  if (!tile.whole) tile.inner = std::min(tile.inner, nest.sharers * nest.lanes * kPacksOfStep);
  return tile;
}

Tile tile_of_columns(const Nest& nest) {
  constexpr int kPointsAtOnce = 4, kMostAtOnce = 8;  // of a column and a thread
  Tile tile{.form = Form::kColumns,
            .outer = cuda::kColumnsOfBlock * nest.lanes,
            .inner = nest.sharers * kPointsAtOnce,
            .warps = nest.sharers};
  const sym::Int length = nest.inner_points();
  const int all = power_of_two_above(length.hint());
  tile.whole = length.is_constant() && all <= nest.sharers * kMostAtOnce;
  if (tile.whole) tile.inner = all;
  return tile;
}

}  // namespace

Tile plan_tile(const Nest& nest) {
  switch (nest.shape) {
    case cuda::Shape::kPoints:
      return tile_of_points(nest);
    case cuda::Shape::kRows:
      return tile_of_rows(nest);
    case cuda::Shape::kColumns:
      break;
  }
  return tile_of_columns(nest);
}

}  // namespace braze::codegen::triton
