// Which sizes of inputs and which integers are symbols in a capture: what the user has asked for,
// and what calls so far have shown to vary.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cpython/ref.h"
#include "sym/expr.h"

namespace braze::capture {

struct DynamicSizes {
  enum class Mode : uint8_t {
    kAuto,    // what has varied
    kAlways,  // every size of 2 and more
    kNever,
  };
  Mode mode = Mode::kAuto;
  // By source as text and dimension: the size that it had before. Dimensions of one size now and
  // before share a symbol.
  std::map<std::string, std::map<int, int64_t>> sizes;
  // By source, dimensions whose stride has been seen to vary.
  std::map<std::string, std::set<int>> strides;
  // Counts down from -1: numbers for dimensions that share no symbol with any other.
  int64_t histories = -1;
  // Sources of Python ints that vary, with the value before; without one: no symbol, the code needs
  // the number.
  std::map<std::string, std::optional<int64_t>> integers;
  // Sources of Python floats that vary; false: no symbol, the code needs the number.
  std::map<std::string, bool> floats;
};

// What the user has said about one dimension of a tensor (braze.mark_dynamic and the like, or
// those of torch._dynamo, which leave attributes on the tensor).
struct DimMark {
  int dim = 0;
  bool strict = false;  // specialising it is an error
  sym::Range range{2, INT64_MAX};
  // Nothing may depend on it: any size from 0 on, and no guards (mark_unbacked).
  bool unbacked = false;
};
struct TensorMarks {
  std::vector<DimMark> dynamic;
  std::vector<int> fixed;
  bool has_other_attributes = false;  // besides marks
};
TensorMarks marks_of(PyObject* tensor);

// The dimensions of the tensor read at `source` that are to be symbols. `strict` of a mark is kept.
struct DynamicDimension {
  DimMark mark;
  int64_t previous = -1;
};
std::vector<DynamicDimension> dynamic_dimensions(const DynamicSizes& sizes, PyObject* tensor,
                                                 const std::string& source);

}  // namespace braze::capture
