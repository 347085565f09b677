// The arithmetic of elements as Triton. An integer narrower than 32 bits is computed in those and
// cut, as CUDA C++ does.
#pragma once

#include <set>
#include <span>
#include <string>

#include "loop/ir.h"

namespace braze::codegen::triton {

// Functions that the source has to define, by name (helpers.h).
using Helpers = std::set<std::string, std::less<>>;

std::string type_of(graph::DType dtype);         // "tl.float32"
std::string parameter_type(graph::DType dtype);  // "fp32": of an argument, or what it points to

// A number of Python's where Triton takes it as one of the dtype, beside one that is; else the
// scalar of that dtype.
std::string literal(loop::ExprRef constant);
// The same, of that dtype wherever it stands.
std::string typed(loop::ExprRef constant);

struct Operand {
  std::string text;
  bool is_number = false;  // of Python's
};

std::string cast(const std::string& value, graph::DType from, graph::DType to);
// An op of loop/ops.h, except those that load, mask, choose or check. `operand`: dtype of the
// operands. Operands of i64 are 32 bits wide where they fit; `wide`: the result does not.
std::string operation(loop::ExprKind kind, graph::DType operand, bool wide,
                      std::span<const Operand> args, Helpers& helpers);

}  // namespace braze::codegen::triton
