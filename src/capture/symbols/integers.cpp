// Symbolic integers in the evaluator: torch.SymInt where the program has an int.
//
// What Python does with ints is done on expressions as far as it can be: arithmetic, comparison
// (decided at once, with a guard), truth. Torch's functions take SymInts themselves. Whatever else
// would look into one - formatting, hashing, native code - is given the int, and the symbol becomes
// that number, with a guard. So nothing that the traced code can see tells a SymInt from an int.
#include <opcode.h>

#include "capture/evaluator.h"
#include "capture/known.h"

namespace braze::capture {

using sym::Int;

namespace {

constexpr int kDepth = kContainerDepth;

bool is_integer(PyObject* object) {
  return PyLong_Check(object) || Py_TYPE(object) == known().sym_int;
}

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

// The number of a Python int or of a symbol; nothing for a large one.
std::optional<Int> Evaluator::integer_in(PyObject* object) {
  if (Py_TYPE(object) == known().sym_int) return recording_.value_of(object);
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(object, &overflow);
  // Sums and products of a few of these stay within 64 bits.
  constexpr int64_t kLargest = int64_t{1} << 48;
  if (overflow || value > kLargest || value < -kLargest) return std::nullopt;
  return Int(value);
}

// Containers from outside hold none; what has been put into one is in its shadow.
bool Evaluator::may_hold_symbol(PyObject* object) {
  const bool container = PyDict_Check(object) || PyList_Check(object) || PyTuple_Check(object);
  return !(container && world_.source_of(object)) && holds_symbol(object);
}

bool Evaluator::has_symbol(const Slot& slot) {
  return recording_.has_symbols() && may_hold_symbol(world_.effective(slot.get()));
}

// The same object with numbers for symbols. Containers are the trace's own: those from outside hold
// no symbols, their shadows are the trace's.
Ref Evaluator::with_numbers(PyObject* object, int depth) {
  if (Py_TYPE(object) == known().sym_int)
    return Ref::steal(
        PyLong_FromLongLong(recording_.shapes().guard_int(recording_.value_of(object))));
  if (Py_TYPE(object) == known().sym_bool)
    return Ref::borrow(recording_.guard_bool(object) ? Py_True : Py_False);
  if (Py_TYPE(object) == known().sym_float) return world_.number_of_float(object);
  if (Py_TYPE(object) == known().text) return settle_text(object);
  if (!holds_symbol(object, depth)) return Ref::borrow(object);
  if (PySlice_Check(object)) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    Ref start = with_numbers(slice->start, 0), stop = with_numbers(slice->stop, 0),
        step = with_numbers(slice->step, 0);
    return Ref::steal(PySlice_New(start.get(), stop.get(), step.get()));
  }
  if (PyTuple_Check(object)) {
    Ref items = Ref::steal(PySequence_List(object));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i)
      PyList_SetItem(items.get(), i,
                     with_numbers(PyList_GET_ITEM(items.get(), i), depth - 1).release());
    Ref plain = Ref::steal(PyList_AsTuple(items.get()));
    if (PyTuple_CheckExact(object)) return plain;
    Ref arguments = Ref::steal(PyTuple_Pack(1, plain.get()));
    return Ref::steal(PyTuple_Type.tp_new(Py_TYPE(object), arguments.get(), nullptr));
  }
  if (PyList_Check(object)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i)
      PyList_SetItem(object, i, with_numbers(PyList_GET_ITEM(object, i), depth - 1).release());
  } else if (PyDict_Check(object)) {
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(object, &position, &key, &value)) {
      if (!holds_symbol(value, depth - 1)) continue;
      Ref number = with_numbers(value, depth - 1);
      if (PyDict_SetItem(object, key, number.get()) < 0) return {};  // the key is there: no resize
    }
  }
  return Ref::borrow(object);
}

// Puts numbers in place of symbols.
void Evaluator::make_concrete(Slot& slot) {
  if (!recording_.has_symbols()) return;
  PyObject* used = world_.effective(slot.get());
  if (!may_hold_symbol(used)) return;
  Ref number = with_numbers(used, kDepth);
  if (number.get() != used) slot = Slot(std::move(number));
}

// Who catches an exception may print it or hand it on. A generator's return value stands in its
// StopIteration without a call that would have asked for the number.
bool Evaluator::make_arguments_concrete(PyObject* exception) {
  if (!recording_.has_symbols()) return true;
  Ref arguments = Ref::steal(PyObject_GetAttrString(exception, "args"));
  if (!arguments) return false;
  Ref numbers = with_numbers(arguments.get(), kDepth);
  if (!numbers) return false;
  if (numbers.get() == arguments.get()) return true;
  if (PyObject_SetAttrString(exception, "args", numbers.get()) < 0) return false;
  return !PyObject_TypeCheck(exception, reinterpret_cast<PyTypeObject*>(PyExc_StopIteration)) ||
         PyObject_SetAttrString(exception, "value", PyTuple_GET_ITEM(numbers.get(), 0)) == 0;
}

void Evaluator::make_key(Slot& slot) {
  make_concrete(slot);
  if (recording_.has_symbols()) {
    Ref real = with_real_tensors(world_, slot.get());
    if (real.get() != slot.get()) slot = Slot(std::move(real), slot.source);
  }
  world_.guard_as_key(slot.get());
}

bool Evaluator::integer_operands(const Slot& a, const Slot& b, Int& x, Int& y) {
  if (!is_integer(a.get()) || !is_integer(b.get())) return false;
  const std::optional<Int> left = integer_in(a.get()), right = integer_in(b.get());
  if (!left || !right) return false;
  x = *left, y = *right;
  return true;
}

// a OP b where one is a symbol; `done` is false where the operator needs the numbers.
Slot Evaluator::binary_of_symbols(int op, const Slot& a, const Slot& b, bool& done) {
  Int x, y;
  done = false;
  if (!integer_operands(a, b, x, y)) return {};
  sym::ShapeEnv& shapes = recording_.shapes();
  auto give = [&](Int value) {
    done = true;
    return Slot(recording_.object_of(value));
  };
  constexpr int64_t kLargestShift = 16, kLargestPower = 4;
  auto small = [](Int value, int64_t largest) {
    return value.is_constant() && value.constant() >= 0 && value.constant() <= largest;
  };
  switch (op >= NB_INPLACE_ADD ? op - NB_INPLACE_ADD : op) {
    case NB_ADD:
      return shapes.may_add(x, y) ? give(x + y) : Slot();
    case NB_SUBTRACT:
      return shapes.may_add(x, y) ? give(x - y) : Slot();
    case NB_MULTIPLY:
      return shapes.may_multiply(x, y) ? give(x * y) : Slot();
    case NB_FLOOR_DIVIDE:
      return shapes.guard_eq(y, 0) ? Slot() : give(sym::floordiv(x, y));
    case NB_REMAINDER:
      return shapes.guard_eq(y, 0) ? Slot() : give(sym::mod(x, y));
    case NB_LSHIFT: {
      if (!small(y, kLargestShift)) return {};
      const Int factor = int64_t{1} << y.constant();
      return shapes.may_multiply(x, factor) ? give(x * factor) : Slot();
    }
    case NB_RSHIFT:
      return small(y, kLargestShift) ? give(sym::floordiv(x, int64_t{1} << y.constant())) : Slot();
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

Slot Evaluator::unary_of_symbol(cpython::Opcode op, PyObject* symbol) {
  const Int value = recording_.value_of(symbol);
  if (!recording_.shapes().may_add(value, 0)) return {};
  switch (op) {
    case cpython::Opcode::kUnaryNegative:
      return Slot(recording_.object_of(Int(0) - value));
    case cpython::Opcode::kUnaryPositive:
      return Slot(recording_.object_of(value));
    default:
      return Slot(recording_.object_of(Int(-1) - value));
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

// A comparison with a number that is read from data, not decided until something asks: a SymBool,
// or empty if it is none.
Slot Evaluator::undecided_comparison(const Slot& a, const Slot& b, int op) {
  Int x, y;
  if (!integer_operands(a, b, x, y)) return {};
  sym::ShapeEnv& shapes = recording_.shapes();
  if (!shapes.mentions_unbacked(x) && !shapes.mentions_unbacked(y)) return {};
  if (op == Py_GT || op == Py_LE) std::swap(x, y);
  const std::optional<bool> known = shapes.known(relation_of(op), x, y);
  if (known) return Slot::borrow(*known ? Py_True : Py_False);
  return Slot(recording_.comparison(relation_of(op), x, y));
}

// torch._check of a condition.
Slot Evaluator::expect(const Slot& condition) {
  if (Py_TYPE(condition.get()) != known().sym_bool) return condition;
  return Slot::borrow(recording_.expect(condition.get()) ? Py_True : Py_False);
}

// int(x), x.tolist() of a tensor of integers, where numbers that are read from data are symbols.
// Empty, without an exception, for anything else.
Slot Evaluator::number_of_tensor(const Slot& tensor) {
  if (!options_.capture_scalars || !is_tensor(tensor.get()) || !holds_integers(tensor.get()))
    return {};
  Slot method = getattr(tensor, names().item);
  return method ? call(method, nullptr, 0, nullptr) : Slot();
}

Slot Evaluator::list_of_tensor(const Slot& tensor) {
  if (!options_.capture_scalars || !is_tensor(tensor.get()) || !holds_integers(tensor.get()))
    return {};
  PyObject* method = _PyType_Lookup(Py_TYPE(tensor.get()), names().tolist);
  PyObject* substitute = method ? substitute_for(method) : nullptr;
  if (!substitute) return {};
  Slot argument = tensor;
  return call(world_.wrap(substitute), &argument, 1, nullptr);
}

// `a is b` where one is a symbol. CPython has one object for each small int; of other equal ones
// only the program's own run can tell: -1.
int Evaluator::is_same_integer(PyObject* a, PyObject* b) {
  if (a == b) return 1;
  auto is_int = [](PyObject* object) {
    return PyLong_CheckExact(object) || Py_TYPE(object) == known().sym_int;
  };
  if (!is_int(a) || !is_int(b)) return 0;
  const std::optional<Int> x = integer_in(a), y = integer_in(b);
  sym::ShapeEnv& shapes = recording_.shapes();
  if (!x || !y || !shapes.guard_eq(*x, *y)) return 0;
  constexpr int64_t kSmallest = -5, kLargest = 256;
  return shapes.guard_lt(*x, kSmallest) || shapes.guard_lt(kLargest, *x) ? -1 : 1;
}

// -1: not decided here.
int Evaluator::compare_symbols(const Slot& a, const Slot& b, int op) {
  Int x, y;
  if (!integer_operands(a, b, x, y)) return compare_sequences(a, b, op);
  sym::ShapeEnv& shapes = recording_.shapes();
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
int Evaluator::compare_sequences(const Slot& a, const Slot& b, int op) {
  PyObject *x = world_.effective(a.get()), *y = world_.effective(b.get());
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
    const int same = compare_symbols(Slot::borrow(PySequence_Fast_GET_ITEM(x, i)),
                                     Slot::borrow(PySequence_Fast_GET_ITEM(y, i)), Py_EQ);
    if (same < 0) return -1;
    if (!same) return op == Py_NE;
  }
  return op == Py_EQ;
}

int Evaluator::truth_of_symbol(PyObject* symbol) {
  if (Py_TYPE(symbol) == known().sym_int)
    return !recording_.shapes().guard_eq(recording_.value_of(symbol), 0);
  if (Py_TYPE(symbol) == known().sym_float) {
    const Ref zero = Ref::steal(PyFloat_FromDouble(0));
    if (const std::optional<bool> other = world_.compare_float(symbol, zero.get(), Py_NE))
      return *other;
  }
  return PyObject_IsTrue(with_numbers(symbol, 0).get());
}

// len(x) of a tensor: its first size, which CPython's own len() would make a number.
Ref Evaluator::symbolic_length(PyObject* tensor) {
  if (!is_fake(tensor)) return {};
  Ref shape = recording_.shape_of(tensor);
  if (!shape) shape = Ref::steal(PyObject_GetAttr(tensor, names().shape));
  if (!shape || PyTuple_GET_SIZE(shape.get()) == 0) {
    PyErr_Clear();
    return {};
  }
  return Ref::borrow(PyTuple_GET_ITEM(shape.get(), 0));
}

}  // namespace braze::capture
