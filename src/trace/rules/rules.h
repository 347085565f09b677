// The rules that traces have for calls of single operators. rules.inc is the one list of them; the
// functions stand in the sources of their families, in a namespace for each kind.
#pragma once

#include <c10/core/SymInt.h>

#include <string>
#include <string_view>

namespace braze::trace {

struct ShapeCall;

namespace metadata {
// Works out the results' metadata and puts fakes on the stack in place of the arguments. False,
// with the stack untouched: it does not handle this case, and PyTorch's function is asked.
using Rule = bool(const ShapeCall& call);
}  // namespace metadata

namespace refusals {
// What PyTorch's kernel refuses of a call though its function for metadata does not look at it:
// windows, numbers of dimensions, words. The error would come only with the result, or never where
// nobody uses that. Empty: nothing is refused.
using Rule = std::string(const ShapeCall& call);
}  // namespace refusals

namespace sized_by_data {
// Puts fakes for the results on the stack; `size` is the size that comes from data.
using Rule = void(const ShapeCall& call, const c10::SymInt& size);
}  // namespace sized_by_data

#define X(kind, name, function) \
  namespace kind {              \
  Rule function;                \
  }
#include "trace/rules/rules.inc"
#undef X

// Null: there is none of the kind.
struct Rules {
  metadata::Rule* metadata = nullptr;
  refusals::Rule* refusals = nullptr;
  sized_by_data::Rule* sized_by_data = nullptr;
};

// Of an operator by its name in graphs ("aten.add.Tensor").
Rules find_rules(std::string_view name);

}  // namespace braze::trace
