#include "capture/calls/instances.h"

#include <algorithm>

#include "capture/calls/builtins.h"
#include "capture/calls/calls.h"
#include "capture/calls/native.h"
#include "capture/calls/native_scope.h"
#include "capture/calls/numpy.h"
#include "capture/calls/torch.h"
#include "capture/known.h"
#include "capture/objects/attributes.h"
#include "capture/objects/class_statements.h"
#include "capture/objects/operators.h"
#include "capture/objects/variables.h"
#include "capture/symbols/integers.h"
#include "capture/trace_context.h"

namespace braze::capture {

static bool name_module(TraceContext& trace, Tracked* args, size_t count);
static Tracked instantiate(TraceContext& trace, const Tracked& callable, Tracked* args,
                           size_t count, PyObject* kwnames);
static bool made_by_empty_new(PyTypeObject* base);
static Tracked enum_member(TraceContext& trace, const Tracked& callable, Tracked* args,
                           size_t count, PyObject* kwnames);
static bool prepare_iterables(TraceContext& trace, PyTypeObject* type, Tracked* args, size_t count);

Tracked call_new(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
                 PyObject* kwnames) {
  if (count < 1 || !PyType_Check(args[0].get()))
    return call_native(trace, callable.get(), args, count, kwnames, false);
  auto* type = reinterpret_cast<PyTypeObject*>(args[0].get());
  if (PyType_IsSubtype(type, known().tensor))
    return trace.refuse(BreakKind::kUnsupportedTensor, "a tensor subclass is made");
  auto* base =
      reinterpret_cast<PyTypeObject*>(reinterpret_cast<PyCFunctionObject*>(callable.get())->m_self);
  if (!may_instantiate(base) && !is_torch_module_name(module_of(base)))
    return trace.refuse(BreakKind::kNativeCall,
                        std::string("an instance of '") + base->tp_name + "' is made");
  if (!check_native_arguments(trace, "__new__", args + 1, count - 1, true, Look::kKeeps)) return {};
  if (base == &PyType_Type && !name_module(trace, args + 1, count - 1)) return {};
  Tracked made = call_native(trace, callable.get(), args, count, kwnames, false);
  if (made && base == &PyType_Type) note_class(trace, made.get());
  return made;
}

// (name, bases, namespace): a class whose namespace does not say its module is of the module of the
// code that makes it, which CPython takes from the frame under way.
static bool name_module(TraceContext& trace, Tracked* args, size_t count) {
  if (count < 3 || !PyDict_Check(args[2].get())) return true;
  PyObject* given = trace.world.effective(args[2].get());
  PyObject* globals = trace.frames.top()->globals.get();
  if (PyDict_Contains(given, names().module) != 0) return !PyErr_Occurred();
  if (!PyDict_GetItemWithError(globals, names().name))
    return !PyErr_Occurred() &&
           trace.breaks.refuse(BreakKind::kIntrospection,
                               "a class is made by code of a module without name");
  const Tracked module = load_global(trace, *trace.frames.top(), names().name);
  Ref names_it = module ? Ref::steal(PyDict_Copy(given)) : Ref();
  if (!names_it || PyDict_SetItem(names_it.get(), names().module, module.get()) < 0) return false;
  trace.world.mark_created(names_it.get());
  args[2] = Tracked(std::move(names_it));
  return true;
}

Tracked call_type(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
                  PyObject* kwnames) {
  auto* type = reinterpret_cast<PyTypeObject*>(callable.get());
  if (type == &PyType_Type) {
    if (count != 1) {
      if (!prepare_iterables(trace, type, args, count) || !name_module(trace, args, count))
        return {};
      Tracked made = call_native(trace, callable.get(), args, count, kwnames, false);
      if (made) note_class(trace, made.get());
      return made;
    }
    PyObject* of = as_object(Py_TYPE(args[0].get()));
    if (const Source* source = trace.world.source_of(args[0]);
        source && !is_atom(args[0].get()) && !is_tensor(args[0].get()))
      trace.guards.add(GuardKind::kType, source, of);
    return trace.world.made_function(of) ? trace.world.wrap(of)
                                         : known_class_value(trace, Ref::borrow(of));
  }
  if (type == &PyLong_Type && count == 1 && !kwnames)
    if (Tracked number = number_of_tensor(trace, args[0]); number || PyErr_Occurred())
      return number;
  if (const CalleeRule* rule = callee_rule(callable.get())) {
    bool done = false;
    Tracked result = call_listed(trace, *rule, callable, args, count, kwnames, done);
    if (done) return result;
  }
  if (type == known().tensor)  // as torch.FloatTensor, of the default dtype
    return call_torch(trace, callable, "torch", "Tensor", args, count, kwnames);
  if (PyType_IsSubtype(type, known().tensor)) {
    return trace.refuse(BreakKind::kUnsupportedTensor,
                        std::string("a '") + type->tp_name + "' tensor is made");
  }
  if (const auto& numbers = known().numpy_numbers;
      !kwnames && std::ranges::find(numbers, type) != numbers.end())
    return call_numpy(trace, callable, args, count, kwnames);
  bool torch = is_torch_module_name(module_of(type));
  bool own_call = Py_TYPE(callable.get())->tp_call != PyType_Type.tp_call;
  if (!is_heap_type(type) || (torch && type->tp_init != PyBaseObject_Type.tp_init &&
                              !PyFunction_Check(_PyType_Lookup(type, names().init)))) {
    if (torch) {
      Tracked made = call_torch(trace, callable, "torch", type->tp_name, args, count, kwnames);
      // torch._C._InferenceMode and its like
      if (made && _PyType_Lookup(type, names().exit)) trace.state_guards.push_back(made.object);
      return made;
    }
    // The record of the trace keeps what it made: a weak reference would never see it go.
    const bool plain_reference =
        type == &_PyWeakref_RefType && count == 1 && !kwnames && !is_tensor(args[0].get());
    if (!may_instantiate(type) && !plain_reference)
      return trace.refuse(BreakKind::kNativeCall,
                          std::string("an instance of '") + type->tp_name + "' is made");
    if (!prepare_iterables(trace, type, args, count)) return {};
    return call_native(trace, callable.get(), args, count, kwnames, false);
  }
  PyObject* meta_call = _PyType_Lookup(Py_TYPE(callable.get()), names().call);
  if (own_call && meta_call && PyFunction_Check(meta_call)) {
    trace.world.type_lookup(Py_TYPE(callable.get()), names().call);
    std::vector<Tracked> all{callable};
    all.insert(all.end(), args, args + count);
    return call(trace, trace.world.wrap(meta_call), all.data(), count + 1, kwnames);
  }
  if (is_numpy_module_name(module_of(type)))
    return call_numpy(trace, callable, args, count, kwnames);
  return instantiate(trace, callable, args, count, kwnames);
}

// False after a break: native code makes instances of `type`, whose nearest static base is `base`,
// and may not.
static bool may_make(TraceContext& trace, PyTypeObject* type, PyTypeObject* base) {
  if (asks_for_caller(type))
    trace.refuse(BreakKind::kNativeCall,
                 std::string(type->tp_name) + "() asks for the module of its caller");
  else if (base && !may_instantiate(base))
    trace.refuse(BreakKind::kNativeCall,
                 std::string("an instance of '") + type->tp_name + "' is made");
  else
    return true;
  return false;
}

// What `type.__call__` does: __new__, then __init__ of what came out.
static Tracked instantiate(TraceContext& trace, const Tracked& callable, Tracked* args,
                           size_t count, PyObject* kwnames) {
  auto* type = reinterpret_cast<PyTypeObject*>(callable.get());
  PyObject* make = trace.world.type_lookup(type, names().new_);
  PyObject* init = trace.world.type_lookup(type, names().init);
  if (!init || !PyFunction_Check(init)) {
    // Built-in __init__ (of an exception, a namedtuple, a dict subclass): all of it natively.
    auto* base = type;
    while (base && is_heap_type(base)) base = base->tp_base;
    if (!may_make(trace, type, base)) return {};
    if (PyType_IsSubtype(type, known().enum_type))
      return enum_member(trace, callable, args, count, kwnames);
    if (!prepare_iterables(trace, base ? base : type, args, count)) return {};
    if (base == &PyType_Type && !name_module(trace, args, count)) return {};
    return call_native(trace, callable.get(), args, count, kwnames, false);
  }
  Ref made;
  if (make && Py_IS_TYPE(make, &PyStaticMethod_Type)) {
    std::vector<Tracked> all{callable};
    all.insert(all.end(), args, args + count);
    Ref function = Ref::steal(PyObject_GetAttr(make, names().func));
    Tracked result = function
                         ? call(trace, trace.world.wrap(function), all.data(), count + 1, kwnames)
                         : Tracked();
    if (!result) return {};
    made = result.object;
  } else {
    auto* base = type;
    while (base && is_heap_type(base)) base = base->tp_base;
    bool takes_arguments = type->tp_new != PyBaseObject_Type.tp_new;
    if (!may_make(trace, type, base)) return {};
    // An exception keeps the arguments that __new__ gets.
    Ref positional = Ref::steal(PyTuple_New(0));
    if (takes_arguments && PyExceptionClass_Check(callable.get())) {
      size_t n = count - (kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0);
      positional = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(n)));
      for (size_t i = 0; i < n; ++i)
        PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i),
                         Ref(args[i].object).release());
    } else if (takes_arguments && !made_by_empty_new(base)) {
      return call_native(trace, callable.get(), args, count, kwnames, false);
    }
    made = Ref::steal(type->tp_new(type, positional.get(), nullptr));
    if (trace.breaks.under_way() || !made) return {};
    trace.world.mark_created(made.get());
  }
  if (!PyType_IsSubtype(Py_TYPE(made.get()), type)) return trace.world.wrap(made);
  std::vector<Tracked> all{trace.world.wrap(made)};
  all.insert(all.end(), args, args + count);
  Tracked result = call(trace, trace.world.wrap(init), all.data(), count + 1, kwnames);
  if (!result) return {};
  if (result.get() != Py_None) {
    PyErr_Format(PyExc_TypeError, "__init__() should return None, not '%.200s'",
                 Py_TYPE(result.get())->tp_name);
    return {};
  }
  return trace.world.wrap(made);
}

// Containers that take their contents in __init__: an empty tp_new is what type.__call__ does too.
static bool made_by_empty_new(PyTypeObject* base) {
  return base == &PyDict_Type || base == &PyList_Type || base == &PySet_Type ||
         base == known().ordered_dict || base == &PyBaseObject_Type;
}

// Color(2): the member that exists.
static Tracked enum_member(TraceContext& trace, const Tracked& callable, Tracked* args,
                           size_t count, PyObject* kwnames) {
  if (count != 1 || !is_atom(args[0].get()))
    return trace.refuse(BreakKind::kClassStatement, "an enum is made");
  Ref member;
  {
    NativeScope scope(trace, true, nullptr);
    PyObject* raw[1] = {args[0].get()};
    member = Ref::steal(PyObject_Vectorcall(callable.get(), raw, 1, kwnames));
  }
  return member ? known_class_value(trace, std::move(member)) : Tracked();
}

static Look look_of(PyTypeObject* type, PyObject* first) {
  if (type == known().partial || PyExceptionClass_Check(as_object(type))) return Look::kKeeps;
  for (PyTypeObject* keeps : {&PySuper_Type, &PyProperty_Type, &PyMethod_Type, &PyStaticMethod_Type,
                              &PyClassMethod_Type, &PyType_Type})
    if (type == keeps) return Look::kKeeps;
  for (PyTypeObject* holds : {&PyList_Type, &PyTuple_Type, &PySet_Type, &PyFrozenSet_Type,
                              &PyZip_Type, &PyEnum_Type, &PyReversed_Type, known().deque})
    if (type == holds) return Look::kHoldsItems;
  const bool text = type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyByteArray_Type;
  const bool pairs = PyType_IsSubtype(type, &PyDict_Type) && first && !PyDict_Check(first);
  return text || pairs ? Look::kDeep : Look::kItems;
}

// Arguments of a built-in class that reads or iterates them.
static bool prepare_iterables(TraceContext& trace, PyTypeObject* type, Tracked* args,
                              size_t count) {
  const Look look = look_of(type, count ? args[0].get() : nullptr);
  for (size_t i = 0; i < count; ++i) {
    PyObject* arg = args[i].get();
    bool text = type == &PyUnicode_Type || type == &PyBytes_Type;
    if (text && (holds_tensor(arg) || names_its_address(arg)))
      return trace.breaks.refuse(BreakKind::kTensorAsText, "a tensor is formatted as text");
    if (!is_container(arg) || !trace.world.is_outside(arg)) continue;
    bool heap = is_heap_type(Py_TYPE(arg)) && Py_TYPE(arg) != known().ordered_dict &&
                Py_TYPE(arg) != known().deque && Py_TYPE(arg) != known().defaultdict;
    if (look == Look::kKeeps || heap || PyTuple_Check(arg) || PyFrozenSet_Check(arg)) {
      if (!read_deeply(trace, arg, look)) return false;
    } else if (!shadow_to_read(trace.world, arg)) {
      return false;
    }
  }
  return check_native_arguments(trace, type->tp_name, args, count, true, look);
}

}  // namespace braze::capture
