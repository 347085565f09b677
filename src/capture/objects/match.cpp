#include "capture/objects/match.h"

#include "capture/calls/builtins.h"
#include "capture/calls/calls.h"
#include "capture/known.h"
#include "capture/objects/attributes.h"
#include "capture/objects/items.h"
#include "capture/objects/operators.h"
#include "capture/trace_context.h"

namespace braze::capture {

// CPython asks subject.get(key, MARK).
static Tracked match_key(TraceContext& trace, const Tracked& subject, const Tracked& key,
                         bool& found) {
  if (!is_python_class(Py_TYPE(subject.get()))) {
    const int there = contains(trace, subject, key);
    found = there != 0;
    return there > 0 ? getitem(trace, subject, key) : Tracked();
  }
  Tracked get = getattr(trace, subject, names().get);
  if (!get) return {};
  Tracked args[2] = {
      key, Tracked::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)))};
  PyObject* mark = args[1].get();
  const Ref held = Ref::borrow(mark);
  Tracked value = call(trace, get, args, 2, nullptr);
  found = !value || value.get() != mark;
  return found ? std::move(value) : Tracked();
}

Tracked match_keys(TraceContext& trace, const Tracked& subject, const Tracked& keys) {
  Py_ssize_t n = PyTuple_GET_SIZE(keys.get());
  Ref values = Ref::steal(PyTuple_New(n));
  Ref seen = Ref::steal(PySet_New(nullptr));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys.get(), i);
    if (PySet_Contains(seen.get(), key) != 0 || PySet_Add(seen.get(), key) < 0) {
      if (!PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "mapping pattern checks duplicate key (%R)", key);
      return {};
    }
    bool found = true;
    Tracked value = match_key(trace, subject, Tracked::borrow(key), found);
    if (!found) return Tracked::borrow(Py_None);
    if (!value) return {};
    PyTuple_SET_ITEM(values.get(), i, value.object.release());
  }
  return Tracked(values);
}

namespace {

// The names that the positional sub-patterns stand for; a list that holds None: the subject itself.
// Empty with an exception pending if there are not so many.
Ref positional_names(PyTypeObject* type, const Tracked& declared, int count) {
  Ref names = Ref::steal(PyList_New(0));
  Py_ssize_t allowed = 0;
  if (declared) {
    if (!PyTuple_CheckExact(declared.get())) {
      PyErr_Format(PyExc_TypeError, "%s.__match_args__ must be a tuple (got %s)", type->tp_name,
                   Py_TYPE(declared.get())->tp_name);
      return {};
    }
    allowed = PyTuple_GET_SIZE(declared.get());
  } else {
    constexpr unsigned long kMatchSelf = 1UL << 22;  // _Py_TPFLAGS_MATCH_SELF
    if (PyType_HasFeature(type, kMatchSelf)) allowed = 1;
  }
  if (allowed < count) {
    PyErr_Format(PyExc_TypeError, "%s() accepts %zd positional sub-pattern%s (%d given)",
                 type->tp_name, allowed, allowed == 1 ? "" : "s", count);
    return {};
  }
  for (int i = 0; i < count; ++i) {
    PyObject* name = declared ? PyTuple_GET_ITEM(declared.get(), i) : Py_None;
    if (declared && !PyUnicode_CheckExact(name)) {
      PyErr_Format(PyExc_TypeError, "__match_args__ elements must be strings (got %s)",
                   Py_TYPE(name)->tp_name);
      return {};
    }
    PyList_Append(names.get(), name);
  }
  return names;
}

}  // namespace

Tracked match_class(TraceContext& trace, const Tracked& subject, const Tracked& cls,
                    const Tracked& attribute_names, int count) {
  if (!PyType_Check(cls.get())) {
    PyErr_SetString(PyExc_TypeError, "called match pattern must be a class");
    return {};
  }
  auto* type = reinterpret_cast<PyTypeObject*>(cls.get());
  if (const Source* source = trace.world.source_of(subject); source && !is_atom(subject.get()) &&
                                                             !is_tensor(subject.get()) &&
                                                             !is_immutable(subject.get()))
    trace.guards.add(GuardKind::kType, source, reinterpret_cast<PyObject*>(Py_TYPE(subject.get())));
  if (!rely_on_registrations(trace, cls.get())) return {};
  const Ref like =
      is_symbolic(subject.get()) ? plain_like(subject.get()) : Ref::borrow(subject.get());
  int instance = PyObject_IsInstance(like.get(), cls.get());
  if (instance < 0 || trace.breaks.under_way()) return {};
  if (!instance) return Tracked::borrow(Py_None);
  Ref wanted = Ref::steal(PyList_New(0));
  if (count > 0) {
    Tracked declared = getattr(trace, cls, names().match_args);
    if (!declared) {
      if (trace.breaks.under_way() || !PyErr_ExceptionMatches(PyExc_AttributeError)) return {};
      PyErr_Clear();
    }
    wanted = positional_names(type, declared, count);
    if (!wanted) return {};
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(attribute_names.get()); ++i)
    PyList_Append(wanted.get(), PyTuple_GET_ITEM(attribute_names.get(), i));
  Ref seen = Ref::steal(PySet_New(nullptr)), attributes = Ref::steal(PyList_New(0));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(wanted.get()); ++i) {
    PyObject* name = PyList_GET_ITEM(wanted.get(), i);
    if (name == Py_None) {
      PyList_Append(attributes.get(), subject.get());
      continue;
    }
    if (PySet_Contains(seen.get(), name)) {
      PyErr_Format(PyExc_TypeError, "%s() got multiple sub-patterns for attribute %R",
                   type->tp_name, name);
      return {};
    }
    PySet_Add(seen.get(), name);
    Tracked value = getattr(trace, subject, name);
    if (!value) {
      if (trace.breaks.under_way() || !PyErr_ExceptionMatches(PyExc_AttributeError)) return {};
      PyErr_Clear();
      return Tracked::borrow(Py_None);
    }
    PyList_Append(attributes.get(), value.get());
  }
  return Tracked::steal(PyList_AsTuple(attributes.get()));
}

}  // namespace braze::capture
