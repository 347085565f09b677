// What pays on a target: numbers by which the neutral stages decide. Limits that keep the time of a
// compile in check are no matter of the machine and stand where they are used.
#pragma once

#include <cstdint>

#include "target/target.h"

namespace braze::target {

// How long reductions of few rows are cut into parts (schedule/split_reductions.h). On a CPU none
// of these depends on the threads, so that results do not either.
struct SplitCosts {
  int64_t most_rows;        // more keep the machine busy without parts
  int64_t part_points;      // of a part: some microseconds' work
  int64_t fewest_of_a_row;  // points of one row in a part
  int64_t most_parts;
  int64_t part_multiple;  // points: whole vectors, where the axis is long enough
  // Where what is reduced lies side by side along the outer axes, so many of these are worked on
  // together, and few points along the inner ones are enough for a part; 0: this makes no
  // difference.
  int64_t columns_together = 0;
  int64_t fewest_of_a_column = 0;
  // At most, in a part of columns of a matrix whose rows another kernel reads, which may share a
  // launch (schedule/beside.h): a cache holds them until then. 0: no matter.
  int64_t points_read_beside = 0;
  bool places = false;       // whether reductions that find a place are cut as well
  bool equal_parts = false;  // another number of parts is worth a launch less for what is left
};

// How many threads of a GPU share a row of so many packs of 16 bytes whose elements they add up,
// and how many blocks of theirs a processor works on at a time.
struct SummedRow {
  int64_t threads, blocks;
};
SummedRow summed_row(int64_t packs);

// When a kernel that walks the rows of matrices adds up their columns on its way
// (schedule/column_sums.h), and in how many parts.
struct PartCosts {
  int64_t processors = 0;   // 0: never
  int64_t least_bytes = 0;  // that both would read: less is found in a cache
  int64_t most_sums = 0;    // of a row's elements: each thread keeps a few
  // Sums of a pack, and packs of a row, from which on together a launch of both pays more
  // (beside.h).
  int64_t many_sums = 0, many_packs = 0;
  // Read in common for each byte of the parts, which are written and read once.
  int64_t bytes_per_byte_of_parts = 1;
};

struct Costs {
  // What a launch costs besides its work, in bytes of memory traffic of the same time.
  int64_t launch_bytes;
  // Outer points of a kernel that are worked on at one time.
  int64_t workers;
  // Points of a kernel from which on it should not lose its workers to a small outer loop.
  int64_t parallel_points;
  // A reduction that could be split is not joined with what comes behind it in its loop where rows
  // are longer than what is at hand still when it is walked again, and fewer than are walked at one
  // time.
  int64_t kept_points;
  int64_t rows_at_once;
  // Of a row that several processors keep together, so that it is read once; and how many these
  // are. 0: none does.
  int64_t shared_row_bytes = 0;
  int64_t row_sharers = 1;
  SplitCosts split;
  PartCosts parts = {};
  // Of a kernel that may be done by one launch with others (schedule/together.h): in more bytes of
  // memory traffic the time of a launch is lost; 0: there is no such launch.
  int64_t bytes_launched_together = 0;
  // Kernels of rows and of columns that both read so many bytes share a launch
  // (schedule/beside.h); 0: there is no such launch.
  int64_t bytes_read_beside = 0;

  // Whether memory that is written anyway keeps exponentials and the like from one walk over a row
  // to the next (schedule/sweeps.h): where they cost more than to store and load them.
  bool keeps_between_sweeps = true;

  // Bytes side by side that are read and written at a time where rows are whole numbers of them:
  // what has others becomes one long row (schedule/kernel_edit.h); 0: rows stay.
  int64_t least_access = 0;

  // Computing an element anew against storing and loading it: of no target in particular yet. In
  // loop/lowering/:
  int repeated_nodes = 16;    // most nodes that each pass of a kernel evaluates anew
  int64_t heavy_repeats = 8;  // a transcendental function that is asked for as often is stored
  int index_only_nodes = 16;  // most nodes of an expression without loads that is never stored
  int64_t joined_parts = 16;  // most operands of a concatenation that is a chain of conditions
  // In schedule/inline.h:
  int cheap_nodes = 24;  // most nodes of a kernel that is computed where it is loaded
  int64_t repeats = 4;   // how often each of its elements may be, unless the loop around it
  int64_t points_per_repeat = 8;  // has so many points for each time
  int free_operations = 3;        // most that cost nothing beside the load that they stand for

  // Whether a thread has the same inner points in each walk, and reads no others, so that a store
  // to all of them may be in place beside reductions.
  bool in_place_beside_reductions = false;

  // A kernel may overwrite an operand with its result where the extents of its axes are multiples
  // of this: others are computed in part twice.
  int64_t in_place_multiple;
};

Costs costs_of(const Target& target);

}  // namespace braze::target
