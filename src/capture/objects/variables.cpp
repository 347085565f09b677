#include "capture/objects/variables.h"

#include "capture/frames/entry_state.h"
#include "capture/known.h"
#include "capture/trace_context.h"
#include "cpython/watch.h"

namespace braze::capture {

static Tracked read_global(TraceContext& trace, Frame& frame, PyObject* name);

Tracked load_global(TraceContext& trace, Frame& frame, PyObject* name) {
  PyObject* globals = frame.globals.get();
  const size_t hash =
      (reinterpret_cast<size_t>(globals) >> 4) * 31 + (reinterpret_cast<size_t>(name) >> 4);
  KnownGlobal& known = trace.caches.globals[hash % ReadCaches::kGlobals];
  const uint64_t version = cpython::dict_version(globals),
                 builtins_version = cpython::dict_version(frame.builtins.get());
  const bool unwritten = trace.world.log().is_unwritten(globals);
  if (known.name == name && known.version == version && known.builtins == builtins_version &&
      unwritten)
    return known.value;
  Tracked value = read_global(trace, frame, name);
  if (value && unwritten) known = {name, version, builtins_version, value};
  return value;
}

static Tracked read_global(TraceContext& trace, Frame& frame, PyObject* name) {
  PyObject* globals = frame.globals.get();
  const Source* base = trace.guards.globals_base(frame.function_object());
  PyObject* used = trace.world.effective(globals);
  if (const Write* write = trace.world.log().written(globals, name)) {
    if (write->value) return trace.world.wrap(write->value.get());
  } else if (PyObject* value = PyDict_GetItemWithError(used, name)) {
    if (used != globals) return trace.world.wrap(value);
    return trace.world.read(value, trace.guards.source(SourceKind::kGlobal, base, name));
  }
  if (PyErr_Occurred()) return {};
  if (PyObject* value = PyDict_GetItemWithError(frame.builtins.get(), name)) {
    trace.guards.add(GuardKind::kAbsent, trace.guards.source(SourceKind::kGlobal, base, name));
    return trace.world.read(value, trace.guards.source(SourceKind::kBuiltin, base, name));
  }
  if (PyErr_Occurred()) return {};
  PyErr_Format(PyExc_NameError, "name '%U' is not defined", name);
  Ref error = take_exception();
  if (PyObject_SetAttr(error.get(), names().name_plain, name) < 0) PyErr_Clear();
  restore_exception(std::move(error));
  return {};
}

bool store_global(TraceContext& trace, Frame& frame, PyObject* name, const Tracked& value) {
  const Source* base = trace.guards.globals_base(frame.function_object());
  PyObject* globals = frame.globals.get();
  const Write* write = trace.world.log().written(globals, name);
  PyObject* outside = PyDict_GetItemWithError(trace.world.effective(globals), name);
  if (!outside && PyErr_Occurred()) return false;
  // It would go to the end of the dict.
  if (value && write && !write->value && outside)
    return trace.breaks.refuse(BreakKind::kSideEffect, "a global is deleted and set again");
  if (!value) {
    if (!write) {
      const Source* source = trace.guards.source(SourceKind::kGlobal, base, name);
      trace.guards.add(outside ? GuardKind::kPresent : GuardKind::kAbsent, source);
    }
    if (write ? !write->value : !outside) {
      PyErr_Format(PyExc_NameError, "name '%U' is not defined", name);
      return false;
    }
  }
  return trace.world.write_global(frame.function_object(), name, value.get());
}

void read_closure(TraceContext& trace, PyFunctionObject* function) {
  PyObject* closure = function->func_closure;
  const Source* base = closure ? trace.guards.function_base(function) : nullptr;
  for (Py_ssize_t i = 0; closure && i < PyTuple_GET_SIZE(closure); ++i) {
    PyObject* cell = PyTuple_GET_ITEM(closure, i);
    if (trace.world.made_function(cell)) continue;
    const Source* known = trace.world.source_of(cell);
    if (known && known->base == base && PyLong_AsSsize_t(known->key.get()) == i) continue;
    Ref index = Ref::steal(PyLong_FromSsize_t(i));
    if (known) {
      trace.world.guard_same_cell(cell,
                                  trace.guards.source(SourceKind::kCellObject, base, index.get()));
    } else {
      trace.world.set_origin(cell, trace.guards.source(SourceKind::kCell, base, index.get()));
      trace.world.hold(Ref::borrow(cell));
    }
  }
}

void copy_free_vars(TraceContext& trace, Frame& frame, int count) {
  PyFunctionObject* function = frame.function_object();
  if (frame.outside_function) read_closure(trace, function);
  const int first = frame.code()->co_nlocalsplus - count;
  for (int i = 0; i < count; ++i)
    frame.locals[static_cast<size_t>(first + i)] =
        Tracked::borrow(PyTuple_GET_ITEM(function->func_closure, i));
}

Tracked read_cell(TraceContext& trace, PyObject* cell) {
  const Source* source = trace.world.source_of(cell);
  PyObject* value = PyCell_GET(cell);
  if (source) {
    if (const Write* write = trace.world.log().written(cell, nullptr)) {
      value = write->value.get();
      source = nullptr;
    }
  }
  if (value && source && !may_guard_class_of(trace, value)) return {};
  if (value) return source ? trace.world.read(value, source) : trace.world.wrap(value);
  if (source) trace.guards.add(GuardKind::kAbsent, source);
  return {};
}

Tracked load_deref(TraceContext& trace, Frame& frame, int index) {
  PyObject* cell = frame.locals[static_cast<size_t>(index)].get();
  if (Tracked value = read_cell(trace, cell); value || trace.breaks.under_way()) return value;
  PyCodeObject* code = frame.code();
  bool is_free = index >= code->co_nlocalsplus - code->co_nfreevars;
  PyErr_Format(is_free ? PyExc_NameError : PyExc_UnboundLocalError,
               is_free
                   ? "cannot access free variable '%U' where it is not associated with a value in "
                     "enclosing scope"
                   : "cannot access local variable '%U' where it is not associated with a value",
               PyTuple_GET_ITEM(code->co_localsplusnames, index));
  return {};
}

bool store_deref(TraceContext& trace, Frame& frame, int index, Tracked value) {
  PyObject* cell = frame.locals[static_cast<size_t>(index)].get();
  if (!value && !load_deref(trace, frame, index)) return false;
  if (trace.world.source_of(cell))
    trace.world.write_cell(cell, value.get());
  else
    PyCell_Set(cell, value.get());
  return true;
}

}  // namespace braze::capture
