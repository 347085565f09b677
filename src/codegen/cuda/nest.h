// How the points of a kernel are spread over blocks and threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/cpp/affine.h"
#include "loop/ir.h"
#include "target/target.h"

namespace braze::codegen::cuda {

// The analysis of index expressions is the same for all languages.
using cpp::Affine;
using cpp::affine_of;
using cpp::Limits;

// A kernel without inner axes is kPoints. The threads that share an outer point are neighbours in
// kRows, where they read what lies side by side along the inner axes; in kColumns neighbours work
// on neighbouring outer points.
enum class Shape : uint8_t { kPoints, kRows, kColumns };

// Outer points, or packs of them, of a block of kColumns.
constexpr int kColumnsOfBlock = 32;
constexpr int kThreadsOfBlock = 256;
constexpr int kThreadsOfWarp = 32;
constexpr int64_t kPackBytes = 16;  // that one instruction loads or stores, aligned

// How kPoints that read or write along another axis than the last one, as a transpose does, are
// spread over the threads of a block: over a tile of `width` points along that axis, 128 bytes of
// them, and as many packs along the last one as there are threads. The threads of a warp are
// neighbours along both, 32 bytes of memory each, so that all that the memory hands out is used.
struct Tile {
  int axis = -1;  // none
  int last = -1;
  int width = 0;
  int packs() const { return kThreadsOfBlock / width; }
};

// Elements of a parameter that each block of kPoints has a copy of, to add to (accumulate.h).
struct OwnPart {
  int buffer = -1;
  int64_t elements = 0;
  std::string type;  // of an element of the copy
};

// Where rows of kRows begin that are no whole number of packs long: so many elements behind a
// boundary of packs, modulo lanes, as the place `constant` + sum of `coefficient` times an outer
// axis is. Packs lie between boundaries then, and the first and the last of a row have lanes that
// are none of its points.
struct Shift {
  int64_t constant = 0;
  std::vector<int64_t> coefficient;  // by outer axis
  friend bool operator==(const Shift&, const Shift&) = default;
};

struct Nest {
  const loop::Kernel* kernel = nullptr;
  Shape shape = Shape::kPoints;
  sym::Dims extent;     // by axis
  int outer_count = 0;  // axes
  // A thread takes a pack of `lanes` points along `vector_axis` at a time; -1 where it takes one.
  // An inner axis of kRows, an outer one of kColumns.
  int vector_axis = -1;
  int lanes = 1;
  bool has_tail = false;  // the last pack may have fewer
  std::optional<Shift> shift;
  Tile tile;                       // kPoints
  std::vector<OwnPart> own_parts;  // kPoints; with some, a block loops over points
  int64_t most_blocks = 0;         // of such a kernel
  bool adds_packs = false;  // whether the device adds several floats to memory by one instruction
  int sharers = 1;          // threads that share an outer point, a power of two
  // kRows: neighbouring blocks, a cluster, that share an outer point; each has `sharers` /
  // `cluster` threads and its own part of the accumulators' shared memory.
  int cluster = 1;
  // kRows: blocks, each of which takes outer points in turn and has its own part of the sums over
  // them (loop::StoreOp::kPart); 0: a block has its outer points once.
  int64_t parts = 0;
  int blocks_at_once = 0;  // of such, and of staged rows, on a processor; 0: any number
  // Packs that each sharer takes, of numbers that are known and so few that what it has loaded
  // stays in its registers from one walk to the next; 0: any number.
  int rounds = 0;
  // kRows: loads that several walks make, whose packs a block copies to its shared memory before
  // the first one, each thread its own; where there; and the bytes of all.
  std::vector<std::pair<loop::ExprRef, int64_t>> staged;
  int64_t staged_bytes = 0;
  // Of kernels with scans (scans.h): packs that a thread takes at a time; of kColumns also the
  // outer points of a block, and how many threads' parts are combined first.
  int scan_rounds = 0;
  int width = kColumnsOfBlock;
  int scan_group = 1;
  // Sums of exponentials of distances from a maximum of the same walk, with that: as SoftSum.
  std::unordered_map<const loop::Statement*, const loop::Statement*> soft_sums;
  // The other way round.
  bool is_soft_maximum(const loop::Statement& statement) const;
  // Statements that run in one walk over the inner points; one that is not inner stands alone.
  // Scans are done in each walk whose statements see them.
  std::vector<std::vector<const loop::Statement*>> groups;
  mutable Limits limits;

  sym::Int outer_points() const;
  sym::Int inner_points() const;
  // Steps of the walk over the inner points, of shifted rows the most that one takes.
  sym::Int inner_steps() const {
    if (shift) return packs(inner_points() + sym::Int(lanes - 1));
    return shape == Shape::kRows ? packs(inner_points()) : inner_points();
  }
  bool has_packed_columns() const { return shape == Shape::kColumns && lanes > 1; }
  // The number of packs that `points` points along the axis of packs and others make.
  sym::Int packs(sym::Int points) const;
  int rows_of_block() const { return kThreadsOfBlock / sharers; }  // kRows: outer points of a block
  int threads_of_block() const {
    if (shape == Shape::kPoints) return kThreadsOfBlock;
    if (shape == Shape::kColumns) return width * sharers;
    return sharers <= kThreadsOfWarp ? kThreadsOfBlock : sharers / cluster;
  }
};

// Whether rows of odd widths are taken in packs that begin at boundaries (Shift): what the first
// and the last of a row need beside is more, for many kernels, than wider accesses save.
enum class Shifts : uint8_t { kNone, kWherePays, kWherePossible };

// What a kernel is to have; 0: what is good for it by the model of the device.
struct Wanted {
  int sharers = 0;
  int most_lanes = 0;
  int cluster = 0;  // 1: none
  Shifts shifts = Shifts::kWherePays;
  // Rows in shared memory, where that is good, and sums whose infinite maximum counts as 0 in one
  // walk with that, which Triton's code has not.
  bool stages = true;
};
Nest plan_nest(const loop::Kernel& kernel, const target::Cuda& cuda, const Wanted& wanted = {});

// The most sharers whose partial results fit the shared memory of a block of kColumns.
int most_sharers(const Nest& nest);

// Whether elements at `index` of `lanes` neighbours along the axis are one aligned piece of memory
// behind an aligned address.
bool is_pack(const Affine& index, int axis, int lanes);
// The shift of rows that the elements at `index` along the axis lie in; nothing: in none.
std::optional<Shift> shift_of(const Affine& index, int axis, int outer_count, int lanes);
// Whether all coefficients of an index, and what it adds, are multiples of `lanes`.
bool is_whole(const Affine& index, int lanes);

// Axes that an expression depends on, as bits.
class AxesOf {
 public:
  // reduced: those that the results of reductions depend on. What a scan has depends on all.
  explicit AxesOf(uint64_t reduced = 0) : reduced_(reduced) {}
  uint64_t operator()(loop::ExprRef expr);

 private:
  uint64_t reduced_;
  std::unordered_map<loop::ExprRef, uint64_t> known_;
};

}  // namespace braze::codegen::cuda
