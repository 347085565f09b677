#include "capture/objects/operators.h"

#include <opcode.h>

#include "capture/calls/exported_memory.h"
#include "capture/calls/native.h"
#include "capture/calls/native_scope.h"
#include "capture/calls/torch_failures.h"
#include "capture/calls/torch_record.h"
#include "capture/frames/subject.h"
#include "capture/known.h"
#include "capture/symbols/floats.h"
#include "capture/symbols/integers.h"
#include "capture/symbols/text.h"
#include "capture/trace_context.h"

namespace braze::capture {

using cpython::Opcode;

namespace {

using BinaryFunction = PyObject* (*)(PyObject*, PyObject*);

PyObject* power(PyObject* a, PyObject* b) { return PyNumber_Power(a, b, Py_None); }
PyObject* in_place_power(PyObject* a, PyObject* b) { return PyNumber_InPlacePower(a, b, Py_None); }

// By NB_... number.
constexpr BinaryFunction kBinary[] = {PyNumber_Add,
                                      PyNumber_And,
                                      PyNumber_FloorDivide,
                                      PyNumber_Lshift,
                                      PyNumber_MatrixMultiply,
                                      PyNumber_Multiply,
                                      PyNumber_Remainder,
                                      PyNumber_Or,
                                      power,
                                      PyNumber_Rshift,
                                      PyNumber_Subtract,
                                      PyNumber_TrueDivide,
                                      PyNumber_Xor,
                                      PyNumber_InPlaceAdd,
                                      PyNumber_InPlaceAnd,
                                      PyNumber_InPlaceFloorDivide,
                                      PyNumber_InPlaceLshift,
                                      PyNumber_InPlaceMatrixMultiply,
                                      PyNumber_InPlaceMultiply,
                                      PyNumber_InPlaceRemainder,
                                      PyNumber_InPlaceOr,
                                      in_place_power,
                                      PyNumber_InPlaceRshift,
                                      PyNumber_InPlaceSubtract,
                                      PyNumber_InPlaceTrueDivide,
                                      PyNumber_InPlaceXor};
const char* const kBinaryNames[] = {
    "add",    "and_", "floordiv", "lshift", "matmul",  "mul",  "mod",       "or_",     "pow",
    "rshift", "sub",  "truediv",  "xor",    "iadd",    "iand", "ifloordiv", "ilshift", "imatmul",
    "imul",   "imod", "ior",      "ipow",   "irshift", "isub", "itruediv",  "ixor"};
const char* const kCompareNames[] = {"lt", "le", "eq", "ne", "gt", "ge"};

bool is_mutable_builtin(PyObject* object) {
  return PyList_Check(object) || PyDict_Check(object) || PySet_Check(object) ||
         PyObject_TypeCheck(object, known().deque) || PyByteArray_Check(object);
}

}  // namespace

PyObject* operator_callable(const char* name) {
  static PyObject* module = PyImport_ImportModule("operator");
  static auto& memo = *new std::unordered_map<std::string, PyObject*>;
  PyObject*& function = memo[name];
  if (!function) function = PyObject_GetAttrString(module, name);
  return function;
}

bool read_operand(TraceContext& trace, const Tracked& operand, const char* what, Look look) {
  const Subject subject(trace, operand);
  PyObject* object = operand.get();
  if (is_atom(object) || is_tensor(object)) return true;
  if (PyObject* memory = look == Look::kDeep && (is_container(object) || PySlice_Check(object))
                             ? memory_within(trace.world, object)
                             : nullptr)
    return refuse_memory(trace.breaks, memory, what);
  if (is_container(object)) return read_deeply(trace, object, look);
  if (PyExceptionInstance_Check(object) && look == Look::kDeep)
    return read_deeply(trace, object, look);
  if (!trace.world.is_outside(object) || is_immutable(object))
    return PyIter_Check(object) ? read_by_advancing(trace, object)
                                : read_deeply(trace, object, look);
  PyTypeObject* type = Py_TYPE(object);
  if ((is_python_class(type) && !exports_memory(object)) || is_frozen(object)) return true;
  return trace.breaks.refuse(BreakKind::kNativeCall, std::string(what) + " on a '" + type->tp_name +
                                                         "' object from outside");
}

// The operand's class has a method for it where the other is a tensor, of a library whose code runs
// as it is when torch calls it.
static bool reflects_in_a_library(PyObject* operand, int op) {
  if (is_tensor(operand) || !is_python_class(Py_TYPE(operand))) return false;
  static const size_t count = std::size(kBinaryNames) / 2;
  std::string_view name = kBinaryNames[static_cast<size_t>(op) % count];
  if (name.ends_with('_')) name.remove_suffix(1);
  const std::string reflected = "__r" + std::string(name) + "__";
  const Ref key = Ref::steal(PyUnicode_FromString(reflected.c_str()));
  PyObject* method = key ? _PyType_Lookup(Py_TYPE(operand), key.get()) : nullptr;
  if (!method || !PyFunction_Check(method)) return false;
  auto* function = reinterpret_cast<PyFunctionObject*>(method);
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  return code_policy(code, function->func_globals).frame == FramePolicy::kLibrary;
}

Tracked binary_operation(TraceContext& trace, int op, Tracked a, Tracked b) {
  if (Py_TYPE(a.get()) == known().sym_float || Py_TYPE(b.get()) == known().sym_float) {
    bool done = false;
    Tracked result = binary_of_floats(trace, op, a, b, done);
    if (done || PyErr_Occurred()) return result;
    for (Tracked* operand : {&a, &b})
      if (Py_TYPE(operand->get()) == known().sym_float) make_concrete(trace, *operand);
  }
  if (trace.recording.has_symbols() && (has_symbol(trace, a) || has_symbol(trace, b)) &&
      !is_tensor(a.get()) && !is_tensor(b.get())) {
    bool done = false;
    Tracked result = binary_of_symbols(trace, op, a, b, done);
    if (!done) result = float_of_integers(trace, op, a, b, done);
    if (done || PyErr_Occurred()) return result;
    const bool sequences = is_container(a.get()) && is_container(b.get());  // (1, s) + (2,)
    if (!sequences) make_concrete(trace, a), make_concrete(trace, b);
  }
  // Containers are joined without a look at their items, but for text (%) and pairs (|=).
  const bool deep = op == NB_REMAINDER || op == NB_INPLACE_REMAINDER ||
                    (op == NB_INPLACE_OR && !PyDict_Check(b.get()) && !PyAnySet_Check(b.get()));
  const bool joined = is_container(a.get()) && is_container(b.get());
  const Look look = deep ? Look::kDeep : joined ? Look::kHoldsItems : Look::kItems;
  if (!read_operand(trace, a, "an operator", look) || !read_operand(trace, b, "an operator", look))
    return {};
  PyObject* x = a.get();
  // The text looks up the keys that it names, and a class's __missing__ may fill them in.
  if (op == NB_REMAINDER && (PyUnicode_Check(x) || PyBytes_Check(x)) && PyDict_Check(b.get()) &&
      !PyDict_CheckExact(b.get()) && trace.world.is_outside(b.get()))
    return trace.refuse(BreakKind::kNativeCall,
                        "% with a mapping from outside that is no plain dict");
  bool in_place = op >= NB_INPLACE_ADD;
  if (in_place && is_mutable_builtin(x) && trace.world.is_outside(x)) {
    x = trace.world.shadow(x);
    if (!x) return {};
  } else {
    x = trace.world.effective(x);
  }
  PyObject* y = trace.world.effective(b.get());
  bool torch = is_tensor(x) || is_tensor(y);
  if (torch && (reflects_in_a_library(x, op) || reflects_in_a_library(y, op)))
    return trace.refuse(BreakKind::kNativeCall, "an operator of a library's class with a tensor");
  PyObject* callee = torch ? operator_callable(kBinaryNames[op]) : nullptr;
  Ref result;
  {
    NativeScope scope(trace, torch, callee);
    result = Ref::steal(kBinary[op](x, y));
  }
  Tracked args[2] = {a, b};
  if (!result) return torch ? torch_failed(trace, callee, args, 2) : Tracked();
  if (torch) record_torch_call(trace, callee, args, 2, nullptr, result.get());
  return result_of_native(trace, std::move(result));
}

Tracked unary_operation(TraceContext& trace, Opcode op, const Tracked& a) {
  if (Py_TYPE(a.get()) == known().sym_int) {
    if (Tracked result = unary_of_symbol(trace, op, a.get())) return result;
    Tracked number = a;
    make_concrete(trace, number);
    return unary_operation(trace, op, number);
  }
  if (Py_TYPE(a.get()) == known().sym_float) return unary_of_float(trace, op, a);
  if (!read_operand(trace, a, "an operator")) return {};
  bool torch = is_tensor(a.get());
  const char* name = op == Opcode::kUnaryNegative   ? "neg"
                     : op == Opcode::kUnaryPositive ? "pos"
                                                    : "invert";
  PyObject* callee = torch ? operator_callable(name) : nullptr;
  Ref result;
  {
    NativeScope scope(trace, torch, callee);
    result = Ref::steal(op == Opcode::kUnaryNegative   ? PyNumber_Negative(a.get())
                        : op == Opcode::kUnaryPositive ? PyNumber_Positive(a.get())
                                                       : PyNumber_Invert(a.get()));
  }
  if (!result) return torch ? torch_failed(trace, callee, &a, 1) : Tracked();
  if (torch) record_torch_call(trace, callee, &a, 1, nullptr, result.get());
  return result_of_native(trace, std::move(result));
}

Tracked compare(TraceContext& trace, const Tracked& a, const Tracked& b, int op, bool to_bool) {
  if (Py_TYPE(a.get()) == known().sym_float || Py_TYPE(b.get()) == known().sym_float) {
    bool done = false;
    Tracked result = compare_floats(trace, a, b, op, done);
    if (!done && PyErr_Occurred()) return {};
    if (!done) {
      Tracked x = a, y = b;
      for (Tracked* operand : {&x, &y})
        if (Py_TYPE(operand->get()) == known().sym_float) make_concrete(trace, *operand);
      return compare(trace, x, y, op, to_bool);
    }
    if (!to_bool || !result) return result;
    const int is_true = truth(trace, result);
    return is_true < 0 ? Tracked() : Tracked::borrow(is_true ? Py_True : Py_False);
  }
  if (trace.recording.has_symbols() && (has_symbol(trace, a) || has_symbol(trace, b)) &&
      !is_tensor(a.get()) && !is_tensor(b.get())) {
    if (Tracked undecided = undecided_comparison(trace, a, b, op)) {
      if (!to_bool || !is_symbolic(undecided.get())) return undecided;
      return Tracked::borrow(truth(trace, undecided) ? Py_True : Py_False);
    }
    if (int decided = compare_symbols(trace, a, b, op); decided >= 0)
      return Tracked::borrow(decided ? Py_True : Py_False);
    Tracked x = a, y = b;
    make_concrete(trace, x), make_concrete(trace, y);
    return compare(trace, x, y, op, to_bool);
  }
  if (!read_operand(trace, a, "a comparison") || !read_operand(trace, b, "a comparison")) return {};
  if (op == Py_EQ || op == Py_NE) trace.world.guard_identity_of_pair(a, b);
  bool torch = is_tensor(a.get()) || is_tensor(b.get());
  PyObject* callee = torch ? operator_callable(kCompareNames[op]) : nullptr;
  Ref result;
  {
    NativeScope scope(trace, torch, callee);
    result = Ref::steal(
        PyObject_RichCompare(trace.world.effective(a.get()), trace.world.effective(b.get()), op));
  }
  Tracked args[2] = {a, b};
  if (!result) return torch ? torch_failed(trace, callee, args, 2) : Tracked();
  if (torch) record_torch_call(trace, callee, args, 2, nullptr, result.get());
  Tracked value = result_of_native(trace, std::move(result));
  if (!to_bool || !value) return value;
  int is_true = truth(trace, value);
  return is_true < 0 ? Tracked() : Tracked::borrow(is_true ? Py_True : Py_False);
}

static bool decides_truth(PyTypeObject* type) {
  return (type->tp_as_number && type->tp_as_number->nb_bool) ||
         (type->tp_as_mapping && type->tp_as_mapping->mp_length) ||
         (type->tp_as_sequence && type->tp_as_sequence->sq_length);
}

int truth(TraceContext& trace, const Tracked& value) {
  const Subject subject(trace, value);
  PyObject* object = value.get();
  if (object == Py_True) return 1;
  if (object == Py_False || object == Py_None) return 0;
  if (is_atom(object)) return PyObject_IsTrue(object);
  if (is_symbolic(object)) return truth_of_symbol(trace, object);
  if (is_tensor(object)) {
    int result;
    {
      NativeScope scope(trace, true, nullptr);
      result = PyObject_IsTrue(object);
    }
    if (result < 0) torch_failed(trace);
    return result;
  }
  PyObject* used = trace.world.effective_whole(object);
  if (!used) return -1;
  const Source* source = used == object ? trace.world.source_of(value) : nullptr;
  if (!is_container(object) && is_python_class(Py_TYPE(object)) && !exports_memory(object)) {
    if (!trace.world.type_lookup(Py_TYPE(object), names().bool_))
      trace.world.type_lookup(Py_TYPE(object), names().len);
  } else if (source) {
    if (is_container(object)) {
      trace.guards.add_length(source, own_length(object));
    } else if (decides_truth(Py_TYPE(object))) {
      if (!read_operand(trace, value, "the truth value")) return -1;
    }
  }
  return PyObject_IsTrue(used);
}

Tracked is_same(TraceContext& trace, const Tracked& a, const Tracked& b, bool negate) {
  if (trace.recording.has_symbols() &&
      (Py_TYPE(a.get()) == known().sym_int || Py_TYPE(b.get()) == known().sym_int)) {
    const int same = is_same_integer(trace, a.get(), b.get());
    if (same < 0) return trace.refuse(BreakKind::kIntrospection, "`is` of two large integers");
    return Tracked::borrow((same != 0) != negate ? Py_True : Py_False);
  }
  trace.world.guard_identity_of_pair(a, b);
  return Tracked::borrow((a.get() == b.get()) != negate ? Py_True : Py_False);
}

int contains(TraceContext& trace, const Tracked& container, const Tracked& given) {
  Tracked value = given;
  if (trace.recording.has_symbols()) {
    Tracked held = container;
    if (!is_tensor(held.get())) make_concrete(trace, value);
    if (!is_tensor(held.get()) && !PyDict_Check(held.get())) make_concrete(trace, held);
    if (held.get() != container.get()) return contains(trace, held, value);
    if (is_container(held.get()))
      value = Tracked::borrow(trace.world.real_of(value.get()), value.source);
  }
  PyObject* object = container.get();
  PyObject* used = trace.world.effective(object);
  const Source* source = used == object ? trace.world.source_of(container) : nullptr;
  if (PyDict_Check(used) || PyAnySet_Check(used))
    make_key(trace, value);
  else if (is_container(object) && !is_atom(value.get()))
    trace.world.guard_as_key(value.get());
  if (source && PyDict_Check(object) && !PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE)) {
    if (!is_atom(value.get()) && !is_immutable(value.get()) &&
        trace.world.is_outside(value.get()) && !read_operand(trace, value, "a look-up"))
      return -1;
    if (const Write* write = trace.world.dicts().written_item(object, value.get()))
      return write->value ? 1 : 0;
    int found = PyDict_Contains(object, value.get());
    if (found >= 0)
      trace.guards.add(found ? GuardKind::kPresent : GuardKind::kAbsent,
                       trace.world.item_source(object, source, value.get()));
    return found;
  }
  const bool compares = (PyList_Check(object) || PyTuple_Check(object) ||
                         PyObject_TypeCheck(object, known().deque)) &&
                        !is_atom(value.get()) && !is_tensor(value.get());
  if (compares || (PyIter_Check(object) && !trace.world.is_outside(object))) {
    if (compares &&
        (!read_deeply(trace, object, Look::kDeep) || !read_deeply(trace, value.get(), Look::kDeep)))
      return -1;
    if (!compares && !read_by_advancing(trace, object)) return -1;
  } else if (source && is_container(object)) {
    if (!trace.world.read_all(object)) return -1;
    used = trace.world.effective(object);
  } else if (!is_tensor(object) && is_python_class(Py_TYPE(object)) && !exports_memory(object)) {
    trace.world.type_lookup(Py_TYPE(object), names().contains);
  } else if (source && !read_operand(trace, container, "a membership test")) {
    return -1;
  }
  bool torch = is_tensor(object);
  int result;
  {
    NativeScope scope(trace, torch, nullptr);
    result = PySequence_Contains(used, value.get());
  }
  if (result < 0 && torch) torch_failed(trace);
  return trace.breaks.under_way() ? -1 : result;
}

Tracked length_of(TraceContext& trace, const Tracked& object) {
  if (Py_TYPE(object.get()) == known().text)
    return length_of(trace, Tracked(settle_text(trace, object.get())));
  PyObject* used = trace.world.effective_whole(object.get());
  if (!used) return {};
  const Source* source = used == object.get() ? trace.world.source_of(object) : nullptr;
  if (source && is_container(used)) {
    Py_ssize_t n = PyObject_Size(used);
    if (n < 0) return {};
    if (!PyType_HasFeature(Py_TYPE(used), Py_TPFLAGS_HEAPTYPE) ||
        !PyFunction_Check(trace.world.type_lookup(Py_TYPE(used), names().len)))
      trace.guards.add_length(source, own_length(used));
    return Tracked::steal(PyLong_FromSsize_t(n));
  }
  if (is_python_class(Py_TYPE(used)) && !is_tensor(used) && !exports_memory(used))
    trace.world.type_lookup(Py_TYPE(used), names().len);
  else if (source && !read_operand(trace, object, "len()"))
    return {};
  if (trace.recording.has_symbols() && is_tensor(used))
    if (Ref length = symbolic_length(trace, used)) return Tracked(std::move(length));
  NativeScope scope(trace, is_tensor(used), nullptr);
  Py_ssize_t n = PyObject_Size(used);
  if (n < 0) return {};
  return Tracked::steal(PyLong_FromSsize_t(n));
}

Tracked format_value(TraceContext& trace, const Tracked& given, const Tracked& spec,
                     int conversion) {
  Tracked value = given;
  make_concrete(trace, value);
  const Subject subject(trace, value);
  if (is_tensor(value.get()))
    return trace.refuse(BreakKind::kTensorAsText, "a tensor is formatted as text");
  if (!read_operand(trace, value, "formatting")) return {};
  if (holds_tensor(value.get()))
    return trace.refuse(BreakKind::kTensorAsText, "a tensor is formatted as text");
  static PyObject* format_name = PyUnicode_InternFromString("__format__");
  bool formats_itself = !conversion && _PyType_Lookup(Py_TYPE(value.get()), format_name) !=
                                           _PyType_Lookup(&PyBaseObject_Type, format_name);
  if (!formats_itself && names_its_address(value.get()))
    return trace.refuse(BreakKind::kAddress, "an object's address is formatted as text");
  Ref text = Ref::borrow(trace.world.effective(value.get()));
  if (conversion == 1) text = Ref::steal(PyObject_Str(text.get()));
  if (conversion == 2) text = Ref::steal(PyObject_Repr(text.get()));
  if (conversion == 3) text = Ref::steal(PyObject_ASCII(text.get()));
  if (!text) return {};
  return Tracked::steal(PyObject_Format(text.get(), spec.get()));
}

bool names_its_address(PyObject* object) {
  return Py_TYPE(object)->tp_repr == PyBaseObject_Type.tp_repr &&
         Py_TYPE(object)->tp_str == PyBaseObject_Type.tp_str;
}

bool holds_tensor(PyObject* container, int depth) {
  if (depth > 20) return true;
  if (is_tensor(container) || Py_TYPE(container) == known().ndarray) return true;
  if (PyDict_Check(container)) {
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(container, &position, &key, &value))
      if (holds_tensor(value, depth + 1)) return true;
  } else if (PyList_Check(container) || PyTuple_Check(container)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(container); ++i)
      if (holds_tensor(PySequence_Fast_GET_ITEM(container, i), depth + 1)) return true;
  }
  return false;
}

}  // namespace braze::capture
