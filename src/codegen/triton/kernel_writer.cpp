#include "codegen/triton/kernel_writer.h"

#include <algorithm>

#include "base/hash.h"
#include "codegen/kernel_text.h"
#include "codegen/triton/expression.h"
#include "codegen/triton/helpers.h"
#include "codegen/triton/reductions.h"

namespace braze::codegen::triton {
namespace {

using loop::Statement;

sym::Int blocks_of(sym::Int points, int per_block) {
  return sym::floordiv(points + sym::Int(per_block - 1), per_block);
}

class KernelWriter {
 public:
  KernelWriter(const cuda::Nest& nest, const Tile& tile, KernelCode& code)
      : nest_(nest),
        tile_(tile),
        code_(code),
        writer_(nest, tile, code.sizes, helpers_),
        reductions_(nest, tile, writer_, helpers_) {}

  std::string write() {
    switch (tile_.form) {
      case Form::kLine:
        write_line();
        break;
      case Form::kSquare:
        write_square();
        break;
      case Form::kRows:
      case Form::kColumns:
        write_strip();
        break;
    }
    std::string text;
    for (const std::string& line : writer_.close()) text += "    " + line + "\n";
    return text;
  }
  const Helpers& helpers() const { return helpers_; }
  bool asserts() const { return writer_.asserts(); }

 private:
  bool is_wide(sym::Int points, int per_block) const {
    return writer_.is_wide(points + sym::Int(per_block));
  }
  std::string program(bool wide) const {
    return wide ? "tl.program_id(0).to(tl.int64)" : "tl.program_id(0)";
  }
  static bool divides(int block, sym::Int points) { return sym::mod(points, block) == sym::Int(0); }
  // The last block may have fewer points.
  void mask(const std::string& name, const std::string& numbers, int block, sym::Int points,
            bool wide, uint8_t lanes) {
    if (divides(block, points)) return;
    writer_.line(name + " = " + numbers + " < " + writer_.size(points, wide));
    writer_.mask({name, lanes});
  }
  void constant(const std::string& name, int value) {
    writer_.line(name + ": tl.constexpr = " + std::to_string(value));
  }

  void write_line() {
    const sym::Int points = nest_.outer_points();
    const bool wide = is_wide(points, tile_.outer);
    code_.blocks[0] = blocks_of(points, tile_.outer);
    constant("BLOCK", tile_.outer);
    writer_.line("point = " + program(wide) + " * BLOCK + tl.arange(0, BLOCK)");
    writer_.bind_points(0, nest_.outer_count, "point", wide);
    for (const Statement& s : nest_.kernel->body) writer_.note_stored(s);
    if (nest_.has_tail) return write_branches(points, wide);
    mask("inside", "point", tile_.outer, points, wide, kOuterLanes);
    write_points();
  }

  // Where the number of points is no multiple of packs, a block that has them all does without a
  // mask, which would take its packs apart.
  void write_branches(sym::Int points, bool wide) {
    const std::string count = writer_.size(points, wide);
    const auto branch = [&](const std::string& head, bool masked) {
      writer_.open_loop();
      if (masked) mask("inside", "point", tile_.outer, points, wide, kOuterLanes);
      write_points();
      const std::vector<std::string> body = writer_.close();
      writer_.line(head);
      for (const std::string& line : body) writer_.line("    " + line);
    };
    branch("if " + program(wide) + " * BLOCK + BLOCK <= " + count + ":", false);
    branch("else:", true);
  }

  // All values, then all stores: a kernel may write over what it reads.
  void write_points() {
    for (const Statement& s : nest_.kernel->body) writer_.emit(s.value);
    if (may_overwrite_across_threads()) writer_.line("tl.debug_barrier()");
    for (const Statement& s : nest_.kernel->body) writer_.store(s);
  }

  // Elements of several sizes may be with other threads when they are stored than when they were
  // loaded, unless what is stored follows from them.
  bool may_overwrite_across_threads() const {
    if (nest_.kernel->body.size() < 2) return false;
    const auto bytes = [&](size_t p) { return graph::size_of(nest_.kernel->params[p].dtype); };
    for (size_t p = 1; p < nest_.kernel->params.size(); ++p)
      if (!nest_.kernel->params[p].by_value && bytes(p) != bytes(0)) return true;
    return false;
  }

  void write_square() {
    const int axis = nest_.tile.axis, last = nest_.tile.last;
    const sym::Int across = nest_.extent[axis], along = nest_.extent[last];
    const sym::Int rows = blocks_of(across, tile_.outer), columns = blocks_of(along, tile_.inner);
    code_.blocks[0] = rows * columns;
    for (int other = 0; other < nest_.outer_count; ++other)
      if (other != axis && other != last) code_.blocks[0] = code_.blocks[0] * nest_.extent[other];
    const bool wide = is_wide(nest_.outer_points(), tile_.outer * tile_.inner);
    constant("ROWS", tile_.outer);
    constant("COLUMNS", tile_.inner);
    writer_.line("tile = tl.program_id(0)");
    const std::string in_row = writer_.size(columns, false), in_column = writer_.size(rows, false);
    const std::string widen = wide ? ".to(tl.int64)" : "";
    writer_.line("row = (tile // " + in_row + " % " + in_column + ")" + widen +
                 " * ROWS + tl.arange(0, ROWS)[:, None]");
    writer_.line("column = (tile % " + in_row + ")" + widen +
                 " * COLUMNS + tl.arange(0, COLUMNS)[None, :]");
    std::string others = "tile // " + writer_.size(rows * columns, false);
    for (int other = nest_.outer_count; other-- > 0;) {
      if (other == axis || other == last || codegen::cpp::is_trivial(nest_.extent[other])) continue;
      const std::string rest = writer_.fresh("rest"), name = writer_.fresh("o");
      writer_.line(rest + " = " + others);
      writer_.line(name + " = " + rest + " % " + writer_.size(nest_.extent[other], false));
      writer_.bind_axis(other, name);
      others = rest + " // " + writer_.size(nest_.extent[other], false);
    }
    writer_.bind_points(axis, axis + 1, "row", wide);
    writer_.bind_points(last, last + 1, "column", wide);
    mask("in_rows", "row", tile_.outer, across, wide, kOuterLanes);
    mask("in_columns", "column", tile_.inner, along, wide, kInnerLanes);
    for (const Statement& s : nest_.kernel->body) writer_.note_stored(s);
    write_points();
  }

  const char* outer_name() const { return tile_.form == Form::kRows ? "row" : "column"; }
  const char* inner_name() const { return tile_.form == Form::kRows ? "column" : "row"; }
  // The numbers of a direction of the tile, which lie along it.
  std::string range(bool rows) const {
    const std::string text = rows ? "tl.arange(0, ROWS)" : "tl.arange(0, COLUMNS)";
    if (tile_.is_row()) return text;
    return text + (rows ? "[:, None]" : "[None, :]");
  }

  void write_strip() {
    const bool rows = tile_.form == Form::kRows;
    const sym::Int points = nest_.outer_points();
    const bool wide = is_wide(points, tile_.outer);
    code_.blocks[0] = blocks_of(points, tile_.outer);
    if (!tile_.is_row()) constant("ROWS", rows ? tile_.outer : tile_.inner);
    constant("COLUMNS", rows ? tile_.inner : tile_.outer);
    const std::string name = outer_name(), many = rows ? "ROWS" : "COLUMNS";
    writer_.line(name + " = " + program(wide) +
                 (tile_.is_row() ? "" : " * " + many + " + " + range(rows)));
    writer_.bind_points(0, nest_.outer_count, name, wide);
    mask("in_" + name + "s", name, tile_.outer, points, wide, kOuterLanes);
    if (tile_.whole)
      write_whole_strip();
    else
      for (const auto& group : nest_.groups) write_group(group);
  }

  void bind_inner(const std::string& numbers) {
    const sym::Int length = nest_.inner_points();
    const bool wide = is_wide(length, tile_.inner);
    writer_.line(std::string(inner_name()) + " = " + numbers);
    writer_.bind_points(nest_.outer_count, static_cast<int>(nest_.extent.size()), inner_name(),
                        wide);
    const std::string name = inner_name();
    mask("in_" + name + "s", name, tile_.inner, length, wide, kInnerLanes);
  }

  void write_whole_strip() {
    bind_inner(range(tile_.form != Form::kRows));
    for (const Statement& s : nest_.kernel->body) {
      if (s.is_reduction()) {
        reductions_.write_whole(s);
      } else {
        writer_.store(s);
        writer_.note_stored(s);
      }
    }
  }

  // What is stored in one walk is loaded in the next, perhaps by another thread.
  bool loads_what_was_stored(const std::vector<const Statement*>& group) {
    std::vector<loop::ExprRef> open;
    for (const Statement* s : group) open.push_back(s->value);
    std::unordered_map<loop::ExprRef, bool> seen;
    while (!open.empty()) {
      const loop::ExprRef expr = open.back();
      open.pop_back();
      if (!seen.emplace(expr, true).second) continue;
      if (expr->kind == loop::ExprKind::kLoad &&
          std::ranges::find(stored_, expr->ival) != stored_.end())
        return true;
      for (loop::ExprRef arg : expr->args) open.push_back(arg);
    }
    return false;
  }

  void write_group(const std::vector<const Statement*>& group) {
    if (!group[0]->inner) {
      writer_.store(*group[0]);
      writer_.note_stored(*group[0]);
      return;
    }
    if (loads_what_was_stored(group)) writer_.line("tl.debug_barrier()");
    for (const Statement* s : group)
      if (s->is_reduction()) reductions_.begin(*s);
    const bool rows = tile_.form == Form::kRows;
    const sym::Int length = nest_.inner_points();
    const bool wide = is_wide(length, tile_.inner);
    const std::string many = rows ? "COLUMNS" : "ROWS";
    const std::string end = writer_.size(length, wide);
    writer_.open_loop();
    bind_inner("start + " + range(!rows));
    for (const Statement* s : group) {
      if (s->is_reduction()) {
        reductions_.step(*s);
      } else {
        writer_.store(*s);
        stored_.push_back(s->buffer);
      }
    }
    const std::vector<std::string> body = writer_.close();
    writer_.line("for start in range(0, " + end + ", " + many + "):");
    for (const std::string& line : body) writer_.line("    " + line);
    for (const Statement* s : group)
      if (s->is_reduction()) reductions_.end(*s);
  }

  const cuda::Nest& nest_;
  const Tile& tile_;
  KernelCode& code_;
  Helpers helpers_;
  ExpressionWriter writer_;
  ReductionWriter reductions_;
  std::vector<int> stored_;  // by walks
};

// By parameter: bytes of which its address is to be a multiple, as elements side by side are loaded
// in packs.
std::vector<int32_t> alignment_of(const cuda::Nest& nest) {
  std::vector<int32_t> alignment(nest.kernel->params.size(), 1);
  if (nest.lanes == 1) return alignment;
  const auto note = [&](loop::ExprRef index, int buffer) {
    const cuda::Affine affine = codegen::cpp::affine_of(index, nest.extent);
    if (!nest.kernel->params[buffer].by_value &&
        cuda::is_pack(affine, nest.vector_axis, nest.lanes))
      alignment[buffer] = cuda::kPackBytes;
  };
  std::vector<loop::ExprRef> open;
  std::unordered_map<loop::ExprRef, bool> seen;
  for (const Statement& s : nest.kernel->body) {
    if (s.is_store()) note(s.index, s.buffer);
    open.push_back(s.value);
    if (s.index) open.push_back(s.index);
  }
  while (!open.empty()) {
    const loop::ExprRef expr = open.back();
    open.pop_back();
    if (!seen.emplace(expr, true).second) continue;
    if (expr->kind == loop::ExprKind::kLoad) note(expr->args[0], static_cast<int>(expr->ival));
    for (loop::ExprRef arg : expr->args) open.push_back(arg);
  }
  return alignment;
}

// The types of the arguments, and what each is a multiple of.
std::string signature_of(const cuda::Nest& nest, const KernelCode& code) {
  std::string text;
  for (size_t p = 0; p < nest.kernel->params.size(); ++p) {
    const loop::BufferParam& param = nest.kernel->params[p];
    text += (p ? "," : "") + std::string(param.by_value ? "" : "*") + parameter_type(param.dtype);
    if (code.alignment[p] > 1) text += ":" + std::to_string(code.alignment[p]);
  }
  for (sym::Int size : code.sizes) {
    text += text.empty() ? "i64" : ",i64";
    for (const int factor : {16, 8, 4, 2})
      if (sym::mod(size, factor) == sym::Int(0)) {
        text += ":" + std::to_string(factor);
        break;
      }
  }
  return text;
}

}  // namespace

KernelCode write_kernel(const cuda::Nest& nest, const Tile& tile, const target::Cuda& cuda) {
  constexpr size_t kDigits = 16;
  KernelCode code;
  KernelWriter writer(nest, tile, code);
  const std::string body = writer.write();
  code.threads[0] = tile.warps * cuda::kThreadsOfWarp;
  code.limits = nest.limits;
  code.alignment = alignment_of(nest);
  std::string parameters;
  for (size_t i = 0; i < nest.kernel->params.size(); ++i)
    parameters += (i ? ", p" : "p") + std::to_string(i);
  for (size_t i = 0; i < code.sizes.size(); ++i)
    parameters += (parameters.empty() ? "s" : ", s") + std::to_string(i);
  const std::string function = "(" + parameters + "):\n" + body;
  const std::string before = source_of_helpers(writer.helpers()) + "\n\n" +
                             description(loop::to_string(*nest.kernel, /*with_name=*/false), "#") +
                             "@triton.jit\ndef ";
  code.name = symbol_of(nest.kernel->name);
  code.flags = {"sm=" + std::to_string(cuda.sm), "warps=" + std::to_string(tile.warps),
                "signature=" + signature_of(nest, code)};
  if (writer.asserts()) code.flags.push_back("asserts=1");
  std::string all = before + code.name + function;
  for (const std::string& flag : code.flags) all += "\n" + flag;
  code.name += "_" + content_hash(all).substr(0, kDigits);
  code.text = "# Generated by Braze.\n" + before + code.name + function;
  return code;
}

}  // namespace braze::codegen::triton
