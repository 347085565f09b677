#include "codegen/cuda/points.h"

#include <algorithm>

namespace braze::codegen::cuda {
namespace {

constexpr int kMostThreads = 1024;

sym::Int blocks_of(sym::Int points, int per_block) {
  return sym::floordiv(points + sym::Int(per_block - 1), per_block);
}

}  // namespace

void PointWriter::begin() {
  switch (nest_.shape) {
    case Shape::kPoints:
      begin_points();
      break;
    case Shape::kRows:
      begin_rows();
      break;
    case Shape::kColumns:
      begin_columns();
      break;
  }
}

void PointWriter::bind_inner(bool wide) {
  bind_axes(nest_.outer_count, static_cast<int>(nest_.extent.size()), "step", wide);
}

bool PointWriter::is_wide(sym::Int count) const {
  const sym::Int end = count + sym::Int(kMostThreads);
  if (end.hint() > INT32_MAX) return true;
  if (!end.is_constant() && std::ranges::find(nest_.limits, end) == nest_.limits.end())
    nest_.limits.push_back(end);
  return false;
}

std::string PointWriter::number(sym::Int value, bool wide) {
  if (value.is_constant()) return std::to_string(value.constant()) + (wide ? "ull" : "u");
  return (wide ? "(u64)" : "(u32)") + writer_.size(value, true);
}

sym::Int PointWriter::steps_along(int axis) const {
  const sym::Int extent = nest_.extent[axis];
  return axis == nest_.vector_axis ? nest_.packs(extent) : extent;
}

void PointWriter::bind(int axis, const std::string& text) {
  if (axis == nest_.vector_axis)
    writer_.bind_base(text + " * " + std::to_string(nest_.lanes) + (nest_.shift ? " - shift" : ""));
  else
    writer_.bind_axis(axis, text);
}

// The axes [begin, end) of a point, or of a pack, by its number in row-major order; those of a tile
// are left out.
void PointWriter::bind_axes(int begin, int end, std::string point, bool wide) {
  const auto trivial = [&](int axis) {
    return cpp::is_trivial(nest_.extent[axis]) ||
           (nest_.tile.axis >= 0 && (axis == nest_.tile.axis || axis == nest_.tile.last));
  };
  while (begin < end && trivial(begin)) ++begin;
  for (int axis = end - 1; axis > begin; --axis) {
    if (trivial(axis)) continue;
    const std::string count = axis_count(axis, wide);
    bind(axis, "(" + point + " % " + count + ")");
    const std::string rest = writer_.fresh("rest");
    writer_.line(std::string("const ") + (wide ? "u64 " : "u32 ") + rest + " = " + point + " / " +
                 count + ";");
    point = rest;
  }
  if (begin < end) bind(begin, point);
}

void PointWriter::begin_tiles() {
  const Tile& tile = nest_.tile;
  const bool wide = is_wide(nest_.packs(nest_.outer_points()));
  const std::string type = wide ? "const u64 " : "const u32 ";
  const sym::Int across = blocks_of(steps_along(tile.axis), tile.width);
  const sym::Int along = blocks_of(steps_along(tile.last), tile.packs());
  code_.threads[0] = kThreadsOfBlock;
  code_.blocks[0] = across * along;
  for (int axis = 0; axis < nest_.outer_count; ++axis)
    if (axis != tile.axis && axis != tile.last)
      code_.blocks[0] = code_.blocks[0] * nest_.extent[axis];
  // A warp is `side` points wide, and four of them are as wide as the tile.
  const std::string side = std::to_string(tile.width / 4) + "u";
  const std::string high = std::to_string(4 * kThreadsOfWarp / tile.width) + "u";
  const std::string in_row = number(along, wide), in_column = number(across, wide);
  writer_.line("const u32 in_warp = threadIdx.x % 32u, warp = threadIdx.x / 32u;");
  writer_.line(type + "tile = " + block_ + ", row = tile / " + in_row + ";");
  writer_.line(type + "across = row % " + in_column + " * " + std::to_string(tile.width) +
               "u + warp % 4u * " + side + " + in_warp % " + side + ";");
  writer_.line(type + "along = tile % " + in_row + " * " + std::to_string(tile.packs()) +
               "u + warp / 4u * " + high + " + in_warp / " + side + ";");
  writer_.line("if (across >= " + axis_count(tile.axis, wide) +
               " || along >= " + axis_count(tile.last, wide) + ") return;");
  writer_.line(type + "others = row / " + in_column + ";");
  bind_axes(0, nest_.outer_count, "others", wide);
  bind(tile.axis, "across");
  bind(tile.last, "along");
}

void PointWriter::begin_points() {
  if (nest_.tile.axis >= 0) return begin_tiles();
  const sym::Int packs = nest_.packs(nest_.outer_points());
  const bool wide = is_wide(packs);
  code_.threads[0] = kThreadsOfBlock;
  code_.blocks[0] = blocks_of(packs, kThreadsOfBlock);
  const std::string type = wide ? "u64" : "u32";
  const std::string first = type + " point = (" + type + ")" + block_ + " * " +
                            std::to_string(kThreadsOfBlock) + "u + threadIdx.x;";
  if (nest_.own_parts.empty()) {
    writer_.line("const " + first);
    writer_.line("if (point >= " + number(packs, wide) + ") return;");
  } else {
    code_.blocks[0] = sym::min(code_.blocks[0], nest_.most_blocks);
    loop_ = "for (" + first + " point < " + number(packs, wide) +
            "; point += " + std::to_string(nest_.most_blocks * kThreadsOfBlock) + "u)";
  }
  bind_axes(0, nest_.outer_count, "point", wide);
}

// `per_block` outer points of a block; those of the last one that are too many do the last point
// again, and store nothing.
void PointWriter::begin_shared(int per_block, const std::string& within) {
  const sym::Int points =
      nest_.has_packed_columns() ? nest_.packs(nest_.outer_points()) : nest_.outer_points();
  const bool wide = is_wide(points);
  const std::string type = wide ? "u64" : "u32";
  code_.blocks[0] = blocks_of(points, per_block);
  if (nest_.parts > 0) {
    const std::string parts = std::to_string(nest_.parts) + "u";
    loop_ = "for (" + type + " turn = " + block_ + "; turn < " + number(code_.blocks[0], wide) +
            "; turn += " + parts + ")";
    block_ = "turn";
    code_.blocks[0] = nest_.parts;
  }
  const bool exact = sym::mod(points, per_block) == sym::Int(0);
  writer_.line("const " + type + " place = (" + type + ")" + block_ + " * " +
               std::to_string(per_block) + "u + " + within + ";");
  if (exact) {
    bind_axes(0, nest_.outer_count, "place", wide);
    return;
  }
  guard_ = "active";
  const std::string count = number(points, wide);
  writer_.line("const bool active = place < " + count + ";");
  writer_.line("const " + type + " point = active ? place : " + count + " - 1;");
  bind_axes(0, nest_.outer_count, "point", wide);
}

void PointWriter::begin_rows() {
  const bool several = nest_.sharers <= kThreadsOfWarp;
  const std::string sharers = std::to_string(nest_.sharers) + "u";
  code_.threads[0] = nest_.threads_of_block();
  if (nest_.cluster > 1) return begin_clusters();
  if (several)
    begin_shared(nest_.rows_of_block(), "threadIdx.x / " + sharers);
  else
    begin_shared(1, "0");
  writer_.line("const u32 lane = threadIdx.x" + (several ? " % " + sharers : "") + ";");
  bind_shift();
}

void PointWriter::bind_shift() {
  if (!nest_.shift) return;
  std::string start = std::to_string(nest_.shift->constant) + "u";
  for (int axis = 0; axis < nest_.outer_count; ++axis)
    if (const int64_t factor = nest_.shift->coefficient[axis];
        factor && !cpp::is_trivial(nest_.extent[axis]))
      start += " + (u32)" + writer_.axis(axis) + " * " + std::to_string(factor) + "u";
  writer_.line("const u32 shift = (" + start + ") % " + std::to_string(nest_.lanes) + "u;");
}

std::string PointWriter::end_of_steps(bool wide) {
  if (!nest_.shift) return number(nest_.inner_steps(), wide);
  return "(" + number(nest_.inner_points() + sym::Int(nest_.lanes - 1), wide) + " + shift) / " +
         std::to_string(nest_.lanes) + "u";
}

void PointWriter::begin_clusters() {
  const std::string blocks = std::to_string(nest_.cluster) + "u";
  block_ = "(" + block_ + " / " + blocks + ")";
  begin_shared(1, "0");
  code_.blocks[0] = code_.blocks[0] * sym::Int(nest_.cluster);
  code_.cluster = nest_.cluster;
  writer_.line("const u32 lane = rank_of_block() * " +
               std::to_string(nest_.sharers / nest_.cluster) + "u + threadIdx.x;");
  bind_shift();
}

void PointWriter::begin_columns() {
  const std::string width = std::to_string(nest_.width) + "u";
  code_.threads[0] = nest_.threads_of_block();
  begin_shared(nest_.width, "threadIdx.x % " + width);
  writer_.line("const u32 lane = threadIdx.x / " + width + ";");
}

}  // namespace braze::codegen::cuda
