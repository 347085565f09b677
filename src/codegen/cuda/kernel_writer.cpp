#include "codegen/cuda/kernel_writer.h"

#include <algorithm>

#include "codegen/cuda/accumulate.h"
#include "codegen/cuda/expression.h"
#include "codegen/cuda/operators.h"
#include "codegen/cuda/parts.h"
#include "codegen/cuda/points.h"
#include "codegen/cuda/reductions.h"
#include "codegen/cuda/scans.h"

namespace braze::codegen::cuda {
namespace {

using loop::Statement;

class KernelWriter {
 public:
  // `block`: the name of the block's number.
  KernelWriter(const Nest& nest, KernelCode& code, std::string block = "blockIdx.x")
      : nest_(nest),
        code_(code),
        writer_(nest, code.sizes),
        points_(nest, code, writer_, std::move(block)) {}

  // The function behind its name.
  std::string write() {
    const std::vector<std::string> body = lines();
    std::string text = "(" + parameters_of(nest_, code_.sizes) + ") {\n";
    for (const std::string& line : body) text += "  " + line + "\n";
    return text + "}\n";
  }

  // What it does.
  std::vector<std::string> lines() {
    writer_.open(Level::kFunction);
    points_.begin();
    if (!points_.guard().empty()) guards_.push_back(points_.guard());
    std::vector<std::string> text = writer_.close();
    writer_.open(Level::kFunction);
    if (nest_.shape == Shape::kPoints)
      write_points();
    else
      write_groups();
    code_.shared_bytes = nest_.staged_bytes;
    if (nest_.cluster > 1) writer_.line("sync_cluster();");  // others read what this block shares
    for (std::string& line : writer_.close()) text.push_back(std::move(line));
    note_alignment();
    if (nest_.parts > 0) return with_parts(nest_, points_.loop(), text);
    return nest_.own_parts.empty() ? text : with_own_parts(nest_, points_.loop(), text);
  }

 private:
  void write_points() {
    std::vector<const Statement*> statements;
    for (const Statement& statement : nest_.kernel->body) statements.push_back(&statement);
    for (const Statement* statement : statements) writer_.note_stored(*statement);
    if (nest_.lanes > 1) {
      if (nest_.has_tail) writer_.line("const i32 count = " + lane_count() + ";");
      return write_lanes(statements);
    }
    for (const Statement* statement : statements) store(*statement);
  }

  std::string lane_count() {
    const std::string lanes = std::to_string(nest_.lanes);
    const std::string rest =
        writer_.size(nest_.extent[nest_.vector_axis], true) + " - " + writer_.base();
    return rest + " < " + lanes + " ? (i32)(" + rest + ") : " + lanes;
  }

  // With scans, the threads of a column take other points from one walk to the next.
  void write_groups() {
    if (!nest_.staged.empty()) write_copies();
    for (const auto& group : nest_.groups) {
      const bool waits = nest_.scan_rounds > 0 && nest_.shape == Shape::kColumns;
      if (waits && group != nest_.groups.front()) writer_.line("__syncthreads();");
      write_group(group);
    }
  }

  void write_group(const std::vector<const Statement*>& group) {
    if (!group[0]->inner) {
      guards_.push_back("lane == 0");
      if (nest_.has_packed_columns())
        write_lanes(group);
      else
        store(*group[0]);
      guards_.pop_back();
      writer_.note_stored(*group[0]);
      return;
    }
    for (const Statement* statement : group)
      if (statement->is_reduction()) begin_reduction(*statement);
    write_walk(group);
    for (const Statement* statement : group)
      if (statement->is_reduction()) end_reduction(*statement);
  }

  std::string accumulator(const Statement& reduction) const {
    return "a" + std::to_string(reduction.reduced);
  }
  std::string accumulator_type(const Statement& s) const {
    return type_of_accumulator(nest_, s, finds_place(s) && !points_.is_wide(nest_.inner_points()));
  }
  // Gives it those that have been gathered, of which the first has this place, and the next ones
  // are `step` further each.
  std::string add_pack(const Statement& s, const std::string& first, const std::string& step) {
    return accumulator(s) + ".add_pack(" + packs_of_reductions_[&s] +
           (finds_place(s) ? ", " + first + ", " + step : "") + ");";
  }
  void begin_reduction(const Statement& s) {
    if (nest_.soft_sums.contains(&s)) return;
    const std::string type = accumulator_type(s), name = accumulator(s);
    if (!nest_.has_packed_columns()) {
      writer_.line(type + " " + name + " = " + type + "::none();");
      return;
    }
    const std::string lanes = std::to_string(nest_.lanes);
    writer_.line(type + " " + name + "[" + lanes + "];");
    writer_.line("#pragma unroll");
    writer_.line("for (i32 v = 0; v < " + lanes + "; ++v) " + name + "[v] = " + type + "::none();");
  }
  void end_reduction(const Statement& s) {
    if (const auto joined = nest_.soft_sums.find(&s); joined != nest_.soft_sums.end()) {
      const std::string both = accumulator(*joined->second);
      writer_.line(both + ".finish();");
      writer_.bind_result(s, both + ".sum");
      return;
    }
    const std::string name = accumulator(s), type = accumulator_type(s);
    const std::string sharers = std::to_string(nest_.sharers);
    const bool packed = nest_.has_packed_columns();
    writer_.bind_result(s, name + (packed ? "[v]" : nest_.is_soft_maximum(s) ? ".top" : ""));
    if (nest_.sharers == 1) return;
    if (nest_.shape == Shape::kRows && nest_.sharers <= kThreadsOfWarp) {
      writer_.line(name + " = over_lanes<" + sharers + ">(" + name + ");");
      return;
    }
    const bool rows = nest_.shape == Shape::kRows;
    const int warps = nest_.sharers / nest_.cluster / kThreadsOfWarp;
    const int count = nest_.cluster > 1 ? nest_.cluster * (warps + 1)
                      : rows            ? warps
                                        : nest_.sharers * kColumnsOfBlock * nest_.lanes;
    const std::string shared = "shared" + std::to_string(s.reduced);
    writer_.line("__shared__ " + type + " " + shared + "[" + std::to_string(count) + "];");
    if (packed) {
      writer_.line("over_columns<" + sharers + ", " + std::to_string(nest_.lanes) + ">(" + name +
                   ", " + shared + ");");
      return;
    }
    if (nest_.cluster > 1) {
      writer_.line(name + " = over_cluster<" + std::to_string(warps) + ", " +
                   std::to_string(nest_.cluster) + ">(" + name + ", " + shared + ");");
      return;
    }
    writer_.line(name + " = " +
                 (rows ? "over_block<" + std::to_string(warps) : "over_columns<" + sharers) + ">(" +
                 name + ", " + shared + ");");
  }

  // A thread copies what it reads later, and waits for nobody else.
  void write_copies() {
    const sym::Int packs = nest_.inner_steps();
    const bool wide = points_.is_wide(packs);
    writer_.line("u8* const staged = shared_memory();");
    writer_.open(Level::kWalk);
    bind_step(wide);
    for (const auto& [load, begin] : nest_.staged) writer_.copy_ahead(load, begin);
    write_steps(packs, wide, writer_.close(), 4);
    writer_.line("wait_for_copies();");
  }

  // The axes of a step, and its place among those of this thread's block.
  void bind_step(bool wide) {
    points_.bind_inner(wide);
    if (nest_.staged.empty()) return;
    const std::string threads = std::to_string(nest_.threads_of_block()) + "u";
    writer_.line("const u32 slot = (u32)step / " + std::to_string(nest_.sharers) + "u * " +
                 threads + " + threadIdx.x;");
  }

  // All inner points of this thread.
  void write_walk(const std::vector<const Statement*>& group) {
    const sym::Int packs = nest_.inner_steps();
    const bool wide = points_.is_wide(packs);
    if (const auto scans = scans_of(*nest_.kernel, group); !scans.empty())
      return write_walk_of_scans(group, scans);
    const auto step = [&](const char* element) {
      writer_.open(Level::kWalk);
      bind_step(wide);
      write_step(group, element);
      return writer_.close();
    };
    const std::vector<std::string> body = step("");
    if (nest_.lanes == 1 &&
        std::ranges::any_of(group, [&](auto* s) { return takes_packs(nest_, *s); })) {
      const int64_t whole = packs.is_constant() ? packs.constant() / nest_.sharers : 0;
      constexpr int64_t kTogether = 8;
      const int64_t count = nest_.rounds == 0 ? kTogether : whole;
      if (count > 1 && nest_.parts == 0)
        return write_steps_together(group, packs, wide, body, step("round"), count);
    }
    if (const int64_t count = packs_together(group); count > 1)
      return write_packs_together(group, packs, wide, body, count);
    const auto loads = std::ranges::count_if(
        body, [](const std::string& line) { return line.find("load_pack") != std::string::npos; });
    write_steps(packs, wide, body, nest_.lanes > 1 && loads > 1 ? 2 : 4);
  }

  // Packs that go to accumulators at once where a thread has any number of them: bringing a mean up
  // to date takes a division, which 16 elements share.
  int64_t packs_together(const std::vector<const Statement*>& group) const {
    constexpr int64_t kElements = 16;
    const bool have_means = std::ranges::any_of(
        group, [](auto* s) { return s->is_reduction() && s->op == loop::ReduceOp::kWelford; });
    const bool fit = std::ranges::none_of(group, [](auto* s) { return finds_place(*s); });
    return have_means && fit && nest_.lanes > 1 && nest_.rounds == 0 && !nest_.shift &&
                   !nest_.has_tail && nest_.parts == 0
               ? kElements / nest_.lanes
               : 1;
  }

  // `body`: a step of one pack.
  void write_packs_together(const std::vector<const Statement*>& group, sym::Int packs, bool wide,
                            const std::vector<std::string>& body, int64_t count) {
    together_ = static_cast<int>(count);
    writer_.open(Level::kWalk);
    bind_step(wide);
    write_step(group, "");
    const std::vector<std::string> gathered = writer_.close();
    together_ = 1;
    write_steps_together(group, packs, wide, body, gathered, count);
  }

  void write_walk_of_scans(const std::vector<const Statement*>& group,
                           const std::vector<const Statement*>& scans) {
    const bool wide = points_.is_wide(nest_.inner_points());
    write_scans({nest_, writer_, wide ? "u64" : "u32", points_.number(nest_.inner_steps(), wide),
                 [&] { points_.bind_inner(wide); }, [&] { write_step(group, ""); }},
                scans);
  }
  void write_step(const std::vector<const Statement*>& group, const std::string& element) {
    if (nest_.lanes > 1) return write_lanes(group);
    for (const Statement* statement : group) run(*statement, "step", element);
  }

  // Steps of one element each, `count` at a time for reductions that take several, and what is left
  // one by one. `gathered`: a step that is number `round` of these.
  void write_steps_together(const std::vector<const Statement*>& group, sym::Int steps, bool wide,
                            const std::vector<std::string>& body,
                            const std::vector<std::string>& gathered, int64_t count) {
    const std::string type = wide ? "u64" : "u32", end = points_.number(steps, wide);
    const std::string sharers = std::to_string(nest_.sharers) + "u", first = writer_.fresh("first");
    writer_.line(type + " " + first + " = lane;");
    std::vector<std::string> together;
    for (const Statement* s : group)
      if (takes_packs(nest_, *s))
        together.push_back(accumulator_type(*s) + "::element " + packs_of_reductions_[s] + "[" +
                           std::to_string(count * nest_.lanes) + "];");
    together.push_back("#pragma unroll");
    together.push_back("for (u32 round = 0; round < " + std::to_string(count) + "; ++round) {");
    together.push_back("  const " + type + " step = " + first + " + round * " + sharers + ";");
    for (const std::string& line : gathered) together.push_back("  " + line);
    together.push_back("}");
    for (const Statement* s : group)
      if (takes_packs(nest_, *s)) together.push_back(add_pack(*s, first, sharers));
    together.push_back(first + " += " + std::to_string(count) + "u * " + sharers + ";");
    writer_.block(nest_.rounds > 0 ? ""
                                   : "while (" + first + " + " + std::to_string(count - 1) +
                                         "u * " + sharers + " < " + end + ")",
                  together);
    writer_.block(
        "for (" + type + " step = " + first + "; step < " + end + "; step += " + sharers + ")",
        body);
  }

  // The threads that share an outer point take its packs in turn. Where each takes a few, the loop
  // is unrolled; what only some of them have at its end stands apart, so that nothing else waits
  // for a branch.
  void write_steps(sym::Int packs, bool wide, const std::vector<std::string>& body, int unrolled) {
    const std::string type = wide ? "u64" : "u32", end = points_.end_of_steps(wide);
    const std::string sharers = std::to_string(nest_.sharers);
    if (nest_.rounds == 0) {
      writer_.line("#pragma unroll " + std::to_string(unrolled));
      writer_.block("for (" + type + " step = lane; step < " + end + "; step += " + sharers + ")",
                    body);
      return;
    }
    // Of shifted rows the least that one takes.
    const int64_t least = nest_.packs(nest_.inner_points()).constant();
    const int64_t whole = (nest_.shift ? least : packs.constant()) / nest_.sharers;
    std::vector<std::string> round = {"const u32 step = round * " + sharers + "u + lane;"};
    round.insert(round.end(), body.begin(), body.end());
    if (whole > 0) {
      writer_.line("#pragma unroll");
      writer_.block("for (u32 round = 0; round < " + std::to_string(whole) + "; ++round)", round);
    }
    if (whole == nest_.rounds) return;
    std::vector<std::string> last;
    if (nest_.parts > 0) last.push_back("constexpr u32 round = " + std::to_string(whole) + ";");
    last.insert(last.end(), body.begin(), body.end());
    writer_.block("if (const u32 step = " + std::to_string(whole) + " * " + sharers +
                      "u + lane; step < " + end + ")",
                  last);
  }

  // The points of a pack.
  void write_lanes(const std::vector<const Statement*>& statements) {
    const std::string lanes = std::to_string(nest_.lanes);
    std::vector<std::string> after;
    for (const Statement* s : statements) {
      if (s->is_part()) continue;
      if (s->combines() ? adds_lanes(nest_, *s) : s->is_store() && writer_.is_packed(s->index))
        after.push_back(s->combines() ? declare_sums(*s) : declare_pack(*s));
      if (!takes_packs(nest_, *s) || together_ > 1) continue;
      const std::string pack = name_pack(*s);
      writer_.line(accumulator_type(*s) + "::element " + pack + "[" + lanes + "];");
      if (nest_.shift)
        add_shifted(*s, after);
      else
        after.push_back(add_pack(*s, "step * " + lanes, "1"));
    }
    writer_.open(Level::kLanes);
    if (nest_.has_tail) writer_.line("if (v >= count) break;");
    writer_.bind_axis(nest_.vector_axis, writer_.base() + " + v");
    const std::string guard = nest_.shift ? "if ((u32)" + writer_.axis(nest_.vector_axis) +
                                                " >= " + row_length() + "u) continue;"
                                          : "";
    if (!guard.empty()) writer_.line(guard);
    const std::string place = nest_.has_packed_columns() ? "step"
                              : nest_.shift              ? writer_.axis(nest_.vector_axis)
                                                         : "step * " + lanes + " + v";
    const std::string element = together_ > 1 ? "round * " + lanes + " + v" : "v";
    for (const Statement* s : statements) run(*s, place, element);
    std::vector<std::string> body = writer_.close();
    if (!guard.empty() && is_harmless(statements, body)) std::erase(body, guard);
    writer_.line("#pragma unroll");
    writer_.block("for (i32 v = 0; v < " + lanes + "; ++v)", body);
    for (const std::string& line : after) writer_.line(line);
  }

  // Whether lanes that are no points of a shifted row may be computed, too: what is theirs goes to
  // packs, whose ends are cut, and no element is read alone.
  bool is_harmless(const std::vector<const Statement*>& statements,
                   const std::vector<std::string>& body) const {
    const bool in_packs = std::ranges::all_of(statements, [&](const Statement* s) {
      return s->is_store() ? s->overwrites() && writer_.is_packed(s->index)
                           : takes_packs(nest_, *s) || nest_.soft_sums.contains(s);
    });
    return in_packs && std::ranges::none_of(body, [&](const std::string& line) {
             if (line.find("check_index(") != std::string::npos) return true;
             for (size_t p = 0; p < nest_.kernel->params.size(); ++p)
               if (line.find(" p" + std::to_string(p) + "[") != std::string::npos) return true;
             return false;
           });
  }

  const std::string& name_pack(const Statement& reduction) {
    std::string& name = packs_of_reductions_[&reduction];
    if (name.empty()) name = writer_.fresh("x");
    return name;
  }
  std::string pack_name(const Statement& s) const {
    return "out" + std::to_string(&s - nest_.kernel->body.data());
  }
  // Declares the pack that a store fills, and returns the line that stores it.
  std::string declare_pack(const Statement& s) {
    const std::string lanes = std::to_string(nest_.lanes), name = pack_name(s);
    writer_.use_pack(s.buffer);
    writer_.line("Pack<" + storage_type_of(s.value->dtype) + ", " + lanes + "> " + name + ";");
    return guarded("store_pack<" + lanes + ">(p" + std::to_string(s.buffer) + " + " +
                   writer_.emit_at_base(s.index) + ", " + name +
                   (nest_.has_tail ? ", count);"
                    : nest_.shift  ? ", -" + writer_.base() + ", " + row_length() + " - " +
                                        writer_.base() + ");"
                                  : ");"));
  }

  // Points of a shifted row.
  std::string row_length() const {
    return std::to_string(nest_.extent[nest_.vector_axis].constant());
  }
  // Of the first and the last pack of a shifted row those that are points of it.
  void add_shifted(const Statement& s, std::vector<std::string>& lines) {
    const std::string base = writer_.base(), lanes = std::to_string(nest_.lanes);
    lines.push_back("if (" + base + " >= 0 && " + base + " + " + lanes + " <= " + row_length() +
                    ") {");
    lines.push_back("  " + add_pack(s, base, "1"));
    lines.push_back("} else {");
    lines.push_back("#pragma unroll");
    lines.push_back("  for (i32 v = 0; v < " + lanes + "; ++v)");
    lines.push_back("    if ((u32)(" + base + " + v) < " + row_length() + "u) " + accumulator(s) +
                    ".add(" + packs_of_reductions_[&s] + "[v], " + base + " + v);");
    lines.push_back("}");
  }

  // The same of sums.
  std::string declare_sums(const Statement& s) {
    const std::string out = pack_name(s), places = out + "_at";
    for (const std::string& line : arrays_of_sums(nest_, s, out, places)) writer_.line(line);
    const bool packs = adds_packs(nest_, s);
    if (packs) writer_.use_pack(s.buffer);
    return guarded(sums_of_lanes(nest_, s, out, places, packs ? writer_.emit_at_base(s.index) : "",
                                 nest_.has_tail ? ", count" : ""));
  }

  void accumulate(const Statement& s, const std::string& value) {
    const bool of_lanes = nest_.lanes > 1 && (nest_.shape != Shape::kRows || s.inner);
    if (of_lanes && adds_lanes(nest_, s)) {
      writer_.line(pack_name(s) + "[v] = " + value + ";");
      if (!adds_packs(nest_, s))
        writer_.line(pack_name(s) + "_at[v] = " + writer_.emit(s.index) + ";");
      return;
    }
    writer_.line(guarded(accumulation(nest_, s, writer_.emit(s.index), value)));
  }

  // `position`: of an inner point, in row-major order.
  // `element`: its place among those that a reduction takes together; empty: it is alone.
  void run(const Statement& s, const std::string& position, const std::string& element) {
    if (s.is_store()) return store(s);
    if (nest_.soft_sums.contains(&s)) return;  // with its maximum
    if (adds_product(s))
      return writer_.line(accumulator(s) + (nest_.has_packed_columns() ? "[v]" : "") +
                          ".add_product(" + writer_.emit(s.value->args[0]) + ", " +
                          writer_.emit(s.value->args[1]) + ");");
    const std::string value =
        sums_exponentials_of_halves(nest_, s) ? writer_.emit_near(s.value) : writer_.emit(s.value);
    if (takes_packs(nest_, s) && !element.empty())
      return writer_.line(name_pack(s) + "[" + element + "] = " + value + ";");
    writer_.line(accumulator(s) + (nest_.has_packed_columns() ? "[v]" : "") + ".add(" + value +
                 ", " + position + ");");
  }

  void store(const Statement& s) {
    if (s.is_part()) {
      std::vector<std::string> factors;
      if (adds_product(s))
        for (loop::ExprRef factor : s.value->args) factors.push_back(writer_.emit(factor));
      else
        factors.push_back(writer_.emit(s.value));
      return writer_.line(guarded(add_to_part(nest_, s, nest_.lanes > 1 ? "v" : "0", factors)));
    }
    const std::string value = writer_.emit(s.value);
    if (s.combines()) return accumulate(s, value);
    if (nest_.lanes > 1 && (nest_.shape != Shape::kRows || s.inner) && writer_.is_packed(s.index)) {
      writer_.line(pack_name(s) + ".v[v] = " + value + ";");
      return;
    }
    const std::string index = writer_.emit(s.index);
    writer_.line(guarded("p" + std::to_string(s.buffer) + "[" + index + "] = " + value + ";"));
  }

  std::string guarded(const std::string& statement) const {
    std::string condition;
    for (const std::string& guard : guards_) condition += (condition.empty() ? "" : " && ") + guard;
    return condition.empty() ? statement : "if (" + condition + ") " + statement;
  }

  void note_alignment() {
    code_.alignment.assign(nest_.kernel->params.size(), 1);
    for (int buffer : writer_.packed())
      code_.alignment[buffer] = static_cast<int32_t>(std::min<int64_t>(
          kPackBytes, graph::size_of(nest_.kernel->params[buffer].dtype) * nest_.lanes));
  }

  const Nest& nest_;
  KernelCode& code_;
  ExpressionWriter writer_;
  PointWriter points_;
  int together_ = 1;                 // packs that accumulators are given at once
  std::vector<std::string> guards_;  // what must hold for this thread to store
  std::unordered_map<const Statement*, std::string> packs_of_reductions_;
};

}  // namespace

std::vector<std::string> kernel_lines(const Nest& nest, KernelCode& code,
                                      const std::string& block) {
  return KernelWriter(nest, code, block).lines();
}

KernelCode write_kernel(const Nest& nest, const std::string& name) {
  KernelCode code{.name = name};
  const std::string function = KernelWriter(nest, code).write();
  code.limits = nest.limits;
  return finished(nest, std::move(code), function);
}

}  // namespace braze::codegen::cuda
