// Floats that vary, in the evaluator: torch.SymFloat where the program has a float.
//
// Beside a tensor such a float is an operand, cast as PyTorch casts a Python number; with numbers
// it is computed in double precision, as Python computes; compared with a number it is guarded.
// Everything else is given the number, with a guard.
#include <opcode.h>

#include "capture/evaluator.h"
#include "capture/known.h"

namespace braze::capture {

namespace {

bool is_float_symbol(PyObject* object) { return Py_TYPE(object) == known().sym_float; }

bool holds_float(PyObject* object, int depth = 4) {
  if (is_float_symbol(object)) return true;
  if (depth == 0) return false;
  if (PyTuple_Check(object) || PyList_Check(object)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
      if (holds_float(PySequence_Fast_GET_ITEM(object, i), depth - 1)) return true;
  } else if (PyDict_Check(object)) {
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(object, &position, &key, &value))
      if (holds_float(value, depth - 1)) return true;
  }
  return false;
}

// The float that Python computes with; empty for what is not known to be exact.
Ref plain_number(PyObject* object) {
  if (PyFloat_CheckExact(object)) return Ref::borrow(object);
  if (!PyLong_Check(object)) return {};
  constexpr int64_t kExact = int64_t{1} << 53;
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow || value > kExact || value < -kExact) return {};
  return Ref::steal(PyFloat_FromDouble(static_cast<double>(value)));
}

// Functions and methods of torch whose two operands may each be a number or a tensor.
bool is_plain_operator(std::string_view name) {
  for (const char* known :
       {"add", "sub", "subtract", "mul", "multiply", "eq", "ne", "lt", "le", "gt", "ge", "add_",
        "sub_", "mul_", "div", "divide", "true_divide", "div_"})
    if (name == known) return true;
  return false;
}

}  // namespace

Slot Evaluator::float_beside(const Slot& number, const Slot& tensor) {
  if (!is_float_symbol(number.get())) return number;
  NativeScope scope(*this, true, nullptr);
  return Slot(recording_.float_operand(world_.float_of(number.get()).tensor.get(), tensor.get()));
}

Slot Evaluator::binary_of_floats(int op, const Slot& a, const Slot& b, bool& done) {
  done = false;
  const int plain = op >= NB_INPLACE_ADD ? op - NB_INPLACE_ADD : op;
  if (plain != NB_ADD && plain != NB_SUBTRACT && plain != NB_MULTIPLY && plain != NB_TRUE_DIVIDE)
    return {};
  const bool tensor_first = is_tensor(a.get());
  if (tensor_first || is_tensor(b.get())) {
    Slot x = float_beside(a, b), y = float_beside(b, a);
    if (!x || !y) return {};
    done = true;
    if (tensor_first) return binary(op, std::move(x), std::move(y));
    if (plain != NB_TRUE_DIVIDE) return binary(plain, std::move(x), std::move(y));
    // Tensor.__rtruediv__
    Slot inverse =
        call(getattr(y, Ref::steal(PyUnicode_FromString("reciprocal")).get()), nullptr, 0, nullptr);
    return inverse ? binary(NB_MULTIPLY, std::move(inverse), std::move(x)) : Slot();
  }
  if (plain == NB_TRUE_DIVIDE && is_float_symbol(b.get())) return {};  // it might be zero
  Ref numbers[2], operands[2];
  std::vector<const Source*> sources;
  const Slot* given[2] = {&a, &b};
  for (int i = 0; i < 2; ++i) {
    PyObject* object = given[i]->get();
    if (is_float_symbol(object)) {
      const World::SymbolicFloat& symbol = world_.float_of(object);
      numbers[i] = symbol.number;
      operands[i] = symbol.tensor;
      sources.insert(sources.end(), symbol.sources.begin(), symbol.sources.end());
    } else if (!(operands[i] = numbers[i] = plain_number(object))) {
      return {};
    }
  }
  using Function = PyObject* (*)(PyObject*, PyObject*);
  const Function function = plain == NB_ADD        ? PyNumber_Add
                            : plain == NB_SUBTRACT ? PyNumber_Subtract
                            : plain == NB_MULTIPLY ? PyNumber_Multiply
                                                   : PyNumber_TrueDivide;
  Ref number = Ref::steal(function(numbers[0].get(), numbers[1].get()));
  if (!number) {
    PyErr_Clear();  // division by zero: Python says so of the numbers
    return {};
  }
  Ref tensor;
  {
    NativeScope scope(*this, true, nullptr);
    tensor = Ref::steal(function(operands[0].get(), operands[1].get()));
  }
  if (!tensor) return torch_failed();
  done = true;
  return world_.computed_float(std::move(tensor), std::move(number), std::move(sources));
}

Slot Evaluator::unary_of_float(cpython::Opcode op, const Slot& a) {
  const World::SymbolicFloat& symbol = world_.float_of(a.get());
  if (op == cpython::Opcode::kUnaryPositive) return a;
  if (op != cpython::Opcode::kUnaryNegative) {
    Slot number = a;
    make_concrete(number);
    return unary(op, number);
  }
  Ref number = Ref::steal(PyNumber_Negative(symbol.number.get()));
  std::vector<const Source*> sources = symbol.sources;
  Ref tensor;
  {
    NativeScope scope(*this, true, nullptr);
    tensor = Ref::steal(PyNumber_Negative(symbol.tensor.get()));
  }
  if (!tensor) return torch_failed();
  return world_.computed_float(std::move(tensor), std::move(number), std::move(sources));
}

Slot Evaluator::compare_floats(const Slot& a, const Slot& b, int op, bool& done) {
  done = false;
  if (is_tensor(a.get()) || is_tensor(b.get())) {
    Slot x = float_beside(a, b), y = float_beside(b, a);
    if (!x || !y) return {};
    done = true;
    return compare(x, y, op, false);
  }
  constexpr int kSwapped[] = {Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE};
  std::optional<bool> outcome;
  if (is_float_symbol(a.get()) && !is_float_symbol(b.get()))
    outcome = world_.compare_float(a.get(), b.get(), op);
  else if (is_float_symbol(b.get()) && !is_float_symbol(a.get()))
    outcome = world_.compare_float(b.get(), a.get(), kSwapped[op]);
  done = outcome.has_value();
  return done ? Slot::borrow(*outcome ? Py_True : Py_False) : Slot();
}

void Evaluator::settle_floats(PyObject* callable, Slot* args, size_t count, PyObject* kwnames) {
  bool any = false;
  for (size_t i = 0; i < count && !any; ++i) any = holds_float(world_.effective(args[i].get()));
  if (!any) return;
  PyObject* self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  const Slot owner = self && is_tensor(self) ? Slot::borrow(self) : Slot();
  Ref name = Ref::steal(PyObject_GetAttr(callable, names().name));
  if (!name) PyErr_Clear();
  const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : "";
  if (!kwnames && is_plain_operator(text) && count == (owner ? 1u : 2u)) {
    const Slot tensor = owner ? owner : args[is_tensor(args[0].get()) ? 0 : 1];
    if (is_tensor(tensor.get()))
      for (size_t i = 0; i < count; ++i) {
        if (!is_float_symbol(args[i].get()) || (!owner && i == 0)) continue;
        if (Slot operand = float_beside(args[i], tensor)) args[i] = std::move(operand);
      }
  }
  for (size_t i = 0; i < count; ++i)
    if (holds_float(world_.effective(args[i].get()))) make_concrete(args[i]);
}

}  // namespace braze::capture
