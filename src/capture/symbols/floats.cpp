#include "capture/symbols/floats.h"

#include <opcode.h>

#include "capture/calls/calls.h"
#include "capture/calls/native_scope.h"
#include "capture/calls/torch_failures.h"
#include "capture/known.h"
#include "capture/objects/attributes.h"
#include "capture/objects/operators.h"
#include "capture/symbols/integers.h"
#include "capture/trace_context.h"
#include "cpython/text.h"
#include "sym/expr.h"

namespace braze::capture {

namespace {

constexpr auto kBothPlaces = static_cast<size_t>(-1);  // of a computed source

bool is_float_symbol(PyObject* object) { return Py_TYPE(object) == known().sym_float; }

bool holds_float(PyObject* object) { return any_inside(object, is_float_symbol); }

// Of the module `operator`; null for what is none of numbers.
PyObject* operator_of(int op) {
  switch (op) {
    case NB_ADD:
      return operator_callable("add");
    case NB_SUBTRACT:
      return operator_callable("sub");
    case NB_MULTIPLY:
      return operator_callable("mul");
    case NB_TRUE_DIVIDE:
      return operator_callable("truediv");
    case NB_FLOOR_DIVIDE:
      return operator_callable("floordiv");
    case NB_REMAINDER:
      return operator_callable("mod");
    case NB_POWER:
      return operator_callable("pow");
    default:
      return nullptr;
  }
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

}  // namespace

static Tracked power_of_floats(TraceContext& trace, int op, const Tracked& a, const Tracked& b,
                               bool& done);
static Tracked apply_operator(TraceContext& trace, int op, const Tracked& a, const Tracked& b,
                              bool& done);
static Tracked apply_to_float(TraceContext& trace, PyObject* function, const Tracked* args,
                              size_t count, bool& done);
static Tracked apply_to_integer(TraceContext& trace, PyObject* function, const Tracked* args,
                                size_t count, bool& done);

bool is_plain_operator(std::string_view name) {
  for (const char* known :
       {"add",  "sub",   "subtract",  "mul",        "multiply",     "eq",
        "ne",   "lt",    "le",        "gt",         "ge",           "add_",
        "sub_", "mul_",  "div",       "divide",     "true_divide",  "div_",
        "fmod", "fmod_", "remainder", "remainder_", "floor_divide", "floor_divide_",
        "rsub"})
    if (name == known) return true;
  return false;
}

using FloatUse = Recording::FloatUse;

static Tracked float_beside(TraceContext& trace, const Tracked& number, const Tracked& tensor,
                            FloatUse use = FloatUse::kOther) {
  if (!is_float_symbol(number.get())) return number;
  NativeScope scope(trace, true, nullptr);
  return Tracked(trace.recording.float_operand(trace.world.floats().of(number.get()).tensor.get(),
                                               tensor.get(), use));
}

// Of a function or method of two operands.
static FloatUse use_in(std::string_view name) {
  for (const char* known : {"mul", "mul_", "multiply", "div", "div_", "divide", "true_divide"})
    if (name == known) return FloatUse::kFactor;
  for (const char* known : {"add", "add_", "sub", "sub_", "subtract"})
    if (name == known) return FloatUse::kTerm;
  return FloatUse::kOther;
}

Tracked binary_of_floats(TraceContext& trace, int op, const Tracked& a, const Tracked& b,
                         bool& done) {
  done = false;
  for (const Tracked* integer : {&a, &b}) {
    if (Py_TYPE(integer->get()) != known().sym_int) continue;
    // Python computes with the float that is equal to it.
    auto* type = reinterpret_cast<PyObject*>(&PyFloat_Type);
    const Tracked number = apply_to_integer(trace, type, integer, 1, done);
    if (!done) return {};
    return integer == &a ? binary_of_floats(trace, op, number, b, done)
                         : binary_of_floats(trace, op, a, number, done);
  }
  const int plain = op >= NB_INPLACE_ADD ? op - NB_INPLACE_ADD : op;
  const bool tensor_first = is_tensor(a.get()), has_tensor = tensor_first || is_tensor(b.get());
  if (plain == NB_POWER && has_tensor) return power_of_floats(trace, op, a, b, done);
  if (plain != NB_ADD && plain != NB_SUBTRACT && plain != NB_MULTIPLY && plain != NB_TRUE_DIVIDE) {
    const bool divides = tensor_first && (plain == NB_FLOOR_DIVIDE || plain == NB_REMAINDER);
    if (!divides) return has_tensor ? Tracked() : apply_operator(trace, plain, a, b, done);
  }
  if (has_tensor) {
    const FloatUse use = plain == NB_MULTIPLY || plain == NB_TRUE_DIVIDE ? FloatUse::kFactor
                         : plain == NB_ADD || plain == NB_SUBTRACT       ? FloatUse::kTerm
                                                                         : FloatUse::kOther;
    Tracked x = float_beside(trace, a, b, use), y = float_beside(trace, b, a, use);
    if (!x || !y) return {};
    done = true;
    if (tensor_first) return binary_operation(trace, op, std::move(x), std::move(y));
    if (plain != NB_TRUE_DIVIDE) return binary_operation(trace, plain, std::move(x), std::move(y));
    // Tensor.__rtruediv__
    Tracked inverse =
        call(trace, getattr(trace, y, Ref::steal(PyUnicode_FromString("reciprocal")).get()),
             nullptr, 0, nullptr);
    return inverse ? binary_operation(trace, NB_MULTIPLY, std::move(inverse), std::move(x))
                   : Tracked();
  }
  // The divisor might be zero.
  if (plain == NB_TRUE_DIVIDE && is_float_symbol(b.get()))
    return apply_operator(trace, plain, a, b, done);
  Ref numbers[2], operands[2];
  std::vector<const Source*> sources;
  const Source* host = nullptr;
  const Tracked* given[2] = {&a, &b};
  for (int i = 0; i < 2; ++i) {
    PyObject* object = given[i]->get();
    if (is_float_symbol(object)) {
      const VaryingFloat& symbol = trace.world.floats().of(object);
      numbers[i] = symbol.number;
      operands[i] = symbol.tensor;
      sources.insert(sources.end(), symbol.sources.begin(), symbol.sources.end());
      PyObject* other = given[1 - i]->get();
      if (other == object)
        host =
            trace.world.floats().computed_source(operator_of(plain), symbol.host, kBothPlaces, {});
      else if (is_float_symbol(other) && i == 0 && trace.world.floats().of(other).host)
        host = trace.world.floats().computed_source(operator_of(plain), symbol.host, 0, {},
                                                    trace.world.floats().of(other).host);
      else if (!is_float_symbol(other))
        host = trace.world.floats().computed_source(operator_of(plain), symbol.host,
                                                    static_cast<size_t>(i), {other});
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
    NativeScope scope(trace, true, nullptr);
    tensor = Ref::steal(function(operands[0].get(), operands[1].get()));
  }
  if (!tensor) return torch_failed(trace);
  done = true;
  return trace.world.floats().computed(std::move(tensor), std::move(number), std::move(sources),
                                       host);
}

// `x ** s` as PyTorch's own functions have it, which have rules of their own for some exponents.
static Tracked power_of_floats(TraceContext& trace, int op, const Tracked& a, const Tracked& b,
                               bool& done) {
  const char* name = op == NB_POWER ? "pow" : "pow_";
  if (op != NB_POWER && !is_tensor(a.get())) return {};
  Tracked operands[2] = {a, b};
  return call_for_floats(trace, names_in_tensor(name), operands, 2, nullptr, done);
}

static Tracked apply_operator(TraceContext& trace, int op, const Tracked& a, const Tracked& b,
                              bool& done) {
  PyObject* function = operator_of(op);
  const Tracked operands[2] = {a, b};
  return function ? apply_to_float(trace, function, operands, 2, done) : Tracked();
}

// Computed from the one float that varies, beside constants, whenever the compiled code is called.
static Tracked apply_to_float(TraceContext& trace, PyObject* function, const Tracked* args,
                              size_t count, bool& done) {
  if (count == 2 && args[0].get() != args[1].get() && is_float_symbol(args[0].get()) &&
      is_float_symbol(args[1].get())) {
    Tracked result = trace.world.floats().apply_to_two(function, args[0].get(), args[1].get());
    done = bool(result);
    return result;
  }
  PyObject* symbol = nullptr;
  size_t place = 0;
  std::vector<PyObject*> constants;
  for (size_t i = 0; i < count; ++i) {
    PyObject* object = args[i].get();
    if (is_float_symbol(object)) {
      if (symbol) return {};
      symbol = object;
      place = i;
    } else if (PyFloat_CheckExact(object) || PyLong_CheckExact(object) || object == Py_None) {
      constants.push_back(object);
    } else {
      return {};
    }
  }
  if (!symbol) return {};
  Tracked result = trace.world.floats().apply(function, symbol, place, constants);
  done = bool(result);
  return result;
}

using Integer = VaryingFloats::Integer;

static Integer constant_integer(int64_t value) {
  return {nullptr, Ref::steal(PyLong_FromLongLong(value))};
}

// What arithmetic makes of numbers read from outside, as Python computes it. Without a number where
// a size is among them.
static Integer integer_from_outside(TraceContext& trace, sym::Int value) {
  if (value.is_constant()) return constant_integer(value.constant());
  VaryingFloats& floats = trace.world.floats();
  auto sum = [&](const Integer& a, const Integer& b) {
    return floats.combined(operator_callable("add"), a, b);
  };
  auto product = [&](const Integer& a, const Integer& b) {
    return floats.combined(operator_callable("mul"), a, b);
  };
  for (const World::SymbolicInteger& known : trace.world.symbolic_integers()) {
    const sym::Int added = value - trace.recording.value_of(known.object.get());
    if (!added.is_constant()) continue;
    const Integer read = {known.source, Ref::steal(PyLong_FromLongLong(known.number))};
    return added == 0 ? read : sum(read, constant_integer(added.constant()));
  }
  const sym::Expr& expr = *value.expr();
  Integer result;
  switch (expr.kind) {
    case sym::ExprKind::kSum:
      for (const auto& [term, coefficient] : expr.terms) {
        Integer each = integer_from_outside(trace, sym::Int(term));
        if (coefficient != 1) each = product(each, constant_integer(coefficient));
        result = &term == &expr.terms.front().first ? each : sum(result, each);
      }
      return expr.constant == 0 ? result : sum(result, constant_integer(expr.constant));
    case sym::ExprKind::kProduct:
      for (const auto& [factor, ignored] : expr.terms) {
        const Integer each = integer_from_outside(trace, sym::Int(factor));
        result = &factor == &expr.terms.front().first ? each : product(result, each);
      }
      return result;
    case sym::ExprKind::kFloorDiv:
    case sym::ExprKind::kMod:
      return floats.combined(
          operator_callable(expr.kind == sym::ExprKind::kMod ? "mod" : "floordiv"),
          integer_from_outside(trace, expr.a), integer_from_outside(trace, expr.b));
    case sym::ExprKind::kSymbol:
    case sym::ExprKind::kMin:
    case sym::ExprKind::kMax:
      return {};
  }
  BRAZE_UNREACHABLE("a kind of expression");
}

// A float of one integer that varies among constants, or of two.
static Tracked apply_to_integer(TraceContext& trace, PyObject* function, const Tracked* args,
                                size_t count, bool& done) {
  std::vector<Integer> integers;
  size_t place = 0;
  std::vector<PyObject*> constants;
  for (size_t i = 0; i < count; ++i) {
    PyObject* object = args[i].get();
    if (Py_TYPE(object) == known().sym_int) {
      integers.push_back(integer_from_outside(trace, trace.recording.value_of(object)));
      if (!integers.back().source) return {};
      place = i;
    } else if (PyFloat_CheckExact(object) || PyLong_CheckExact(object)) {
      constants.push_back(object);
    } else {
      return {};
    }
  }
  VaryingFloats& floats = trace.world.floats();
  Tracked result;
  if (integers.size() == 1)
    result = floats.apply_to_integer(function, integers[0], place, constants);
  else if (integers.size() == 2 && constants.empty())
    result = floats.apply_to_integers(function, integers[0], integers[1]);
  done = bool(result);
  return result;
}

Tracked float_of_integers(TraceContext& trace, int op, const Tracked& a, const Tracked& b,
                          bool& done) {
  done = false;
  PyObject* function = operator_of(op >= NB_INPLACE_ADD ? op - NB_INPLACE_ADD : op);
  const Tracked operands[2] = {a, b};
  return function ? apply_to_integer(trace, function, operands, 2, done) : Tracked();
}

static bool is_function_of_numbers(PyObject* function) {
  if (function == reinterpret_cast<PyObject*>(&PyLong_Type)) return true;
  if (!PyCFunction_Check(function)) return false;
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(function)->m_module;
  const char* text = module && PyUnicode_Check(module) ? cpython::utf8_of(module) : "";
  const std::string_view name = reinterpret_cast<PyCFunctionObject*>(function)->m_ml->ml_name;
  if (std::string_view(text) == "math") return true;
  return std::string_view(text) == "builtins" &&
         (name == "round" || name == "abs" || name == "pow");
}

// max(a, b, ...), min(a, b, ...): decided by guards, the first of equal ones as in Python.
static Tracked extremum_of_floats(TraceContext& trace, bool largest, const Tracked* args,
                                  size_t count, bool& done) {
  size_t best = 0;
  for (size_t i = 1; i < count; ++i) {
    bool known = false;
    const Tracked better =
        compare_floats(trace, args[i], args[best], largest ? Py_GT : Py_LT, known);
    if (!known) return {};
    if (better.get() == Py_True) best = i;
  }
  done = true;
  return args[best];
}

Tracked number_of_floats(TraceContext& trace, PyObject* function, const Tracked* args, size_t count,
                         bool& done) {
  if (is_function_of_numbers(function)) {
    Tracked result = apply_to_float(trace, function, args, count, done);
    return done ? result : apply_to_integer(trace, function, args, count, done);
  }
  if (function == reinterpret_cast<PyObject*>(&PyFloat_Type))
    return apply_to_integer(trace, function, args, count, done);
  if (!PyCFunction_Check(function) || count < 2) return {};
  const CalleeRule* rule = callee_rule(function);
  if (!rule || (rule->text != "max()" && rule->text != "min()")) return {};
  return extremum_of_floats(trace, rule->text == "max()", args, count, done);
}

Tracked call_for_floats(TraceContext& trace, PyObject* function, Tracked* args, size_t count,
                        PyObject* kwnames, bool& done) {
  PyObject* substitute = function ? substitute_for_floats(function) : nullptr;
  if (!substitute) return {};
  bool any = false;
  for (size_t i = 0; i < count && !any; ++i)
    any = holds_float(trace.world.effective(args[i].get()));
  if (!any) return {};
  done = true;
  return call(trace, trace.world.wrap(substitute), args, count, kwnames);
}

PyObject* names_in_tensor(const char* name) {
  Ref text = Ref::steal(PyUnicode_FromString(name));
  return _PyType_Lookup(known().tensor, text.get());
}

Tracked operand_of_float(TraceContext& trace, const Tracked& value, const Tracked& tensor) {
  if (!is_float_symbol(value.get())) return value;
  Tracked number = value;
  if (is_tensor(tensor.get()) && trace.world.floats().fits_float32(value.get()))
    if (Tracked operand = float_beside(trace, value, tensor)) return operand;
  if (PyErr_Occurred()) return {};
  make_concrete(trace, number);
  return number;
}

Tracked item_of_counter(TraceContext& trace, const Tracked& tensor) {
  const Source* source = trace.world.source_of(tensor);
  if (!source || trace.torch_calls) return {};
  PyObject* real = trace.world.real_of(tensor.get());
  const auto counter = trace.recording.counter(real);
  return counter ? trace.world.floats().item(source, *counter) : Tracked();
}

Tracked unary_of_float(TraceContext& trace, cpython::Opcode op, const Tracked& a) {
  const VaryingFloat& symbol = trace.world.floats().of(a.get());
  if (op == cpython::Opcode::kUnaryPositive) return a;
  if (op != cpython::Opcode::kUnaryNegative) {
    Tracked number = a;
    make_concrete(trace, number);
    return unary_operation(trace, op, number);
  }
  Ref number = Ref::steal(PyNumber_Negative(symbol.number.get()));
  const Source* host =
      trace.world.floats().computed_source(operator_callable("neg"), symbol.host, 0, {});
  std::vector<const Source*> sources = symbol.sources;
  Ref tensor;
  {
    NativeScope scope(trace, true, nullptr);
    tensor = Ref::steal(PyNumber_Negative(symbol.tensor.get()));
  }
  if (!tensor) return torch_failed(trace);
  return trace.world.floats().computed(std::move(tensor), std::move(number), std::move(sources),
                                       host);
}

Tracked compare_floats(TraceContext& trace, const Tracked& a, const Tracked& b, int op,
                       bool& done) {
  done = false;
  if (is_tensor(a.get()) || is_tensor(b.get())) {
    Tracked x = float_beside(trace, a, b), y = float_beside(trace, b, a);
    if (!x || !y) return {};
    done = true;
    return compare(trace, x, y, op, false);
  }
  constexpr int kSwapped[] = {Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE};
  std::optional<bool> outcome;
  if (is_float_symbol(a.get()) && !is_float_symbol(b.get()))
    outcome = trace.world.floats().compare(a.get(), b.get(), op);
  else if (is_float_symbol(b.get()) && !is_float_symbol(a.get()))
    outcome = trace.world.floats().compare(b.get(), a.get(), kSwapped[op]);
  else if (is_float_symbol(a.get()) && is_float_symbol(b.get()))
    outcome = trace.world.floats().compare_two(a.get(), b.get(), op);
  done = outcome.has_value();
  return done ? Tracked::borrow(*outcome ? Py_True : Py_False) : Tracked();
}

void settle_floats(TraceContext& trace, PyObject* callable, Tracked* args, size_t count,
                   PyObject* kwnames) {
  bool any = false;
  for (size_t i = 0; i < count && !any; ++i)
    any = holds_float(trace.world.effective(args[i].get()));
  if (!any) return;
  PyObject* self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  const Tracked owner = self && is_tensor(self) ? Tracked::borrow(self) : Tracked();
  Ref name = Ref::steal(PyObject_GetAttr(callable, names().name));
  if (!name) PyErr_Clear();
  const char* text = name && PyUnicode_Check(name.get()) ? cpython::utf8_of(name.get()) : "";
  if (!kwnames && is_plain_operator(text) && count == (owner ? 1u : 2u)) {
    const Tracked tensor = owner ? owner : args[is_tensor(args[0].get()) ? 0 : 1];
    if (is_tensor(tensor.get()))
      for (size_t i = 0; i < count; ++i) {
        if (!is_float_symbol(args[i].get()) || (!owner && i == 0)) continue;
        if (Tracked operand = float_beside(trace, args[i], tensor, use_in(text)))
          args[i] = std::move(operand);
      }
  }
  for (size_t i = 0; i < count; ++i)
    if (holds_float(trace.world.effective(args[i].get()))) make_concrete(trace, args[i]);
}

}  // namespace braze::capture
