// Items of containers, globals, cells, imports and the instructions of `match`.
#include "capture/evaluator.h"
#include "capture/known.h"
#include "cpython/watch.h"

namespace braze::capture {

namespace {

bool is_heap_type(PyTypeObject* type) { return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE); }

}  // namespace

Slot Evaluator::getitem(const Slot& object, const Slot& given) {
  if (Py_TYPE(object.get()) == known().text) return getitem(Slot(settle_text(object.get())), given);
  const Subject subject(*this, object);
  Slot key = given;
  if (recording_.has_symbols() && !is_tensor(object.get()) &&
      (is_container(object.get()) || is_atom(object.get()) || PyRange_Check(object.get()))) {
    make_concrete(key);
    key = Slot::borrow(world_.real_of(key.get()), key.source);
  }
  PyObject* original = object.get();
  PyObject* used = world_.effective(original);
  const Source* source = used == original ? world_.source_of(object) : nullptr;
  PyTypeObject* type = Py_TYPE(used);
  if (PyDict_Check(used)) make_key(key);
  if (source && (PyList_Check(used) || PyTuple_Check(used)) && PyLong_CheckExact(key.get()) &&
      (!is_heap_type(type) || !PyFunction_Check(_PyType_Lookup(type, names().getitem)))) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(used);
    Py_ssize_t i = PyLong_AsSsize_t(key.get());
    if (i == -1 && PyErr_Occurred()) return {};
    world_.guard_length(source, n);
    if (i < 0) i += n;
    if (i >= 0 && i < n) {
      Ref index = Ref::steal(PyLong_FromSsize_t(i));
      return world_.read(PySequence_Fast_GET_ITEM(used, i),
                         world_.source(SourceKind::kItem, source, index.get()));
    }
  }
  if (source && PyDict_Check(used) &&
      type->tp_as_mapping->mp_subscript == PyDict_Type.tp_as_mapping->mp_subscript) {
    if (!read_operand(key, "a look-up")) return {};
    if (PyObject* owner = world_.owner_of_dict(original))
      if (const Write* write = world_.written(owner, key.get())) {
        if (write->value) return world_.wrap(write->value.get());
        PyErr_SetObject(PyExc_KeyError, key.get());
        return {};
      }
    if (PyObject* value = PyDict_GetItemWithError(used, key.get()))
      return world_.read(value, world_.item_source(original, source, key.get()));
    if (PyErr_Occurred()) return {};
    world_.guard(GuardKind::kAbsent, world_.item_source(original, source, key.get()));
    if (!PyDict_CheckExact(used) && _PyType_Lookup(type, names().missing)) {
      used = world_.shadow(original);
      if (!used) return {};
    } else {
      PyErr_SetObject(PyExc_KeyError, key.get());
      return {};
    }
  }
  if (!is_tensor(used) && is_heap_type(type)) {
    PyObject* method = world_.type_lookup(type, names().getitem);
    if (method && PyFunction_Check(method)) {
      Slot args[2] = {object, key};
      return call(Slot::borrow(method), args, 2, nullptr);
    }
  }
  bool torch = is_tensor(used);
  if (source && !torch && !PyType_Check(used)) {
    if (is_container(used)) {
      if (!world_.read_all(used)) return {};
    } else if (!read_operand(object, "an item")) {
      return {};
    }
  }
  if (torch ? !may_index_tensor(key.get()) : !read_operand(key, "an index")) return {};
  PyObject* callee = torch ? operator_callable("getitem") : nullptr;
  Ref value;
  {
    NativeScope scope(*this, torch, callee);
    // x[n]: indexing itself would make a number of n.
    value = torch && Py_TYPE(key.get()) == known().sym_int
                ? Ref::steal(PyObject_CallMethod(used, "select", "iO", 0, key.get()))
                : Ref::steal(PyObject_GetItem(used, world_.effective(key.get())));
  }
  Slot args[2] = {object, key};
  if (!value) return torch ? torch_failed(callee, args, 2) : Slot();
  if (torch) record_torch_call(callee, args, 2, nullptr, value.get());
  return result_of_native(std::move(value));
}

// As key or as what is put there.
bool Evaluator::may_index_tensor(PyObject* object) {
  if (is_container(object) && !read_deeply(object, Look::kDeep)) return false;
  return may_give_torch(object, "Tensor", "__getitem__");
}

bool Evaluator::setitem(const Slot& object, const Slot& given, const Slot& value) {
  const Subject subject(*this, object);
  Slot key = given;
  if (recording_.has_symbols() && is_container(object.get())) {
    make_concrete(key);
    key = Slot::borrow(world_.real_of(key.get()), key.source);
  }
  PyObject* obj = object.get();
  PyTypeObject* type = Py_TYPE(obj);
  if (is_tensor(obj)) {
    if (!may_index_tensor(key.get()) || (value && !may_index_tensor(value.get()))) return false;
    PyObject* callee = operator_callable("setitem");
    int status;
    {
      NativeScope scope(*this, true, callee);
      status =
          value ? PyObject_SetItem(obj, key.get(), value.get()) : PyObject_DelItem(obj, key.get());
    }
    Slot args[3] = {object, key, value};
    if (status < 0) return bool(torch_failed(callee, args, value ? 3 : 2));
    record_torch_call(callee, args, 3, nullptr, Py_None);
    return true;
  }
  if (PyDict_Check(obj)) make_key(key);
  if (world_.is_outside(obj)) {
    PyObject* name = value ? names().setitem : names().delitem;
    PyObject* method = is_heap_type(type) ? world_.type_lookup(type, name) : nullptr;
    if (method && PyFunction_Check(method)) {
      Slot args[3] = {object, key, value};
      return bool(call(Slot::borrow(method), args, value ? 3 : 2, nullptr));
    }
    if (PyObject* owner = world_.owner_of_dict(obj);
        owner && PyUnicode_CheckExact(key.get()) && value && world_.effective(obj) == obj)
      return world_.write_attribute(owner, key.get(), value.get());
    if (!PyDict_Check(obj) && !PyList_Check(obj) && !PyByteArray_Check(obj) &&
        !PyObject_TypeCheck(obj, known().deque))
      return breaks_.refuse(BreakKind::kSideEffect, std::string("an item of a '") + type->tp_name +
                                                        "' object from outside is set");
    obj = world_.shadow(obj);
    if (!obj) return false;
  }
  if (!read_operand(key, "an index")) return false;
  if (value && PySlice_Check(key.get()) && !read_by_advancing(value.get())) return false;
  ++container_changes_;
  int status =
      value ? PyObject_SetItem(obj, key.get(), value.get()) : PyObject_DelItem(obj, key.get());
  return !breaks_.under_way() && status == 0;
}

// operator.itemgetter and attrgetter: what they read is guarded like the expressions they stand
// for.
Slot Evaluator::call_getter(const Slot& getter, const Slot& object, bool& done) {
  std::string_view name = Py_TYPE(getter.get())->tp_name;
  const bool items = name == "operator.itemgetter";
  if (!items && name != "operator.attrgetter") return {};
  done = true;
  Ref reduced = Ref::steal(PyObject_CallMethodNoArgs(getter.get(), names().reduce));
  if (!reduced) return {};
  PyObject* keys = PyTuple_GET_ITEM(reduced.get(), 1);
  const Py_ssize_t n = PyTuple_GET_SIZE(keys);
  Ref values = Ref::steal(PyTuple_New(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys, i);
    Slot value = object;
    if (items) {
      value = getitem(object, world_.wrap(key));
    } else {
      static PyObject* dot = PyUnicode_InternFromString(".");
      Ref path = Ref::steal(PyUnicode_Split(key, dot, -1));
      for (Py_ssize_t k = 0; path && value && k < PyList_GET_SIZE(path.get()); ++k)
        value = getattr(value, PyList_GET_ITEM(path.get(), k));
    }
    if (!value) return {};
    if (n == 1) return value;
    PyTuple_SET_ITEM(values.get(), i, value.object.release());
  }
  return Slot(values);
}

// --- Globals and cells
// ----------------------------------------------------------------------------

// A global that has been read before, in the same state of the dicts, is given again: its guards
// are there. Names are those of code objects, which stay.
Slot Evaluator::load_global(Frame& frame, PyObject* name) {
  PyObject* globals = frame.globals.get();
  const size_t hash =
      (reinterpret_cast<size_t>(globals) >> 4) * 31 + (reinterpret_cast<size_t>(name) >> 4);
  KnownGlobal& known = globals_[hash % kGlobals];
  const uint64_t version = cpython::dict_version(globals),
                 builtins_version = cpython::dict_version(frame.builtins.get());
  const bool unwritten = world_.is_unwritten(globals);
  if (known.name == name && known.version == version && known.builtins == builtins_version &&
      unwritten)
    return known.value;
  Slot value = read_global(frame, name);
  if (value && unwritten) known = {name, version, builtins_version, value};
  return value;
}

Slot Evaluator::read_global(Frame& frame, PyObject* name) {
  PyObject* globals = frame.globals.get();
  const Source* base = world_.globals_base(frame.function_object());
  if (const Write* write = world_.written(globals, name)) {
    if (write->value) return world_.wrap(write->value.get());
  } else if (PyObject* value = PyDict_GetItemWithError(globals, name)) {
    return world_.read(value, world_.source(SourceKind::kGlobal, base, name));
  }
  if (PyErr_Occurred()) return {};
  if (PyObject* value = PyDict_GetItemWithError(frame.builtins.get(), name)) {
    world_.guard(GuardKind::kAbsent, world_.source(SourceKind::kGlobal, base, name));
    return world_.read(value, world_.source(SourceKind::kBuiltin, base, name));
  }
  if (PyErr_Occurred()) return {};
  PyErr_Format(PyExc_NameError, "name '%U' is not defined", name);
  Ref error = take_exception();
  if (PyObject_SetAttr(error.get(), names().name_plain, name) < 0) PyErr_Clear();
  restore_exception(std::move(error));
  return {};
}

bool Evaluator::store_global(Frame& frame, PyObject* name, const Slot& value) {
  const Source* base = world_.globals_base(frame.function_object());
  PyObject* globals = frame.globals.get();
  const Write* write = world_.written(globals, name);
  PyObject* outside = PyDict_GetItemWithError(globals, name);
  if (!outside && PyErr_Occurred()) return false;
  // It would go to the end of the dict.
  if (value && write && !write->value && outside)
    return breaks_.refuse(BreakKind::kSideEffect, "a global is deleted and set again");
  if (!value) {
    if (!write) {
      const Source* source = world_.source(SourceKind::kGlobal, base, name);
      world_.guard(outside ? GuardKind::kPresent : GuardKind::kAbsent, source);
    }
    if (write ? !write->value : !outside) {
      PyErr_Format(PyExc_NameError, "name '%U' is not defined", name);
      return false;
    }
  }
  return world_.write_global(frame.function_object(), name, value.get());
}

bool Evaluator::copy_free_vars(Frame& frame, int count) {
  PyFunctionObject* function = frame.function_object();
  int first = frame.code()->co_nlocalsplus - count;
  for (int i = 0; i < count; ++i) {
    PyObject* cell = PyTuple_GET_ITEM(function->func_closure, i);
    if (frame.outside_function && !world_.made_function(cell) && !world_.source_of(cell)) {
      Ref index = Ref::steal(PyLong_FromLong(i));
      world_.set_origin(
          cell, world_.source(SourceKind::kCell, world_.function_base(function), index.get()));
      world_.hold(Ref::borrow(cell));
    }
    frame.locals[static_cast<size_t>(first + i)] = Slot::borrow(cell);
  }
  return true;
}

Slot Evaluator::load_deref(Frame& frame, int index) {
  PyObject* cell = frame.locals[static_cast<size_t>(index)].get();
  const Source* source = world_.source_of(cell);
  PyObject* value = PyCell_GET(cell);
  if (source) {
    if (const Write* write = world_.written(cell, nullptr)) {
      value = write->value.get();
      source = nullptr;
    }
  }
  if (value) return source ? world_.read(value, source) : world_.wrap(value);
  if (source) world_.guard(GuardKind::kAbsent, source);
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

bool Evaluator::store_deref(Frame& frame, int index, Slot value) {
  PyObject* cell = frame.locals[static_cast<size_t>(index)].get();
  if (!value && !load_deref(frame, index)) return false;
  if (world_.source_of(cell))
    world_.write_cell(cell, value.get());
  else
    PyCell_Set(cell, value.get());
  return true;
}

// --- Imports
// --------------------------------------------------------------------------------------

// The module that sys.modules has under the name that was imported, or has not. `module`: what came
// of it; null with an exception pending.
void Evaluator::rely_on_import(PyObject* name, const Slot& from_list, PyObject* module) {
  Ref error = module ? Ref() : take_exception();
  Ref key = Ref::borrow(name);
  if (module && from_list.get() == Py_None) {  // import a.b gives a
    Ref parts = Ref::steal(PyUnicode_Partition(name, names().dot));
    if (parts) key = Ref::borrow(PyTuple_GET_ITEM(parts.get(), 0));
  }
  PyObject* found = PyDict_GetItemWithError(known().sys_modules, key.get());
  const Source* modules = world_.pinned(known().sys_modules);
  const Source* source = world_.source(SourceKind::kItem, modules, key.get());
  if (!found && !module)
    world_.guard(GuardKind::kAbsent, source);
  else if (found && found == module)
    world_.guard(GuardKind::kIdentity, source, module);
  if (!module) restore_exception(std::move(error));
}

Slot Evaluator::import_name(Frame& frame, PyObject* name, const Slot& from_list,
                            const Slot& level) {
  NativeScope scope(*this, true, nullptr);
  ++importing_;
  int64_t recorded = recorded_nodes_;
  int depth = static_cast<int>(PyLong_AsLong(level.get()));
  Ref module = Ref::steal(
      PyImport_ImportModuleLevelObject(name, frame.globals.get(), Py_None, from_list.get(), depth));
  --importing_;
  if (depth == 0 && !breaks_.under_way()) rely_on_import(name, from_list, module.get());
  if (!module) return {};
  if (recorded_nodes_ != recorded)
    return refuse(BreakKind::kImport, "an import that runs tensor operations");
  if (!PyModule_Check(module.get()))
    return refuse(BreakKind::kImport, "an import that gives no module");
  world_.set_origin(module.get(), world_.pinned(module.get()));
  world_.hold(module);
  return Slot(module, world_.pinned(module.get()));
}

Slot Evaluator::import_from(const Slot& module, PyObject* name) {
  Slot value = getattr(module, name);
  if (value || !PyErr_ExceptionMatches(PyExc_AttributeError)) return value;
  PyErr_Clear();
  // A submodule that is not an attribute of its package yet.
  Ref package = Ref::steal(PyObject_GetAttr(module.get(), names().name));
  Ref full = package ? Ref::steal(PyUnicode_FromFormat("%U.%U", package.get(), name)) : Ref();
  if (!full) return {};
  if (PyObject* found = PyDict_GetItemWithError(known().sys_modules, full.get())) {
    world_.set_origin(found, world_.pinned(found));
    world_.hold(Ref::borrow(found));
    return Slot::borrow(found, world_.pinned(found));
  }
  PyErr_Format(PyExc_ImportError, "cannot import name '%U' from '%U'", name, package.get());
  return {};
}

}  // namespace braze::capture
