#include "codegen/cuda/kernel_writer.h"

#include <algorithm>

#include "codegen/cuda/expression.h"
#include "codegen/cuda/operators.h"
#include "codegen/cuda/scans.h"

namespace braze::codegen::cuda {
namespace {

using loop::Statement;

class KernelWriter {
 public:
  // `block`: the name of the block's number.
  KernelWriter(const Nest& nest, KernelCode& code, std::string block = "blockIdx.x")
      : nest_(nest), code_(code), block_(std::move(block)), writer_(nest, code.sizes) {}

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
    std::vector<std::string> text = writer_.close();
    writer_.open(Level::kFunction);
    if (nest_.shape == Shape::kPoints)
      write_points();
    else
      write_groups();
    if (nest_.cluster > 1) writer_.line("sync_cluster();");  // others read what this block shares
    for (std::string& line : writer_.close()) text.push_back(std::move(line));
    note_alignment();
    return text;
  }

 private:
  // Numbers of threads, packs or points: in 32 bits where they sufficed when traced.
  bool is_wide(sym::Int count) const {
    const sym::Int end = count + sym::Int(kMostThreads);
    if (end.hint() > INT32_MAX) return true;
    if (!end.is_constant() && std::ranges::find(nest_.limits, end) == nest_.limits.end())
      nest_.limits.push_back(end);
    return false;
  }
  std::string number(sym::Int value, bool wide) {
    if (value.is_constant()) return std::to_string(value.constant()) + (wide ? "ull" : "u");
    return (wide ? "(u64)" : "(u32)") + writer_.size(value, true);
  }

  sym::Int steps_along(int axis) const {
    const sym::Int extent = nest_.extent[axis];
    return axis == nest_.vector_axis ? nest_.packs(extent) : extent;
  }
  std::string axis_count(int axis, bool wide) { return number(steps_along(axis), wide); }
  void bind(int axis, const std::string& text) {
    if (axis == nest_.vector_axis)
      writer_.bind_base(text + " * " + std::to_string(nest_.lanes));
    else
      writer_.bind_axis(axis, text);
  }
  // The axes [begin, end) of a point, or of a pack, by its number in row-major order; those of a
  // tile are left out.
  void bind_axes(int begin, int end, std::string point, bool wide) {
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

  void begin_tiles() {
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

  void begin_points() {
    if (nest_.tile.axis >= 0) return begin_tiles();
    const sym::Int packs = nest_.packs(nest_.outer_points());
    const bool wide = is_wide(packs);
    code_.threads[0] = kThreadsOfBlock;
    code_.blocks[0] = blocks_of(packs, kThreadsOfBlock);
    const std::string type = wide ? "u64" : "u32";
    writer_.line("const " + type + " point = (" + type + ")" + block_ + " * " +
                 std::to_string(kThreadsOfBlock) + "u + threadIdx.x;");
    writer_.line("if (point >= " + number(packs, wide) + ") return;");
    bind_axes(0, nest_.outer_count, "point", wide);
  }

  // `per_block` outer points of a block; those of the last one that are too many do the last point
  // again, and store nothing.
  void begin_shared(int per_block, const std::string& within) {
    const sym::Int points =
        nest_.has_packed_columns() ? nest_.packs(nest_.outer_points()) : nest_.outer_points();
    const bool wide = is_wide(points);
    const std::string type = wide ? "u64" : "u32";
    code_.blocks[0] = blocks_of(points, per_block);
    const bool exact = sym::mod(points, per_block) == sym::Int(0);
    writer_.line("const " + type + " place = (" + type + ")" + block_ + " * " +
                 std::to_string(per_block) + "u + " + within + ";");
    if (exact) {
      bind_axes(0, nest_.outer_count, "place", wide);
      return;
    }
    guards_.push_back("active");
    const std::string count = number(points, wide);
    writer_.line("const bool active = place < " + count + ";");
    writer_.line("const " + type + " point = active ? place : " + count + " - 1;");
    bind_axes(0, nest_.outer_count, "point", wide);
  }

  void begin_rows() {
    const bool several = nest_.sharers <= kThreadsOfWarp;
    const std::string sharers = std::to_string(nest_.sharers) + "u";
    code_.threads[0] = nest_.threads_of_block();
    if (nest_.cluster > 1) return begin_clusters();
    if (several)
      begin_shared(nest_.rows_of_block(), "threadIdx.x / " + sharers);
    else
      begin_shared(1, "0");
    writer_.line("const u32 lane = threadIdx.x" + (several ? " % " + sharers : "") + ";");
  }

  void begin_clusters() {
    const std::string blocks = std::to_string(nest_.cluster) + "u";
    block_ = "(" + block_ + " / " + blocks + ")";
    begin_shared(1, "0");
    code_.blocks[0] = code_.blocks[0] * sym::Int(nest_.cluster);
    code_.cluster = nest_.cluster;
    writer_.line("const u32 lane = rank_of_block() * " +
                 std::to_string(nest_.sharers / nest_.cluster) + "u + threadIdx.x;");
  }

  void begin_columns() {
    const std::string width = std::to_string(nest_.width) + "u";
    code_.threads[0] = nest_.threads_of_block();
    begin_shared(nest_.width, "threadIdx.x % " + width);
    writer_.line("const u32 lane = threadIdx.x / " + width + ";");
  }

  static sym::Int blocks_of(sym::Int points, int per_block) {
    return sym::floordiv(points + sym::Int(per_block - 1), per_block);
  }

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
  std::string type_of_accumulator(const Statement& s) const {
    if (!nest_.is_soft_maximum(s)) return accumulator_of(s);
    const bool of_halves =
        s.value->kind == loop::ExprKind::kCast && graph::is_half(s.value->args[0]->dtype);
    return "SoftSum<" + type_of(s.accumulate) + (of_halves ? ", true>" : ", false>");
  }
  // Whether the accumulator is given several elements at a time: a pack, or those of some steps.
  bool takes_packs(const Statement& s) const {
    return s.is_reduction() && nest_.shape == Shape::kRows &&
           (s.op == loop::ReduceOp::kWelford || nest_.is_soft_maximum(s));
  }
  void begin_reduction(const Statement& s) {
    if (nest_.soft_sums.contains(&s)) return;
    const std::string type = type_of_accumulator(s), name = accumulator(s);
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
    const std::string name = accumulator(s), type = type_of_accumulator(s);
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

  // All inner points of this thread.
  void write_walk(const std::vector<const Statement*>& group) {
    const sym::Int packs = nest_.inner_steps();
    const bool wide = is_wide(packs);
    if (const auto scans = scans_of(*nest_.kernel, group); !scans.empty())
      return write_walk_of_scans(group, scans);
    const auto step = [&](const char* element) {
      writer_.open(Level::kWalk);
      bind_inner(wide);
      write_step(group, element);
      return writer_.close();
    };
    const std::vector<std::string> body = step("");
    if (nest_.lanes == 1 && std::ranges::any_of(group, [&](auto* s) { return takes_packs(*s); })) {
      const int64_t whole = packs.is_constant() ? packs.constant() / nest_.sharers : 0;
      constexpr int64_t kTogether = 8;
      const int64_t count = nest_.rounds == 0 ? kTogether : whole;
      if (count > 1) return write_steps_together(group, packs, wide, body, step("round"), count);
    }
    const auto loads = std::ranges::count_if(
        body, [](const std::string& line) { return line.find("load_pack") != std::string::npos; });
    write_steps(packs, wide, body, nest_.lanes > 1 && loads > 1 ? 2 : 4);
  }

  void write_walk_of_scans(const std::vector<const Statement*>& group,
                           const std::vector<const Statement*>& scans) {
    const bool wide = is_wide(nest_.inner_points());
    write_scans({nest_, writer_, wide ? "u64" : "u32", number(nest_.inner_steps(), wide),
                 [&] { bind_inner(wide); }, [&] { write_step(group, ""); }},
                scans);
  }
  void bind_inner(bool wide) {
    bind_axes(nest_.outer_count, static_cast<int>(nest_.extent.size()), "step", wide);
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
    const std::string type = wide ? "u64" : "u32", end = number(steps, wide);
    const std::string sharers = std::to_string(nest_.sharers) + "u", first = writer_.fresh("first");
    writer_.line(type + " " + first + " = lane;");
    std::vector<std::string> together;
    for (const Statement* s : group)
      if (takes_packs(*s))
        together.push_back(type_of_accumulator(*s) + "::element " + packs_of_reductions_[s] + "[" +
                           std::to_string(count) + "];");
    together.push_back("#pragma unroll");
    together.push_back("for (u32 round = 0; round < " + std::to_string(count) + "; ++round) {");
    together.push_back("  const " + type + " step = " + first + " + round * " + sharers + ";");
    for (const std::string& line : gathered) together.push_back("  " + line);
    together.push_back("}");
    for (const Statement* s : group)
      if (takes_packs(*s))
        together.push_back(accumulator(*s) + ".add_pack(" + packs_of_reductions_[s] + ");");
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
    const std::string type = wide ? "u64" : "u32", end = number(packs, wide);
    const std::string sharers = std::to_string(nest_.sharers);
    if (nest_.rounds == 0) {
      writer_.line("#pragma unroll " + std::to_string(unrolled));
      writer_.block("for (" + type + " step = lane; step < " + end + "; step += " + sharers + ")",
                    body);
      return;
    }
    const int64_t whole = packs.constant() / nest_.sharers;
    std::vector<std::string> round = {"const u32 step = round * " + sharers + "u + lane;"};
    round.insert(round.end(), body.begin(), body.end());
    if (whole > 0) {
      writer_.line("#pragma unroll");
      writer_.block("for (u32 round = 0; round < " + std::to_string(whole) + "; ++round)", round);
    }
    if (whole == nest_.rounds) return;
    writer_.block("if (const u32 step = " + std::to_string(whole) + " * " + sharers +
                      "u + lane; step < " + end + ")",
                  body);
  }

  // The points of a pack.
  void write_lanes(const std::vector<const Statement*>& statements) {
    const std::string lanes = std::to_string(nest_.lanes);
    std::vector<std::string> after;
    for (const Statement* s : statements) {
      if (s->is_store() && writer_.is_packed(s->index)) after.push_back(declare_pack(*s));
      if (!takes_packs(*s)) continue;
      const std::string pack = name_pack(*s);
      writer_.line(type_of_accumulator(*s) + "::element " + pack + "[" + lanes + "];");
      after.push_back(accumulator(*s) + ".add_pack(" + pack + ");");
    }
    writer_.open(Level::kLanes);
    if (nest_.has_tail) writer_.line("if (v >= count) break;");
    writer_.bind_axis(nest_.vector_axis, writer_.base() + " + v");
    const std::string place = nest_.has_packed_columns() ? "step" : "step * " + lanes + " + v";
    for (const Statement* s : statements) run(*s, place, "v");
    const std::vector<std::string> body = writer_.close();
    writer_.line("#pragma unroll");
    writer_.block("for (i32 v = 0; v < " + lanes + "; ++v)", body);
    for (const std::string& line : after) writer_.line(line);
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
                   (nest_.has_tail ? ", count);" : ");"));
  }

  // `position`: of an inner point, in row-major order.
  // `element`: its place among those that a reduction takes together; empty: it is alone.
  void run(const Statement& s, const std::string& position, const std::string& element) {
    if (s.is_store()) return store(s);
    if (nest_.soft_sums.contains(&s)) return;  // with its maximum
    const std::string value = writer_.emit(s.value);
    if (takes_packs(s) && !element.empty())
      return writer_.line(name_pack(s) + "[" + element + "] = " + value + ";");
    writer_.line(accumulator(s) + (nest_.has_packed_columns() ? "[v]" : "") + ".add(" + value +
                 ", " + position + ");");
  }

  void store(const Statement& s) {
    const std::string value = writer_.emit(s.value);
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

  static constexpr int kMostThreads = 1024;

  const Nest& nest_;
  KernelCode& code_;
  std::string block_;
  ExpressionWriter writer_;
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
