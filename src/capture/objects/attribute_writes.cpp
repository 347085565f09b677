#include "capture/objects/attribute_writes.h"

#include "capture/calls/calls.h"
#include "capture/calls/native_scope.h"
#include "capture/frames/subject.h"
#include "capture/known.h"
#include "capture/objects/attributes.h"
#include "capture/objects/items.h"
#include "capture/objects/super.h"
#include "capture/objects/tensor_attributes.h"
#include "capture/trace_context.h"
#include "cpython/lookup.h"
#include "cpython/text.h"

namespace braze::capture {

namespace {

// Of a `__slots__`; members of C's structs have types and may be read-only.
bool is_slot(PyObject* descriptor) {
  return Py_IS_TYPE(descriptor, &PyMemberDescr_Type) && is_python_class(PyDescr_TYPE(descriptor));
}

bool set_item_of_dict(TraceContext& trace, PyObject* dict, PyObject* name, const Tracked& value) {
  if (!PyDict_CheckExact(dict) || !PyUnicode_CheckExact(name))
    return trace.breaks.refuse(BreakKind::kSideEffect,
                               "an attribute that lies in a dict from outside is set");
  return setitem(trace, trace.world.wrap(dict), Tracked::borrow(name), value);
}

}  // namespace

PyObject* outside_dict_of(TraceContext& trace, PyObject* object) {
  if (PyType_Check(object) || is_tensor(object) || trace.world.source_of(object)) return nullptr;
  PyObject* dict = cpython::existing_dict(object);
  return dict && trace.world.source_of(dict) ? dict : nullptr;
}

bool setattr(TraceContext& trace, const Tracked& object, PyObject* name, const Tracked& value) {
  const Subject subject(trace, object);
  PyObject* obj = object.get();
  PyTypeObject* type = Py_TYPE(obj);
  if (is_tensor(obj)) return set_tensor_attribute(trace, object, name, value);
  if (PyFunction_Check(obj)) trace.world.guard_identity_of_function(obj);
  PyObject* shared = outside_dict_of(trace, obj);
  if (!trace.world.is_outside(obj) && !shared && !PyType_Check(obj) && !PyFunction_Check(obj) &&
      (!PyModule_Check(obj) || trace.world.made_module(obj))) {
    // Made by the trace: CPython's own way, its Python parts come back through the hook.
    if (is_python_class(type)) {
      const Source* source = nullptr;
      trace.world.type_lookup(type, value ? names().setattr : names().delattr);
      PyObject* descriptor = trace.world.type_lookup(type, name, &source);
      if (source && descriptor && is_python_class(Py_TYPE(descriptor)) &&
          !trace.world.read(descriptor, source))
        return false;
    }
    NativeScope scope(trace, false, nullptr);
    int status = value ? PyObject_SetAttr(obj, name, value.get()) : PyObject_DelAttr(obj, name);
    return !trace.breaks.under_way() && status == 0;
  }
  if (PyObject_TypeCheck(obj, known().logger))  // messages are put off to the end
    return trace.breaks.refuse(BreakKind::kSideEffect, "a logger is changed");
  if ((PyFunction_Check(obj) || PyType_Check(obj)) && trace.world.made_function(obj))
    return (value ? PyObject_SetAttr(obj, name, value.get()) : PyObject_DelAttr(obj, name)) == 0 &&
           !trace.breaks.under_way();
  bool own_attribute = PyFunction_Check(obj) && trace.world.source_of(object) &&
                       PyUnicode_Check(name) && !_PyType_Lookup(type, name);
  if (PyType_Check(obj) || (PyFunction_Check(obj) && !own_attribute))
    return trace.breaks.refuse(BreakKind::kSideEffect,
                               std::string("an attribute of a ") +
                                   (PyType_Check(obj) ? "class" : "function") +
                                   " from outside is set: " + cpython::utf8_of(name));
  if (!PyModule_Check(obj) && !trace.world.source_of(object) && !shared)
    return trace.breaks.refuse(BreakKind::kSideEffect, std::string("an attribute is set on a '") +
                                                           type->tp_name +
                                                           "' object that native code gave");
  PyObject* method_name = value ? names().setattr : names().delattr;
  PyObject* method = trace.world.type_lookup(type, method_name);
  if (method && PyFunction_Check(method)) {
    Tracked args[3] = {object, Tracked::borrow(name), value};
    return bool(call(trace, Tracked::borrow(method), args, value ? 3 : 2, nullptr));
  }
  // `__setattr__ = dict.__setitem__`
  if (method && is_method_of_c(method) && PyDict_Check(obj) &&
      PyDescr_TYPE(method) == &PyDict_Type) {
    Tracked args[3] = {object, Tracked::borrow(name), value};
    return bool(call(trace, Tracked::borrow(method), args, value ? 3 : 2, nullptr));
  }
  if (!is_wrapper_of(method, PyObject_GenericSetAttr))
    return trace.breaks.refuse(
        BreakKind::kNativeObject,
        std::string("an attribute of a '") + type->tp_name + "' object from outside is set");
  return generic_setattr(trace, object, name, value);
}

bool generic_setattr(TraceContext& trace, const Tracked& object, PyObject* name,
                     const Tracked& value) {
  PyObject* obj = object.get();
  PyTypeObject* type = Py_TYPE(obj);
  const Source* descriptor_source = nullptr;
  PyObject* descriptor = trace.world.type_lookup(type, name, &descriptor_source);
  if (PyModule_Check(obj) && descriptor && !PyDescr_IsData(descriptor)) descriptor = nullptr;
  if (descriptor && Py_IS_TYPE(descriptor, &PyProperty_Type)) {
    Ref setter = Ref::steal(PyObject_GetAttr(descriptor, value ? names().fset : names().fdel));
    if (!setter) return false;
    if (setter.get() == Py_None) {
      PyErr_Format(PyExc_AttributeError, "property '%U' of '%.100s' object has no %s", name,
                   type->tp_name, value ? "setter" : "deleter");
      return false;
    }
    Tracked args[2] = {object, value};
    return bool(call(trace, trace.world.wrap(setter), args, value ? 2 : 1, nullptr));
  }
  // One written in Python: its __set__ or __delete__ is evaluated.
  static PyObject *set = PyUnicode_InternFromString("__set__"),
                  *delete_ = PyUnicode_InternFromString("__delete__");
  PyObject* method = descriptor && Py_TYPE(descriptor)->tp_descr_set
                         ? _PyType_Lookup(Py_TYPE(descriptor), value ? set : delete_)
                         : nullptr;
  if (method && PyFunction_Check(method)) {
    if (descriptor_source && !trace.world.read(descriptor, descriptor_source)) return false;
    Tracked bound = special_method(trace, Tracked::borrow(descriptor, descriptor_source),
                                   value ? set : delete_);
    Tracked args[2] = {object, value};
    return bound && call(trace, bound, args, value ? 2 : 1, nullptr);
  }
  if (descriptor && Py_TYPE(descriptor)->tp_descr_set && !is_slot(descriptor) &&
      trace.world.source_of(object))
    return trace.breaks.refuse(BreakKind::kSideEffect,
                               std::string("attribute '") + cpython::utf8_of(name) + "' of a '" +
                                   type->tp_name + "' object from outside is set by a descriptor");
  if (!descriptor || !is_slot(descriptor)) {
    if (!instance_dict(obj)) {
      PyErr_Format(PyExc_AttributeError, "'%.100s' object has no attribute '%U'", type->tp_name,
                   name);
      return false;
    }
  }
  if (!value) {
    Tracked there = generic_getattr(trace, object, name, nullptr, true);
    if (!there) {
      if (!PyErr_Occurred())
        PyErr_Format(PyExc_AttributeError, "'%.100s' object has no attribute '%U'", type->tp_name,
                     name);
      return false;
    }
  }
  if (PyObject* dict = outside_dict_of(trace, obj)) {
    if (!descriptor || !Py_TYPE(descriptor)->tp_descr_set)
      return set_item_of_dict(trace, dict, name, value);
    return (value ? PyObject_GenericSetAttr(obj, name, value.get())
                  : PyObject_GenericSetAttr(obj, name, nullptr)) == 0;
  }
  return trace.world.write_attribute(obj, name, value.get(), descriptor && is_slot(descriptor));
}

}  // namespace braze::capture
