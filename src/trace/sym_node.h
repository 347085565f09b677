// Symbolic sizes as PyTorch sees them: `torch.SymInt` over `sym::Int`, without a Python class.
#pragma once

#include <c10/core/SymInt.h>
#include <c10/core/SymIntArrayRef.h>

#include "sym/shape_env.h"

namespace braze::trace {

// A plain number for constants. `shapes` belongs to a shared_ptr, which the SymInt keeps alive.
c10::SymInt to_symint(sym::Int value, sym::ShapeEnv& shapes);
// Internal error for a SymInt that another tracer made.
sym::Int from_symint(const c10::SymInt& value);
sym::Dims from_symints(c10::SymIntArrayRef values);

// Decided by what is known, else by the sizes seen, with a guard.
bool equal(const c10::SymInt& a, const c10::SymInt& b);
bool less(const c10::SymInt& a, const c10::SymInt& b);

// What the operators of SymInt give, without a node for each number.
c10::SymInt times(const c10::SymInt& a, const c10::SymInt& b);
c10::SymInt plus(const c10::SymInt& a, const c10::SymInt& b);
c10::SymInt minus(const c10::SymInt& a, const c10::SymInt& b);

}  // namespace braze::trace
