#include "capture/calls/context_variables.h"

#include "capture/calls/methods.h"
#include "capture/trace_context.h"

namespace braze::capture {

Tracked call_context_var(TraceContext& trace, PyObject* var, const char* name, PyObject* callable,
                         Tracked* args, size_t count, PyObject* kwnames, bool unbound) {
  Tracked self = Tracked::borrow(var);
  if (std::string_view(name) == "get") {
    Ref value = Ref::steal(nullptr);
    PyObject* current = nullptr;
    if (PyContextVar_Get(var, count ? args[0].get() : nullptr, &current) < 0) return {};
    value = Ref::steal(current);
    if (!value)
      return call_unbound(trace, callable, self, args, count, kwnames, unbound);  // its LookupError
    for (const ContextVariables::Write& write : trace.context_variables.writes)
      if (write.var.get() == var) return trace.world.wrap(std::move(value));
    if (count && value.get() == args[0].get()) return args[0];
    Ref getter = Ref::steal(PyObject_GetAttrString(var, "get"));
    const Source*& source = trace.context_variables.sources[var];
    if (!source) source = trace.guards.source(SourceKind::kNative, nullptr, getter.get());
    return trace.world.read(value.get(), source);
  }
  bool known_write = false;
  for (const ContextVariables::Write& write : trace.context_variables.writes)
    known_write |= write.var.get() == var;
  if (!known_write) {
    PyObject* before = nullptr;
    if (PyContextVar_Get(var, nullptr, &before) < 0) return {};
    trace.context_variables.writes.push_back({Ref::borrow(var), Ref::steal(before)});
  }
  return call_unbound(trace, callable, self, args, count, kwnames, unbound);
}

bool context_changed(TraceContext& trace) {
  for (const ContextVariables::Write& write : trace.context_variables.writes) {
    PyObject* now = nullptr;
    if (PyContextVar_Get(write.var.get(), nullptr, &now) < 0) {
      PyErr_Clear();
      return true;
    }
    Ref held = Ref::steal(now);
    if (held.get() != write.value.get()) return true;
  }
  return false;
}

}  // namespace braze::capture
