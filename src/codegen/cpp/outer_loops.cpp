#include <algorithm>

#include "base/error.h"
#include "codegen/cpp/loop_writer.h"

namespace braze::codegen::cpp {

std::string axis_name(const Nest& nest, int axis) {
  return axis < nest.outer_count ? "o" + std::to_string(axis)
                                 : "i" + std::to_string(axis - nest.outer_count);
}

std::vector<std::string> LoopWriter::write(const std::vector<std::string>& short_versions) {
  const loop::Kernel& kernel = *nest_.kernel;
  write_short_versions(short_versions);
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
  return writer_.close();
}

void LoopWriter::write_short_versions(const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    const Nest& version = nest_.short_versions[i];
    const bool exact = version.extent[nest_.vector_axis].is_constant();
    writer_.line("if (" + size(nest_.extent[nest_.vector_axis]) + (exact ? " == " : " <= ") +
                 std::to_string(version.most_elements()) + ") return " + names[i] +
                 "(args, sizes, begin, end);");
  }
}

void LoopWriter::write_items() {
  struct Counter {
    std::string name;
    sym::Int extent;
  };
  std::vector<Counter> counters;
  for (int axis : nest_.parallel) counters.push_back({axis_name(nest_, axis), nest_.extent[axis]});
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
  if (counters.size() > 1) {
    writer_.open();  // of the last counter
    const int axis = nest_.parallel.empty() ? -1 : nest_.parallel.back();
    if (axis >= 0 && axis_name(nest_, axis) == counters.back().name)
      writer_.bind_axis(axis, counters.back().name);
  }
  const std::vector<std::string> body = write_item(nest_.rows);
  std::vector<std::string> rest;
  if (nest_.rows > 1) {
    writer_.open();
    writer_.bind_axis(nest_.parallel.back(), counters.back().name);
    rest = write_item(1);
  }
  const bool at_once = nest_.place || (nest_.row_by_row && !is_trivial(nest_.blocks()));
  const auto loop = [&](const std::string& start, const std::string& name, const std::string& end) {
    if (at_once) return writer_.block("", body);
    if (nest_.rows == 1)
      return writer_.block("for (" + start + "; " + name + " < " + end + "; ++" + name + ")", body);
    const std::string rows = std::to_string(nest_.rows);
    if (!start.empty()) writer_.line(start + ";");
    writer_.block(
        "for (; " + name + " + " + rows + " <= " + end + "; " + name + " += " + rows + ")", body);
    writer_.block("for (; " + name + " < " + end + "; ++" + name + ")", rest);
  };
  if (counters.size() <= 1) return loop("i64 " + one + " = begin", one, "end");
  // A loop of its own for the last counter: what depends on the others is worked out before it.
  std::string step;
  for (size_t c = 0; c + 1 < counters.size(); ++c)
    step = (c == 0 ? "++" + counters[0].name + ";"
                   : "if (++" + counters[c].name + " == " + size(counters[c].extent) + ") { " +
                         counters[c].name + " = 0; " + step + " }");
  const std::string last = counters.back().name, extent = size(counters.back().extent);
  writer_.line("const i64 " + last + "_end = end - item < " + extent + " - " + last + " ? " + last +
               " + (end - item) : " + extent + ";");
  writer_.line("item += " + last + "_end - " + last + ";");
  loop("", last, last + "_end");
  const std::string reached = at_once ? last + "_end" : last;
  writer_.line("if (" + reached + " == " + extent + ") { " + last + " = 0; " + step + " }");
  const std::vector<std::string> lines = writer_.close();
  writer_.block("for (i64 item = begin; item < end;)", lines);
}

std::vector<std::string> LoopWriter::write_item(int rows) {
  if (nest_.rows > 1) columns_ = rows;
  if (nest_.tile_axis >= 0) write_tile_start();
  if (nest_.vector_is_outer())
    write_outer_lanes();
  else
    write_sweeps();
  columns_ = 1;
  return writer_.close();
}

void LoopWriter::write_tile_start() {
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

void LoopWriter::write_outer_body(const std::string& header, const std::string& position) {
  const int axis = nest_.vector_axis;
  const std::string name = axis_name(nest_, axis);
  writer_.open();
  std::string text = position;
  if (position != name && position != "0") {
    writer_.line("const i64 " + name + " = " + position + ";");
    text = name;
  }
  writer_.bind_axis(axis, text);
  write_sweeps();
  const std::vector<std::string> lines = writer_.close();
  writer_.block(header, lines);
}

void LoopWriter::write_outer_lanes() {
  if (nest_.vectors > 0) {
    for_each_vector(true, [&](int) { write_sweeps(); });
    return;
  }
  const sym::Int length = nest_.extent[nest_.vector_axis];
  std::string first = "0", last = size(length);
  const bool blocks = !is_trivial(nest_.blocks());
  if (blocks) {
    const std::string block = std::to_string(nest_.block);
    const auto [from, to] = own_blocks();
    first = from + " * " + block;
    last = writer_.fresh("last");
    const std::string bound = to.empty() ? first + " + " + block : to + " * " + block;
    writer_.line("const i64 " + last + " = " +
                 (divides(length, nest_.block)
                      ? bound
                      : bound + " < " + size(length) + " ? " + bound + " : " + size(length)) +
                 ";");
  }
  if (!nest_.row_by_row) return write_outer_range(first, last, blocks);
  write_within_inner(0, [&] {
    if (nest_.place) {
      const std::string place = writer_.emit(nest_.place).text;
      writer_.line("if (" + place + " < begin || " + place + " >= end) continue;");
    }
    write_outer_range(first, last, blocks);
  });
}

std::pair<std::string, std::string> LoopWriter::own_blocks() const {
  if (!nest_.row_by_row) return {"block", ""};
  const bool only = nest_.parallel.empty();
  return {only ? "begin" : "block", only ? "end" : "block_end"};
}

void LoopWriter::write_within_inner(size_t position, const std::function<void()>& body) {
  if (position == nest_.inner.size()) return body();
  const int axis = nest_.inner[position];
  const std::string name = axis_name(nest_, axis);
  writer_.open();
  writer_.bind_axis(axis, name);
  write_within_inner(position + 1, body);
  const std::vector<std::string> lines = writer_.close();
  writer_.block(
      "for (i64 " + name + " = 0; " + name + " < " + size(nest_.extent[axis]) + "; ++" + name + ")",
      lines);
}

void LoopWriter::write_outer_range(std::string first, const std::string& last, bool blocks) {
  const sym::Int length = nest_.extent[nest_.vector_axis];
  const std::string name = axis_name(nest_, nest_.vector_axis);
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
    writer_.line("const i64 " + narrow + " = " + first + " + (" + last + " - (" + first + ")) / " +
                 std::to_string(wide) + " * " + std::to_string(wide) + ";");
    first = narrow;
  }
  write_outer_vectors(length, first, last, blocks);
}

void LoopWriter::write_outer_vectors(sym::Int length, const std::string& first,
                                     const std::string& last, bool is_part) {
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
    header =
        (is_part ? "if (" + last + " == " + size(length) + " && " : "if (") + size(rest) + " > 0)";
  writer_.set_active(size(rest));
  write_outer_body(header, size(length - rest));
  writer_.set_active("");
}

void LoopWriter::for_each_vector(bool may_repeat, const std::function<void(int)>& body) {
  const int axis = nest_.vector_axis;
  // Kept rows stay in registers only where vectors do not overlap.
  may_repeat = may_repeat && may_overlap() && nest_.kept_rows.empty() && nest_.vectors > 1;
  for (int vector = 0; vector < nest_.vectors; ++vector) {
    const int64_t first = static_cast<int64_t>(vector) * nest_.lanes;
    const bool is_last = vector + 1 == nest_.vectors;
    const sym::Int position =
        is_last && may_repeat ? nest_.extent[axis] - sym::Int(nest_.lanes) : sym::Int(first);
    if (is_last && !may_repeat) writer_.set_active(size(nest_.extent[axis] - sym::Int(first)));
    writer_.open();
    writer_.bind_axis(axis, size(position));
    body(vector);
    const std::vector<std::string> lines = writer_.close();
    writer_.block("", lines);
  }
  writer_.set_active("");
}

void LoopWriter::write_sweeps() {
  for (const Sweep& sweep : nest_.sweeps) {
    writer_.set_sweep(static_cast<int>(&sweep - nest_.sweeps.data()));
    if (nest_.row_by_row) {
      std::vector<Reduction> none;
      write_inner_body(sweep, none, 0);
      continue;
    }
    if (!sweep.inner.empty()) write_inner(sweep);
    if (nest_.tile_axis >= 0)
      write_tile(sweep);
    else
      for_each_column([&](int) {
        for (const Task& task : sweep.outer) writer_.store(*task.statement);
      });
  }
}

void LoopWriter::write_tile(const Sweep& sweep) {
  if (!is_tile_cut_) return write_rows(sweep, std::to_string(nest_.lanes));
  const std::string rows = size(sym::min(nest_.extent[nest_.tile_axis], nest_.lanes));
  const auto part = [&](const std::string& header, const std::string& count) {
    writer_.open();
    write_rows(sweep, count);
    const std::vector<std::string> lines = writer_.close();
    writer_.block(header, lines);
  };
  part("if (" + rows + " == " + std::to_string(nest_.lanes) + ")", std::to_string(nest_.lanes));
  writer_.set_tile_rows(rows);
  part("else", rows);
  writer_.set_tile_rows("");
}

void LoopWriter::write_rows(const Sweep& sweep, const std::string& rows) {
  const int axis = nest_.tile_axis;
  const std::string name = axis_name(nest_, axis);
  writer_.open();
  writer_.line("const i64 " + name + " = " + name + "_first + row;");
  writer_.bind_axis(axis, name);
  writer_.set_tile("row", name + "_first");
  for (const Task& task : sweep.outer) writer_.store(*task.statement);
  writer_.set_tile("", "");
  const std::vector<std::string> body = writer_.close();
  writer_.block("for (int row = 0; row < " + rows + "; ++row)", body);
}

void LoopWriter::for_each_column(const std::function<void(int)>& body) {
  if (columns_ == 1) return body(0);
  const bool rows = nest_.rows > 1;
  const int axis = rows ? nest_.parallel.back() : nest_.vector_axis;
  const int step = rows ? 1 : nest_.lanes;
  const ExpressionWriter::Binding base = writer_.binding(axis);
  for (int column = 0; column < columns_; ++column) {
    writer_.set_column(column);
    writer_.open();
    writer_.bind_axis(axis, "(" + base.text + " + " + std::to_string(column * step) + ")");
    body(column);
    const std::vector<std::string> lines = writer_.close();
    if (!lines.empty()) writer_.block("", lines);
  }
  writer_.set_column(0);
  writer_.rebind(axis, base);
}

}  // namespace braze::codegen::cpp
