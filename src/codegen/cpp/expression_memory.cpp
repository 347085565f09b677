// Loads and stores.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "codegen/cpp/expression.h"

namespace braze::codegen::cpp {

using graph::DType;
using loop::ExprKind;
using loop::ExprRef;
using loop::Statement;

static std::string scaled(ExpressionWriter& writer, sym::Int factor, const std::string& text) {
  return factor == sym::Int(1) ? text : text + "*" + writer.size(factor);
}

Operand ExpressionWriter::from_storage(const std::string& text, DType dtype, bool vector) {
  const auto half = [&](const std::string& function) {
    prelude_.need(function);
    const std::string types = vector ? "<" + prelude_.vector("f32", nest_.lanes) + ", " +
                                           prelude_.vector("u32", nest_.lanes) + ">"
                                     : "";
    Operand result = call(function + types + "(" + text + ")", vector);
    result.stored = text;
    return result;
  };
  switch (dtype) {
    case DType::kBool:
      if (!vector) return {text + " != 0", false, false};
      return call(to_mask("(" + text + " != 0)", dtype), true);
    case DType::kFloat16:
      return half("f32_of_f16");
    case DType::kBFloat16:
      return half("f32_of_bf16");
    default:
      return call(text, vector);
  }
}

std::string ExpressionWriter::to_storage(const Operand& value, DType dtype) {
  const bool vector = value.vector;
  const auto half = [&](const std::string& function) {
    if (!value.stored.empty()) return value.stored;
    prelude_.need(function);
    if (!vector) return function + "(" + value.text + ")";
    return function + "<" + prelude_.vector("u16", nest_.lanes) + ", " +
           prelude_.vector("u32", nest_.lanes) + ">(" + value.text + ")";
  };
  switch (dtype) {
    case DType::kBool:
      if (!vector) return "u8(" + value.text + ")";
      prelude_.need("convert");
      return "convert<" + prelude_.vector("u8", nest_.lanes) + ">((" + value.text + ") & 1)";
    case DType::kFloat16:
      return half("f16_of_f32");
    case DType::kBFloat16:
      return half("bf16_of_f32");
    default:
      return value.text;
  }
}

bool ExpressionWriter::opaque_in_lanes(const Affine& index) {
  return std::any_of(index.terms.begin(), index.terms.end(),
                     [&](const auto& term) { return varies(term.first); });
}

std::string ExpressionWriter::linear(const Affine& index, bool with_vector_axis, int& depth) {
  std::string text;
  depth = 0;
  const auto add = [&](const std::string& part, int part_depth) {
    text += (text.empty() ? "" : " + ") + part;
    depth = std::max(depth, part_depth);
  };
  for (size_t axis = 0; axis < index.coefficient.size(); ++axis) {
    if (index.coefficient[axis] == sym::Int(0)) continue;
    if (static_cast<int>(axis) == nest_.vector_axis && !with_vector_axis) continue;
    add(scaled(*this, index.coefficient[axis], axis_text_[axis]), axis_depth_[axis]);
  }
  for (const auto& [term, factor] : index.terms) {
    const Operand value = emit(term);
    add(scaled(*this, factor, paren(value)), depth_of(term));
  }
  if (index.constant != sym::Int(0)) add(size(index.constant), 0);
  return text;
}

std::string ExpressionWriter::address(int buffer, const Affine& index) {
  const std::string base = "b" + std::to_string(buffer);
  int depth = 0;
  const std::string offset = linear(index, false, depth);
  std::string pointer = base;
  if (!offset.empty() && depth == static_cast<int>(scopes_.size()) - 1) {
    pointer = base + " + " + offset;
  } else if (!offset.empty()) {
    const std::string key = base + " + " + offset;
    std::string& name = scopes_[depth].pointers[key];
    if (name.empty()) {
      name = fresh(base + "_row");
      const bool written = nest_.kernel->params[buffer].written;
      scopes_[depth].lines.push_back(std::string(written ? "" : "const ") +
                                     storage_type(nest_.kernel->params[buffer].dtype) + "* const " +
                                     name + " = " + key + ";");
    }
    pointer = name;
  }
  const int axis = nest_.vector_axis;
  if (axis >= 0 && index.stride(axis) != sym::Int(0))
    pointer += " + " + scaled(*this, index.stride(axis), axis_text_[axis]);
  return pointer;
}

// One row of a tile that is loaded, and transposed, before the loop over its rows.
std::string ExpressionWriter::tile_load(int buffer, const Affine& index,
                                        const std::string& storage) {
  const int axis = nest_.tile_axis;
  const int depth = tile_depth_;
  const Binding row = binding(axis);
  rebind(axis, {tile_first_, axis_depth_[nest_.vector_axis]});
  std::string name;
  at_depth(depth, [&] {
    const std::string pointer = address(buffer, index);
    std::string& known = scopes_[depth].pointers["tile of " + pointer];
    if (known.empty()) {
      const std::string lanes = std::to_string(nest_.lanes);
      const std::string stride = size(index.stride(nest_.vector_axis));
      known = fresh("b" + std::to_string(buffer) + "_tile");
      line(storage + " " + known + "[" + lanes + "];");
      if (active_.empty() && tile_rows_.empty()) {
        prelude_.need("load_tile");
        line("load_tile<" + lanes + ">(" + known + ", " + pointer + ", " + stride + ");");
      } else {
        prelude_.need("load_tile_part");
        line("load_tile_part<" + lanes + ">(" + known + ", " + pointer + ", " + stride + ", " +
             (active_.empty() ? lanes : active_) + ", " +
             (tile_rows_.empty() ? lanes : tile_rows_) + ");");
      }
    }
    name = known;
  });
  rebind(axis, row);
  return name + "[" + tile_row_ + "]";
}

Operand ExpressionWriter::build_load(ExprRef expr, int depth) {
  const int buffer = static_cast<int>(expr->ival);
  const Affine index = affine_of(expr->args[0], nest_.extent);
  const bool vector = varies(expr);
  const auto element = [&] {
    int unused = 0;
    const std::string offset = linear(index, true, unused);
    return "b" + std::to_string(buffer) + "[" + (offset.empty() ? "0" : offset) + "]";
  };
  if (!vector) {
    if (guard_mask_.empty()) return from_storage(element(), expr->dtype, false);
    prelude_.need("any");
    const Operand guarded =
        from_storage("(any(" + guard_mask_ + ") ? " + element() + " : 0)", expr->dtype, false);
    return guarded;
  }
  const std::string storage = prelude_.vector(storage_type(expr->dtype), nest_.lanes);
  const std::string lanes = active_.empty() ? std::to_string(nest_.lanes) : active_;
  const sym::Int one = 1;
  // What an index under a guard divides may be loaded, which the guard forbids.
  const bool opaque = opaque_in_lanes(index);
  const bool run = opaque && guard_mask_.empty() && stride_in_vectors(nest_, index) == one;
  if (opaque && !run) {
    const std::string name = fresh("v" + std::to_string(buffer));
    at_depth(depth, [&] {
      const std::string header = lane_header();
      line(storage + " " + name + "{};");
      std::vector<std::string> body = lane_loop([&] { line(name + "[l] = " + element() + ";"); });
      block(header, body);
    });
    return from_storage(name, expr->dtype, true);
  }
  // The place of the first lane of a run.
  const auto begin_of_run = [&] {
    const std::string base = "b" + std::to_string(buffer), name = fresh(base + "_run");
    at_depth(depth, [&] {
      line("const " + storage_type(expr->dtype) + "* " + name + ";");
      const std::vector<std::string> body = lane_loop(
          [&] {
            int unused = 0;
            line("constexpr int l = 0;");  // of what is a vector already
            line(name + " = " + base + " + " + linear(index, true, unused) + ";");
          },
          "");
      block("", body);
    });
    return name;
  };
  const sym::Int stride = run ? one : index.stride(nest_.vector_axis);
  if (!tile_row_.empty() && !lane_mode_ && guard_depth_ == 0 && stride != one &&
      index.stride(nest_.tile_axis) == one &&
      std::none_of(index.terms.begin(), index.terms.end(),
                   [&](const auto& term) { return facts(term.first).axes >> nest_.tile_axis & 1; }))
    return from_storage(tile_load(buffer, index, storage), expr->dtype, true);
  const std::string pointer = run ? begin_of_run() : address(buffer, index);
  std::string text;
  if (!guard_mask_.empty()) {
    const std::string name = stride == one ? "load_masked" : "load_masked_strided";
    prelude_.need(name);
    text = name + "<" + storage + ">(" + pointer + ", " + guard_mask_ +
           (stride == one ? "" : ", " + size(stride)) + ")";
  } else if (stride != one) {
    const std::string name = is_lane_count_known() ? "load_strided" : "load_first_strided";
    prelude_.need(name);
    text = name + "<" + storage + ">(" + pointer + ", " + size(stride) + ", " + lanes + ")";
  } else if (!active_.empty()) {
    const std::string name = is_active_known() ? "load_part" : "load_first";
    prelude_.need(name);
    text = name + "<" + storage + ">(" + pointer + ", " + active_ + ")";
  } else {
    prelude_.need("load");
    text = "load<" + storage + ">(" + pointer + ")";
  }
  return from_storage(text, expr->dtype, true);
}

// Halves are combined in f32, and each result is rounded.
std::string ExpressionWriter::combined(loop::StoreOp op, const std::string& old,
                                       const std::string& value, DType dtype, bool vector) {
  if (op == loop::StoreOp::kSet || op == loop::StoreOp::kLast) return value;
  if (graph::is_half(dtype)) {
    const std::string a = from_storage(old, dtype, vector).text;
    const std::string b = from_storage(value, dtype, vector).text;
    return to_storage({combined(op, a, b, DType::kFloat32, vector), vector}, dtype);
  }
  switch (op) {
    case loop::StoreOp::kSet:
    case loop::StoreOp::kLast:
    case loop::StoreOp::kPart:
      break;
    case loop::StoreOp::kAdd:
      return old + " + (" + value + ")";
    case loop::StoreOp::kMul:
      return old + " * (" + value + ")";
    case loop::StoreOp::kMin:
    case loop::StoreOp::kMax: {
      const std::string function = op == loop::StoreOp::kMin ? "minimum" : "maximum";
      prelude_.need(function);
      const std::string element = storage_type(dtype);
      const std::string type = vector ? prelude_.vector(element, nest_.lanes) : element;
      return function + "<" + type + ">(" + old + ", " + value + ")";
    }
  }
  BRAZE_UNREACHABLE("store ", static_cast<int>(op));
}

// One lane after the other, in their order.
void ExpressionWriter::store_lanes(const Statement& statement, const Affine& index,
                                   const std::string& stored) {
  const DType dtype = nest_.kernel->params[statement.buffer].dtype;
  const std::string name = fresh("out");
  line("const " + prelude_.vector(storage_type(dtype), nest_.lanes) + " " + name + " = " + stored +
       ";");
  const std::string header = lane_header();
  std::vector<std::string> body = lane_loop([&] {
    int unused = 0;
    const std::string offset = linear(index, true, unused);
    const std::string at =
        "b" + std::to_string(statement.buffer) + "[" + (offset.empty() ? "0" : offset) + "]";
    line(at + " = " + combined(statement.store, at, name + "[l]", dtype, false) + ";");
  });
  block(header, body);
}

void ExpressionWriter::store(const Statement& statement) {
  const int buffer = statement.buffer;
  const DType dtype = nest_.kernel->params[buffer].dtype;
  const Affine index = affine_of(statement.index, nest_.extent);
  // A half is rounded by the store.
  const ExprRef rounded = statement.value;
  const bool is_rounded_here =
      rounded->kind == ExprKind::kCast && graph::is_half(dtype) && uses_[rounded] == 1;
  const ExprRef source = is_rounded_here ? rounded->args[0] : rounded;
  Operand value = cast(emit(source), dtype_of(source), dtype);
  const bool lanes_differ = opaque_in_lanes(index);
  // A value that is the same in all lanes is still accumulated once for each lane.
  const bool each_lane = statement.accumulates() && statement.inner && nest_.vector_is_inner();
  const bool vector = nest_.vector_axis >= 0 &&
                      (value.vector || lanes_differ || each_lane ||
                       (index.stride(nest_.vector_axis) != sym::Int(0) && varies(statement.index)));
  if (!vector) {
    int unused = 0;
    const std::string offset = linear(index, true, unused);
    const std::string at =
        "b" + std::to_string(buffer) + "[" + (offset.empty() ? "0" : offset) + "]";
    line(at + " = " + combined(statement.store, at, to_storage(value, dtype), dtype, false) + ";");
  } else {
    if (!value.vector) value = {as_vector(value, dtype), true, true};
    const std::string stored = to_storage(value, dtype);
    const std::string storage = prelude_.vector(storage_type(dtype), nest_.lanes);
    const std::string lanes = active_.empty() ? std::to_string(nest_.lanes) : active_;
    const sym::Int stride = index.stride(nest_.vector_axis), one = 1;
    if (lanes_differ || stride == sym::Int(0) || (statement.accumulates() && stride != one)) {
      store_lanes(statement, index, stored);
    } else if (stride != one) {
      const std::string name = is_lane_count_known() ? "store_strided" : "store_first_strided";
      prelude_.need(name);
      line(name + "(" + address(buffer, index) + ", " + storage + "(" + stored + "), " +
           size(stride) + ", " + lanes + ");");
    } else {
      const std::string suffix = active_.empty() ? "" : is_active_known() ? "_part" : "_first";
      const std::string count = active_.empty() ? "" : ", " + active_;
      const std::string pointer = address(buffer, index);
      std::string result = stored;
      if (statement.combines()) {
        prelude_.need("load" + suffix);
        const std::string old = "load" + suffix + "<" + storage + ">(" + pointer + count + ")";
        result = combined(statement.store, old, stored, dtype, true);
      }
      prelude_.need("store" + suffix);
      line("store" + suffix + "(" + pointer + ", " + storage + "(" + result + ")" + count + ");");
    }
  }
  if (reread_[buffer]) forget_rereads();
}

}  // namespace braze::codegen::cpp
