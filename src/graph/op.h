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

enum class OpKind : uint16_t;  // graph/op_kind.h; 0: not one that the compiler knows

// The members of `Effects` with their words in the text form.
#define BRAZE_GRAPH_EFFECTS(X)    \
  X(random, "random")             \
  X(opaque, "opaque")             \
  X(inplace_view, "inplace_view") \
  X(mutates, "mutates")           \
  X(results_alias, "results_alias")

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

// What else passes and lowerings ask of an op; its line in op_list.inc names what holds.
enum OpFact : uint8_t {
  kRefusesData = 1 << 0,  // eager raises for some contents: an index, a probability
  kDivides = 1 << 1,      // eager raises for integers divided by zero
  kCopies = 1 << 2,       // the result's elements are those of argument 0, converted to its dtype
  kUsualOut = 1 << 3,     // not pointwise, yet the out= variant takes its arguments and `out`
  kOtherOut = 1 << 4,     // pointwise, but the out= variant takes others, or there is none
  // Writes to arguments 3 and 4 where argument 5, `training`, is true, which the schema hides.
  kRunningStatistics = 1 << 5,
  // Integers become i64 unless argument 2, a dtype, says other; not so in place.
  kWidensIntegers = 1 << 6,
  kFillsGiven = 1 << 7,  // writes into given memory as fast as into its own
};

struct Op {
  OpKind kind{};
  std::string name;  // "aten.add.Tensor"
  Effects effects;
  OpClass op_class = OpClass::kUnknown;
  bool pointwise = false;  // elementwise with broadcasting
  bool view = false;       // result is a view of argument 0, no data moved
  uint8_t facts = 0;       // of OpFact

  bool has(OpFact fact) const { return (facts & fact) != 0; }
};

// The interned op of that name and effects: what was asked for before makes no difference.
// Thread-safe; the reference lives for the whole process. For an op of op_list.inc the list says
// what it does, whatever is asked for. Of an op without a word about its effects they follow from
// its name: an in-place op where ATen's naming says so ("aten.add_.Tensor": writes to and returns
// argument 0), an opaque one where it is an out= variant, else a pure one.
const Op& find_or_add_op(std::string_view name);
const Op& find_or_add_op(std::string_view name, Effects effects);
Effects effects_by_name(std::string_view name);
const Op& op_of(OpKind kind);

}  // namespace braze::graph
