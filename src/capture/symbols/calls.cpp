#include "capture/symbols/calls.h"

#include "base/is_one_of.h"
#include "capture/known.h"
#include "capture/objects/attributes.h"
#include "capture/symbols/floats.h"
#include "capture/symbols/integers.h"
#include "capture/symbols/text.h"
#include "capture/trace_context.h"
#include "cpython/text.h"

namespace braze::capture {

using sym::Int;

namespace {

bool is_random_generator(PyObject* object) {
  return std::string_view(Py_TYPE(object)->tp_name) == "torch._C.Generator";
}

bool is_made_in_c(PyObject* callable) {
  if (PyType_Check(callable)) return !is_python_class(reinterpret_cast<PyTypeObject*>(callable));
  return PyCFunction_Check(callable) || Py_IS_TYPE(callable, &PyMethodDescr_Type) ||
         Py_IS_TYPE(callable, &PyWrapperDescr_Type) || Py_IS_TYPE(callable, known().method_wrapper);
}

}  // namespace

static bool keeps_symbols(TraceContext& trace, PyObject* f, PyObject* self, Tracked* args,
                          size_t count, PyObject* kwnames, Tracked& result);

// max(a, b, ...), min(a, b, ...): decided by guards, the first of equal ones as in Python.
static Tracked extremum_of_symbols(TraceContext& trace, bool largest, const Tracked* args,
                                   size_t count) {
  size_t best = 0;
  for (size_t i = 1; i < count; ++i) {
    const int better = largest ? compare_symbols(trace, args[i], args[best], Py_GT)
                               : compare_symbols(trace, args[i], args[best], Py_LT);
    if (better < 0) return {};
    if (better) best = i;
  }
  return args[best];
}

// sum(x.shape)
static Tracked sum_of_symbols(TraceContext& trace, PyObject* sequence) {
  Int sum = 0;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(sequence, i);
    const std::optional<Int> value = is_integer(item) ? integer_in(trace, item) : std::nullopt;
    if (!value || !trace.recording.shapes().may_add(sum, *value)) return {};
    sum = sum + *value;
  }
  return Tracked(trace.recording.object_of(sum));
}

void use_stand_ins(TraceContext& trace, Tracked* args, size_t count) {
  if (!trace.recording.has_symbols()) return;
  for (size_t i = 0; i < count; ++i) {
    PyObject* list = trace.world.effective(args[i].get());
    if (!PyList_CheckExact(list) && !PyTuple_CheckExact(list)) continue;
    Ref copy;
    for (Py_ssize_t j = 0; j < PySequence_Fast_GET_SIZE(list); ++j) {
      Tracked item = trace.world.wrap(PySequence_Fast_GET_ITEM(list, j));
      if (item.get() == PySequence_Fast_GET_ITEM(list, j)) continue;
      if (!copy) copy = Ref::steal(PySequence_List(list));
      PyList_SetItem(copy.get(), j, item.object.release());
    }
    if (copy && PyTuple_CheckExact(list)) copy = Ref::steal(PyList_AsTuple(copy.get()));
    if (copy) args[i] = Tracked(std::move(copy));
  }
}

bool is_data_of_symbols(TraceContext& trace, Tracked* args, size_t count, PyObject* kwnames) {
  const size_t keywords = kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0;
  if (count != keywords + 1) return false;
  for (size_t i = 0; i < keywords; ++i) {
    const std::string_view keyword = cpython::utf8_of(PyTuple_GET_ITEM(kwnames, i));
    if (keyword != "dtype" && keyword != "device") return false;
  }
  PyObject* data = trace.world.effective(args[0].get());
  auto is_number = [](PyObject* object) {
    return is_integer(object) || PyFloat_Check(object) || Py_TYPE(object) == known().sym_float;
  };
  if (is_number(data)) return is_symbolic(data);
  if (!PyList_CheckExact(data) && !PyTuple_CheckExact(data)) return false;
  bool any = false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(data); ++i) {
    const Tracked item = trace.world.wrap(PySequence_Fast_GET_ITEM(data, i));
    if (!is_number(item.get())) return false;
    any |= is_symbolic(item.get());
  }
  return any;
}

bool call_with_symbols(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
                       PyObject* kwnames, Tracked& result) {
  bool any = false;
  for (size_t i = 0; i < count && !any; ++i)
    any = may_hold_symbol(trace, trace.world.effective(args[i].get()));
  PyObject* f = callable.get();
  PyObject* self = PyCFunction_Check(f) ? PyCFunction_GET_SELF(f) : nullptr;
  const bool container_self = self && (PyList_Check(self) || PyTuple_Check(self));
  if (!any && !container_self) return false;
  if (any && !kwnames) {
    bool done = false;
    result = number_of_floats(trace, f, args, count, done);
    if (done) return true;
  }
  if (PyType_Check(f)) {
    auto* type = reinterpret_cast<PyTypeObject*>(f);
    if (type == &PyLong_Type && count == 1 && is_integer(args[0].get())) {
      result = Tracked(trace.recording.object_of(*integer_in(trace, args[0].get())));
      return true;
    }
    if (type == &PyUnicode_Type && count == 1 && !kwnames && is_symbolic(args[0].get())) {
      result = Py_TYPE(args[0].get()) == known().text
                   ? args[0]
                   : varying_text(trace, TextFunction::kStr, {args[0]});
      if (result) return true;
    }
    if (type == &PyFloat_Type && count == 1 && Py_TYPE(args[0].get()) == known().sym_float) {
      result = args[0];
      return true;
    }
    if (type == &PyType_Type && count == 1) {
      if (is_symbolic(args[0].get())) args[0] = Tracked(plain_like(args[0].get()));
      return false;
    }
    // Calls it in C, with what it is to look at as it is.
    const bool calls =
        (type == &PyMap_Type || type == &PyFilter_Type) && count > 0 && is_made_in_c(args[0].get());
    if (calls) {
      for (size_t i = 1; i < count; ++i) make_concrete(trace, args[i]);
      return false;
    }
    const bool keeps = type == &PyTuple_Type || type == &PyList_Type || type == &PyDict_Type ||
                       type == &PySlice_Type || type == &PyEnum_Type || type == &PyZip_Type ||
                       type == &PyReversed_Type || type == &PyMap_Type || type == &PyFilter_Type ||
                       type == &PySuper_Type || type == &PyProperty_Type ||
                       type == known().partial || type == known().deque;
    const bool python_class = PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) &&
                              !PyExceptionClass_Check(f) && type != known().ordered_dict;
    if (keeps || python_class || is_torch_module_name(module_of(type))) return false;
  } else if (PyCFunction_Check(f) || Py_IS_TYPE(f, &PyMethodDescr_Type) ||
             Py_IS_TYPE(f, &PyWrapperDescr_Type) || Py_IS_TYPE(f, known().method_wrapper)) {
    if (keeps_symbols(trace, f, self, args, count, kwnames, result)) return bool(result);
  } else {
    return false;  // comes back with what it calls
  }
  for (size_t i = 0; i < count; ++i) make_concrete(trace, args[i]);
  if (container_self && PyList_Check(self)) with_numbers(trace, self, kContainerDepth);
  return false;
}

// Whether the C function may see symbols, or (with `result`) is done here.
static bool keeps_symbols(TraceContext& trace, PyObject* f, PyObject* self, Tracked* args,
                          size_t count, PyObject* kwnames, Tracked& result) {
  Ref given = Ref::steal(PyObject_GetAttr(f, names().name));
  const char* text = given && PyUnicode_Check(given.get()) ? cpython::utf8_of(given.get()) : "";
  const std::string_view name = text;
  PyObject* owner = self && !PyModule_Check(self) ? self : nullptr;
  size_t first = 0;  // of the arguments proper
  if (!PyCFunction_Check(f) && !owner && count > 0) {
    if (Py_IS_TYPE(f, known().method_wrapper)) {
      Ref bound = Ref::steal(PyObject_GetAttr(f, names().self));
      owner = bound.get();  // the wrapper holds it
    } else {
      owner = args[0].get();
      first = 1;
    }
  }
  if (owner && (is_symbolic(owner) || is_random_generator(owner))) return false;
  if (owner && (is_tensor(owner) || is_torch_module_name(module_of(Py_TYPE(owner))))) return true;
  if (owner && PyType_Check(owner))
    return name == "__new__" ||
           PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(owner), known().size);
  if (owner && (PyList_Check(owner) || PyDict_Check(owner) || PyTuple_Check(owner) ||
                PyObject_TypeCheck(owner, known().deque))) {
    if (!is_one_of(name,
                   {"append",     "appendleft",   "extend",   "extendleft", "insert", "update",
                    "setdefault", "__setitem__",  "get",      "pop",        "copy",   "items",
                    "values",     "keys",         "__iter__", "__len__",    "clear",  "reverse",
                    "popitem",    "__reversed__", "popleft",  "__init__"}))
      return false;
    const bool by_key = PyDict_Check(owner) || is_one_of(name, {"insert", "pop", "__setitem__"});
    if (by_key && first < count) make_concrete(trace, args[first]);
    return true;
  }
  if (owner && is_one_of(name, {"__setattr__", "__init__", "__new__", "send", "throw", "__next__"}))
    return true;
  if (const CalleeRule* rule = callee_rule(f)) {
    switch (rule->callee) {
      case Callee::kIsinstance:
        if (count > 0 && is_symbolic(args[0].get())) args[0] = Tracked(plain_like(args[0].get()));
        return true;
      case Callee::kGetattr:
      case Callee::kHasattr:
      case Callee::kSetattr:
      case Callee::kDelattr:
      case Callee::kLen:
      case Callee::kIter:
      case Callee::kNext:
      case Callee::kReadItem:
      case Callee::kWriteItem:
      case Callee::kDeleteItem:
      case Callee::kOperator:
      case Callee::kVars:
      case Callee::kExpect:
      case Callee::kOperand:
      case Callee::kBackward:
      case Callee::kLate:
      case Callee::kControlFlow:
      case Callee::kElementwise:
      case Callee::kElementProgram:
      case Callee::kPrint:
        return true;
      case Callee::kUnlisted:
      case Callee::kReadOnly:
      case Callee::kChangesFirst:
      case Callee::kDefer:
      case Callee::kBuildClass:
      case Callee::kWarn:
      case Callee::kBreak:
      case Callee::kIdentity:
      case Callee::kGraphBreak:
        break;
    }
  }
  if (PyCFunction_Check(f)) {
    PyObject* module = reinterpret_cast<PyCFunctionObject*>(f)->m_module;
    if (module && PyUnicode_Check(module) && is_torch_module_name(module)) return true;
  }
  if (is_one_of(name, {"max", "min"}) && count >= 2 && !kwnames) {
    result = extremum_of_symbols(trace, name == "max", args, count);
    return bool(result);
  }
  if (name == "sum" && count == 1) {
    PyObject* sequence = trace.world.effective(args[0].get());
    if (!PyList_Check(sequence) && !PyTuple_Check(sequence)) return false;
    result = sum_of_symbols(trace, sequence);
    return bool(result);
  }
  if (name == "abs" && count == 1 && Py_TYPE(args[0].get()) == known().sym_int) {
    const Int value = trace.recording.value_of(args[0].get());
    if (!trace.recording.shapes().may_add(value, 0)) return false;
    result = Tracked(trace.recording.object_of(
        trace.recording.shapes().guard_lt(value, 0) ? Int(0) - value : value));
    return true;
  }
  return false;
}

}  // namespace braze::capture
