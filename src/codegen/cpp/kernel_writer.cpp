#include "codegen/cpp/kernel_writer.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <sstream>
#include <unordered_set>

#include "base/error.h"
#include "codegen/cpp/expression.h"
#include "codegen/cpp/reduction.h"
#include "sym/facts.h"

namespace braze::codegen::cpp {

using graph::DType;
using loop::ExprRef;
using loop::Kernel;
using loop::Statement;

namespace {

std::string axis_name(const Nest& nest, int axis) {
  return axis < nest.outer_count ? "o" + std::to_string(axis)
                                 : "i" + std::to_string(axis - nest.outer_count);
}

// The kernel as text, as a comment; very long lines are cut.
std::string description(const Kernel& kernel) {
  constexpr size_t kWidth = 160;
  constexpr int kLines = 16;
  std::istringstream text(loop::to_string(kernel));
  std::string result, line;
  for (int n = 0; std::getline(text, line); ++n) {
    if (n == kLines) return result + "// ...\n";
    if (line.size() > kWidth) line = line.substr(0, kWidth) + " ...";
    result += "// " + line + "\n";
  }
  return result;
}

class KernelWriter {
 public:
  KernelWriter(const Nest& nest, Prelude& prelude) : nest_(nest), writer_(nest, prelude) {}

  KernelText run(const std::string& symbol) {
    const Kernel& kernel = *nest_.kernel;
    writer_.line("i64 failed = 0;");
    for (size_t b = 0; b < kernel.params.size(); ++b) {
      const std::string type =
          (kernel.params[b].written ? "" : "const ") + storage_type(kernel.params[b].dtype) + "*";
      writer_.line(type + " const b" + std::to_string(b) + " = (" + type + ")args[" +
                   std::to_string(b) + "];");
    }
    write_items();
    for (const std::string& line : writer_.clean_up()) writer_.line(line);
    writer_.line("return failed;");
    const std::string sizes = writer_.sizes().empty() ? "" : " sizes";
    std::string text = "\n" + description(kernel) + "extern \"C\" i64 " + symbol +
                       "(void* const* args, const i64*" + sizes + ", i64 begin, i64 end) {\n";
    for (const std::string& line : writer_.close()) text += "  " + line + "\n";
    return {text + "}\n", writer_.sizes()};
  }

 private:
  std::string size(sym::Int value) { return writer_.size(value); }

  static bool divides(sym::Int length, int64_t by) {
    return sym::divide_exactly(length, by).has_value();
  }
  // length less what is left when it is cut into parts.
  static sym::Int whole_parts(sym::Int length, int64_t part) {
    return sym::floordiv(length, part) * part;
  }

  // The loop over begin..end, and the counters of the outer axes that it stands for.
  void write_items() {
    struct Counter {
      std::string name;
      sym::Int extent;
    };
    std::vector<Counter> counters;
    for (int axis : nest_.parallel)
      counters.push_back({axis_name(nest_, axis), nest_.extent[axis]});
    if (!is_trivial(nest_.tiles())) counters.push_back({"tile", nest_.tiles()});
    if (!is_trivial(nest_.blocks())) counters.push_back({"block", nest_.blocks()});

    const std::string one = counters.size() == 1 ? counters[0].name : "item";
    if (counters.size() > 1) {
      sym::Int below = 1;
      for (auto c = counters.rbegin(); c != counters.rend(); ++c) {
        std::string start = "begin";
        if (below != sym::Int(1)) start += " / " + size(below);
        if (&*c != &counters.front()) start += " % " + size(c->extent);
        // Divisions by what the compiler does not know are slow.
        const bool slow = !below.is_constant() || !c->extent.is_constant();
        if (slow && start != "begin") start = "begin == 0 ? 0 : " + start;
        writer_.line("i64 " + c->name + " = " + start + ";");
        below = below * c->extent;
      }
    }
    writer_.open();
    for (int axis : nest_.parallel) writer_.bind_axis(axis, axis_name(nest_, axis));
    if (nest_.tile_axis >= 0) write_tile_start();
    if (nest_.vector_is_outer())
      write_outer_lanes();
    else
      write_levels();
    if (counters.size() > 1) {
      std::string step;
      for (size_t c = 0; c + 1 < counters.size(); ++c)
        step = (c == 0 ? "++" + counters[0].name + ";"
                       : "if (++" + counters[c].name + " == " + size(counters[c].extent) + ") { " +
                             counters[c].name + " = 0; " + step + " }");
      const Counter& last = counters.back();
      writer_.line("if (++" + last.name + " == " + size(last.extent) + ") { " + last.name +
                   " = 0; " + step + " }");
    }
    const std::vector<std::string> body = writer_.close();
    writer_.block("for (i64 " + one + " = begin; " + one + " < end; ++" + one + ")", body);
  }

  // The last tile starts early, where the axis is no multiple of its rows.
  void write_tile_start() {
    const sym::Int length = nest_.extent[nest_.tile_axis];
    const std::string lanes = std::to_string(nest_.lanes);
    const std::string latest = size(sym::max(length - sym::Int(nest_.lanes), 0));
    const std::string start = is_trivial(nest_.tiles()) ? "0" : "tile * " + lanes;
    writer_.line("const i64 " + axis_name(nest_, nest_.tile_axis) + "_first = " +
                 (divides(length, nest_.lanes)
                      ? start
                      : start + " < " + latest + " ? " + start + " : " + latest) +
                 ";");
    is_tile_cut_ = !sym::known_at_least(length, nest_.lanes);
  }

  // Can the last vector of an axis start early and compute some elements a second time, where the
  // axis is long enough?
  bool may_overlap() const { return !nest_.rereads_stores; }

  // The body for the vector of outer points at `position`.
  void write_outer_body(const std::string& header, const std::string& position) {
    const int axis = nest_.vector_axis;
    const std::string name = axis_name(nest_, axis);
    writer_.open();
    std::string text = position;
    if (position != name && position != "0") {
      writer_.line("const i64 " + name + " = " + position + ";");
      text = name;
    }
    writer_.bind_axis(axis, text);
    write_levels();
    const std::vector<std::string> lines = writer_.close();
    writer_.block(header, lines);
  }

  void write_outer_lanes() {
    const sym::Int length = nest_.extent[nest_.vector_axis];
    const std::string name = axis_name(nest_, nest_.vector_axis);
    std::string first = "0", last = size(length);
    const bool blocks = !is_trivial(nest_.blocks());
    if (blocks) {
      first = "block * " + std::to_string(nest_.block);
      last = writer_.fresh("last");
      const std::string bound = first + " + " + std::to_string(nest_.block);
      writer_.line("const i64 " + last + " = " +
                   (divides(length, nest_.block)
                        ? bound
                        : bound + " < " + size(length) + " ? " + bound + " : " + size(length)) +
                   ";");
    }
    if (nest_.columns > 1) {
      const int64_t wide = static_cast<int64_t>(nest_.columns) * nest_.lanes;
      columns_ = nest_.columns;
      write_outer_body("for (i64 " + name + " = " + first + "; " + name + " + " +
                           std::to_string(wide) + " <= " + last + "; " + name +
                           " += " + std::to_string(wide) + ")",
                       name);
      columns_ = 1;
      if (divides(length, wide) && nest_.block % wide == 0) return;
      const std::string narrow = writer_.fresh("narrow");
      writer_.line("const i64 " + narrow + " = " + first + " + (" + last + " - (" + first +
                   ")) / " + std::to_string(wide) + " * " + std::to_string(wide) + ";");
      first = narrow;
    }
    write_outer_vectors(length, first, last, blocks);
  }

  // One vector at a time from `first` to `last`, a part of the axis.
  void write_outer_vectors(sym::Int length, const std::string& first, const std::string& last,
                           bool is_part) {
    const std::string name = axis_name(nest_, nest_.vector_axis);
    const std::string lanes = std::to_string(nest_.lanes);
    const auto loop_over = [&](const std::string& variable) {
      return "for (i64 " + variable + " = " + first + "; " + variable + " < " + last + "; " +
             variable + " += " + lanes + ")";
    };
    if (divides(length, nest_.lanes)) return write_outer_body(loop_over(name), name);
    const bool is_long = sym::known_at_least(length, nest_.lanes);
    const bool is_short = sym::known_less(length, nest_.lanes);
    if (may_overlap() && !is_short) {
      const std::string at = writer_.fresh("at");
      const std::string latest = size(length - sym::Int(nest_.lanes));
      writer_.open();
      write_outer_body(loop_over(at), at + " < " + latest + " ? " + at + " : " + latest);
      const std::vector<std::string> loop = writer_.close();
      if (is_long) {
        for (const std::string& line : loop) writer_.line(line);
        return;
      }
      writer_.block("if (" + size(length) + " >= " + lanes + ")", loop);
      writer_.set_active(size(length));
      write_outer_body("else", "0");
      writer_.set_active("");
      return;
    }
    if (!is_short)
      write_outer_body("for (i64 " + name + " = " + first + "; " + name + " + " + lanes +
                           " <= " + last + "; " + name + " += " + lanes + ")",
                       name);
    const sym::Int rest = sym::mod(length, nest_.lanes);
    std::string header = is_part ? "if (" + last + " == " + size(length) + ")" : "";
    if (!rest.is_constant())
      header = (is_part ? "if (" + last + " == " + size(length) + " && " : "if (") + size(rest) +
               " > 0)";
    writer_.set_active(size(rest));
    write_outer_body(header, size(length - rest));
    writer_.set_active("");
  }

  void write_levels() {
    for (const Level& level : nest_.levels) {
      writer_.set_level(static_cast<int>(&level - nest_.levels.data()));
      if (!level.inner.empty()) write_inner(level);
      if (nest_.tile_axis >= 0)
        write_tile(level);
      else
        for_each_column([&](int) {
          for (const Step& step : level.outer) writer_.store(*step.statement);
        });
    }
  }

  // The rows of a tile; those of the last one overlap with the tile before. Where the axis may be
  // shorter than a tile, that is another case.
  void write_tile(const Level& level) {
    if (!is_tile_cut_) return write_rows(level, std::to_string(nest_.lanes));
    const std::string rows = size(sym::min(nest_.extent[nest_.tile_axis], nest_.lanes));
    const auto part = [&](const std::string& header, const std::string& count) {
      writer_.open();
      write_rows(level, count);
      const std::vector<std::string> lines = writer_.close();
      writer_.block(header, lines);
    };
    part("if (" + rows + " == " + std::to_string(nest_.lanes) + ")", std::to_string(nest_.lanes));
    writer_.set_tile_rows(rows);
    part("else", rows);
    writer_.set_tile_rows("");
  }

  void write_rows(const Level& level, const std::string& rows) {
    const int axis = nest_.tile_axis;
    const std::string name = axis_name(nest_, axis);
    writer_.open();
    writer_.line("const i64 " + name + " = " + name + "_first + row;");
    writer_.bind_axis(axis, name);
    writer_.set_tile("row", name + "_first");
    for (const Step& step : level.outer) writer_.store(*step.statement);
    writer_.set_tile("", "");
    const std::vector<std::string> body = writer_.close();
    writer_.block("for (int row = 0; row < " + rows + "; ++row)", body);
  }

  // The same for each of the vectors of outer points that are walked side by side.
  void for_each_column(const std::function<void(int)>& body) {
    if (columns_ == 1) return body(0);
    const int axis = nest_.vector_axis;
    const ExpressionWriter::Binding base = writer_.binding(axis);
    for (int column = 0; column < columns_; ++column) {
      writer_.set_column(column);
      writer_.open();
      writer_.bind_axis(axis, "(" + base.text + " + " + std::to_string(column * nest_.lanes) + ")");
      body(column);
      const std::vector<std::string> lines = writer_.close();
      if (!lines.empty()) writer_.block("", lines);
    }
    writer_.set_column(0);
    writer_.rebind(axis, base);
  }

  void write_inner(const Level& level) {
    std::vector<Reduction> reductions;
    for (int column = 0; column < columns_; ++column)
      for (const Step& step : level.inner)
        if (step.role != Step::Role::kStore)
          reductions.emplace_back(nest_, step, columns_ > 1 ? column : -1, writer_);
    sym::Int points = 1;
    for (size_t axis = nest_.outer_count; axis < nest_.extent.size(); ++axis)
      points = points * nest_.extent[axis];
    const bool empty = points == sym::Int(0);
    const int unroll = !empty && columns_ == 1 ? unroll_of(level) : 1;
    const int64_t step = (nest_.vector_is_inner() ? nest_.lanes : 1) * unroll;
    in_parts_ = (!points.is_constant() || points.constant() / step > 512) &&
                std::any_of(reductions.begin(), reductions.end(),
                            [](const Reduction& r) { return r.has_parts(); });
    for (Reduction& r : reductions) {
      if (has_total(points) && r.has_parts()) r.keep_total();
      r.declare(unroll);
    }
    if (!empty) write_inner_loop(level, reductions, 0, unroll);
    for (size_t i = 0; i < reductions.size(); ++i) {
      writer_.set_column(static_cast<int>(i * columns_ / reductions.size()));
      reductions[i].finish();
    }
    writer_.set_column(0);
  }

  // Sums of one loop of unknown length, which is mostly short.
  bool has_total(sym::Int points) const {
    return in_parts_ && !points.is_constant() && nest_.inner.size() == 1;
  }

  // Independent accumulators hide the latency of the reduction; long bodies do that by themselves.
  int unroll_of(const Level& level) const {
    std::unordered_set<ExprRef> seen;
    std::function<void(ExprRef)> visit = [&](ExprRef expr) {
      if (seen.insert(expr).second)
        for (ExprRef arg : expr->args) visit(arg);
    };
    bool reduces = false;
    for (const Step& step : level.inner) {
      if (step.role == Step::Role::kReduce && !Reduction::can_unroll(step)) return 1;
      reduces |= step.role != Step::Role::kStore;
      visit(step.statement->value);
    }
    if (!reduces || nest_.inner.empty()) return 1;
    const int axis = nest_.inner.back();
    const int64_t trips = nest_.extent[axis].hint() / (axis == nest_.vector_axis ? nest_.lanes : 1);
    for (int unroll : {4, 2})
      if (trips >= unroll && seen.size() <= (unroll == 4 ? 24 : 48)) return unroll;
    return 1;
  }

  void write_inner_loop(const Level& level, std::vector<Reduction>& reductions, size_t position,
                        int unroll) {
    if (position == nest_.inner.size()) return write_inner_body(level, reductions, 0);
    const int axis = nest_.inner[position];
    const sym::Int length = nest_.extent[axis];
    const std::string name = axis_name(nest_, axis);
    if (position + 1 < nest_.inner.size()) {
      writer_.open();
      writer_.bind_axis(axis, name);
      write_inner_loop(level, reductions, position + 1, unroll);
      const std::vector<std::string> body = writer_.close();
      writer_.block(
          "for (i64 " + name + " = 0; " + name + " < " + size(length) + "; ++" + name + ")", body);
      return;
    }
    const int step = axis == nest_.vector_axis ? nest_.lanes : 1;
    if (reductions.empty() && !divides(length, step) && may_overlap() &&
        !sym::known_less(length, step))
      return write_overlapping(level, reductions, axis);
    sym::Int done = 0;
    for (int copies : {unroll, 1}) {
      const sym::Int end = whole_parts(length, static_cast<int64_t>(step) * copies);
      if (sym::known_at_most(end, done)) continue;
      write_copies(level, reductions, axis, {done, end, step, copies, copies == unroll});
      done = end;
    }
    if (done != length) write_rest(level, reductions, axis, done);
  }

  // The elements from `done` on, fewer than lanes.
  void write_rest(const Level& level, std::vector<Reduction>& reductions, int axis, sym::Int done) {
    const sym::Int rest = nest_.extent[axis] - done;
    writer_.set_active(size(rest));
    writer_.open();
    writer_.bind_axis(axis, size(done));
    write_inner_body(level, reductions, 0);
    const std::vector<std::string> body = writer_.close();
    writer_.block(rest.is_constant() ? "" : "if (" + size(rest) + " > 0)", body);
    writer_.set_active("");
  }

  // axis = first, first + step * copies, ... : `copies` points or vectors in one iteration.
  struct Walk {
    sym::Int first, end;
    int step, copies;
    bool main;  // what comes after it is short
  };

  void write_copies(const Level& level, std::vector<Reduction>& reductions, int axis,
                    const Walk& walk) {
    const std::string name = axis_name(nest_, axis);
    const sym::Int length = walk.end - walk.first;
    const int64_t stride = static_cast<int64_t>(walk.step) * walk.copies;
    const bool once = sym::known_at_most(length, stride) && length.is_constant();
    const bool parts =
        in_parts_ && (length.is_constant() ? length.constant() >= 16 * stride : walk.main);
    const bool totals = parts && has_total(nest_.extent[axis]);
    for (Reduction& r : reductions)
      if (parts && !totals && r.has_parts()) r.set_part(true);
    writer_.open();
    for (int copy = 0; copy < walk.copies; ++copy) {
      const int64_t offset = static_cast<int64_t>(copy) * walk.step;
      std::string position = once     ? size(walk.first + sym::Int(offset))
                             : offset ? "(" + name + " + " + std::to_string(offset) + ")"
                                      : name;
      writer_.open();
      writer_.bind_axis(axis, position);
      write_inner_body(level, reductions, copy);
      const std::vector<std::string> body = writer_.close();
      if (walk.copies > 1)
        writer_.block("", body);
      else
        for (const std::string& text : body) writer_.line(text);
    }
    const std::vector<std::string> body = writer_.close();
    if (once) return writer_.block("", body);
    const auto loop = [&](const std::string& from, const std::string& to) {
      writer_.block("for (i64 " + name + " = " + from + "; " + name + " < " + to + "; " + name +
                        " += " + std::to_string(stride) + ")",
                    body);
    };
    if (!parts) return loop(size(walk.first), size(walk.end));
    writer_.open();
    for (Reduction& r : reductions)
      if (!totals && r.has_parts()) r.begin_part();
    int64_t part = 128 * stride;
    if (length.is_constant()) part = std::min(part, length.constant());
    const std::string from = name + "_part", end = size(walk.end);
    const std::string next = from + " + " + std::to_string(part);
    loop(from, divides(length, part) ? next
                                     : "(" + next + " < " + end + " ? " + next + " : " + end + ")");
    if (totals) {
      writer_.open();
      for (Reduction& r : reductions)
        if (r.has_parts()) r.move_to_total();
      const std::vector<std::string> more = writer_.close();
      writer_.block("if (" + next + " < " + end + ")", more);
    } else {
      for (Reduction& r : reductions)
        if (r.has_parts()) r.end_part();
    }
    const std::vector<std::string> lines = writer_.close();
    writer_.block("for (i64 " + from + " = " + size(walk.first) + "; " + from + " < " + end + "; " +
                      from + " += " + std::to_string(part) + ")",
                  lines);
  }

  // Where the axis may be shorter than a vector, that is another case.
  void write_overlapping(const Level& level, std::vector<Reduction>& reductions, int axis) {
    const std::string name = axis_name(nest_, axis);
    const std::string at = writer_.fresh("at");
    const sym::Int length = nest_.extent[axis];
    const std::string lanes = std::to_string(nest_.lanes);
    const std::string latest = size(length - sym::Int(nest_.lanes));
    writer_.open();
    writer_.line("const i64 " + name + " = " + at + " < " + latest + " ? " + at + " : " + latest +
                 ";");
    writer_.bind_axis(axis, name);
    write_inner_body(level, reductions, 0);
    const std::vector<std::string> body = writer_.close();
    const std::string loop =
        "for (i64 " + at + " = 0; " + at + " < " + size(length) + "; " + at + " += " + lanes + ")";
    if (sym::known_at_least(length, nest_.lanes)) return writer_.block(loop, body);
    writer_.open();
    writer_.block(loop, body);
    const std::vector<std::string> whole = writer_.close();
    writer_.block("if (" + size(length) + " >= " + lanes + ")", whole);
    writer_.set_active(size(length));
    writer_.open();
    writer_.bind_axis(axis, "0");
    write_inner_body(level, reductions, 0);
    const std::vector<std::string> rest = writer_.close();
    writer_.block("else", rest);
    writer_.set_active("");
  }

  void write_inner_body(const Level& level, std::vector<Reduction>& reductions, int copy) {
    const size_t each = reductions.size() / columns_;
    for_each_column([&](int column) {
      size_t next = column * each;
      for (const Step& step : level.inner) {
        if (step.role == Step::Role::kStore)
          writer_.store(*step.statement);
        else
          reductions[next++].accumulate(copy);
      }
    });
  }

  const Nest& nest_;
  ExpressionWriter writer_;
  int columns_ = 1;
  bool is_tile_cut_ = false;  // the tile axis may be shorter than a tile
  bool in_parts_ = false;     // of the inner loops being written: sums have a second level
};

}  // namespace

KernelText write_kernel(const Nest& nest, const std::string& symbol, Prelude& prelude) {
  return KernelWriter(nest, prelude).run(symbol);
}

}  // namespace braze::codegen::cpp
