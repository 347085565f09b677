// Methods of C types, context variables.
#include <algorithm>

#include "base/is_one_of.h"
#include "capture/evaluator.h"
#include "capture/known.h"

namespace braze::capture {

namespace {

// Container methods that keep their arguments rather than look into them.
bool stores_arguments(std::string_view name) {
  for (const char* stored : {"append", "appendleft", "insert", "add", "setdefault", "__setitem__",
                             "get", "pop", "remove", "discard", "index", "count", "move_to_end",
                             "__getitem__", "__contains__", "__delitem__"})
    if (name == stored) return true;
  return false;
}

// The class says what `in` does, which dict.get and dict.__contains__ do not ask.
bool has_own_membership(PyTypeObject* type) {
  return type->tp_as_sequence->sq_contains != PyDict_Type.tp_as_sequence->sq_contains;
}

// Of a list or tuple: compares its items or shows them.
bool looks_at_items(std::string_view name) {
  return is_one_of(
      name, {"index", "count", "remove", "sort", "__contains__", "__eq__", "__ne__", "__lt__",
             "__le__", "__gt__", "__ge__", "__repr__", "__str__", "__format__"});
}

// Whether a format string only names whole arguments: what it reads of them nobody would guard.
bool formats_plainly(PyObject* format, const Slot* args, size_t count) {
  bool only_atoms = true;
  for (size_t i = 0; i < count; ++i) only_atoms = only_atoms && is_atom(args[i].get());
  if (only_atoms) return true;
  const char* text = PyUnicode_AsUTF8(format);
  if (!text) return PyErr_Clear(), false;
  bool in_field = false;
  for (; *text; ++text) {
    if (*text == '{') in_field = true;
    if (*text == '}' || *text == ':') in_field = false;
    if (in_field && (*text == '[' || *text == '.')) return false;
  }
  return true;
}

}  // namespace

Slot Evaluator::call_method_of(PyObject* callable, const char* name, const Slot& self, Slot* args,
                               size_t count, PyObject* kwnames, bool unbound) {
  PyObject* object = self.get();
  PyTypeObject* type = Py_TYPE(object);
  std::string_view text = name;
  if (is_tensor(object))
    return call_tensor_method(Slot::borrow(callable), name, self, args, count, kwnames, unbound);
  if (type == known().context_var)
    return call_context_var(object, name, callable, args, count, kwnames, unbound);
  // The traced code runs alone and writes nothing: a lock from outside need not be taken.
  if (std::string_view type_name = type->tp_name;
      (type_name == "_thread.RLock" || type_name == "_thread.lock") && world_.is_outside(object) &&
      is_one_of(text, {"__enter__", "__exit__"}))
    return Slot::borrow(text == "__enter__" ? Py_True : Py_None);
  if (text == "__getattribute__" && count == 1 && !PyType_Check(object))
    return generic_getattr(self, args[0].get(), nullptr, false);
  const bool made = world_.made_function(object);
  if (is_lru_cache(object) && world_.source_of(object) &&
      is_one_of(text, {"cache_info", "cache_clear"}))
    return refuse(BreakKind::kSideEffect, "the state of a cached function (lru_cache)");
  if (is_one_of(text, {"__set__", "__delete__"}) && count > 0 && world_.is_outside(args[0].get()))
    return refuse(BreakKind::kSideEffect, "an attribute is set by calling its descriptor");
  if (!made && is_immutable(object) && !is_atom(object) &&
      is_one_of(text, {"__setattr__", "__delattr__"}) && count > 0)
    return setattr(self, args[0].get(), count > 1 ? args[1] : Slot()) ? Slot::borrow(Py_None)
                                                                      : Slot();
  if (PyUnicode_Check(object) && is_one_of(text, {"format", "format_map"}) &&
      !formats_plainly(object, args, count))
    return refuse(BreakKind::kNativeCall,
                  "str." + std::string(text) + "() with attributes or items of its arguments");
  const bool outside = world_.is_outside(object);
  if (outside && !is_atom(object) && !PyTuple_Check(object)) {
    if (text == "__setattr__" && count == 2)
      return generic_setattr(self, args[0].get(), args[1]) ? Slot::borrow(Py_None) : Slot();
    if (text == "__delattr__" && count == 1)
      return generic_setattr(self, args[0].get(), Slot()) ? Slot::borrow(Py_None) : Slot();
    if (text == "__init__" && type->tp_init == PyBaseObject_Type.tp_init)
      return Slot::borrow(Py_None);
  }
  if (is_container(object))
    return call_container_method(callable, name, self, args, count, kwnames, unbound);
  if (text == "__reduce_ex__" || text == "__reduce__")
    return reduce(callable, self, args, count, kwnames, unbound);
  if (outside && !is_immutable(object)) {
    bool python_parts = PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE);
    bool reads =
        !exports_memory(object) && !is_view_of_a_dict(object) &&
        (is_reading_method(type, name) ||
         (python_parts && is_one_of(text, {"__eq__", "__ne__", "__hash__", "__repr__", "__str__",
                                           "__format__", "__init__", "__init_subclass__"})));
    if (!reads)
      return refuse(BreakKind::kNativeCall, std::string("method ") + type->tp_name + "." + name +
                                                " of an object from outside");
  }
  if (text == "format" && PyUnicode_Check(object))
    for (size_t i = 0; i < count; ++i)
      if (holds_tensor(args[i].get()))
        return refuse(BreakKind::kTensorAsText, "a tensor is formatted as text");
  if (!check_native_arguments(name, args, count, true)) return {};
  return call_unbound(callable, self, args, count, kwnames, unbound);
}

Slot Evaluator::call_unbound(PyObject* callable, const Slot& self, Slot* args, size_t count,
                             PyObject* kwnames, bool unbound) {
  if (!unbound) return call_native(callable, args, count, kwnames, false);
  std::vector<Slot> all;
  all.reserve(count + 1);
  all.push_back(self);
  all.insert(all.end(), args, args + count);
  return call_native(callable, all.data(), count + 1, kwnames, false);
}

// Of some dict that only it refers to; that of a class tells what its class says.
bool Evaluator::is_view_of_a_dict(PyObject* object) {
  if (!Py_IS_TYPE(object, &PyDictProxy_Type)) return false;
  const Source* source = world_.source_of(object);
  return !source || source->kind != SourceKind::kAttribute || source->key.get() != names().dict;
}

// object.__reduce_ex__ hands out the instance dict: it is read by the evaluator first.
Slot Evaluator::reduce(PyObject* callable, const Slot& self, Slot* args, size_t count,
                       PyObject* kwnames, bool unbound) {
  if (world_.is_outside(self.get()) && !is_immutable(self.get())) {
    if (instance_dict(self.get())) {
      Slot dict = getattr(self, names().dict);
      if (!dict || !world_.read_all(dict.get())) return {};
    }
    if (!is_python_class(Py_TYPE(self.get())) || exports_memory(self.get()))
      return refuse(BreakKind::kNativeObject, "__reduce_ex__ of an object made in C");
    if (PyExceptionInstance_Check(self.get()) && !read_deeply(self.get(), Look::kDeep)) return {};
  } else if (!read_deeply(self.get(), Look::kDeep)) {
    return {};
  }
  return call_unbound(callable, self, args, count, kwnames, unbound);
}

Slot Evaluator::call_container_method(PyObject* callable, const char* name, const Slot& self,
                                      Slot* args, size_t count, PyObject* kwnames, bool unbound) {
  PyObject* object = self.get();
  PyTypeObject* type = Py_TYPE(object);
  std::string_view text = name;
  const Source* source = world_.source_of(self);
  if (source && is_one_of(text, {"__reduce__", "__reduce_ex__"}) && !world_.read_all(object))
    return {};
  if (world_.is_outside(object) && !source)
    return refuse(BreakKind::kNativeCall, std::string("method ") + name + " of a '" +
                                              type->tp_name + "' object that native code gave");
  if (source && world_.effective(object) == object && !(PyTuple_Check(object))) {
    switch (container_method(name)) {
      case MethodEffect::kUnlisted:
        return refuse(BreakKind::kNativeCall, std::string("method ") + type->tp_name + "." + name +
                                                  " of an object from outside");
      case MethodEffect::kMutate:
        if (PyObject* owner = world_.owner_of_dict(object);
            owner && text == "__setitem__" && count == 2 && PyUnicode_CheckExact(args[0].get()))
          return world_.write_attribute(owner, args[0].get(), args[1].get()) ? Slot::borrow(Py_None)
                                                                             : Slot();
        if (!world_.shadow(object)) return {};
        break;
      case MethodEffect::kRead:
        if (PyDict_Check(object) && !kwnames && !has_own_membership(type)) {
          if (text == "get" && (count == 1 || count == 2)) return dict_get(self, args, count);
          if (text == "__getitem__" && count == 1 &&
              !(PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) &&
                PyFunction_Check(_PyType_Lookup(type, names().getitem))))
            return getitem(self, args[0]);
          if (text == "__contains__" && count == 1) {
            int found = contains(self, args[0]);
            return found < 0 ? Slot() : Slot::borrow(found ? Py_True : Py_False);
          }
        }
        if (text == "__len__") {
          world_.guard_length(source, PyObject_Size(object));
        } else if (is_one_of(text, {"keys", "values", "items", "__iter__", "__reversed__"}) &&
                   !PyFrozenSet_Check(object) && !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
          if (!world_.shadow(object)) return {};
        } else if (!world_.read_all(object)) {
          return {};
        }
        break;
    }
  } else if (PyTuple_Check(object) && !world_.read_all(object)) {
    return {};
  }
  if (count > 0 && (PyDict_Check(object) || PyAnySet_Check(object))) make_key(args[0]);
  if (text == "sort" && count == 0 && holds_tensor(world_.effective(object)) && !kwnames)
    return refuse(BreakKind::kDataDependent, "tensors are sorted by value");
  ++container_changes_;
  const bool hashes = PyDict_Check(object) || PyAnySet_Check(object);
  const bool compares =
      looks_at_items(text) && !(hashes && is_one_of(text, {"__contains__", "remove"}));
  if (compares && !read_deeply(object, Look::kDeep)) return {};
  const Look look =
      is_one_of(text, {"extend", "extendleft", "__iadd__", "__add__"}) ? Look::kItems : Look::kDeep;
  if ((compares || !stores_arguments(text)) &&
      !check_native_arguments(name, args, count, true, look))
    return {};
  PyObject* used = world_.effective(object);
  if (!unbound && used != object) {
    Ref rebound = Ref::steal(PyObject_GetAttrString(used, name));
    return rebound ? call_native(rebound.get(), args, count, kwnames, false) : Slot();
  }
  return call_unbound(callable, self, args, count, kwnames, unbound);
}

Slot Evaluator::dict_get(const Slot& self, Slot* args, size_t count) {
  int found = contains(self, args[0]);
  if (found < 0) return {};
  if (!found) return count > 1 ? args[1] : Slot::borrow(Py_None);
  PyObject* object = self.get();
  if (PyObject* owner = world_.owner_of_dict(object))
    if (const Write* write = world_.written(owner, args[0].get()))
      return world_.wrap(write->value.get());
  PyObject* value = PyDict_GetItemWithError(object, args[0].get());
  if (!value) return {};
  return world_.read(value, world_.item_source(object, world_.source_of(self), args[0].get()));
}

// --- Context variables and logging
// ----------------------------------------------------------------

Slot Evaluator::call_context_var(PyObject* var, const char* name, PyObject* callable, Slot* args,
                                 size_t count, PyObject* kwnames, bool unbound) {
  Slot self = Slot::borrow(var);
  if (std::string_view(name) == "get") {
    Ref value = Ref::steal(nullptr);
    PyObject* current = nullptr;
    if (PyContextVar_Get(var, count ? args[0].get() : nullptr, &current) < 0) return {};
    value = Ref::steal(current);
    if (!value)
      return call_unbound(callable, self, args, count, kwnames, unbound);  // its LookupError
    for (const ContextWrite& write : context_writes_)
      if (write.var.get() == var) return world_.wrap(std::move(value));
    if (count && value.get() == args[0].get()) return args[0];
    Ref getter = Ref::steal(PyObject_GetAttrString(var, "get"));
    const Source*& source = context_sources_[var];
    if (!source) source = world_.source(SourceKind::kNative, nullptr, getter.get());
    return world_.read(value.get(), source);
  }
  bool known_write = false;
  for (const ContextWrite& write : context_writes_) known_write |= write.var.get() == var;
  if (!known_write) {
    PyObject* before = nullptr;
    if (PyContextVar_Get(var, nullptr, &before) < 0) return {};
    context_writes_.push_back({Ref::borrow(var), Ref::steal(before)});
  }
  return call_unbound(callable, self, args, count, kwnames, unbound);
}

bool Evaluator::context_changed() const {
  for (const ContextWrite& write : context_writes_) {
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
