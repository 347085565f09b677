// Reads the text form of symbolic integers (`to_string(Int)`).
#pragma once

#include <string_view>

#include "sym/condition.h"
#include "sym/expr.h"

namespace braze::sym {

// The expression at the beginning of `text`, which is shortened by it. Names are those of the
// symbols of `arena`; without an arena only numbers are expressions. An internal error for
// anything else; `//` is division, never a comment.
Int parse(std::string_view& text, ExprArena* arena);

// The same for what `to_string(Condition)` prints.
Condition parse_condition(std::string_view& text, ExprArena* arena);

// Whether an expression over symbols may begin here: a known name, `min(`, `max(`, `(` or `-`.
bool begins_with_symbol(std::string_view text, const ExprArena* arena);

}  // namespace braze::sym
