#include "codegen/cpp/kernel_writer.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <sstream>
#include <unordered_set>

#include "base/error.h"
#include "codegen/cpp/expression.h"
#include "codegen/cpp/reduction.h"

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

  std::string run(const std::string& symbol) {
    const Kernel& kernel = *nest_.kernel;
    writer_.line("i64 failed = 0;");
    for (size_t b = 0; b < kernel.params.size(); ++b) {
      const std::string type =
          (kernel.params[b].written ? "" : "const ") + storage_type(kernel.params[b].dtype) + "*";
      writer_.line(type + " const b" + std::to_string(b) + " = (" + type + ")args[" +
                   std::to_string(b) + "];");
    }
    write_items();
    writer_.line("return failed;");
    std::string text = "\n" + description(kernel) + "extern \"C\" i64 " + symbol +
                       "(void* const* args, const i64*, i64 begin, i64 end) {\n";
    for (const std::string& line : writer_.close()) text += "  " + line + "\n";
    return text + "}\n";
  }

 private:
  // The loop over begin..end, and the counters of the outer axes that it stands for.
  void write_items() {
    struct Counter {
      std::string name;
      int64_t extent;
    };
    std::vector<Counter> counters;
    for (int axis : nest_.parallel)
      counters.push_back({axis_name(nest_, axis), nest_.extent[axis]});
    if (nest_.tiles() > 1) counters.push_back({"tile", nest_.tiles()});
    if (nest_.blocks() > 1) counters.push_back({"block", nest_.blocks()});

    const std::string one = counters.size() == 1 ? counters[0].name : "item";
    if (counters.size() > 1) {
      int64_t below = 1;
      for (auto c = counters.rbegin(); c != counters.rend(); ++c) {
        std::string start = "begin";
        if (below > 1) start += " / " + std::to_string(below);
        if (&*c != &counters.front()) start += " % " + std::to_string(c->extent);
        writer_.line("i64 " + c->name + " = " + start + ";");
        below *= c->extent;
      }
    }
    writer_.open();
    for (int axis : nest_.parallel) writer_.bind_axis(axis, axis_name(nest_, axis));
    if (nest_.tile_axis >= 0) {
      const std::string lanes = std::to_string(nest_.lanes);
      const std::string latest = std::to_string(nest_.extent[nest_.tile_axis] - nest_.lanes);
      const std::string start = nest_.tiles() > 1 ? "tile * " + lanes : "0";
      const bool exact = nest_.extent[nest_.tile_axis] % nest_.lanes == 0;
      writer_.line("const i64 " + axis_name(nest_, nest_.tile_axis) + "_first = " +
                   (exact ? start : start + " < " + latest + " ? " + start + " : " + latest) + ";");
    }
    if (nest_.vector_is_outer())
      write_outer_lanes();
    else
      write_levels();
    if (counters.size() > 1) {
      std::string step;
      for (size_t c = 0; c + 1 < counters.size(); ++c)
        step = (c == 0 ? "++" + counters[0].name + ";"
                       : "if (++" + counters[c].name + " == " + std::to_string(counters[c].extent) +
                             ") { " + counters[c].name + " = 0; " + step + " }");
      const Counter& last = counters.back();
      writer_.line("if (++" + last.name + " == " + std::to_string(last.extent) + ") { " +
                   last.name + " = 0; " + step + " }");
    }
    const std::vector<std::string> body = writer_.close();
    writer_.block("for (i64 " + one + " = begin; " + one + " < end; ++" + one + ")", body);
  }

  // Can the last vector of an axis start early and compute some elements a second time?
  bool may_overlap(int64_t length) const { return !nest_.rereads_stores && length >= nest_.lanes; }

  void write_outer_lanes() {
    const int axis = nest_.vector_axis;
    const int64_t length = nest_.extent[axis];
    const std::string name = axis_name(nest_, axis);
    const std::string lanes = std::to_string(nest_.lanes);
    std::string first = "0", last = std::to_string(length);
    if (nest_.blocks() > 1) {
      first = "block * " + std::to_string(nest_.block);
      last = writer_.fresh("last");
      const std::string bound =
          "block * " + std::to_string(nest_.block) + " + " + std::to_string(nest_.block);
      writer_.line("const i64 " + last + " = " +
                   (length % nest_.block == 0 ? bound
                                              : bound + " < " + std::to_string(length) + " ? " +
                                                    bound + " : " + std::to_string(length)) +
                   ";");
    }
    const int64_t rest = length % nest_.lanes;
    const auto body_at = [&](const std::string& header, const std::string& position) {
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
    };
    if (nest_.columns > 1) {
      const int64_t wide = static_cast<int64_t>(nest_.columns) * nest_.lanes;
      columns_ = nest_.columns;
      body_at("for (i64 " + name + " = " + first + "; " + name + " + " + std::to_string(wide) +
                  " <= " + last + "; " + name + " += " + std::to_string(wide) + ")",
              name);
      columns_ = 1;
      if (length % wide == 0 && nest_.block % wide == 0) return;
      const std::string narrow = writer_.fresh("narrow");
      writer_.line("const i64 " + narrow + " = " + first + " + (" + last + " - (" + first +
                   ")) / " + std::to_string(wide) + " * " + std::to_string(wide) + ";");
      first = narrow;
    }
    if (rest == 0) {
      body_at("for (i64 " + name + " = " + first + "; " + name + " < " + last + "; " + name +
                  " += " + lanes + ")",
              name);
      return;
    }
    if (may_overlap(length)) {
      const std::string at = writer_.fresh("at");
      body_at("for (i64 " + at + " = " + first + "; " + at + " < " + last + "; " + at +
                  " += " + lanes + ")",
              at + " < " + std::to_string(length - nest_.lanes) + " ? " + at + " : " +
                  std::to_string(length - nest_.lanes));
      return;
    }
    if (length >= nest_.lanes)
      body_at("for (i64 " + name + " = " + first + "; " + name + " + " + lanes + " <= " + last +
                  "; " + name + " += " + lanes + ")",
              name);
    writer_.set_active(static_cast<int>(rest));
    body_at(nest_.blocks() > 1 ? "if (" + last + " == " + std::to_string(length) + ")" : "",
            std::to_string(length - rest));
    writer_.set_active(0);
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

  // The rows of a tile; those of the last one overlap with the tile before.
  void write_tile(const Level& level) {
    const int axis = nest_.tile_axis;
    const std::string name = axis_name(nest_, axis);
    writer_.open();
    writer_.line("const i64 " + name + " = " + name + "_first + row;");
    writer_.bind_axis(axis, name);
    writer_.set_tile("row", name + "_first");
    for (const Step& step : level.outer) writer_.store(*step.statement);
    writer_.set_tile("", "");
    const std::vector<std::string> body = writer_.close();
    writer_.block("for (int row = 0; row < " + std::to_string(nest_.lanes) + "; ++row)", body);
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
    int64_t points = 1;
    for (size_t axis = nest_.outer_count; axis < nest_.extent.size(); ++axis)
      points *= nest_.extent[axis];
    const int unroll = points > 0 && columns_ == 1 ? unroll_of(level) : 1;
    in_parts_ = points / (nest_.vector_is_inner() ? nest_.lanes : 1) / unroll > 512 &&
                std::any_of(reductions.begin(), reductions.end(),
                            [](const Reduction& r) { return r.has_parts(); });
    for (Reduction& r : reductions) r.declare(unroll);
    if (points > 0) write_inner_loop(level, reductions, 0, unroll);
    for (size_t i = 0; i < reductions.size(); ++i) {
      writer_.set_column(static_cast<int>(i * columns_ / reductions.size()));
      reductions[i].finish();
    }
    writer_.set_column(0);
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
    const int64_t trips = nest_.extent[axis] / (axis == nest_.vector_axis ? nest_.lanes : 1);
    for (int unroll : {4, 2})
      if (trips >= unroll && seen.size() <= (unroll == 4 ? 24 : 48)) return unroll;
    return 1;
  }

  void write_inner_loop(const Level& level, std::vector<Reduction>& reductions, size_t position,
                        int unroll) {
    if (position == nest_.inner.size()) return write_inner_body(level, reductions, 0);
    const int axis = nest_.inner[position];
    const int64_t length = nest_.extent[axis];
    const std::string name = axis_name(nest_, axis);
    if (position + 1 < nest_.inner.size()) {
      writer_.open();
      writer_.bind_axis(axis, name);
      write_inner_loop(level, reductions, position + 1, unroll);
      const std::vector<std::string> body = writer_.close();
      writer_.block("for (i64 " + name + " = 0; " + name + " < " + std::to_string(length) + "; ++" +
                        name + ")",
                    body);
      return;
    }
    const int step = axis == nest_.vector_axis ? nest_.lanes : 1;
    if (reductions.empty() && length % step != 0 && may_overlap(length))
      return write_overlapping(level, reductions, axis);
    int64_t done = 0;
    for (int copies : {unroll, 1}) {
      const int64_t end = length / (step * copies) * (step * copies);
      if (end <= done) continue;
      write_copies(level, reductions, axis, done, end, step, copies);
      done = end;
    }
    if (done == length) return;
    writer_.set_active(static_cast<int>(length - done));
    write_copies(level, reductions, axis, done, length, step, 1);
    writer_.set_active(0);
  }

  // axis = first, first + step * copies, ... : `copies` points or vectors in one iteration.
  void write_copies(const Level& level, std::vector<Reduction>& reductions, int axis, int64_t first,
                    int64_t end, int step, int copies) {
    const std::string name = axis_name(nest_, axis);
    const bool once = end - first <= step * copies;
    const bool parts = in_parts_ && end - first >= 16 * step * copies;
    for (Reduction& r : reductions)
      if (parts && r.has_parts()) r.set_part(true);
    writer_.open();
    for (int copy = 0; copy < copies; ++copy) {
      const int64_t offset = static_cast<int64_t>(copy) * step;
      std::string position = once     ? std::to_string(first + offset)
                             : offset ? "(" + name + " + " + std::to_string(offset) + ")"
                                      : name;
      writer_.open();
      writer_.bind_axis(axis, position);
      write_inner_body(level, reductions, copy);
      const std::vector<std::string> body = writer_.close();
      if (copies > 1)
        writer_.block("", body);
      else
        for (const std::string& text : body) writer_.line(text);
    }
    const std::vector<std::string> body = writer_.close();
    if (once) return writer_.block("", body);
    const auto loop = [&](const std::string& from, const std::string& to) {
      writer_.block("for (i64 " + name + " = " + from + "; " + name + " < " + to + "; " + name +
                        " += " + std::to_string(step * copies) + ")",
                    body);
    };
    if (!parts) return loop(std::to_string(first), std::to_string(end));
    writer_.open();
    for (Reduction& r : reductions)
      if (r.has_parts()) r.begin_part();
    const int64_t part = std::min<int64_t>(128 * step * copies, end - first);
    const std::string from = name + "_part";
    const bool exact = (end - first) % part == 0;
    const std::string next = from + " + " + std::to_string(part);
    loop(from, exact ? next
                     : "(" + next + " < " + std::to_string(end) + " ? " + next + " : " +
                           std::to_string(end) + ")");
    for (Reduction& r : reductions)
      if (r.has_parts()) r.end_part();
    const std::vector<std::string> lines = writer_.close();
    writer_.block("for (i64 " + from + " = " + std::to_string(first) + "; " + from + " < " +
                      std::to_string(end) + "; " + from + " += " + std::to_string(part) + ")",
                  lines);
  }

  void write_overlapping(const Level& level, std::vector<Reduction>& reductions, int axis) {
    const std::string name = axis_name(nest_, axis);
    const std::string at = writer_.fresh("at");
    const std::string latest = std::to_string(nest_.extent[axis] - nest_.lanes);
    writer_.open();
    writer_.line("const i64 " + name + " = " + at + " < " + latest + " ? " + at + " : " + latest +
                 ";");
    writer_.bind_axis(axis, name);
    write_inner_body(level, reductions, 0);
    const std::vector<std::string> body = writer_.close();
    writer_.block("for (i64 " + at + " = 0; " + at + " < " + std::to_string(nest_.extent[axis]) +
                      "; " + at + " += " + std::to_string(nest_.lanes) + ")",
                  body);
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
  bool in_parts_ = false;  // of the inner loops being written: sums have a second level
};

}  // namespace

std::string write_kernel(const Nest& nest, const std::string& symbol, Prelude& prelude) {
  return KernelWriter(nest, prelude).run(symbol);
}

}  // namespace braze::codegen::cpp
