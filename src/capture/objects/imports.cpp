#include "capture/objects/imports.h"

#include "capture/calls/native_scope.h"
#include "capture/known.h"
#include "capture/objects/attributes.h"
#include "capture/trace_context.h"

namespace braze::capture {

// The module that sys.modules has under the name that was imported, or has not. `module`: what came
// of it; null with an exception pending.
static void rely_on_import(TraceContext& trace, PyObject* name, const Tracked& from_list,
                           PyObject* module) {
  Ref error = module ? Ref() : take_exception();
  Ref key = Ref::borrow(name);
  if (module && from_list.get() == Py_None) {  // import a.b gives a
    Ref parts = Ref::steal(PyUnicode_Partition(name, names().dot));
    if (parts) key = Ref::borrow(PyTuple_GET_ITEM(parts.get(), 0));
  }
  PyObject* found = PyDict_GetItemWithError(known().sys_modules, key.get());
  const Source* modules = trace.guards.pinned(known().sys_modules);
  const Source* source = trace.guards.source(SourceKind::kItem, modules, key.get());
  if (!found && !module)
    trace.guards.add(GuardKind::kAbsent, source);
  else if (found && found == module)
    trace.guards.add(GuardKind::kIdentity, source, module);
  if (!module) restore_exception(std::move(error));
}

Tracked import_name(TraceContext& trace, Frame& frame, PyObject* name, const Tracked& from_list,
                    const Tracked& level) {
  NativeScope scope(trace, true, nullptr);
  ++trace.importing;
  int64_t recorded = trace.origins.recorded_nodes();
  int depth = static_cast<int>(PyLong_AsLong(level.get()));
  Ref module = Ref::steal(
      PyImport_ImportModuleLevelObject(name, frame.globals.get(), Py_None, from_list.get(), depth));
  --trace.importing;
  if (depth == 0 && !trace.breaks.under_way()) rely_on_import(trace, name, from_list, module.get());
  if (!module) return {};
  if (trace.origins.recorded_nodes() != recorded)
    return trace.refuse(BreakKind::kImport, "an import that runs tensor operations");
  if (!PyModule_Check(module.get()))
    return trace.refuse(BreakKind::kImport, "an import that gives no module");
  trace.world.set_origin(module.get(), trace.guards.pinned(module.get()));
  trace.world.hold(module);
  return Tracked(module, trace.guards.pinned(module.get()));
}

// As CPython's own instruction says it.
static void raise_no_such_name(PyObject* module, PyObject* name, PyObject* package) {
  Ref path = Ref::steal(PyModule_Check(module) ? PyModule_GetFilenameObject(module) : nullptr);
  PyErr_Clear();
  Ref message = Ref::steal(
      path ? PyUnicode_FromFormat("cannot import name %R from %R (%S)", name, package, path.get())
           : PyUnicode_FromFormat("cannot import name %R from %R (unknown location)", name,
                                  package));
  if (message) PyErr_SetImportError(message.get(), package, path.get());
}

Tracked import_from(TraceContext& trace, const Tracked& module, PyObject* name) {
  Tracked value = getattr(trace, module, name);
  if (value || !PyErr_ExceptionMatches(PyExc_AttributeError)) return value;
  PyErr_Clear();
  // A submodule that is not an attribute of its package yet.
  Ref package = Ref::steal(PyObject_GetAttr(module.get(), names().name));
  Ref full = package ? Ref::steal(PyUnicode_FromFormat("%U.%U", package.get(), name)) : Ref();
  if (!full) return {};
  if (PyObject* found = PyDict_GetItemWithError(known().sys_modules, full.get())) {
    trace.world.set_origin(found, trace.guards.pinned(found));
    trace.world.hold(Ref::borrow(found));
    return Tracked::borrow(found, trace.guards.pinned(found));
  }
  raise_no_such_name(module.get(), name, package.get());
  return {};
}

}  // namespace braze::capture
