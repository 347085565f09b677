#include "capture/objects/super.h"

#include "capture/calls/calls.h"
#include "capture/calls/native.h"
#include "capture/known.h"
#include "capture/objects/attributes.h"
#include "capture/objects/variables.h"
#include "capture/trace_context.h"

namespace braze::capture {

Tracked super_attribute(TraceContext& trace, const Tracked& cls, const Tracked& self,
                        PyObject* name, Tracked* method_self) {
  PyObject* obj = self.get();
  bool through_type =
      PyType_Check(obj) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(obj),
                                            reinterpret_cast<PyTypeObject*>(cls.get()));
  auto* start = through_type ? reinterpret_cast<PyTypeObject*>(obj) : Py_TYPE(obj);
  trace.world.rely_on_specials(start);  // and so on its MRO
  PyObject* mro = start->tp_mro;
  Py_ssize_t n = mro ? PyTuple_GET_SIZE(mro) : 0, i = 0;  // none while its mro() is under way
  while (i < n && PyTuple_GET_ITEM(mro, i) != cls.get()) ++i;
  for (++i; i < n && name != names().class_; ++i) {
    auto* type = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (!is_heap_type(type)) break;
    PyObject* found = PyDict_GetItemWithError(type->tp_dict, name);
    if (!found) {
      if (PyErr_Occurred()) return {};
      trace.world.type_lookup(type, name);
      continue;
    }
    const Source* source = nullptr;
    trace.world.type_lookup(type, name, &source);
    Ref held = Ref::borrow(found);
    if (PyFunction_Check(found)) {
      if (through_type) return Tracked::borrow(found, source);
      return bind_descriptor(trace, found, source, self, method_self);
    }
    if (Py_IS_TYPE(found, &PyProperty_Type) && !through_type) {
      Ref getter = Ref::steal(PyObject_GetAttr(found, names().fget));
      Tracked args[1] = {self};
      return getter ? call(trace, trace.world.wrap(getter), args, 1, nullptr) : Tracked();
    }
    auto get = Py_TYPE(found)->tp_descr_get;
    if (!get) return source ? trace.world.read(found, source) : trace.world.wrap(found);
    Ref value = Ref::steal(get(found, through_type ? nullptr : obj, as_object(start)));
    return value ? result_of_native(trace, std::move(value)) : Tracked();
  }
  // Only built-in classes are left.
  PyObject* args[2] = {cls.get(), obj};
  Ref super = Ref::steal(PyObject_Vectorcall(as_object(&PySuper_Type), args, 2, nullptr));
  if (!super) return {};
  Ref value = Ref::steal(PyObject_GetAttr(super.get(), name));
  return value ? trace.world.wrap(std::move(value)) : Tracked();
}

Tracked bare_super(TraceContext& trace, Frame& frame) {
  PyCodeObject* code = frame.code();
  int first_free = code->co_nlocalsplus - code->co_nfreevars;
  if (code->co_argcount == 0) first_free = code->co_nlocalsplus;
  for (int i = first_free; i < code->co_nlocalsplus; ++i) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(code->co_localsplusnames, i),
                                         "__class__"))
      continue;
    Tracked cls = load_deref(trace, frame, i);
    if (!cls) return {};
    PyObject* self = frame.locals[0].get();
    if (self && PyCell_Check(self)) self = PyCell_GET(self);
    if (!self) break;
    PyObject* args[2] = {cls.get(), self};
    return Tracked::steal(PyObject_Vectorcall(as_object(&PySuper_Type), args, 2, nullptr));
  }
  PyErr_SetString(PyExc_RuntimeError, "super(): no arguments");
  return {};
}

Tracked special_method(TraceContext& trace, const Tracked& object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object.get());
  const Source* source = nullptr;
  PyObject* found = trace.world.type_lookup(type, name, &source);
  if (!found) {
    PyErr_SetObject(PyExc_AttributeError, name);
    return {};
  }
  if (PyFunction_Check(found)) return Tracked::steal(PyMethod_New(found, object.get()));
  auto get = Py_TYPE(found)->tp_descr_get;
  if (!get) return Tracked::borrow(found);
  return Tracked::steal(get(found, object.get(), as_object(type)));
}

}  // namespace braze::capture
