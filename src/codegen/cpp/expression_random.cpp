// Random numbers.
#include "codegen/cpp/expression.h"
#include "loop/random.h"

namespace braze::codegen::cpp {

using graph::DType;
using loop::ExprRef;

// The RandomRun of a stream that is the same for the whole function; empty: it is not. Where a mask
// forbids all loads, a key is 0.
std::string RandomNumbers::run_of(ExpressionWriter& writer, ExprRef key, ExprRef offset) {
  if (!writer.guard_mask_.empty()) return "";
  for (ExprRef part : {key, offset}) {
    const ExpressionWriter::Facts& f = writer.facts(part);
    if (f.axes != 0 || f.reduced != 0 || f.rereads) return "";
  }
  ExpressionWriter::Scope& function = writer.scopes_.front();
  std::string& name = function.pointers["random numbers of " + std::to_string(key->id) + ", " +
                                        std::to_string(offset->id)];
  if (name.empty()) {
    writer.prelude_.need("random_run");
    name = writer.fresh("run");
    function.lines.push_back("RandomRun " + name + ";");
  }
  return name;
}

Operand RandomNumbers::build(ExpressionWriter& writer, ExprRef expr, int depth) {
  const Nest& nest = writer.nest_;
  const bool vector = writer.varies(expr);
  const std::string type = writer.type_of(DType::kInt32, vector);
  const auto operand = [&](int i) { return writer.emit_as(expr->args[i], DType::kInt64, depth); };
  if (const ExprRef element = vector ? loop::element_of_random(expr) : nullptr) {
    const Affine index = affine_of(element, nest.extent);
    const bool neighbours =
        index.stride(nest.vector_axis) == sym::Int(1) && !writer.opaque_in_lanes(index);
    const std::string run =
        neighbours ? run_of(writer, expr->args[0], expr->args[1]) : std::string();
    if (!run.empty()) {
      int unused = 0;
      const std::string first = writer.linear(index, true, unused);
      return call("random_run<" + type + ">(" + run + ", " + operand(0).text + ", " +
                      operand(1).text + ", " + first + ")",
                  true);
    }
  }
  writer.prelude_.need("random_word");
  std::string list;
  for (int i = 0; i < 4; ++i) {
    const Operand value = operand(i);
    list += (i ? ", " : "") + (vector ? writer.as_vector(value, DType::kInt64) : value.text);
  }
  if (!vector) return call("random_word(" + list + ")", false);
  writer.prelude_.need("random_lanes");
  return call("random_lanes<" + type + ">(" + list + ")", true);
}

}  // namespace braze::codegen::cpp
