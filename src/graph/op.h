// Operators. Any ATen op may stand in a graph; those that the compiler knows have an `OpKind`.
//
// The names are PyTorch's, with dots: "aten.add.Tensor", "aten.relu" (no overload: "aten.relu").
// `op_list.inc` is the one list of known ops; an op not on it is interned at run time by the tracer
// (which takes the effects from the schema) or by the parser, with OpKind::kUnknown: an extern
// call.
#pragma once

#include <algorithm>
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
  bool random = false;  // draws from a generator: never removed when unused, reordered or merged
  bool opaque = false;  // unknown side effect (printing, communication): keep, keep order
  bool inplace_view = false;  // changes metadata of an argument (t_, squeeze_)
  std::vector<int> mutates;   // positions of tensor arguments written to (in-place, out=)
  // results[i] aliases argument results_alias[i] as a view or as the same tensor; -1: fresh. For an
  // op that returns a list (split) the last entry holds for all further results.
  std::vector<int> results_alias;

  bool pure() const { return !random && !opaque && mutates.empty(); }
  // The argument that result `i` aliases, -1: none.
  int aliased_argument(int i) const {
    if (results_alias.empty()) return -1;
    return results_alias[std::min<size_t>(i, results_alias.size() - 1)];
  }
  friend bool operator==(const Effects&, const Effects&) = default;
};

// The class of a known op, as op_list.inc gives it.
enum class OpClass : uint8_t {
  kUnknown,
  kPointwise,  // elementwise with broadcasting
  kView,       // every result is a view of argument 0, or argument 0 itself
  kFactory,    // makes a tensor from sizes and scalars (of some, argument 0 gives the sizes)
  kIndexing,   // moves elements, possibly by index tensors
  kReduction,
  kExtern,  // left to the library
  kRandom,  // draws from a generator
};

struct Op {
  OpKind kind = OpKind::kUnknown;
  std::string name;                    // "aten.add.Tensor"
  std::vector<std::string> arg_names;  // in schema order; may be empty when unknown
  Effects effects;
  OpClass op_class = OpClass::kUnknown;
  bool pointwise = false;  // elementwise with broadcasting
  bool view = false;       // result is a view of argument 0, no data moved
};

// The interned op of that name. Known ops come from op_list.inc. Thread-safe; the reference lives
// for the whole process. An op that is not known and comes without effects is taken for an in-place
// op where its name says so ("aten.add_.Tensor": writes to and returns argument 0), for an opaque
// one where it is an out= variant, else for a pure one. The form with effects replaces what an
// earlier form without had guessed; ops obtained before keep their guess. For a known op the list
// wins.
const Op& find_or_add_op(std::string_view name);
const Op& find_or_add_op(std::string_view name, std::vector<std::string> arg_names,
                         Effects effects);
const Op& op_of(OpKind kind);

}  // namespace braze::graph
