// How a kernel is walked: which axes are merged, which one becomes vector lanes, what is split
// among threads, and which statements share a loop. Decided here, before any text is written.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "codegen/cpp/affine.h"
#include "codegen/cpp/codegen.h"
#include "loop/ir.h"

namespace braze::codegen::cpp {

// Elements of a kept row that have room on the stack.
constexpr int64_t kLongestRow = 4096;

// One thing done at each point of a loop. Welford is two tasks: the mean, then the sum of squares
// around it, which is both more accurate and easier on the pipeline than the running form. Where
// the values differ so little that the rounding of the mean would be seen, two more follow: the
// mean is corrected by the mean of what is left (Chan, Golub, LeVeque: Algorithms for computing the
// sample variance, 1983), and the squares are added up again, so that equal values vary by nothing,
// as in the running form.
struct Task {
  enum class Role : uint8_t { kStore, kScan, kReduce, kMean, kSquares, kCorrection, kSquaresAgain };
  Role role = Role::kStore;
  const loop::Statement* statement = nullptr;
  bool may_be_corrected = false;  // kMean, kSquares

  bool is_reduction() const { return role != Role::kStore && role != Role::kScan; }
};

// One walk over the inner axes, as schedule/sweeps.h counts them: the tasks that share it, then
// those after it.
struct Sweep {
  std::vector<Task> inner;
  std::vector<Task> outer;
};

struct Nest {
  const loop::Kernel* kernel = nullptr;
  int outer_count = 0;
  sym::Dims extent;      // by axis number; 1 where the axis was merged into another
  int vector_axis = -1;  // -1: no lanes, all scalar
  int lanes = 1;
  int mask_bytes = 4;         // width of one lane of a condition
  std::vector<int> parallel;  // outer axes split among threads, in order, vector axis left out
  int columns = 1;            // outer vector axis: vectors that share one walk of the inner axes
  int rows = 1;               // without lanes: points of the last of `parallel` that share one walk
  bool row_by_row = false;    // outer vector axis: walked within the inner axes, not around them
  // row_by_row: work items are values of this expression, the row that all stores go to, and each
  // thread skips the rows of the others. Null: work items are blocks of the rows.
  loop::ExprRef place = nullptr;
  int64_t block = 0;  // outer vector axis: elements of it in one work item; 0: all
  // Outer axis along which some load is contiguous that is not along the vector axis: square tiles
  // of it are loaded row by row and transposed in registers. -1: none.
  int tile_axis = -1;
  std::vector<int> inner;  // inner axes in loop order, vector axis last
  std::vector<Sweep> sweeps;
  // Expensive values that several walks over a row need: the first walk (number of its sweep) keeps
  // them in an array; on the stack but for long rows of symbolic extent.
  std::unordered_map<loop::ExprRef, int> kept_rows;
  // In a version for short axes: the number of vectors along the vector axis, all full but perhaps
  // the last one. 0: any number.
  int vectors = 0;
  // In a version for axes of moderate length: the greatest length. 0: no limit.
  int64_t longest = 0;
  // Where the vector axis is of symbolic length: the same nest for some frequent lengths, for few
  // vectors, shortest first, and for a moderate length. What few vectors hold stays in registers,
  // without a loop; sums of a moderate length need no second level.
  std::vector<Nest> short_versions;
  bool rereads_stores = false;  // some parameter is both loaded and stored, or accumulated into
  KernelCode code;              // extent and grain
  mutable Limits limits;        // grows while the kernel is planned and written

  bool vector_is_outer() const { return vector_axis >= 0 && vector_axis < outer_count; }
  bool vector_is_inner() const { return vector_axis >= outer_count; }
  // In a version: the number of elements of the vector axis that it is for, or the greatest one.
  int64_t most_elements() const {
    if (extent[vector_axis].is_constant()) return extent[vector_axis].constant();
    return vectors > 0 ? static_cast<int64_t>(vectors) * lanes : longest;
  }
  sym::Int tiles() const;   // work items along the tile axis
  sym::Int blocks() const;  // work items along an outer vector axis
};

// Whether a scan takes, at each point, either a new value or the one before.
bool chooses(const loop::Statement& scan);

// Whether what a condition of lanes guards is skipped where no lane needs it: most vectors of a
// long row lie outside of a piece of it (of a concatenation, say), and a branch that rarely changes
// is foreseen.
bool is_worth_a_branch(const Nest& nest, loop::ExprRef condition);

// How far apart the elements of neighbouring lanes are within one vector, though the index is not
// linear along the whole axis: where each vector begins at a multiple of the number of lanes,
// quotients by multiples of it are constant in a vector, and remainders count up. Nothing where
// that is not known.
std::optional<sym::Int> stride_in_vectors(const Nest& nest, const Affine& index);

// Merges neighbouring axes (outer with outer, inner with inner) that every access walks as one:
// returns the extent by axis, where the first axis of a merged pair gets extent 1.
sym::Dims collapse_axes(const loop::Kernel& kernel);

// Order of the tasks: a task comes after the reductions that it uses, after stores to what it
// loads, and after loads of what it stores; otherwise as early as possible, so that tasks meet in
// one loop. A scan is done in each sweep that sees it, before the first task that does.
std::vector<Sweep> plan_sweeps(const loop::Kernel& kernel);

Nest plan_nest(const loop::Kernel& kernel, Isa isa);
// weight: of the work for one vector, in operations.
std::vector<Nest> plan_short_versions(const Nest& nest, int64_t weight);

// Bytes of one vector register.
int vector_bytes(Isa isa);
// Bytes of an element while it is computed with (half floats are computed in float).
int compute_bytes(graph::DType dtype);

}  // namespace braze::codegen::cpp
