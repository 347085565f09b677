#include "capture/calls/builtins.h"

#include <optional>

#include "capture/calls/backward.h"
#include "capture/calls/control_flow.h"
#include "capture/calls/elements.h"
#include "capture/calls/late_calls.h"
#include "capture/calls/native.h"
#include "capture/calls/output.h"
#include "capture/known.h"
#include "capture/objects/attribute_writes.h"
#include "capture/objects/attributes.h"
#include "capture/objects/class_statements.h"
#include "capture/objects/items.h"
#include "capture/objects/iteration.h"
#include "capture/objects/operators.h"
#include "capture/symbols/floats.h"
#include "capture/symbols/integers.h"
#include "capture/trace_context.h"
#include "cpython/text.h"

namespace braze::capture {

namespace {

constexpr const char* kOwnName = "an attribute's name is an object of a subclass of str";

// Looking it up runs no methods of a class.
bool is_plain_name(PyObject* name) { return PyUnicode_CheckExact(name) || !PyUnicode_Check(name); }

}  // namespace

Tracked asked_break(TraceContext& trace, const char* function, const Tracked* args, size_t count) {
  std::string text = function;
  const char* message =
      count > 0 && PyUnicode_Check(args[0].get()) ? cpython::utf8_of(args[0].get()) : nullptr;
  if (message && *message) text += std::string(": ") + message;
  return trace.refuse(BreakKind::kGraphBreak, std::move(text));
}

// Of the names in a protocol's class, those that an instance is asked for; not special methods.
static bool is_attribute_of_protocol(PyObject* name) {
  const std::string_view text = cpython::utf8_of(name);
  const bool is_special = text.starts_with("__") && text.ends_with("__");
  return !is_special && !text.starts_with("_abc_") && text != "_is_protocol" &&
         text != "_is_runtime_protocol" && text != "_MutableMapping__marker";
}

// A typing.Protocol with attributes besides special methods, of its own, inherited or only
// annotated: any object may come to have them.
static bool asks_for_attributes(PyObject* cls) {
  static PyObject* const mark = PyUnicode_InternFromString("_is_protocol");
  static PyObject* const annotations = PyUnicode_InternFromString("__annotations__");
  if (!PyType_Check(cls)) return false;
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  if (!type->tp_mro || _PyType_Lookup(type, mark) != Py_True) return false;
  const auto has_attributes = [](PyObject* names) {
    Py_ssize_t position = 0;
    PyObject *name, *value;
    while (PyDict_Next(names, &position, &name, &value))
      if (is_attribute_of_protocol(name)) return true;
    return false;
  };
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    const std::string_view name = base->tp_name;
    if (!PyType_HasFeature(base, Py_TPFLAGS_HEAPTYPE) || name == "Protocol" || name == "Generic")
      continue;
    PyObject* annotated = PyDict_GetItemWithError(base->tp_dict, annotations);
    if (has_attributes(base->tp_dict) ||
        (annotated && PyDict_Check(annotated) && has_attributes(annotated)))
      return true;
  }
  return false;
}

bool rely_on_registrations(TraceContext& trace, PyObject* classes) {
  if (PyTuple_Check(classes)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes); ++i)
      if (!rely_on_registrations(trace, PyTuple_GET_ITEM(classes, i))) return false;
    return true;
  }
  if (asks_for_attributes(classes))
    return trace.breaks.refuse(BreakKind::kNativeCall,
                               "whether it is of a protocol, which looks for any attribute");
  if (!PyType_Check(classes) || !PyType_IsSubtype(Py_TYPE(classes), known().abc_meta)) return true;
  const Source* count = trace.guards.source(SourceKind::kNative, nullptr, known().abc_cache_token);
  Ref now = Ref::steal(PyObject_CallNoArgs(known().abc_cache_token));
  return now && trace.world.read(now.get(), count, false);
}

bool same_attribute(PyObject* a, PyObject* b, const char* name) {
  Ref of_a = Ref::steal(PyObject_GetAttrString(a, name));
  Ref of_b = Ref::steal(PyObject_GetAttrString(b, name));
  return of_a && of_a.get() == of_b.get();
}

// isinstance() of torch.FloatTensor and the like, which look at the dtype and at the dispatch key;
// a fake has one of its own. Empty: it is to be called, maybe to raise.
std::optional<bool> is_of_tensor_type(PyObject* tensor, PyObject* classes) {
  if (PyTuple_Check(classes)) {
    bool listed = false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes); ++i) {
      PyObject* cls = PyTuple_GET_ITEM(classes, i);
      std::optional<bool> answer = is_of_tensor_type(tensor, cls);
      if (!answer && !PyType_Check(cls)) return std::nullopt;
      if (answer.value_or(PyType_Check(cls) &&
                          PyType_IsSubtype(Py_TYPE(tensor), reinterpret_cast<PyTypeObject*>(cls))))
        return listed || answer ? std::optional(true) : std::nullopt;
      listed = listed || answer;
    }
    return listed ? std::optional(false) : std::nullopt;
  }
  if (std::string_view(Py_TYPE(classes)->tp_name) != "torch.tensortype") return std::nullopt;
  const bool same = same_attribute(tensor, classes, "dtype") &&
                    same_attribute(tensor, classes, "is_cuda") &&
                    same_attribute(tensor, classes, "layout");
  PyErr_Clear();
  return same;
}

void rely_on_type(TraceContext& trace, const Tracked& object) {
  const Source* source = trace.world.source_of(object);
  if (source && !is_atom(object.get()) && !is_tensor(object.get()) && !is_immutable(object.get()))
    trace.guards.add(GuardKind::kType, source, reinterpret_cast<PyObject*>(Py_TYPE(object.get())));
}

Tracked call_listed(TraceContext& trace, const CalleeRule& rule, const Tracked& callable,
                    Tracked* args, size_t count, PyObject* kwnames, bool& done) {
  done = !kwnames;
  switch (rule.callee) {
    case Callee::kBreak:
      done = true;
      return trace.refuse(rule.kind, rule.text);
    case Callee::kGraphBreak:
      done = true;
      return asked_break(trace, "braze.graph_break()", args, count);
    case Callee::kExpect:
      if (done = done && count == 1; !done) return {};
      return expect_condition(trace, args[0]);
    case Callee::kOperand:
      if (done = done && count == 2; !done) return {};
      return operand_of_float(trace, args[0], args[1]);
    case Callee::kBackward:
      done = true;
      return call_backward(trace, args, count);
    case Callee::kLate:
      done = true;
      return call_later(trace, args, count);
    case Callee::kControlFlow:
      done = true;
      return call_control_flow(trace, static_cast<ControlFlowCall>(rule.op), args, count);
    case Callee::kElementwise:
      if (done = done && count == 2 && PyTuple_CheckExact(args[1].get()); !done) return {};
      return call_elementwise(trace, args[0], args[1]);
    case Callee::kElementProgram:
      if (done = done && count == 3; !done) return {};
      return call_element_program(trace, args);
    case Callee::kReadOnly:
      done = true;
      if (rule.text == "issubclass()" && count == 2 && !rely_on_registrations(trace, args[1].get()))
        return {};
      if (count > 0 && (rule.text == "repr()" || rule.text == "ascii()") &&
          (names_its_address(args[0].get()) || holds_tensor(args[0].get())))
        return trace.refuse(BreakKind::kTensorAsText,
                            "a tensor or an address is formatted as text");
      if (!check_native_arguments(trace, rule.text.c_str(), args, count, true)) return {};
      return call_native(trace, callable.get(), args, count, kwnames, false);
    case Callee::kGetattr: {
      if (done = done && (count == 2 || count == 3); !done) return {};
      if (!is_plain_name(args[1].get())) return trace.refuse(BreakKind::kNativeCall, kOwnName);
      Tracked value = getattr(trace, args[0], args[1].get());
      if (value || count == 2 || trace.breaks.under_way() ||
          !PyErr_ExceptionMatches(PyExc_AttributeError))
        return value;
      PyErr_Clear();
      return args[2];
    }
    case Callee::kHasattr: {
      if (done = done && count == 2; !done) return {};
      if (!is_plain_name(args[1].get())) return trace.refuse(BreakKind::kNativeCall, kOwnName);
      Tracked value = getattr(trace, args[0], args[1].get());
      if (value) return Tracked::borrow(Py_True);
      if (trace.breaks.under_way() || !PyErr_ExceptionMatches(PyExc_AttributeError)) return {};
      PyErr_Clear();
      return Tracked::borrow(Py_False);
    }
    case Callee::kSetattr:
    case Callee::kDelattr: {
      bool set = rule.callee == Callee::kSetattr;
      if (done = done && count == (set ? 3u : 2u); !done) return {};
      if (!is_plain_name(args[1].get())) return trace.refuse(BreakKind::kNativeCall, kOwnName);
      return setattr(trace, args[0], args[1].get(), set ? args[2] : Tracked())
                 ? Tracked::borrow(Py_None)
                 : Tracked();
    }
    case Callee::kIsinstance: {
      if (count == 2) rely_on_type(trace, args[0]);
      done = true;
      if (count == 2 &&
          (!read_arguments(trace, args + 1, 1) || !rely_on_registrations(trace, args[1].get())))
        return {};
      if (count == 2 && is_tensor(args[0].get()))
        if (const auto answer = is_of_tensor_type(args[0].get(), args[1].get()))
          return Tracked::borrow(*answer ? Py_True : Py_False);
      return call_native(trace, callable.get(), args, count, kwnames, false);
    }
    case Callee::kLen:
      if (done = done && count == 1; !done) return {};
      return length_of(trace, args[0]);
    case Callee::kIter:
      if (done && count == 2 &&
          (PyFunction_Check(args[0].get()) || PyCFunction_Check(args[0].get()))) {
        // Calls of the first come back to the evaluation, or are calls of a method of the trace's
        // own.
        if (!check_native_arguments(trace, "iter", args, count, false)) return {};
        return call_native(trace, callable.get(), args, count, kwnames, false);
      }
      if (done = done && count == 1; !done)
        return trace.refuse(BreakKind::kUnsupported, "iter() with a sentinel");
      return get_iter(trace, args[0]);
    case Callee::kNext: {
      if (done = done && (count == 1 || count == 2); !done) return {};
      bool exhausted = false;
      Tracked value = next_item(trace, args[0], exhausted, count == 1);
      if (value || !exhausted) return value;
      if (count == 2) return args[1];
      if (!PyErr_Occurred()) PyErr_SetNone(PyExc_StopIteration);
      return {};
    }
    case Callee::kVars:
      if (done = done && count == 1; !done)
        return trace.refuse(BreakKind::kIntrospection, "vars() of a frame");
      return getattr(trace, args[0], names().dict);
    case Callee::kIdentity: {
      if (done = done && count == 1; !done) return {};
      args[0] = Tracked::borrow(trace.world.real_of(args[0].get()), args[0].source);
      if (rule.text == "hash()" && is_container(args[0].get()) &&
          !read_deeply(trace, args[0].get(), Look::kDeep))
        return {};
      Tracked value = call_native(trace, callable.get(), args, count, kwnames, false);
      trace.world.guard_as_key(args[0].get());
      if (value && !is_atom(args[0].get()))
        trace.addresses.push_back({value.object, args[0].object, rule.text == "id()"});
      return value;
    }
    case Callee::kReadItem:
      if (done = done && count == 2; !done) return {};
      return getitem(trace, args[0], args[1]);
    case Callee::kWriteItem:
      if (done = done && count == 3; !done) return {};
      return setitem(trace, args[0], args[1], args[2]) ? Tracked::borrow(Py_None) : Tracked();
    case Callee::kDeleteItem:
      if (done = done && count == 2; !done) return {};
      return setitem(trace, args[0], args[1], Tracked()) ? Tracked::borrow(Py_None) : Tracked();
    case Callee::kOperator:
      if (done = done && count == 2; !done) return {};
      return binary_operation(trace, rule.op, args[0], args[1]);
    case Callee::kChangesFirst: {
      if (count == 0) break;
      done = true;
      PyObject* changed = args[0].get();
      if (trace.world.is_outside(changed) &&
          !(is_container(changed) && trace.world.shadow(changed)))
        return trace.breaks.under_way()
                   ? Tracked()
                   : trace.refuse(BreakKind::kNativeCall,
                                  rule.text + " changes an object from outside");
      if (!check_native_arguments(trace, rule.text.c_str(), args + 1, count - 1, true)) return {};
      return call_native(trace, callable.get(), args, count, kwnames, false);
    }
    case Callee::kDefer:
      done = true;
      return defer_call(trace, callable, args, count, kwnames);
    case Callee::kBuildClass:
      done = true;
      return build_class(trace, callable, args, count, kwnames);
    case Callee::kPrint:
      done = true;
      return call_print(trace, callable, args, count, kwnames);
    case Callee::kWarn:
      done = true;
      return call_warn(trace, args, count, kwnames);
    case Callee::kUnlisted:
      break;
  }
  done = false;
  return {};
}

}  // namespace braze::capture
