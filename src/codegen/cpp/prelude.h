// What generated kernels stand on: type names, loads and stores, conversions, horizontal
// reductions and math, each written out only when a kernel asks for it.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/cpp/codegen.h"
#include "loop/ir.h"

namespace braze::codegen::cpp {

// Names of C++ types in generated text: "f32", "i64", "u8"; bool is "bool" as a scalar.
std::string scalar_type(graph::DType dtype);   // while computing; half floats are f32
std::string storage_type(graph::DType dtype);  // in memory; bool is u8, half floats are u16

class Prelude {
 public:
  explicit Prelude(Isa isa) : isa_(isa) {}

  // "f32x16"; lanes 1 gives the element itself.
  std::string vector(std::string_view element, int lanes);
  // Asks for a helper of helper_table() (helpers.h), with those that it needs.
  void need(std::string_view helper);
  // The function for a unary or binary float op: "exp_f32x16", or "expf" for scalars.
  std::string math(loop::ExprKind kind, graph::DType dtype, int lanes);
  // "sum_of", "prod_of", "max_of", "min_of" over the lanes of an element type.
  std::string fold(std::string_view name, std::string_view element, int lanes);

  Isa isa() const { return isa_; }
  std::string text() const;  // everything asked for so far

 private:
  void add_math(std::string_view name, std::string_view element, int lanes);

  Isa isa_;
  std::set<std::string> known_;
  std::string vectors_;
  std::string helpers_;
};

}  // namespace braze::codegen::cpp
