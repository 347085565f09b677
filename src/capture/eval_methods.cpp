// Methods of C types, builtins that the evaluator carries out itself, torch, context variables.
#include <algorithm>

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

bool is_one_of(std::string_view name, std::initializer_list<const char*> list) {
  for (const char* entry : list)
    if (name == entry) return true;
  return false;
}

// Tensors, sizes and atoms, none of a class that overrides torch's functions.
bool is_plain(PyObject* object, bool alone = true) {
  if (Py_TYPE(object) == known().tensor || Py_TYPE(object) == known().sym_int || is_atom(object))
    return true;
  const bool list =
      PyTuple_CheckExact(object) || PyList_CheckExact(object) || Py_TYPE(object) == known().size;
  if (!list || !alone) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
    if (!is_plain(PySequence_Fast_GET_ITEM(object, i), false)) return false;
  return true;
}

bool are_plain(const Slot& self, const Slot* args, size_t count) {
  return Py_TYPE(self.get()) == known().tensor &&
         std::all_of(args, args + count, [](const Slot& arg) { return is_plain(arg.get()); });
}

// Of a list or tuple: compares its items or shows them.
bool looks_at_items(std::string_view name) {
  return is_one_of(
      name, {"index", "count", "remove", "sort", "__contains__", "__eq__", "__ne__", "__lt__",
             "__le__", "__gt__", "__ge__", "__repr__", "__str__", "__format__"});
}

// Of a tensor method that bypasses the dispatcher.
BreakKind kind_of_tensor_method(std::string_view name) {
  if (is_one_of(name, {"__repr__", "__str__", "__format__"})) return BreakKind::kTensorAsText;
  if (is_one_of(name, {"tolist", "numpy", "__array__"})) return BreakKind::kDataDependent;
  return BreakKind::kTensorInternals;
}

// A function of trees that makes no tensors: no node of a graph.
bool only_rearranges(std::string_view module, std::string_view name) {
  return module == "torch.utils._pytree" &&
         is_one_of(name, {"tree_flatten", "tree_unflatten", "tree_leaves", "tree_structure"});
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

// The first argument, if any, is the user's message.
Slot Evaluator::asked_break(const char* function, const Slot* args, size_t count) {
  std::string text = function;
  const char* message =
      count > 0 && PyUnicode_Check(args[0].get()) ? PyUnicode_AsUTF8(args[0].get()) : nullptr;
  if (message && *message) text += std::string(": ") + message;
  return refuse(BreakKind::kGraphBreak, std::move(text));
}

Slot Evaluator::call_listed(const CalleeRule& rule, const Slot& callable, Slot* args, size_t count,
                            PyObject* kwnames, bool& done) {
  done = !kwnames;
  switch (rule.callee) {
    case Callee::kBreak:
      done = true;
      return refuse(rule.kind, rule.text);
    case Callee::kGraphBreak:
      done = true;
      return asked_break("braze.graph_break()", args, count);
    case Callee::kExpect:
      if (done = done && count == 1; !done) return {};
      return expect(args[0]);
    case Callee::kOperand:
      if (done = done && count == 2; !done) return {};
      return operand_of_float(args[0], args[1]);
    case Callee::kControlFlow:
      done = true;
      return control_flow(static_cast<ControlFlowCall>(rule.op), args, count);
    case Callee::kReadOnly:
      done = true;
      if (count > 0 && (rule.text == "repr()" || rule.text == "ascii()") &&
          (names_its_address(args[0].get()) || holds_tensor(args[0].get())))
        return refuse(BreakKind::kTensorAsText, "a tensor or an address is formatted as text");
      if (!check_native_arguments(rule.text.c_str(), args, count, true)) return {};
      return call_native(callable.get(), args, count, kwnames, false);
    case Callee::kGetattr: {
      if (done = done && (count == 2 || count == 3); !done) return {};
      Slot value = getattr(args[0], args[1].get());
      if (value || count == 2 || breaks_.under_way() ||
          !PyErr_ExceptionMatches(PyExc_AttributeError))
        return value;
      PyErr_Clear();
      return args[2];
    }
    case Callee::kHasattr: {
      if (done = done && count == 2; !done) return {};
      Slot value = getattr(args[0], args[1].get());
      if (value) return Slot::borrow(Py_True);
      if (breaks_.under_way() || !PyErr_ExceptionMatches(PyExc_AttributeError)) return {};
      PyErr_Clear();
      return Slot::borrow(Py_False);
    }
    case Callee::kSetattr:
    case Callee::kDelattr: {
      bool set = rule.callee == Callee::kSetattr;
      if (done = done && count == (set ? 3u : 2u); !done) return {};
      return setattr(args[0], args[1].get(), set ? args[2] : Slot()) ? Slot::borrow(Py_None)
                                                                     : Slot();
    }
    case Callee::kIsinstance: {
      const Source* source = world_.source_of(args[0]);
      if (count == 2 && source && !is_atom(args[0].get()) && !is_tensor(args[0].get()) &&
          !is_immutable(args[0].get()))
        world_.guard(GuardKind::kType, source, reinterpret_cast<PyObject*>(Py_TYPE(args[0].get())));
      done = true;
      return call_native(callable.get(), args, count, kwnames, false);
    }
    case Callee::kLen:
      if (done = done && count == 1; !done) return {};
      return length_of(args[0]);
    case Callee::kIter:
      if (done && count == 2 &&
          (PyFunction_Check(args[0].get()) || PyCFunction_Check(args[0].get()))) {
        // Calls of the first come back to the evaluator, or are calls of a method of the trace's
        // own.
        if (!check_native_arguments("iter", args, count, false)) return {};
        return call_native(callable.get(), args, count, kwnames, false);
      }
      if (done = done && count == 1; !done)
        return refuse(BreakKind::kUnsupported, "iter() with a sentinel");
      return get_iter(args[0]);
    case Callee::kNext: {
      if (done = done && (count == 1 || count == 2); !done) return {};
      bool exhausted = false;
      Slot value = next(args[0], exhausted, count == 1);
      if (value || !exhausted) return value;
      if (count == 2) return args[1];
      if (!PyErr_Occurred()) PyErr_SetNone(PyExc_StopIteration);
      return {};
    }
    case Callee::kVars:
      if (done = done && count == 1; !done)
        return refuse(BreakKind::kIntrospection, "vars() of a frame");
      return getattr(args[0], names().dict);
    case Callee::kIdentity: {
      if (done = done && count == 1; !done) return {};
      args[0] = Slot::borrow(world_.real_of(args[0].get()), args[0].source);
      if (rule.text == "hash()" && is_container(args[0].get()) &&
          !read_deeply(args[0].get(), Look::kDeep))
        return {};
      Slot value = call_native(callable.get(), args, count, kwnames, false);
      world_.guard_as_key(args[0].get());
      if (value && !is_atom(args[0].get()))
        world_.hold(args[0].object), addresses_.push_back(value.object);
      return value;
    }
    case Callee::kReadItem:
      if (done = done && count == 2; !done) return {};
      return getitem(args[0], args[1]);
    case Callee::kWriteItem:
      if (done = done && count == 3; !done) return {};
      return setitem(args[0], args[1], args[2]) ? Slot::borrow(Py_None) : Slot();
    case Callee::kDeleteItem:
      if (done = done && count == 2; !done) return {};
      return setitem(args[0], args[1], Slot()) ? Slot::borrow(Py_None) : Slot();
    case Callee::kOperator:
      if (done = done && count == 2; !done) return {};
      return binary(rule.op, args[0], args[1]);
    case Callee::kChangesFirst: {
      if (count == 0) break;
      done = true;
      PyObject* changed = args[0].get();
      if (world_.is_outside(changed) && !(is_container(changed) && world_.shadow(changed)))
        return breaks_.under_way()
                   ? Slot()
                   : refuse(BreakKind::kNativeCall, rule.text + " changes an object from outside");
      if (!check_native_arguments(rule.text.c_str(), args + 1, count - 1, true)) return {};
      return call_native(callable.get(), args, count, kwnames, false);
    }
    case Callee::kDefer:
      done = true;
      return defer(callable, args, count, kwnames);
    case Callee::kBuildClass:
      done = true;
      return build_class(callable, args, count, kwnames);
    case Callee::kPrint:
      done = true;
      return print(callable, args, count, kwnames);
    case Callee::kWarn:
      done = true;
      return warn(args, count, kwnames);
    case Callee::kUnlisted:
      break;
  }
  done = false;
  return {};
}

// --- Methods
// --------------------------------------------------------------------------------------

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
        is_reading_method(type, name) ||
        (python_parts && is_one_of(text, {"__eq__", "__ne__", "__hash__", "__repr__", "__str__",
                                          "__format__", "__init__", "__init_subclass__"}));
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

// object.__reduce_ex__ hands out the instance dict: it is read by the evaluator first.
Slot Evaluator::reduce(PyObject* callable, const Slot& self, Slot* args, size_t count,
                       PyObject* kwnames, bool unbound) {
  if (world_.is_outside(self.get()) && !is_immutable(self.get())) {
    if (instance_dict(self.get())) {
      Slot dict = getattr(self, names().dict);
      if (!dict || !world_.read_all(dict.get())) return {};
    }
    if (!is_python_class(Py_TYPE(self.get())))
      return refuse(BreakKind::kNativeObject, "__reduce_ex__ of an object made in C");
  }
  return call_unbound(callable, self, args, count, kwnames, unbound);
}

Slot Evaluator::call_container_method(PyObject* callable, const char* name, const Slot& self,
                                      Slot* args, size_t count, PyObject* kwnames, bool unbound) {
  PyObject* object = self.get();
  PyTypeObject* type = Py_TYPE(object);
  std::string_view text = name;
  const Source* source = world_.source_of(self);
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
        if (PyDict_Check(object) && !kwnames) {
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
  if (count > 0 && (PyDict_Check(object) || PyAnySet_Check(object)))
    world_.guard_as_key(args[0].get());
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

// --- torch
// ----------------------------------------------------------------------------------------

Slot Evaluator::call_tensor_method(const Slot& callable, const char* name, const Slot& self,
                                   Slot* args, size_t count, PyObject* kwnames, bool unbound) {
  const Subject subject(*this, self);
  if (std::string_view(name) == "size" && count <= 1 && !kwnames && !torch_calls_) {
    Ref size = count == 0 ? recording_.shape_of(self.get())
                          : recording_.size_of(self.get(), args[0].get());
    if (size) return Slot(std::move(size));
  }
  if (const char* why = tensor_method_break(name)) {
    if (std::string_view(name) == "tolist" && count == 0)
      if (Slot list = list_of_tensor(self); list || PyErr_Occurred()) return list;
    std::string text = std::string("Tensor.") + name + "(): " + why;
    return refuse(kind_of_tensor_method(name), text);
  }
  if (!read_arguments(args, count)) return {};
  use_stand_ins(args, count);
  Slot result;
  std::vector<Slot> all;
  if (recording_.has_floats() && (kwnames || !is_plain_operator(name))) {
    bool done = false;
    all.push_back(self);
    all.insert(all.end(), args, args + count);
    result = call_for_floats(names_in_tensor(name), all.data(), all.size(), kwnames, done);
    if (done) return result;
    all.clear();
  }
  std::optional<Recording::PlainTorch> plain;
  if (recording_.has_symbols() && are_plain(self, args, count)) plain.emplace();
  if (unbound) {
    all.reserve(count + 1);
    all.push_back(self);
    all.insert(all.end(), args, args + count);
    result = call_native(callable.get(), all.data(), count + 1, kwnames, true);
  } else {
    result = call_native(callable.get(), args, count, kwnames, true);
  }
  if (!result) {
    if (unbound) return torch_failed(callable.get(), all.data(), all.size(), kwnames);
    return torch_failed(callable.get(), args, count, kwnames);
  }
  plain.reset();
  if (torch_calls_ && native_depth_ == 0) {
    PyObject* method =
        _PyType_Lookup(Py_TYPE(self.get()), Ref::steal(PyUnicode_FromString(name)).get());
    if (!unbound) {
      all.push_back(self);
      all.insert(all.end(), args, args + count);
    }
    record_torch_call(method ? method : callable.get(), all.data(), all.size(), kwnames,
                      result.get());
  }
  return result;
}

Slot Evaluator::call_torch(const Slot& callable, const char* module, const char* name, Slot* args,
                           size_t count, PyObject* kwnames) {
  if (is_hint_function(module, name)) return Slot::borrow(Py_None);
  // What torch's state is to become at the end of such an object is known to nobody.
  if (count > 0 && std::string_view(name) == "__exit__" && world_.is_outside(args[0].get()) &&
      !is_state_guard(args[0].get()))
    return refuse(
        BreakKind::kUntraceableOp,
        std::string("the end of a '") + Py_TYPE(args[0].get())->tp_name + "' object from outside");
  const char* why = torch_function_break(module, name);
  if (!why && std::string_view(module) == "torch._tensor") why = tensor_method_break(name);
  if (why && std::string_view(name) == "graph_break")
    return asked_break("torch._dynamo.graph_break()", args, count);
  if (why)
    return refuse(BreakKind::kUntraceableOp, std::string(module) + "." + name + "(): " + why);
  if (!torch_function_takes_objects(module, name)) {
    if (!read_arguments(args, count)) return {};
    use_stand_ins(args, count);
    for (size_t i = 0; i < count; ++i) {
      PyObject* arg = args[i].get();
      if (is_atom(arg) || is_tensor(arg) || is_immutable(arg) || is_container(arg)) continue;
      if (world_.is_outside(arg) && !is_torch_module_name(module_of(Py_TYPE(arg))))
        return refuse(BreakKind::kNativeCall, std::string(module) + "." + name + "() is given a '" +
                                                  Py_TYPE(arg)->tp_name + "' object from outside");
      if (world_.is_outside(arg) && PyObject_TypeCheck(arg, known().module))
        return refuse(BreakKind::kNativeCall,
                      std::string(module) + "." + name + "() is given a module");
    }
  }
  if (recording_.has_floats() && (kwnames || !is_plain_operator(name))) {
    bool done = false;
    Slot result = call_for_floats(callable.get(), args, count, kwnames, done);
    if (done) return result;
  }
  int64_t recorded = recorded_nodes_;
  Slot result = call_native(callable.get(), args, count, kwnames, true);
  if (!result) {
    // Without tensors the error is a fact about the environment (torch.cuda without CUDA).
    bool about_tensors = recorded_nodes_ != recorded;
    for (size_t i = 0; i < count; ++i) about_tensors |= holds_tensor(args[i].get());
    return about_tensors || breaks_.under_way() ? torch_failed(callable.get(), args, count, kwnames)
                                                : Slot();
  }
  if (!only_rearranges(module, name))
    record_torch_call(callable.get(), args, count, kwnames, result.get());
  return result;
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
