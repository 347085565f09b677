#include "capture/calls/methods.h"

#include <algorithm>

#include "base/error.h"
#include "base/is_one_of.h"
#include "capture/calls/context_variables.h"
#include "capture/calls/native.h"
#include "capture/calls/torch.h"
#include "capture/known.h"
#include "capture/objects/attribute_writes.h"
#include "capture/objects/attributes.h"
#include "capture/objects/items.h"
#include "capture/objects/operators.h"
#include "capture/symbols/integers.h"
#include "capture/trace_context.h"

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
bool formats_plainly(PyObject* format, const Tracked* args, size_t count) {
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

// Of an instance of a subclass of str, which has it from str: it looks at the characters alone.
bool is_method_of_text(PyObject* object, const char* name) {
  if (!PyUnicode_Check(object)) return false;
  const Ref key = Ref::steal(PyUnicode_FromString(name));
  PyObject* method = key ? _PyType_Lookup(&PyUnicode_Type, key.get()) : nullptr;
  return method && Py_IS_TYPE(method, &PyMethodDescr_Type) &&
         _PyType_Lookup(Py_TYPE(object), key.get()) == method;
}

// This very method of a class made in C, which super() may have found behind one of the object's
// own class, of another object.
Ref bound_to(PyObject* method, PyObject* self) {
  if (PyCFunction_Check(method)) {
    auto* function = reinterpret_cast<PyCFunctionObject*>(method);
    return Ref::steal(
        PyCMethod_New(function->m_ml, self, function->m_module, PyCFunction_GET_CLASS(method)));
  }
  // Else it is the wrapper of a slot, which does not show the descriptor that it is of.
  static PyObject* const objclass = PyUnicode_InternFromString("__objclass__");
  const Ref type = Ref::steal(PyObject_GetAttr(method, objclass));
  const Ref name = Ref::steal(PyObject_GetAttr(method, names().name));
  if (!type || !name) return {};
  PyObject* descriptor = _PyType_Lookup(reinterpret_cast<PyTypeObject*>(type.get()), name.get());
  BRAZE_CHECK(descriptor && Py_IS_TYPE(descriptor, &PyWrapperDescr_Type),
              "a slot of a class made in C has its wrapper there");
  return Ref::steal(PyWrapper_New(descriptor, self));
}

}  // namespace

static bool is_view_of_a_dict(TraceContext& trace, PyObject* object);
static bool is_lasting(TraceContext& trace, const Tracked& object);
static Tracked mapping_of_proxy(TraceContext& trace, const Tracked& proxy);
static Tracked call_reduce(TraceContext& trace, PyObject* callable, const Tracked& self,
                           Tracked* args, size_t count, PyObject* kwnames, bool unbound);
static Tracked call_container_method(TraceContext& trace, PyObject* callable, const char* name,
                                     const Tracked& self, Tracked* args, size_t count,
                                     PyObject* kwnames, bool unbound);
static Tracked dict_get(TraceContext& trace, const Tracked& self, Tracked* args, size_t count);

Tracked call_method_of(TraceContext& trace, PyObject* callable, const char* name,
                       const Tracked& self, Tracked* args, size_t count, PyObject* kwnames,
                       bool unbound) {
  PyObject* object = self.get();
  PyTypeObject* type = Py_TYPE(object);
  std::string_view text = name;
  if (is_tensor(object))
    return call_tensor_method(trace, Tracked::borrow(callable), name, self, args, count, kwnames,
                              unbound);
  if (type == known().context_var)
    return call_context_var(trace, object, name, callable, args, count, kwnames, unbound);
  // The traced code runs alone and writes nothing: a lock from outside need not be taken.
  if (std::string_view type_name = type->tp_name;
      (type_name == "_thread.RLock" || type_name == "_thread.lock") &&
      trace.world.is_outside(object) && is_one_of(text, {"__enter__", "__exit__"}))
    return Tracked::borrow(text == "__enter__" ? Py_True : Py_None);
  if (text == "__getattribute__" && count == 1 && !PyType_Check(object))
    return generic_getattr(trace, self, args[0].get(), nullptr, false);
  const bool made = trace.world.made_function(object);
  if (is_lru_cache(object) && trace.world.source_of(object) &&
      is_one_of(text, {"cache_info", "cache_clear"}))
    return trace.refuse(BreakKind::kSideEffect, "the state of a cached function (lru_cache)");
  if (is_one_of(text, {"__set__", "__delete__"}) && count > 0 &&
      trace.world.is_outside(args[0].get()))
    return trace.refuse(BreakKind::kSideEffect, "an attribute is set by calling its descriptor");
  if (!made && is_immutable(object) && !is_atom(object) &&
      is_one_of(text, {"__setattr__", "__delattr__"}) && count > 0)
    return setattr(trace, self, args[0].get(), count > 1 ? args[1] : Tracked())
               ? Tracked::borrow(Py_None)
               : Tracked();
  if (PyUnicode_Check(object) && is_one_of(text, {"format", "format_map"}) &&
      !formats_plainly(object, args, count))
    return trace.refuse(BreakKind::kNativeCall, "str." + std::string(text) +
                                                    "() with attributes or items of its arguments");
  const bool outside = trace.world.is_outside(object);
  if ((outside || outside_dict_of(trace, object)) && !is_atom(object) && !PyTuple_Check(object)) {
    if (text == "__setattr__" && count == 2)
      return generic_setattr(trace, self, args[0].get(), args[1]) ? Tracked::borrow(Py_None)
                                                                  : Tracked();
    if (text == "__delattr__" && count == 1)
      return generic_setattr(trace, self, args[0].get(), Tracked()) ? Tracked::borrow(Py_None)
                                                                    : Tracked();
    if (text == "__init__" && type->tp_init == PyBaseObject_Type.tp_init)
      return Tracked::borrow(Py_None);
  }
  if (is_container(object))
    return call_container_method(trace, callable, name, self, args, count, kwnames, unbound);
  if (text == "__reduce_ex__" || text == "__reduce__")
    return call_reduce(trace, callable, self, args, count, kwnames, unbound);
  if (outside && !kwnames)
    if (const Tracked mapping = mapping_of_proxy(trace, self)) {
      Ref bound = Ref::steal(PyObject_GetAttrString(mapping.get(), name));
      return bound ? call_method_of(trace, bound.get(), name, mapping, args, count, kwnames, false)
                   : Tracked();
    }
  if (outside && !is_immutable(object) && is_method_of_text(object, name) &&
      is_lasting(trace, self)) {
    trace.world.guard_as_key(object);
  } else if (outside && !is_immutable(object)) {
    bool python_parts = PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE);
    bool reads =
        !exports_memory(object) && !is_view_of_a_dict(trace, object) &&
        (is_reading_method(type, name) ||
         (python_parts && is_one_of(text, {"__eq__", "__ne__", "__hash__", "__repr__", "__str__",
                                           "__format__", "__init__", "__init_subclass__"})));
    if (!reads)
      return trace.refuse(BreakKind::kNativeCall, std::string("method ") + type->tp_name + "." +
                                                      name + " of an object from outside");
  }
  if (text == "format" && PyUnicode_Check(object))
    for (size_t i = 0; i < count; ++i)
      if (holds_tensor(args[i].get()))
        return trace.refuse(BreakKind::kTensorAsText, "a tensor is formatted as text");
  if (!check_native_arguments(trace, name, args, count, true)) return {};
  return call_unbound(trace, callable, self, args, count, kwnames, unbound);
}

Tracked call_unbound(TraceContext& trace, PyObject* callable, const Tracked& self, Tracked* args,
                     size_t count, PyObject* kwnames, bool unbound) {
  if (!unbound) return call_native(trace, callable, args, count, kwnames, false);
  std::vector<Tracked> all;
  all.reserve(count + 1);
  all.push_back(self);
  all.insert(all.end(), args, args + count);
  return call_native(trace, callable, all.data(), count + 1, kwnames, false);
}

// Of some dict that only it refers to; that of a class tells what its class says.
static bool is_view_of_a_dict(TraceContext& trace, PyObject* object) {
  if (!Py_IS_TYPE(object, &PyDictProxy_Type)) return false;
  const Source* source = trace.world.source_of(object);
  return !source || source->kind != SourceKind::kAttribute || source->key.get() != names().dict;
}

// It is found in the program, and is no argument, which each call could bring a new one of.
static bool is_lasting(TraceContext& trace, const Tracked& object) {
  const Source* source = trace.world.source_of(object);
  while (source && source->base) source = source->base;
  return source && source->kind != SourceKind::kArgument;
}

// What a proxy shows for good: it is known by the proxy's identity. Empty where it is no plain
// dict, or that of a class or object.
static Tracked mapping_of_proxy(TraceContext& trace, const Tracked& proxy) {
  if (!Py_IS_TYPE(proxy.get(), &PyDictProxy_Type) || !is_view_of_a_dict(trace, proxy.get()) ||
      !is_lasting(trace, proxy))
    return {};
  PyObject* mapping = nullptr;
  const auto take = [](PyObject* shown, void* found) {
    *static_cast<PyObject**>(found) = shown;
    return 0;
  };
  Py_TYPE(proxy.get())->tp_traverse(proxy.get(), take, &mapping);
  if (!mapping || !(PyDict_CheckExact(mapping) || PyODict_CheckExact(mapping))) return {};
  trace.world.guard_as_key(proxy.get());
  return trace.world.read(mapping, trace.guards.pinned(mapping));
}

// object.__reduce_ex__ hands out the instance dict: it is read by the evaluation first.
static Tracked call_reduce(TraceContext& trace, PyObject* callable, const Tracked& self,
                           Tracked* args, size_t count, PyObject* kwnames, bool unbound) {
  if (trace.world.is_outside(self.get()) && !is_immutable(self.get())) {
    if (instance_dict(self.get())) {
      Tracked dict = getattr(trace, self, names().dict);
      if (!dict || !trace.world.read_all(dict.get())) return {};
    }
    if (!is_python_class(Py_TYPE(self.get())) || exports_memory(self.get()))
      return trace.refuse(BreakKind::kNativeObject, "__reduce_ex__ of an object made in C");
    if (PyExceptionInstance_Check(self.get()) && !read_deeply(trace, self.get(), Look::kDeep))
      return {};
  } else if (!read_deeply(trace, self.get(), Look::kDeep)) {
    return {};
  }
  return call_unbound(trace, callable, self, args, count, kwnames, unbound);
}

static Tracked call_container_method(TraceContext& trace, PyObject* callable, const char* name,
                                     const Tracked& self, Tracked* args, size_t count,
                                     PyObject* kwnames, bool unbound) {
  PyObject* object = self.get();
  PyTypeObject* type = Py_TYPE(object);
  std::string_view text = name;
  const Source* source = trace.world.source_of(self);
  if (source && is_one_of(text, {"__reduce__", "__reduce_ex__"}) && !trace.world.read_all(object))
    return {};
  if (trace.world.is_outside(object) && !source)
    return trace.refuse(BreakKind::kNativeCall, std::string("method ") + name + " of a '" +
                                                    type->tp_name +
                                                    "' object that native code gave");
  if (text == "append" && count == 1 && !kwnames &&
      trace.world.grown.append(trace.world, object, args[0].get()))
    return Tracked::borrow(Py_None);
  if (source && trace.world.effective(object) == object && !(PyTuple_Check(object))) {
    switch (container_method(name)) {
      case MethodEffect::kUnlisted:
        return trace.refuse(BreakKind::kNativeCall, std::string("method ") + type->tp_name + "." +
                                                        name + " of an object from outside");
      case MethodEffect::kMutate:
        if (PyObject* owner = text == "__setitem__" && count == 2
                                  ? trace.world.dicts().owner_of_item(object, args[0].get())
                                  : nullptr)
          return trace.world.write_attribute(owner, args[0].get(), args[1].get())
                     ? Tracked::borrow(Py_None)
                     : Tracked();
        if (!trace.world.shadow(object)) return {};
        break;
      case MethodEffect::kRead:
        if (PyDict_Check(object) && !kwnames && !has_own_membership(type)) {
          if (text == "get" && (count == 1 || count == 2))
            return dict_get(trace, self, args, count);
          if (text == "__getitem__" && count == 1 &&
              !(PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) &&
                PyFunction_Check(_PyType_Lookup(type, names().getitem))))
            return getitem(trace, self, args[0]);
          if (text == "__contains__" && count == 1) {
            int found = contains(trace, self, args[0]);
            return found < 0 ? Tracked() : Tracked::borrow(found ? Py_True : Py_False);
          }
        }
        if (text == "__len__" && trace.world.log().is_unwritten(object)) {
          trace.guards.add_length(source, own_length(object));
        } else if (is_one_of(text, {"keys", "values", "items", "__iter__", "__reversed__"}) &&
                   !PyFrozenSet_Check(object) && !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
          if (!shadow_to_read(trace.world, object)) return {};
        } else if (!trace.world.read_all(object)) {
          return {};
        }
        break;
    }
  } else if (PyTuple_Check(object) && !trace.world.read_all(object)) {
    return {};
  } else if (source && container_method(name) == MethodEffect::kMutate) {
    trace.world.shadow(object);  // which is there, and counts this change
  }
  if (count > 0 && (PyDict_Check(object) || PyAnySet_Check(object))) make_key(trace, args[0]);
  if (text == "sort" && count == 0 && holds_tensor(trace.world.effective(object)) && !kwnames)
    return trace.refuse(BreakKind::kDataDependent, "tensors are sorted by value");
  ++trace.container_changes;
  const bool hashes = PyDict_Check(object) || PyAnySet_Check(object);
  const bool compares =
      looks_at_items(text) && !(hashes && is_one_of(text, {"__contains__", "remove"}));
  if (compares && !read_deeply(trace, object, Look::kDeep)) return {};
  const Look look = is_one_of(text, {"extend", "extendleft", "__iadd__", "__add__"})
                        ? Look::kHoldsItems
                        : Look::kDeep;
  if ((compares || !stores_arguments(text)) &&
      !check_native_arguments(trace, name, args, count, true, look))
    return {};
  PyObject* used = trace.world.effective(object);
  if (!unbound && used != object) {
    const Ref rebound = bound_to(callable, used);
    return rebound ? call_native(trace, rebound.get(), args, count, kwnames, false) : Tracked();
  }
  return call_unbound(trace, callable, self, args, count, kwnames, unbound);
}

static Tracked dict_get(TraceContext& trace, const Tracked& self, Tracked* args, size_t count) {
  int found = contains(trace, self, args[0]);
  if (found < 0) return {};
  if (!found) return count > 1 ? args[1] : Tracked::borrow(Py_None);
  PyObject* object = self.get();
  if (const Write* write = trace.world.dicts().written_item(object, args[0].get()))
    return trace.world.wrap(write->value.get());
  PyObject* value = PyDict_GetItemWithError(object, args[0].get());
  if (!value) return {};
  return trace.world.read(
      value, trace.world.item_source(object, trace.world.source_of(self), args[0].get()));
}

}  // namespace braze::capture
