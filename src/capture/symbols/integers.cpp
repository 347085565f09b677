#include "capture/symbols/integers.h"

#include <opcode.h>

#include "capture/calls/calls.h"
#include "capture/known.h"
#include "capture/objects/attributes.h"
#include "capture/symbols/text.h"
#include "capture/trace_context.h"

namespace braze::capture {

using sym::Int;

namespace {

constexpr int kDepth = kContainerDepth;

bool holds_symbol(PyObject* object, int depth = kDepth) {
  return any_inside(object, is_symbolic, depth);
}

// The same key with the tensors from outside for which symbolic ones stand.
Ref with_real_tensors(const World& world, PyObject* key) {
  if (!PyTuple_CheckExact(key)) return Ref::borrow(world.real_of(key));
  Ref items = Ref::steal(PySequence_List(key));
  bool differs = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
    Ref item = with_real_tensors(world, PyTuple_GET_ITEM(key, i));
    differs = differs || item.get() != PyTuple_GET_ITEM(key, i);
    PyList_SetItem(items.get(), i, item.release());
  }
  return differs ? Ref::steal(PyList_AsTuple(items.get())) : Ref::borrow(key);
}

}  // namespace

static int compare_sequences(TraceContext& trace, const Tracked& a, const Tracked& b, int op);

bool any_inside(PyObject* object, bool (*wanted)(PyObject*), int depth) {
  if (wanted(object)) return true;
  if (depth == 0) return false;
  auto inside = [&](PyObject* item) { return any_inside(item, wanted, depth - 1); };
  if (PyTuple_Check(object) || PyList_Check(object)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
      if (inside(PySequence_Fast_GET_ITEM(object, i))) return true;
  } else if (PyDict_Check(object)) {
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(object, &position, &key, &value))
      if (inside(value)) return true;
  } else if (PySlice_Check(object)) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    return inside(slice->start) || inside(slice->stop) || inside(slice->step);
  }
  return false;
}

std::optional<Int> integer_in(TraceContext& trace, PyObject* object) {
  if (Py_TYPE(object) == known().sym_int) return trace.recording.value_of(object);
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(object, &overflow);
  // Sums and products of a few of these stay within 64 bits.
  constexpr int64_t kLargest = int64_t{1} << 48;
  if (overflow || value > kLargest || value < -kLargest) return std::nullopt;
  return Int(value);
}

bool may_hold_symbol(TraceContext& trace, PyObject* object) {
  const bool container = PyDict_Check(object) || PyList_Check(object) || PyTuple_Check(object);
  return !(container && trace.world.source_of(object)) && holds_symbol(object);
}

bool has_symbol(TraceContext& trace, const Tracked& tracked) {
  return trace.recording.has_symbols() &&
         may_hold_symbol(trace, trace.world.effective(tracked.get()));
}

Ref with_numbers(TraceContext& trace, PyObject* object, int depth) {
  if (Py_TYPE(object) == known().sym_int)
    return Ref::steal(
        PyLong_FromLongLong(trace.recording.shapes().guard_int(trace.recording.value_of(object))));
  if (Py_TYPE(object) == known().sym_bool)
    return Ref::borrow(trace.recording.guard_bool(object) ? Py_True : Py_False);
  if (Py_TYPE(object) == known().sym_float) return trace.world.floats().number_of(object);
  if (Py_TYPE(object) == known().text) return settle_text(trace, object);
  if (!holds_symbol(object, depth)) return Ref::borrow(object);
  if (PySlice_Check(object)) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    Ref start = with_numbers(trace, slice->start, 0), stop = with_numbers(trace, slice->stop, 0),
        step = with_numbers(trace, slice->step, 0);
    return Ref::steal(PySlice_New(start.get(), stop.get(), step.get()));
  }
  if (PyTuple_Check(object)) {
    Ref items = Ref::steal(PySequence_List(object));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i)
      PyList_SetItem(items.get(), i,
                     with_numbers(trace, PyList_GET_ITEM(items.get(), i), depth - 1).release());
    Ref plain = Ref::steal(PyList_AsTuple(items.get()));
    if (PyTuple_CheckExact(object)) return plain;
    Ref arguments = Ref::steal(PyTuple_Pack(1, plain.get()));
    return Ref::steal(PyTuple_Type.tp_new(Py_TYPE(object), arguments.get(), nullptr));
  }
  if (PyList_Check(object)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i)
      PyList_SetItem(object, i,
                     with_numbers(trace, PyList_GET_ITEM(object, i), depth - 1).release());
  } else if (PyDict_Check(object)) {
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(object, &position, &key, &value)) {
      if (!holds_symbol(value, depth - 1)) continue;
      Ref number = with_numbers(trace, value, depth - 1);
      if (PyDict_SetItem(object, key, number.get()) < 0) return {};  // the key is there: no resize
    }
  }
  return Ref::borrow(object);
}

void make_concrete(TraceContext& trace, Tracked& tracked) {
  if (!trace.recording.has_symbols()) return;
  PyObject* used = trace.world.effective(tracked.get());
  if (!may_hold_symbol(trace, used)) return;
  Ref number = with_numbers(trace, used, kDepth);
  if (number.get() != used) tracked = Tracked(std::move(number));
}

bool make_arguments_concrete(TraceContext& trace, PyObject* exception) {
  if (!trace.recording.has_symbols()) return true;
  Ref arguments = Ref::steal(PyObject_GetAttrString(exception, "args"));
  if (!arguments) return false;
  Ref numbers = with_numbers(trace, arguments.get(), kDepth);
  if (!numbers) return false;
  if (numbers.get() == arguments.get()) return true;
  if (PyObject_SetAttrString(exception, "args", numbers.get()) < 0) return false;
  return !PyObject_TypeCheck(exception, reinterpret_cast<PyTypeObject*>(PyExc_StopIteration)) ||
         PyObject_SetAttrString(exception, "value", PyTuple_GET_ITEM(numbers.get(), 0)) == 0;
}

void make_key(TraceContext& trace, Tracked& tracked) {
  make_concrete(trace, tracked);
  if (trace.recording.has_symbols()) {
    Ref real = with_real_tensors(trace.world, tracked.get());
    if (real.get() != tracked.get()) tracked = Tracked(std::move(real), tracked.source);
  }
  trace.world.guard_as_key(tracked.get());
}

static bool has_tensor_key(PyObject* dict) {
  Py_ssize_t position = 0;
  for (PyObject *key, *value; PyDict_Next(dict, &position, &key, &value);)
    if (is_tensor(key) || PyTuple_CheckExact(key)) return true;
  return false;
}

// In place, but for a frozen set. Null with an exception pending.
static Ref real_keys_of(const World& world, Ref container) {
  PyObject* object = container.get();
  const bool is_set = PyAnySet_Check(object);
  if (!is_set && !(PyDict_Check(object) && has_tensor_key(object))) return container;
  Ref keys = Ref::steal(PySequence_List(object));
  bool differs = false;
  for (Py_ssize_t i = 0; keys && i < PyList_GET_SIZE(keys.get()); ++i) {
    Ref real = with_real_tensors(world, PyList_GET_ITEM(keys.get(), i));
    differs = differs || real.get() != PyList_GET_ITEM(keys.get(), i);
  }
  if (!keys) return {};
  if (!differs) return container;
  Ref values = is_set ? Ref() : Ref::steal(PyDict_Values(object));
  const bool frozen = PyFrozenSet_Check(object);
  if (!frozen && !Ref::steal(PyObject_CallMethod(object, "clear", nullptr))) return {};
  Ref filled = frozen ? Ref::steal(PyFrozenSet_New(nullptr)) : container;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys.get()); ++i) {
    Ref real = with_real_tensors(world, PyList_GET_ITEM(keys.get(), i));
    const int failed =
        is_set ? PySet_Add(filled.get(), real.get())
               : PyObject_SetItem(filled.get(), real.get(), PyList_GET_ITEM(values.get(), i));
    if (failed) return {};
  }
  return filled;
}

Ref with_real_keys(TraceContext& trace, PyObject* callable, const Tracked* args, size_t count,
                   Ref result) {
  if (!result || !trace.recording.has_symbols()) return result;
  World& world = trace.world;
  if (PyCFunction_Check(callable))
    if (PyObject* self = PyCFunction_GET_SELF(callable))
      if (!real_keys_of(world, Ref::borrow(world.effective(self)))) return {};
  for (size_t i = 0; i < count; ++i)
    if (!real_keys_of(world, Ref::borrow(world.effective(args[i].get())))) return {};
  return real_keys_of(world, std::move(result));
}

static bool integer_operands(TraceContext& trace, const Tracked& a, const Tracked& b, Int& x,
                             Int& y) {
  if (!is_integer(a.get()) || !is_integer(b.get())) return false;
  const std::optional<Int> left = integer_in(trace, a.get()), right = integer_in(trace, b.get());
  if (!left || !right) return false;
  x = *left, y = *right;
  return true;
}

Tracked binary_of_symbols(TraceContext& trace, int op, const Tracked& a, const Tracked& b,
                          bool& done) {
  Int x, y;
  done = false;
  if (!integer_operands(trace, a, b, x, y)) return {};
  sym::ShapeEnv& shapes = trace.recording.shapes();
  auto give = [&](Int value) {
    done = true;
    return Tracked(trace.recording.object_of(value));
  };
  constexpr int64_t kLargestShift = 16, kLargestPower = 4;
  auto small = [](Int value, int64_t largest) {
    return value.is_constant() && value.constant() >= 0 && value.constant() <= largest;
  };
  switch (op >= NB_INPLACE_ADD ? op - NB_INPLACE_ADD : op) {
    case NB_ADD:
      return shapes.may_add(x, y) ? give(x + y) : Tracked();
    case NB_SUBTRACT:
      return shapes.may_add(x, y) ? give(x - y) : Tracked();
    case NB_MULTIPLY:
      return shapes.may_multiply(x, y) ? give(x * y) : Tracked();
    case NB_FLOOR_DIVIDE:
      return shapes.guard_eq(y, 0) ? Tracked() : give(sym::floordiv(x, y));
    case NB_REMAINDER:
      return shapes.guard_eq(y, 0) ? Tracked() : give(sym::mod(x, y));
    case NB_LSHIFT: {
      if (!small(y, kLargestShift)) return {};
      const Int factor = int64_t{1} << y.constant();
      return shapes.may_multiply(x, factor) ? give(x * factor) : Tracked();
    }
    case NB_RSHIFT:
      return small(y, kLargestShift) ? give(sym::floordiv(x, int64_t{1} << y.constant()))
                                     : Tracked();
    case NB_POWER: {
      if (!small(y, kLargestPower)) return {};
      Int power = 1;
      for (int64_t i = 0; i < y.constant(); ++i) {
        if (!shapes.may_multiply(power, x)) return {};
        power = power * x;
      }
      return give(power);
    }
    default:
      return {};
  }
}

Tracked unary_of_symbol(TraceContext& trace, cpython::Opcode op, PyObject* symbol) {
  const Int value = trace.recording.value_of(symbol);
  if (!trace.recording.shapes().may_add(value, 0)) return {};
  switch (op) {
    case cpython::Opcode::kUnaryNegative:
      return Tracked(trace.recording.object_of(Int(0) - value));
    case cpython::Opcode::kUnaryPositive:
      return Tracked(trace.recording.object_of(value));
    default:
      return Tracked(trace.recording.object_of(Int(-1) - value));
  }
}

namespace {

sym::Relation relation_of(int op) {
  switch (op) {
    case Py_EQ:
      return sym::Relation::kEqual;
    case Py_NE:
      return sym::Relation::kNotEqual;
    case Py_LT:
    case Py_GT:
      return sym::Relation::kLess;
    default:
      return sym::Relation::kNotLess;
  }
}

}  // namespace

Tracked undecided_comparison(TraceContext& trace, const Tracked& a, const Tracked& b, int op) {
  Int x, y;
  if (!integer_operands(trace, a, b, x, y)) return {};
  sym::ShapeEnv& shapes = trace.recording.shapes();
  if (!shapes.mentions_unbacked(x) && !shapes.mentions_unbacked(y)) return {};
  if (op == Py_GT || op == Py_LE) std::swap(x, y);
  const std::optional<bool> known = shapes.known(relation_of(op), x, y);
  if (known) return Tracked::borrow(*known ? Py_True : Py_False);
  return Tracked(trace.recording.comparison(relation_of(op), x, y));
}

Tracked expect_condition(TraceContext& trace, const Tracked& condition) {
  if (Py_TYPE(condition.get()) != known().sym_bool) return condition;
  return Tracked::borrow(trace.recording.expect(condition.get()) ? Py_True : Py_False);
}

Tracked number_of_tensor(TraceContext& trace, const Tracked& tensor) {
  if (!trace.options.capture_scalars || !is_tensor(tensor.get()) || !holds_integers(tensor.get()))
    return {};
  Tracked method = getattr(trace, tensor, names().item);
  return method ? call(trace, method, nullptr, 0, nullptr) : Tracked();
}

Tracked list_of_tensor(TraceContext& trace, const Tracked& tensor) {
  if (!trace.options.capture_scalars || !is_tensor(tensor.get()) || !holds_integers(tensor.get()))
    return {};
  PyObject* method = _PyType_Lookup(Py_TYPE(tensor.get()), names().tolist);
  PyObject* substitute = method ? substitute_for(method) : nullptr;
  if (!substitute) return {};
  Tracked argument = tensor;
  return call(trace, trace.world.wrap(substitute), &argument, 1, nullptr);
}

int is_same_integer(TraceContext& trace, PyObject* a, PyObject* b) {
  if (a == b) return 1;
  auto is_int = [](PyObject* object) {
    return PyLong_CheckExact(object) || Py_TYPE(object) == known().sym_int;
  };
  if (!is_int(a) || !is_int(b)) return 0;
  const std::optional<Int> x = integer_in(trace, a), y = integer_in(trace, b);
  sym::ShapeEnv& shapes = trace.recording.shapes();
  if (!x || !y || !shapes.guard_eq(*x, *y)) return 0;
  constexpr int64_t kSmallest = -5, kLargest = 256;
  return shapes.guard_lt(*x, kSmallest) || shapes.guard_lt(kLargest, *x) ? -1 : 1;
}

int compare_symbols(TraceContext& trace, const Tracked& a, const Tracked& b, int op) {
  Int x, y;
  if (!integer_operands(trace, a, b, x, y)) return compare_sequences(trace, a, b, op);
  sym::ShapeEnv& shapes = trace.recording.shapes();
  switch (op) {
    case Py_EQ:
      return shapes.guard_eq(x, y);
    case Py_NE:
      return !shapes.guard_eq(x, y);
    case Py_LT:
      return shapes.guard_lt(x, y);
    case Py_GE:
      return !shapes.guard_lt(x, y);
    case Py_GT:
      return shapes.guard_lt(y, x);
    default:
      return !shapes.guard_lt(y, x);
  }
}

// Equality of tuples or of lists, item by item: `x.shape == y.shape`.
static int compare_sequences(TraceContext& trace, const Tracked& a, const Tracked& b, int op) {
  PyObject *x = trace.world.effective(a.get()), *y = trace.world.effective(b.get());
  if (op != Py_EQ && op != Py_NE) return -1;
  auto plain = [](PyObject* object) {
    return PyTuple_CheckExact(object) || PyList_CheckExact(object) ||
           Py_TYPE(object) == known().size;
  };
  if (!plain(x) || !plain(y) || PyTuple_Check(x) != PyTuple_Check(y)) return -1;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(x);
  if (count != PySequence_Fast_GET_SIZE(y)) return op == Py_NE;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!is_integer(PySequence_Fast_GET_ITEM(x, i)) || !is_integer(PySequence_Fast_GET_ITEM(y, i)))
      return -1;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    const int same = compare_symbols(trace, Tracked::borrow(PySequence_Fast_GET_ITEM(x, i)),
                                     Tracked::borrow(PySequence_Fast_GET_ITEM(y, i)), Py_EQ);
    if (same < 0) return -1;
    if (!same) return op == Py_NE;
  }
  return op == Py_EQ;
}

int truth_of_symbol(TraceContext& trace, PyObject* symbol) {
  if (Py_TYPE(symbol) == known().sym_int)
    return !trace.recording.shapes().guard_eq(trace.recording.value_of(symbol), 0);
  if (Py_TYPE(symbol) == known().sym_float) {
    const Ref zero = Ref::steal(PyFloat_FromDouble(0));
    if (const std::optional<bool> other = trace.world.floats().compare(symbol, zero.get(), Py_NE))
      return *other;
  }
  return PyObject_IsTrue(with_numbers(trace, symbol, 0).get());
}

Ref symbolic_length(TraceContext& trace, PyObject* tensor) {
  if (!is_fake(tensor)) return {};
  Ref shape = trace.recording.shape_of(tensor);
  if (!shape) shape = Ref::steal(PyObject_GetAttr(tensor, names().shape));
  if (!shape || PyTuple_GET_SIZE(shape.get()) == 0) {
    PyErr_Clear();
    return {};
  }
  return Ref::borrow(PyTuple_GET_ITEM(shape.get(), 0));
}

}  // namespace braze::capture
