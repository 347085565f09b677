#include "trace/break.h"

#include "torch_python/errors.h"
#include "trace/trace_state.h"

namespace braze::trace {
namespace {

PyObject* g_break_type = nullptr;

}  // namespace

void raise_break(TraceBreak reason) {
  std::string message = reason.op + ": " + reason.what + "; " + reason.way_out;
  if (TraceState* state = current_state(); state && !state->last_break)
    state->last_break = std::move(reason);
  torch_python::throw_as(g_break_type, std::move(message));
}

bool create_break_type(PyObject* module) {
  if (g_break_type == nullptr) {
    // Not an Exception: the traced program's `except Exception` must not catch it.
    g_break_type = PyErr_NewExceptionWithDoc("braze._C.TraceBreak",
                                             "Tracing met an operator that it cannot record.",
                                             PyExc_BaseException, nullptr);
  }
  return g_break_type != nullptr && PyObject_SetAttrString(module, "TraceBreak", g_break_type) == 0;
}

PyObject* trace_break_type() { return g_break_type; }

}  // namespace braze::trace
