// Guards on symbolic sizes: where the values of symbols come from in a call, and what must hold for
// them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "guard/source.h"
#include "sym/condition.h"
#include "sym/expr.h"

namespace braze::guard {

// A number that a call brings: a size or stride of a tensor, or a Python int.
struct Quantity {
  enum class Kind : uint8_t { kSize, kStride, kInteger };
  Kind kind = Kind::kSize;
  const Source* source = nullptr;  // of the tensor (which has a kTensor guard) or int (kType)
  int dim = 0;
};

struct ShapeGuards {
  std::shared_ptr<sym::ExprArena> arena;
  // By symbol: what gives its value. Without a source: the compiled code works it out, nothing
  // here depends on it.
  std::vector<Quantity> symbols;
  struct Fact {  // a quantity that follows from the symbols
    Quantity quantity;
    sym::Int value;
  };
  std::vector<Fact> facts;
  std::vector<sym::Condition> conditions;
  // Python floats that vary (each has a kType guard), in the order in which the entry takes them.
  std::vector<const Source*> floats;
};

// A size, integer or float that was another one when the entry was made.
struct Variation {
  std::string source;      // as text: "x", "self.cache.keys"
  int dim = -1;            // of a tensor; -1: an int or float
  int64_t before = 0;      // the value in the entry
  bool related = false;    // not the value, a relation to another size was broken ("x.size(0) ==
                           // y.size(0)"): `before` says nothing
  bool is_float = false;   // as well
  bool is_stride = false;  // of a dimension: `before` says nothing
};

}  // namespace braze::guard
