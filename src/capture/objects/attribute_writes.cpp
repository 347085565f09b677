// super(), special methods, attribute writes.
#include "capture/evaluator.h"
#include "capture/known.h"
#include "cpython/text.h"

namespace braze::capture {

namespace {

PyObject* as_object(PyTypeObject* type) { return reinterpret_cast<PyObject*>(type); }

bool is_heap_type(PyTypeObject* type) { return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE); }

// Of a `__slots__`; members of C's structs have types and may be read-only.
bool is_slot(PyObject* descriptor) {
  return Py_IS_TYPE(descriptor, &PyMemberDescr_Type) && is_python_class(PyDescr_TYPE(descriptor));
}

// A `__setattr__` or `__delattr__` made in C that does nothing of its own.
bool stores_as_object_does(PyObject* method) {
  return method && Py_IS_TYPE(method, &PyWrapperDescr_Type) &&
         PyDescr_TYPE(method)->tp_setattro == PyObject_GenericSetAttr;
}

}  // namespace

// --- super

Slot Evaluator::super_attribute(const Slot& cls, const Slot& self, PyObject* name,
                                Slot* method_self) {
  PyObject* obj = self.get();
  bool through_type =
      PyType_Check(obj) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(obj),
                                            reinterpret_cast<PyTypeObject*>(cls.get()));
  auto* start = through_type ? reinterpret_cast<PyTypeObject*>(obj) : Py_TYPE(obj);
  world_.rely_on_specials(start);  // and so on its MRO
  PyObject* mro = start->tp_mro;
  Py_ssize_t n = mro ? PyTuple_GET_SIZE(mro) : 0, i = 0;  // none while its mro() is under way
  while (i < n && PyTuple_GET_ITEM(mro, i) != cls.get()) ++i;
  for (++i; i < n && name != names().class_; ++i) {
    auto* type = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (!is_heap_type(type)) break;
    PyObject* found = PyDict_GetItemWithError(type->tp_dict, name);
    if (!found) {
      if (PyErr_Occurred()) return {};
      world_.type_lookup(type, name);
      continue;
    }
    const Source* source = nullptr;
    world_.type_lookup(type, name, &source);
    Ref held = Ref::borrow(found);
    if (PyFunction_Check(found)) {
      if (through_type) return Slot::borrow(found, source);
      return bind(found, source, self, method_self);
    }
    if (Py_IS_TYPE(found, &PyProperty_Type) && !through_type) {
      Ref getter = Ref::steal(PyObject_GetAttr(found, names().fget));
      Slot args[1] = {self};
      return getter ? call(world_.wrap(getter), args, 1, nullptr) : Slot();
    }
    auto get = Py_TYPE(found)->tp_descr_get;
    if (!get) return source ? world_.read(found, source) : world_.wrap(found);
    Ref value = Ref::steal(get(found, through_type ? nullptr : obj, as_object(start)));
    return value ? result_of_native(std::move(value)) : Slot();
  }
  // Only built-in classes are left.
  PyObject* args[2] = {cls.get(), obj};
  Ref super = Ref::steal(PyObject_Vectorcall(as_object(&PySuper_Type), args, 2, nullptr));
  if (!super) return {};
  Ref value = Ref::steal(PyObject_GetAttr(super.get(), name));
  return value ? world_.wrap(std::move(value)) : Slot();
}

// super(): the class from the cell __class__, the object from local 0.
Slot Evaluator::bare_super(Frame& frame) {
  PyCodeObject* code = frame.code();
  int first_free = code->co_nlocalsplus - code->co_nfreevars;
  if (code->co_argcount == 0) first_free = code->co_nlocalsplus;
  for (int i = first_free; i < code->co_nlocalsplus; ++i) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(code->co_localsplusnames, i),
                                         "__class__"))
      continue;
    Slot cls = load_deref(frame, i);
    if (!cls) return {};
    PyObject* self = frame.locals[0].get();
    if (self && PyCell_Check(self)) self = PyCell_GET(self);
    if (!self) break;
    PyObject* args[2] = {cls.get(), self};
    return Slot::steal(PyObject_Vectorcall(as_object(&PySuper_Type), args, 2, nullptr));
  }
  PyErr_SetString(PyExc_RuntimeError, "super(): no arguments");
  return {};
}

Slot Evaluator::special_method(const Slot& object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object.get());
  const Source* source = nullptr;
  PyObject* found = world_.type_lookup(type, name, &source);
  if (!found) {
    PyErr_SetObject(PyExc_AttributeError, name);
    return {};
  }
  if (PyFunction_Check(found)) return Slot::steal(PyMethod_New(found, object.get()));
  auto get = Py_TYPE(found)->tp_descr_get;
  if (!get) return Slot::borrow(found);
  return Slot::steal(get(found, object.get(), as_object(type)));
}

// --- Writing

bool Evaluator::setattr(const Slot& object, PyObject* name, const Slot& value) {
  const Subject subject(*this, object);
  PyObject* obj = object.get();
  PyTypeObject* type = Py_TYPE(obj);
  if (is_tensor(obj)) return set_tensor_attribute(object, name, value);
  if (!world_.is_outside(obj) && !PyType_Check(obj) && !PyFunction_Check(obj) &&
      (!PyModule_Check(obj) || world_.made_module(obj))) {
    // Made by the trace: CPython's own way, its Python parts come back through the hook.
    if (is_python_class(type)) {
      const Source* source = nullptr;
      world_.type_lookup(type, value ? names().setattr : names().delattr);
      PyObject* descriptor = world_.type_lookup(type, name, &source);
      if (source && descriptor && is_python_class(Py_TYPE(descriptor)) &&
          !world_.read(descriptor, source))
        return false;
    }
    NativeScope scope(*this, false, nullptr);
    int status = value ? PyObject_SetAttr(obj, name, value.get()) : PyObject_DelAttr(obj, name);
    return !breaks_.under_way() && status == 0;
  }
  if (PyObject_TypeCheck(obj, known().logger))  // messages are put off to the end
    return breaks_.refuse(BreakKind::kSideEffect, "a logger is changed");
  if ((PyFunction_Check(obj) || PyType_Check(obj)) && world_.made_function(obj))
    return (value ? PyObject_SetAttr(obj, name, value.get()) : PyObject_DelAttr(obj, name)) == 0 &&
           !breaks_.under_way();
  bool own_attribute = PyFunction_Check(obj) && world_.source_of(object) && PyUnicode_Check(name) &&
                       !_PyType_Lookup(type, name);
  if (PyType_Check(obj) || (PyFunction_Check(obj) && !own_attribute))
    return breaks_.refuse(BreakKind::kSideEffect,
                          std::string("an attribute of a ") +
                              (PyType_Check(obj) ? "class" : "function") +
                              " from outside is set: " + cpython::utf8_of(name));
  if (!PyModule_Check(obj) && !world_.source_of(object))
    return breaks_.refuse(BreakKind::kSideEffect, std::string("an attribute is set on a '") +
                                                      type->tp_name +
                                                      "' object that native code gave");
  PyObject* method_name = value ? names().setattr : names().delattr;
  PyObject* method = world_.type_lookup(type, method_name);
  if (method && PyFunction_Check(method)) {
    Slot args[3] = {object, Slot::borrow(name), value};
    return bool(call(Slot::borrow(method), args, value ? 3 : 2, nullptr));
  }
  if (!stores_as_object_does(method))
    return breaks_.refuse(
        BreakKind::kNativeObject,
        std::string("an attribute of a '") + type->tp_name + "' object from outside is set");
  return generic_setattr(object, name, value);
}

// An attribute of the program's own: neither PyTorch's, nor by its name one that it looks for.
bool Evaluator::set_tensor_attribute(const Slot& tensor, PyObject* name, const Slot& value) {
  PyObject* obj = tensor.get();
  PyTypeObject* type = Py_TYPE(obj);
  const bool plain = type == known().tensor || type == known().parameter;
  const bool own = plain && PyUnicode_Check(name) && PyUnicode_GET_LENGTH(name) > 0 &&
                   PyUnicode_READ_CHAR(name, 0) != '_' && !_PyType_Lookup(type, name);
  const bool stands_for_another = world_.real_of(obj) != obj;
  if (!own || stands_for_another)
    return breaks_.refuse(BreakKind::kTensorInternals,
                          std::string("Tensor.") + cpython::utf8_of(name) + " is set");
  if (world_.source_of(tensor)) return generic_setattr(tensor, name, value);
  return (value ? PyObject_SetAttr(obj, name, value.get()) : PyObject_DelAttr(obj, name)) == 0;
}

bool Evaluator::generic_setattr(const Slot& object, PyObject* name, const Slot& value) {
  PyObject* obj = object.get();
  PyTypeObject* type = Py_TYPE(obj);
  const Source* descriptor_source = nullptr;
  PyObject* descriptor = world_.type_lookup(type, name, &descriptor_source);
  if (PyModule_Check(obj) && descriptor && !PyDescr_IsData(descriptor)) descriptor = nullptr;
  if (descriptor && Py_IS_TYPE(descriptor, &PyProperty_Type)) {
    Ref setter = Ref::steal(PyObject_GetAttr(descriptor, value ? names().fset : names().fdel));
    if (!setter) return false;
    if (setter.get() == Py_None) {
      PyErr_Format(PyExc_AttributeError, "property '%U' of '%.100s' object has no %s", name,
                   type->tp_name, value ? "setter" : "deleter");
      return false;
    }
    Slot args[2] = {object, value};
    return bool(call(world_.wrap(setter), args, value ? 2 : 1, nullptr));
  }
  // One written in Python: its __set__ or __delete__ is evaluated.
  static PyObject *set = PyUnicode_InternFromString("__set__"),
                  *delete_ = PyUnicode_InternFromString("__delete__");
  PyObject* method = descriptor && Py_TYPE(descriptor)->tp_descr_set
                         ? _PyType_Lookup(Py_TYPE(descriptor), value ? set : delete_)
                         : nullptr;
  if (method && PyFunction_Check(method)) {
    if (descriptor_source && !world_.read(descriptor, descriptor_source)) return false;
    Slot bound = special_method(Slot::borrow(descriptor, descriptor_source), value ? set : delete_);
    Slot args[2] = {object, value};
    return bound && call(bound, args, value ? 2 : 1, nullptr);
  }
  if (descriptor && Py_TYPE(descriptor)->tp_descr_set && !is_slot(descriptor))
    return breaks_.refuse(BreakKind::kSideEffect,
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
    Slot there = generic_getattr(object, name, nullptr, true);
    if (!there) {
      if (!PyErr_Occurred())
        PyErr_Format(PyExc_AttributeError, "'%.100s' object has no attribute '%U'", type->tp_name,
                     name);
      return false;
    }
  }
  return world_.write_attribute(obj, name, value.get());
}

}  // namespace braze::capture
