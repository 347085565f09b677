// What becomes of a call whose step fails.
#pragma once

#include <c10/util/Exception.h>

#include "plan/function.h"
#include "runtime/executable.h"

namespace braze::runtime {

// Throws NeedsEager, or an IndexError with the text.
[[noreturn]] inline void fail(plan::OnFailure policy, const char* what) {
  if (policy == plan::OnFailure::kRunEager) throw NeedsEager();
  C10_THROW_ERROR(IndexError, what);
}

}  // namespace braze::runtime
