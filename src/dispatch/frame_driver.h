// Carries a frame on after a graph break: compiled segments as far as they go, the instructions
// between them for real.
//
// At each place where the frame comes to, the driver looks for a segment whose guards hold over the
// locals and the value stack, or captures one. A segment that ends in a break leaves the frame
// before the breaking instruction, which is then carried out in the real frame: calls by the driver
// itself, so that the frames of Python functions that are called are driven too, everything else by
// CPython (`cpython/live_frame.h`), whose exception handling finds the frame's own handlers. What
// cannot be captured is left to CPython, which can take the frame over anywhere.
//
// A frame is left to CPython for good:
// * where a trace or profile function watches the thread;
// * where a segment could not be captured at all, or the limit of recompiles at one offset is
//   reached and the newest segment there does not end in a break, behind which the frame could go
//   on;
// * after kMaximalIdleSteps instructions that were carried out for real with no tensor operation
//   between them.
// A function is left to CPython for all its later frames when kUselessSegments segments of it were
// captured and none had a tensor operation, or when its generators were resumed
// kMaximalIdleResumptions times in turn without one.
#pragma once

#include <memory>

#include "cpython/resumable.h"
#include "dispatch/segments.h"

namespace braze::dispatch {

constexpr int kMaximalIdleSteps = 1000;
constexpr int kUselessSegments = 16;
constexpr int kMaximalIdleResumptions = 64;

struct DriverContext {
  const Settings& settings;
  Segments& segments;
};

// Calls `function`, whose frame begins with `entry` (exit: break): its guards hold, and if it was
// traced, `values` is what it has computed. The function's result, or null with an exception.
PyObject* call_with_breaks(DriverContext& context, PyFunctionObject* function,
                           const CallArguments& call, const std::shared_ptr<Entry>& entry,
                           std::vector<cpython::Ref> values);

// Held by the generators that a compiled function has made.
struct GeneratorContext {
  Settings settings;
  std::shared_ptr<Segments> segments;
};

// Takes over generators of `code`, so that what they do between two yields is driven. Throws
// InternalError if that cannot be done with the code.
std::unique_ptr<cpython::Resumable> make_resumable(PyCodeObject* code,
                                                   std::shared_ptr<GeneratorContext> context);

}  // namespace braze::dispatch
