#include "capture/objects/named_tuples.h"

#include "capture/calls/native.h"
#include "capture/calls/native_scope.h"
#include "capture/known.h"
#include "capture/objects/class_statements.h"
#include "capture/objects/operators.h"
#include "capture/trace_context.h"

namespace braze::capture {

namespace {

// Its attributes, the texts that describe its fields, and the defaults of its constructor, which
// programs set.
Ref parts_of_class(PyObject* cls) {
  Ref parts = Ref::steal(PyList_New(0));
  auto add = [&](Ref part) {
    if (!part) PyErr_Clear();
    return PyList_Append(parts.get(), part ? part.get() : Py_None) == 0;
  };
  Py_ssize_t position = 0;
  PyObject *name, *value;
  while (PyDict_Next(reinterpret_cast<PyTypeObject*>(cls)->tp_dict, &position, &name, &value)) {
    add(Ref::borrow(name));
    add(Ref::borrow(value));
    if (PyUnicode_READ_CHAR(name, 0) != '_')
      add(Ref::steal(PyObject_GetAttrString(value, "__doc__")));
  }
  const Ref constructor = Ref::steal(PyObject_GetAttrString(cls, "__new__"));
  if (constructor) {
    add(Ref::steal(PyObject_GetAttr(constructor.get(), names().defaults)));
    add(Ref::steal(PyObject_GetAttr(constructor.get(), names().kwdefaults)));
  }
  return parts;
}

bool are_identical(PyObject* a, PyObject* b) {
  if (PyList_GET_SIZE(a) != PyList_GET_SIZE(b)) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(a); ++i)
    if (PyList_GET_ITEM(a, i) != PyList_GET_ITEM(b, i)) return false;
  return true;
}

// functools.partial(namedtuple, name, fields, defaults=..., module=...). Empty where a default is
// more than a number or text.
Ref maker(PyObject* function, PyObject* cls) {
  const Ref name = Ref::steal(PyObject_GetAttr(cls, names().name)),
            fields = Ref::steal(PyObject_GetAttrString(cls, "_fields")),
            constructor = Ref::steal(PyObject_GetAttrString(cls, "__new__")),
            module = Ref::steal(PyObject_GetAttr(cls, names().module));
  if (!name || !fields || !constructor || !module) return {};
  const Ref defaults = Ref::steal(PyObject_GetAttr(constructor.get(), names().defaults));
  if (!defaults) return {};
  for (Py_ssize_t i = 0; PyTuple_Check(defaults.get()) && i < PyTuple_GET_SIZE(defaults.get()); ++i)
    if (!is_atom(PyTuple_GET_ITEM(defaults.get(), i))) return {};
  const Ref args = Ref::steal(Py_BuildValue("(OOO)", function, name.get(), fields.get())),
            options = Ref::steal(
                Py_BuildValue("{sOsO}", "defaults", defaults.get(), "module", module.get()));
  return Ref::steal(
      PyObject_Call(reinterpret_cast<PyObject*>(known().partial), args.get(), options.get()));
}

}  // namespace

bool is_namedtuple(PyFunctionObject* function) {
  if (PyUnicode_CompareWithASCIIString(function->func_qualname, "namedtuple") != 0) return false;
  PyObject* module = PyDict_GetItemWithError(function->func_globals, names().name);
  return module && PyUnicode_Check(module) &&
         PyUnicode_CompareWithASCIIString(module, "collections") == 0;
}

Tracked make_named_tuple(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
                         PyObject* kwnames) {
  trace.world.guard_identity_of_function(callable.get());
  for (size_t i = 0; i < count; ++i)
    if (is_tensor(args[i].get()) || holds_tensor(args[i].get()))
      return trace.refuse(BreakKind::kNativeCall, "namedtuple() is given a tensor");
  if (!check_native_arguments(trace, "namedtuple", args, count, true)) return {};
  const NativeScope scope(trace, true, callable.get());
  Ref made = call_raw(trace, callable.get(), args, count, kwnames);
  if (!made) return {};
  // It is in the module of who asks for it, by the frame, which is none of CPython's here.
  static PyObject* const keyword = PyUnicode_InternFromString("module");
  const bool is_given = kwnames && PySequence_Contains(kwnames, keyword) == 1;
  const Frame* asking = trace.frames.top();
  PyObject* module =
      asking ? PyDict_GetItemWithError(asking->globals.get(), names().name) : nullptr;
  if (module && !is_given && PyObject_SetAttr(made.get(), names().module, module) < 0) return {};
  note_class(trace, made.get());
  Ref again = maker(callable.get(), made.get());
  if (!again) PyErr_Clear();
  trace.named_tuples.push_back({made, std::move(again), parts_of_class(made.get())});
  return Tracked(std::move(made));
}

PyObject* maker_of_class(const TraceContext& trace, PyObject* cls) {
  for (const NamedTupleClass& known : trace.named_tuples)
    if (known.made.get() == cls)
      return known.maker && are_identical(known.before.get(), parts_of_class(cls).get())
                 ? known.maker.get()
                 : nullptr;
  return nullptr;
}

}  // namespace braze::capture
