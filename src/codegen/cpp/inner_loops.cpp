#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "codegen/cpp/loop_writer.h"

namespace braze::codegen::cpp {

using loop::ExprRef;

namespace {

// Iterations of a loop around the innermost one whose sums are added up before they are added to
// those of the iterations before.
constexpr int64_t kBlock = 64;

// length less what is left when it is cut into parts.
sym::Int whole_parts(sym::Int length, int64_t part) { return sym::floordiv(length, part) * part; }

}  // namespace

void LoopWriter::write_inner(const Sweep& sweep) {
  std::vector<Reduction> reductions;
  for (int column = 0; column < columns_; ++column)
    for (const Task& task : sweep.inner)
      if (task.is_reduction())
        reductions.emplace_back(nest_, task, columns_ > 1 ? column : -1, writer_);
  sym::Int points = 1;
  for (size_t axis = nest_.outer_count; axis < nest_.extent.size(); ++axis)
    points = points * nest_.extent[axis];
  const bool empty = points == sym::Int(0);
  const int unroll = !empty && columns_ == 1 ? unroll_of(sweep) : 1;
  const int64_t step = (nest_.vector_is_inner() ? nest_.lanes : 1) * unroll;
  in_parts_ = nest_.longest == 0 && (nest_.vectors == 0 || nest_.inner.size() > 1) &&
              (!points.is_constant() || points.constant() / step > 512) &&
              std::any_of(reductions.begin(), reductions.end(),
                          [](const Reduction& r) { return r.has_parts(); });
  for (Reduction& r : reductions) {
    if (has_total(points) && r.has_parts()) r.keep_totals(nest_.inner.size() == 1 ? 1 : 2);
    r.declare(unroll);
  }
  declare_scans(sweep);
  if (!empty) write_inner_loop(sweep, reductions, 0, unroll);
  for (size_t i = 0; i < reductions.size(); ++i) {
    writer_.set_column(static_cast<int>(i * columns_ / reductions.size()));
    reductions[i].finish();
  }
  writer_.set_column(0);
  correct_variances(sweep, reductions);
}

void LoopWriter::correct_variances(const Sweep& sweep, std::vector<Reduction>& reductions) {
  Sweep correction, again;
  for (const Task& task : sweep.inner) {
    if (task.role == Task::Role::kScan) {  // what is added up may read it
      correction.inner.push_back(task);
      again.inner.push_back(task);
    }
    if (task.role != Task::Role::kSquares || !task.may_be_corrected) continue;
    correction.inner.push_back({Task::Role::kCorrection, task.statement});
    again.inner.push_back({Task::Role::kSquaresAgain, task.statement});
  }
  std::string any;
  for (Reduction& r : reductions)
    if (r.may_be_corrected()) any += (any.empty() ? "" : " || ") + r.write_whether_corrected();
  if (any.empty()) return;
  writer_.open();
  write_inner(correction);
  write_inner(again);
  for (Reduction& r : reductions)
    if (r.may_be_corrected()) r.write_corrected();
  const std::vector<std::string> lines = writer_.close();
  writer_.block("if (" + any + ")", lines);
}

bool LoopWriter::has_total(sym::Int points) const {
  if (nest_.inner.size() == 1) return in_parts_ && !points.is_constant();
  return std::any_of(nest_.inner.begin(), nest_.inner.end() - !nest_.inner.empty(),
                     [&](int axis) { return is_summed_in_blocks(axis); });
}

bool LoopWriter::is_summed_in_blocks(int axis) const {
  return in_parts_ && axis != nest_.inner.back() && !sym::known_at_most(nest_.extent[axis], kBlock);
}

int LoopWriter::unroll_of(const Sweep& sweep) const {
  std::unordered_set<ExprRef> seen;
  std::function<void(ExprRef)> visit = [&](ExprRef expr) {
    if (seen.insert(expr).second)
      for (ExprRef arg : expr->args) visit(arg);
  };
  bool reduces = false;
  for (const Task& task : sweep.inner) {
    if (task.role == Task::Role::kReduce && !Reduction::can_unroll(task)) return 1;
    // The points of a scan stay in their order; several in one iteration save the loop's own work.
    reduces |= task.role != Task::Role::kStore &&
               !(task.role == Task::Role::kScan && chooses(*task.statement));
    visit(task.statement->value);
  }
  if (!reduces || nest_.inner.empty()) return 1;
  const int axis = nest_.inner.back();
  const int64_t trips =
      nest_.vectors > 0 && axis == nest_.vector_axis
          ? nest_.vectors / 2  // two in a row cost less than a second accumulator
          : nest_.extent[axis].hint() / (axis == nest_.vector_axis ? nest_.lanes : 1);
  for (int unroll : {4, 2})
    if (trips >= unroll && seen.size() <= (unroll == 4 ? 24 : 48)) return unroll;
  return 1;
}

void LoopWriter::write_inner_loop(const Sweep& sweep, std::vector<Reduction>& reductions,
                                  size_t position, int unroll) {
  if (position == nest_.inner.size()) return write_inner_body(sweep, reductions, 0);
  const int axis = nest_.inner[position];
  const sym::Int length = nest_.extent[axis];
  const std::string name = axis_name(nest_, axis);
  if (position + 1 < nest_.inner.size()) {
    writer_.open();
    writer_.bind_axis(axis, name);
    write_inner_loop(sweep, reductions, position + 1, unroll);
    if (is_summed_in_blocks(axis)) write_end_of_block(reductions, name);
    const std::vector<std::string> body = writer_.close();
    writer_.block("for (i64 " + name + " = 0; " + name + " < " + size(length) + "; ++" + name + ")",
                  body);
    return;
  }
  if (nest_.vectors > 0) {
    for_each_vector(reductions.empty(),
                    [&](int vector) { write_inner_body(sweep, reductions, vector % unroll); });
    return;
  }
  const int step = axis == nest_.vector_axis ? nest_.lanes : 1;
  if (reductions.empty() && !divides(length, step) && may_overlap() &&
      !sym::known_less(length, step))
    return write_overlapping(sweep, reductions, axis);
  sym::Int done = 0;
  for (int copies : {unroll, 1}) {
    const sym::Int end = whole_parts(length, static_cast<int64_t>(step) * copies);
    if (sym::known_at_most(end, done)) continue;
    write_copies(sweep, reductions, axis, {done, end, step, copies, copies == unroll});
    done = end;
  }
  if (done != length) write_rest(sweep, reductions, axis, done);
}

void LoopWriter::write_end_of_block(std::vector<Reduction>& reductions, const std::string& name) {
  const auto last_of = [&](int64_t length) {
    return "if (" + name + " % " + std::to_string(length) + " == " + std::to_string(length - 1) +
           ")";
  };
  writer_.open();
  for (Reduction& r : reductions)
    if (r.has_parts()) r.move_to_total(0);
  writer_.open();
  for (Reduction& r : reductions)
    if (r.has_parts()) r.move_to_total(1);
  const std::vector<std::string> inner = writer_.close();
  writer_.block(last_of(kBlock * kBlock), inner);
  const std::vector<std::string> lines = writer_.close();
  writer_.block(last_of(kBlock), lines);
}

void LoopWriter::write_rest(const Sweep& sweep, std::vector<Reduction>& reductions, int axis,
                            sym::Int done) {
  const sym::Int rest = nest_.extent[axis] - done;
  writer_.set_active(size(rest));
  writer_.open();
  writer_.bind_axis(axis, size(done));
  write_inner_body(sweep, reductions, 0);
  const std::vector<std::string> body = writer_.close();
  writer_.block(rest.is_constant() ? "" : "if (" + size(rest) + " > 0)", body);
  writer_.set_active("");
}

void LoopWriter::write_copies(const Sweep& sweep, std::vector<Reduction>& reductions, int axis,
                              const Walk& walk) {
  const std::string name = axis_name(nest_, axis);
  const sym::Int length = walk.end - walk.first;
  const int64_t stride = static_cast<int64_t>(walk.step) * walk.copies;
  const bool once = sym::known_at_most(length, stride) && length.is_constant();
  const bool parts =
      in_parts_ && (length.is_constant() ? length.constant() >= 16 * stride : walk.main);
  const bool totals = parts && nest_.inner.size() == 1 && has_total(nest_.extent[axis]);
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
    write_inner_body(sweep, reductions, copy);
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
  loop(from,
       divides(length, part) ? next : "(" + next + " < " + end + " ? " + next + " : " + end + ")");
  if (totals) {
    writer_.open();
    for (Reduction& r : reductions)
      if (r.has_parts()) r.move_to_total(0);
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

void LoopWriter::write_overlapping(const Sweep& sweep, std::vector<Reduction>& reductions,
                                   int axis) {
  const std::string name = axis_name(nest_, axis);
  const std::string at = writer_.fresh("at");
  const sym::Int length = nest_.extent[axis];
  const std::string lanes = std::to_string(nest_.lanes);
  const std::string latest = size(length - sym::Int(nest_.lanes));
  writer_.open();
  writer_.line("const i64 " + name + " = " + at + " < " + latest + " ? " + at + " : " + latest +
               ";");
  writer_.bind_axis(axis, name);
  write_inner_body(sweep, reductions, 0);
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
  write_inner_body(sweep, reductions, 0);
  const std::vector<std::string> rest = writer_.close();
  writer_.block("else", rest);
  writer_.set_active("");
}

void LoopWriter::write_inner_body(const Sweep& sweep, std::vector<Reduction>& reductions,
                                  int copy) {
  const size_t each = reductions.size() / columns_;
  for_each_column([&](int column) {
    size_t next = column * each;
    begin_scans(sweep, column);
    for (const Task& task : sweep.inner) {
      switch (task.role) {
        case Task::Role::kStore:
          writer_.store(*task.statement);
          break;
        case Task::Role::kScan:
          write_scan(*task.statement, column);
          break;
        case Task::Role::kReduce:
        case Task::Role::kMean:
        case Task::Role::kSquares:
        case Task::Role::kCorrection:
        case Task::Role::kSquaresAgain:
          reductions[next++].accumulate(copy);
          break;
      }
    }
    end_scans(sweep, column);
  });
}

void LoopWriter::declare_scans(const Sweep& sweep) {
  running_.clear();
  const bool lanes = nest_.vector_axis >= 0;
  for (int column = 0; column < columns_; ++column)
    for (const Task& task : sweep.inner) {
      if (task.role != Task::Role::kScan) continue;
      const loop::Statement& scan = *task.statement;
      const std::string stem = "r" + std::to_string(scan.reduced);
      Running& running = running_[{column, scan.reduced}];
      running = {writer_.fresh(stem + "_before"), writer_.fresh(stem + "_now")};
      const Operand initial = writer_.emit(scan.initial);
      writer_.line(writer_.type_of(scan.accumulate, lanes) + " " + running.before + " = " +
                   (lanes ? writer_.as_vector(initial, scan.accumulate) : initial.text) + ";");
    }
}

void LoopWriter::begin_scans(const Sweep& sweep, int column) {
  const bool lanes = nest_.vector_axis >= 0;
  for (const Task& task : sweep.inner) {
    if (task.role != Task::Role::kScan) continue;
    const int number = task.statement->reduced;
    const Running& running = running_.at({column, number});
    writer_.bind_reduced(number, 0, {running.now, lanes, true});
    writer_.bind_reduced(number, 1, {running.before, lanes, true});
  }
}

void LoopWriter::write_scan(const loop::Statement& scan, int column) {
  const bool lanes = nest_.vector_axis >= 0;
  const graph::DType dtype = scan.accumulate;
  const Operand value = writer_.cast(writer_.emit(scan.value), writer_.dtype_of(scan.value), dtype);
  writer_.line("const " + writer_.type_of(dtype, lanes) + " " +
               running_.at({column, scan.reduced}).now + " = " +
               (lanes ? writer_.as_vector(value, dtype) : value.text) + ";");
}

void LoopWriter::end_scans(const Sweep& sweep, int column) {
  for (const Task& task : sweep.inner) {
    if (task.role != Task::Role::kScan) continue;
    const Running& running = running_.at({column, task.statement->reduced});
    writer_.line(running.before + " = " + running.now + ";");
  }
}

}  // namespace braze::codegen::cpp
