// Inside of codegen: writes the loops of one function over the axes of a nest. outer_loops.cpp has
// the loops over work items, outer lanes and tiles, inner_loops.cpp those over inner axes.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "codegen/cpp/expression.h"
#include "codegen/cpp/nest.h"
#include "codegen/cpp/reduction.h"
#include "sym/facts.h"

namespace braze::codegen::cpp {

class LoopWriter {
 public:
  // sizes: what the kernel takes as `sizes`, shared by the functions that it is made of.
  LoopWriter(const Nest& nest, Prelude& prelude, std::vector<sym::Int>& sizes)
      : nest_(nest), writer_(nest, prelude, sizes) {}

  // The lines of a function of (args, sizes, begin, end). Where a short version of the nest fits,
  // it calls the function of that name in `short_versions`, which has the same parameters.
  std::vector<std::string> write(const std::vector<std::string>& short_versions);

 private:
  std::string size(sym::Int value) { return writer_.size(value); }

  void write_short_versions(const std::vector<std::string>& names);
  // The loop over begin..end, and the counters of the outer axes that it stands for.
  void write_items();
  // The lines for one work item, or for so many rows of a nest that walks several side by side.
  std::vector<std::string> write_item(int rows);
  // The last tile starts early, where the axis is no multiple of its rows.
  void write_tile_start();
  // Can the last vector of an axis start early and compute some elements a second time, where the
  // axis is long enough?
  bool may_overlap() const { return !nest_.rereads_stores; }
  // The body for the vector of outer points at `position`.
  void write_outer_body(const std::string& header, const std::string& position);
  void write_outer_lanes();
  // The lanes from `first` to `last`, which are blocks of the axis or all of it.
  void write_outer_range(std::string first, const std::string& last, bool blocks);
  // The first block that is written and, where there may be several, the one after the last.
  std::pair<std::string, std::string> own_blocks() const;
  // Within loops over the inner axes from that position on.
  void write_within_inner(size_t position, const std::function<void()>& body);
  // One vector at a time from `first` to `last`, a part of the axis.
  void write_outer_vectors(sym::Int length, const std::string& first, const std::string& last,
                           bool is_part);
  void write_sweeps();
  // The rows of a tile; those of the last one overlap with the tile before. A tile that may be cut
  // short has a case of its own.
  void write_tile(const Sweep& sweep);
  void write_rows(const Sweep& sweep, const std::string& rows);
  // The same for each of the vectors or rows of outer points that are walked side by side.
  void for_each_column(const std::function<void(int)>& body);

  void write_inner(const Sweep& sweep);
  // Behind the loops of a sweep that adds up squares: where they are next to nothing, the mean is
  // corrected and they are added up again.
  void correct_variances(const Sweep& sweep, std::vector<Reduction>& reductions);
  // Whether sums keep a total beside their accumulators: those of one loop of unknown length, which
  // is mostly short, and those of several loops, an outer one of which may be long.
  bool has_total(sym::Int points) const;
  bool is_summed_in_blocks(int axis) const;
  void write_end_of_block(std::vector<Reduction>& reductions, const std::string& name);
  // Independent accumulators hide the latency of the reduction; long bodies do that by themselves.
  int unroll_of(const Sweep& sweep) const;
  void write_inner_loop(const Sweep& sweep, std::vector<Reduction>& reductions, size_t position,
                        int unroll);
  // The elements from `done` on, fewer than lanes.
  void write_rest(const Sweep& sweep, std::vector<Reduction>& reductions, int axis, sym::Int done);
  // axis = first, first + step * copies, ... : `copies` points or vectors in one iteration.
  struct Walk {
    sym::Int first, end;
    int step, copies;
    bool main;  // what comes after it is short
  };
  void write_copies(const Sweep& sweep, std::vector<Reduction>& reductions, int axis,
                    const Walk& walk);
  // Vectors of which the last starts early. An axis that is shorter than a vector has a case of its
  // own.
  void write_overlapping(const Sweep& sweep, std::vector<Reduction>& reductions, int axis);
  void write_inner_body(const Sweep& sweep, std::vector<Reduction>& reductions, int copy);
  // Variables for the running values of a sweep's scans, by column and scan.
  void declare_scans(const Sweep& sweep);
  // At the start of a point: notes the running values of the point before.
  void begin_scans(const Sweep& sweep, int column);
  void write_scan(const loop::Statement& scan, int column);
  // At the end of a point: its running values become those of the point before.
  void end_scans(const Sweep& sweep, int column);
  // Calls `body` for the position of each vector of an axis of few vectors, in a scope of its own;
  // the last vector may be a part, or begins early where some elements may be done twice.
  void for_each_vector(bool may_repeat, const std::function<void(int)>& body);

  const Nest& nest_;
  ExpressionWriter writer_;
  struct Running {
    std::string before, now;
  };
  std::map<std::pair<int, int>, Running> running_;  // by column and number, of the current sweep
  int columns_ = 1;
  bool is_tile_cut_ = false;  // the tile axis may be shorter than a tile
  bool in_parts_ = false;     // of the inner loops being written: sums have a second level
};

// "o0", "i1"
std::string axis_name(const Nest& nest, int axis);

inline bool divides(sym::Int length, int64_t by) {
  return sym::divide_exactly(length, by).has_value();
}

}  // namespace braze::codegen::cpp
