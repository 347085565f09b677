// Operators. Any ATen op may stand in a graph; those that the compiler knows have an `OpKind`.
//
// The names are PyTorch's, with dots: "aten.add.Tensor", "aten.relu" (no overload: "aten.relu").
// `op_list.inc` is the one list of known ops; an op not on it is interned at run time by the tracer
// (which takes the effects from the schema) or by the parser, with OpKind::kUnknown: an extern call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace braze::graph {

enum class OpKind : uint16_t {
  kUnknown,
#define X(id, name, ...) k##id,
#include "graph/op_list.inc"
#undef X
  kCount,
};

// What an op does besides computing its results: the one source for DCE, ordering,
// functionalisation and CSE.
struct Effects {
  bool random = false;       // draws from a generator: never removed when unused, reordered or merged
  bool opaque = false;       // unknown side effect (printing, communication): keep, keep order
  bool inplace_view = false; // changes metadata of an argument (t_, squeeze_)
  std::vector<int> mutates;  // positions of tensor arguments written to (in-place, out=)
  // results[i] aliases argument results_alias[i] as a view or as the same tensor; -1: fresh
  std::vector<int> results_alias;

  bool pure() const { return !random && !opaque && mutates.empty(); }
};

struct Op {
  OpKind kind = OpKind::kUnknown;
  std::string name;                      // "aten.add.Tensor"
  std::vector<std::string> arg_names;    // in schema order; may be empty when unknown
  Effects effects;
  bool pointwise = false;                // elementwise with broadcasting
  bool view = false;                     // result is a view of argument 0, no data moved
};

// The interned op of that name. Known ops come from op_list.inc. Thread-safe; the reference lives
// for the whole process.
const Op& find_or_add_op(std::string_view name);
const Op& find_or_add_op(std::string_view name, std::vector<std::string> arg_names, Effects effects);
const Op& op_of(OpKind kind);

}  // namespace braze::graph
