#include "capture/calls/native.h"

#include <opcode.h>

#include <algorithm>
#include <utility>

#include "capture/calls/exported_memory.h"
#include "capture/calls/native_scope.h"
#include "capture/frames/subject.h"
#include "capture/known.h"
#include "capture/objects/attributes.h"
#include "capture/objects/iteration.h"
#include "capture/policy/policy.h"
#include "capture/symbols/floats.h"
#include "capture/symbols/integers.h"
#include "capture/trace_context.h"
#include "cpython/lookup.h"
#include "cpython/text.h"

namespace braze::capture {

namespace {

// An object made in C that hands out what it holds: an iterator, a view, a partial, a bound method.
bool is_carrier(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (!type->tp_traverse || is_python_class(type) || PyType_Check(object) ||
      PyModule_Check(object) || PyFunction_Check(object) || PyCode_Check(object) ||
      PyGen_Check(object) || PyCoro_CheckExact(object) || PyAsyncGen_CheckExact(object) ||
      PyFrame_Check(object) || PyTraceBack_Check(object) || PyCell_Check(object))
    return false;
  return type->tp_iternext || type == known().partial || PyMethod_Check(object) ||
         PyCFunction_Check(object) || PyDictViewSet_Check(object) || PyDictValues_Check(object);
}

// Iterators that hand out what is in their containers and look no further.
bool hands_out_only(PyTypeObject* type) {
  for (PyTypeObject* listed :
       {&PyListIter_Type, &PyTupleIter_Type, &PyRangeIter_Type, &PyLongRangeIter_Type,
        &PySetIter_Type, &PyDictIterKey_Type, &PyDictIterValue_Type, &PyDictIterItem_Type,
        &PyDictRevIterKey_Type, &PyDictRevIterValue_Type, &PyDictRevIterItem_Type,
        &PyUnicodeIter_Type, &PyBytesIter_Type, &PyListRevIter_Type})
    if (type == listed) return true;
  return false;
}

// Has no hash: what only hands on the items of a container does not look inside such an item.
bool is_opaque_item(PyObject* item) {
  return PyList_CheckExact(item) || PyDict_CheckExact(item) || PySet_CheckExact(item);
}

std::vector<PyObject*> referents(PyObject* object);

// map(float, ...), accumulate(...): native code is given what they iterate over.
bool calls_natively(PyObject* iterator) {
  if (std::string_view(Py_TYPE(iterator)->tp_name) == "itertools.accumulate") return true;
  bool evaluated = false;
  for (PyObject* part : referents(iterator)) {
    const bool function = PyFunction_Check(part) || PyMethod_Check(part);
    if (PyCallable_Check(part) && !function) return true;
    evaluated |= function;
  }
  return Py_IS_TYPE(iterator, &PyFilter_Type) && !evaluated;  // filter(None, ...) asks for truth
}

std::vector<PyObject*> referents(PyObject* object) {
  std::vector<PyObject*> found;
  auto visit = [](PyObject* reached, void* list) {
    static_cast<std::vector<PyObject*>*>(list)->push_back(reached);
    return 0;
  };
  if (PyDict_Check(object)) {
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(object, &position, &key, &value)) found.insert(found.end(), {key, value});
  } else if (Py_TYPE(object)->tp_traverse) {
    Py_TYPE(object)->tp_traverse(object, visit, &found);
  }
  return found;
}

}  // namespace

static bool read_reachable(TraceContext& trace, PyObject* object, Look look,
                           IdentityMap<bool>& seen, int depth);
static bool may_look_at(TraceContext& trace, PyObject* object);
static bool read_exception(TraceContext& trace, PyObject* exception, IdentityMap<bool>& seen,
                           int depth);
static bool read_parts(TraceContext& trace, PyObject* carrier);
static bool may_call_natively(TraceContext& trace, PyObject* callable, IdentityMap<bool>& seen);

Tracked result_of_native(TraceContext& trace, Ref result) {
  if (trace.breaks.under_way() || !result) return {};
  PyObject* object = result.get();
  if ((is_lru_cache(object) || PyModule_Check(object)) && Py_REFCNT(object) == 1)
    trace.world.mark_created(object);
  trace.world.rely_on_specials(Py_TYPE(object));
  if (is_atom(object) || is_tensor(object) || is_immutable(object))
    return trace.world.wrap(std::move(result));
  Tracked tracked = trace.world.wrap(std::move(result));
  object = tracked.get();
  if (tracked.source || trace.world.made_function(object)) return tracked;
  if (Py_REFCNT(object) == 1) {
    trace.world.mark_created(object);
    return tracked;
  }
  if (!trace.world.is_created(object))
    return trace.refuse(BreakKind::kNativeCall,
                        std::string("native code gave a '") + Py_TYPE(object)->tp_name +
                            "' object that existed before, from an unknown place");
  return tracked;
}

Tracked call_native(TraceContext& trace, PyObject* callable, Tracked* args, size_t count,
                    PyObject* kwnames, bool torch) {
  if (torch && trace.recording.has_floats()) settle_floats(trace, callable, args, count, kwnames);
  return call_as_given(trace, callable, args, count, kwnames, torch);
}

Tracked call_as_given(TraceContext& trace, PyObject* callable, Tracked* args, size_t count,
                      PyObject* kwnames, bool torch) {
  NativeScope scope(trace, torch, callable);
  Ref result = call_raw(trace, callable, args, count, kwnames);
  return result_of_native(trace, with_real_keys(trace, callable, args, count, std::move(result)));
}

Ref call_raw(TraceContext& trace, PyObject* callable, Tracked* args, size_t count,
             PyObject* kwnames) {
  PyObject* few[17];
  std::vector<PyObject*> many;
  PyObject** raw = few;
  if (count + 1 > 17) {
    many.resize(count + 1);
    raw = many.data();
  }
  for (size_t i = 0; i < count; ++i) raw[i + 1] = trace.world.effective(args[i].get());
  size_t keywords = kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0;
  return Ref::steal(PyObject_Vectorcall(
      callable, raw + 1, (count - keywords) | PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames));
}

// --- What native code reads
// -------------------------------------------------------------------------

bool read_deeply(TraceContext& trace, PyObject* object, Look look) {
  IdentityMap<bool> seen;
  return read_reachable(trace, object, look, seen, 0);
}

static bool read_reachable(TraceContext& trace, PyObject* object, Look look,
                           IdentityMap<bool>& seen, int depth) {
  if (is_atom(object) || is_tensor(object)) return true;
  if (look != Look::kKeeps && PyFunction_Check(object))
    trace.world.guard_identity_of_function(object);
  const bool container = is_container(object);
  const bool exception = PyExceptionInstance_Check(object);
  if (exception && look != Look::kDeep) return true;
  if (!container && !exception && !is_carrier(object))
    return look != Look::kDeep || may_look_at(trace, object);
  if (seen.contains(object)) return true;
  if (depth > 100)
    return trace.breaks.refuse(BreakKind::kNativeCall,
                               "native code is given data that nest too deeply");
  seen[object] = true;
  if (exception) return read_exception(trace, object, seen, depth);
  if (!container && !read_parts(trace, object)) return false;
  const bool changed = trace.world.effective(object) != object ||
                       (PyDict_Check(object) && !trace.world.log().is_unwritten(object));
  if (depth > 0 && look >= Look::kHandsOn && changed)
    return trace.breaks.refuse(BreakKind::kPendingChange, std::string("it may look at a '") +
                                                              Py_TYPE(object)->tp_name +
                                                              "' object inside its argument");
  if (container && !trace.world.read_all(object)) return false;
  for (PyObject* reached : referents(trace.world.effective(object))) {
    if (container && look == Look::kHoldsItems && is_opaque_item(reached)) continue;
    if (!read_reachable(trace, reached, look, seen, depth + 1)) return false;
  }
  return true;
}

// Native code that is given it inside of something else.
static bool may_look_at(TraceContext& trace, PyObject* object) {
  if (!trace.world.source_of(object) || is_immutable(object)) return true;  // native code made it
  PyTypeObject* type = Py_TYPE(object);
  if (is_frozen(object)) {
    trace.world.guard_as_key(object);
    return true;
  }
  if (is_python_class(type) && !exports_memory(object)) return true;
  return is_torch_module_name(module_of(type)) ||
         trace.breaks.refuse(BreakKind::kNativeCall, std::string("native code is given a '") +
                                                         type->tp_name + "' object from outside");
}

// What str() and repr() of an exception show: its arguments, unless its class has fields of its
// own.
static bool read_exception(TraceContext& trace, PyObject* exception, IdentityMap<bool>& seen,
                           int depth) {
  static PyObject* const str = PyUnicode_InternFromString("__str__");
  static PyObject* const name = PyUnicode_InternFromString("args");
  PyTypeObject* type = Py_TYPE(exception);
  const auto is_text_of = [type](PyObject* base) {
    return type->tp_str == reinterpret_cast<PyTypeObject*>(base)->tp_str;
  };
  const Tracked tracked = trace.world.wrap(exception);
  const bool of_arguments = is_text_of(PyExc_BaseException) || is_text_of(PyExc_KeyError) ||
                            is_text_of(PyExc_BaseExceptionGroup) ||
                            PyFunction_Check(_PyType_Lookup(type, str));
  if (tracked.source && !of_arguments)
    return trace.breaks.refuse(BreakKind::kNativeCall, std::string("text of a '") + type->tp_name +
                                                           "' object from outside");
  const Tracked arguments = tracked.source ? getattr(trace, tracked, name)
                                           : Tracked::steal(PyObject_GetAttr(exception, name));
  return arguments && read_reachable(trace, arguments.get(), Look::kDeep, seen, depth + 1);
}

// What a bound method or partial from outside holds comes from outside with it.
static bool read_parts(TraceContext& trace, PyObject* carrier) {
  const Source* source = trace.world.source_of(carrier);
  if (!source) return true;
  auto read = [&](PyObject* name) {
    Ref part = Ref::steal(PyObject_GetAttr(carrier, name));
    return part &&
           trace.world.read(part.get(), trace.guards.source(SourceKind::kAttribute, source, name));
  };
  if (Py_IS_TYPE(carrier, known().partial)) {
    // functools.partial() does not look into one that has attributes.
    trace.guards.add(cpython::existing_dict(carrier) ? GuardKind::kPresent : GuardKind::kAbsent,
                     trace.guards.source(SourceKind::kInstanceDict, source));
    return read(names().partial_func) && read(names().partial_args) &&
           read(names().partial_keywords);
  }
  if (PyDictViewSet_Check(carrier) || PyDictValues_Check(carrier))
    return trace.breaks.refuse(BreakKind::kNativeCall, std::string("native code is given a '") +
                                                           Py_TYPE(carrier)->tp_name +
                                                           "' object from outside");
  if (PyMethod_Check(carrier)) return read(names().self) && read(names().func);
  if (PyCFunction_Check(carrier))
    return !is_bound_to_object(PyCFunction_GET_SELF(carrier)) || read(names().self);
  return true;
}

bool read_arguments(TraceContext& trace, Tracked* args, size_t count, Look look) {
  for (size_t i = 0; i < count; ++i)
    if (is_container(args[i].get()) && !read_deeply(trace, args[i].get(), look)) return false;
  return true;
}

bool read_by_advancing(TraceContext& trace, PyObject* iterator) {
  PyTypeObject* type = Py_TYPE(iterator);
  if (hands_out_only(type) || is_python_class(type) || !is_carrier(iterator)) return true;
  if (type == &PyEnum_Type || type == &PyZip_Type || type == &PyReversed_Type) {
    for (PyObject* part : referents(iterator))
      if (PyIter_Check(part) && !read_by_advancing(trace, part)) return false;
    return true;
  }
  size_t& read_at = trace.caches.advanced[iterator];
  const size_t now = 1 + trace.world.write_count() + trace.container_changes;
  if (read_at == now) return true;
  read_at = now;
  const bool looks = calls_natively(iterator);
  if (PyObject* memory = looks ? memory_among_items(trace.world, iterator) : nullptr)
    return refuse_memory(trace.breaks, memory, type->tp_name);
  return read_deeply(trace, iterator, looks ? Look::kDeep : Look::kHandsOn);
}

// --- What native code is given
// ----------------------------------------------------------------------

// Whether native code may call it at any time with anything from its other arguments.
static bool may_call_natively(TraceContext& trace, PyObject* callable) {
  IdentityMap<bool> seen;
  return may_call_natively(trace, callable, seen);
}

// `seen`: the partials on the way; one can hold itself.
static bool may_call_natively(TraceContext& trace, PyObject* callable, IdentityMap<bool>& seen) {
  PyTypeObject* type = Py_TYPE(callable);
  if (!type->tp_call || PyType_Check(callable)) return true;
  if (PyFunction_Check(callable)) {
    auto* function = reinterpret_cast<PyFunctionObject*>(callable);
    return !code_info(reinterpret_cast<PyCodeObject*>(function->func_code), function->func_globals)
                .library_break;
  }
  if (PyMethod_Check(callable))
    return may_call_natively(trace, PyMethod_GET_FUNCTION(callable), seen);
  if (const CalleeRule* rule = callee_rule(callable)) {
    switch (rule->callee) {
      case Callee::kReadOnly:
      case Callee::kIsinstance:
      case Callee::kLen:
      case Callee::kIter:
      case Callee::kReadItem:
        return true;
      case Callee::kOperator:
        return rule->op < NB_INPLACE_ADD;
      default:
        return false;
    }
  }
  auto reads = [&](PyTypeObject* owner, const char* name) {
    if (is_torch_module_name(module_of(owner))) return !tensor_method_break(name);
    for (PyTypeObject* plain : {&PyUnicode_Type, &PyBytes_Type, &PyLong_Type, &PyFloat_Type,
                                &PyBool_Type, &PyComplex_Type})
      if (owner == plain) return true;
    return container_method(name) == MethodEffect::kRead || is_reading_method(owner, name);
  };
  if (PyCFunction_Check(callable)) {
    auto* f = reinterpret_cast<PyCFunctionObject*>(callable);
    const char* name = f->m_ml->ml_name;
    if (is_bound_to_object(f->m_self))
      return trace.world.is_created(f->m_self) || reads(Py_TYPE(f->m_self), name);
    if (f->m_self && PyType_Check(f->m_self)) {
      auto* owner = reinterpret_cast<PyTypeObject*>(f->m_self);
      if (is_torch_module_name(module_of(owner)))
        return !torch_function_policy("torch", name).refused;
      return is_class_method_of_builtin(owner, name) || std::string_view(name) == "__new__";
    }
    const char* module =
        f->m_module && PyUnicode_Check(f->m_module) ? cpython::utf8_of(f->m_module) : "";
    if (std::string_view(module).starts_with("torch"))
      return !torch_function_policy(module, name).refused;
    return is_pure_c_module(module);
  }
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type ||
      type == &PyClassMethodDescr_Type) {
    auto* descriptor = reinterpret_cast<PyDescrObject*>(callable);
    return reads(descriptor->d_type, cpython::utf8_of(descriptor->d_name));
  }
  if (type == known().partial || std::string_view(type->tp_name) == "functools.KeyWrapper") {
    if (std::exchange(seen[callable], true)) return true;
    for (PyObject* part : referents(callable))
      if (!may_call_natively(trace, part, seen)) return false;
    return true;
  }
  // attrgetter and methodcaller read attributes that only the evaluation can guard.
  return is_python_class(type) || std::string_view(type->tp_name) == "operator.itemgetter" ||
         PyObject_TypeCheck(callable, known().module);
}

bool check_native_arguments(TraceContext& trace, const char* what, Tracked* args, size_t count,
                            bool read_only, Look look) {
  // With a function that it is given it compares what that gives.
  const bool looks_at_items =
      look == Look::kDeep && std::none_of(args, args + count, [](const Tracked& arg) {
        return PyFunction_Check(arg.get()) || PyMethod_Check(arg.get());
      });
  if (look == Look::kDeep && !looks_at_items) look = Look::kHandsOn;
  for (size_t i = 0; i < count; ++i) {
    PyObject* arg = args[i].get();
    if (is_atom(arg) || is_tensor(arg)) continue;
    const Subject subject(trace, args[i]);
    if (PyObject* memory = looks_at_items ? memory_among_items(trace.world, arg) : nullptr)
      return refuse_memory(trace.breaks, memory, what);
    if (look != Look::kKeeps && !may_call_natively(trace, arg))
      return trace.breaks.refuse(BreakKind::kNativeCall,
                                 std::string(what) + " is given a '" + Py_TYPE(arg)->tp_name +
                                     "' that it may call out of the evaluator's sight");
    bool outside = trace.world.is_outside(arg);
    if (is_container(arg)) {
      if (outside && !read_only && !PyTuple_Check(arg) && !PyFrozenSet_Check(arg))
        return trace.breaks.refuse(BreakKind::kNativeCall,
                                   std::string(what) + " is given a '" + Py_TYPE(arg)->tp_name +
                                       "' object from outside, which it may change");
      if (!read_deeply(trace, arg, look)) return false;
      continue;
    }
    if (!outside || is_immutable(arg)) {
      if (PyIter_Check(arg) ? !read_by_advancing(trace, arg) : !read_deeply(trace, arg, look))
        return false;
      continue;
    }
    if (read_only && is_frozen(arg)) {
      trace.world.guard_as_key(arg);
      continue;
    }
    if (read_only && Py_IS_TYPE(arg, known().partial)) {
      if (!read_deeply(trace, arg, look)) return false;
      continue;
    }
    if (look == Look::kDeep && PyExceptionInstance_Check(arg) && !read_deeply(trace, arg, look))
      return false;
    const bool seen = is_python_class(Py_TYPE(arg)) || PyExceptionInstance_Check(arg) ||
                      is_torch_module_name(module_of(Py_TYPE(arg)));
    // A buffer may be written to by whoever is given it.
    if (!read_only || !seen || is_foreign_iterator(trace, arg) || PyObject_CheckBuffer(arg))
      return trace.breaks.refuse(
          Py_TYPE(arg) == known().ndarray ? BreakKind::kNumpy : BreakKind::kNativeCall,
          std::string(what) + " is given a '" + Py_TYPE(arg)->tp_name + "' object from outside");
  }
  return true;
}

}  // namespace braze::capture
