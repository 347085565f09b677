#include "capture/world/floats.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "capture/known.h"
#include "capture/objects/operators.h"
#include "capture/world/world.h"
#include "guard/value.h"

namespace braze::capture {

// Of an optimizer's group: what is scheduled is not waited for to change.
static bool is_learning_rate(const Source* source) {
  return source->kind == SourceKind::kItem && PyUnicode_Check(source->key.get()) &&
         PyUnicode_CompareWithASCIIString(source->key.get(), "lr") == 0;
}

Tracked VaryingFloats::read(PyObject* value, const Source* source) {
  if (dynamic_->floats.empty() && !is_learning_rate(source)) return {};
  for (const VaryingFloat& known : floats_)
    if (known.real && known.sources[0] == source) return Tracked(known.object, source);
  if (guards_.has(GuardKind::kValue, source)) return {};
  const std::string name = guards_.text_of(source);
  auto found = dynamic_->floats.find(name);
  const bool varies = found == dynamic_->floats.end() ? is_learning_rate(source) : found->second;
  return varies ? make(value, source) : Tracked();
}

Tracked VaryingFloats::make(PyObject* value, const Source* source) {
  guards_.add(GuardKind::kType, source, reinterpret_cast<PyObject*>(&PyFloat_Type));
  Recording::SymbolicFloat made =
      recording_.symbolic_float(PyFloat_AS_DOUBLE(value), guards_.text_of(source));
  Tracked symbol = computed(std::move(made.fake), Ref::borrow(value), {source}, source);
  floats_.back().real = std::move(made.real);
  return Tracked(symbol.object, source);
}

const Source* VaryingFloats::computed_source(PyObject* function, const Source* base, size_t place,
                                             const std::vector<PyObject*>& constants,
                                             const Source* other) {
  if (!base) return nullptr;
  Ref key = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(constants.size() + 2)));
  PyTuple_SET_ITEM(key.get(), 0, Py_NewRef(function));
  PyTuple_SET_ITEM(key.get(), 1, PyLong_FromSsize_t(other ? -2 : static_cast<Py_ssize_t>(place)));
  for (size_t i = 0; i < constants.size(); ++i)
    PyTuple_SET_ITEM(key.get(), static_cast<Py_ssize_t>(i + 2), Py_NewRef(constants[i]));
  for (const Source* known : computed_sources_)
    if (known->base == base && known->other == other &&
        guard::same_value(known->key.get(), key.get()))
      return known;
  computed_sources_.push_back(guards_.source(SourceKind::kComputed, base, key.get(), other));
  return computed_sources_.back();
}

// Empty where Python raises, which says so of the number itself.
static Ref result_of(PyObject* function, PyObject* number, size_t place,
                     const std::vector<PyObject*>& constants) {
  std::vector<PyObject*> arguments = constants;
  arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(place), number);
  Ref value =
      Ref::steal(PyObject_Vectorcall(function, arguments.data(), arguments.size(), nullptr));
  if (!value) PyErr_Clear();
  return value;
}

VaryingFloats::Integer VaryingFloats::combined(PyObject* function, const Integer& a,
                                               const Integer& b) {
  if (!a.number || !b.number) return {};
  Ref number = result_of(function, a.number.get(), 0, {b.number.get()});
  if (!number) return {};
  const Source* source = nullptr;
  if (a.source && b.source)
    source = computed_source(function, a.source, 0, {}, b.source);
  else if (a.source)
    source = computed_source(function, a.source, 0, {b.number.get()});
  else if (b.source)
    source = computed_source(function, b.source, 1, {a.number.get()});
  return {source, std::move(number)};
}

Tracked VaryingFloats::apply_to_integer(PyObject* function, const Integer& integer, size_t place,
                                        const std::vector<PyObject*>& constants) {
  const Ref value = result_of(function, integer.number.get(), place, constants);
  if (!value || !PyFloat_CheckExact(value.get())) return {};
  return make_again(value.get(), computed_source(function, integer.source, place, constants));
}

Tracked VaryingFloats::apply_to_integers(PyObject* function, const Integer& a, const Integer& b) {
  const Ref value = result_of(function, a.number.get(), 0, {b.number.get()});
  if (!value || !PyFloat_CheckExact(value.get())) return {};
  return make_again(value.get(), computed_source(function, a.source, 0, {}, b.source));
}

Tracked VaryingFloats::apply(PyObject* function, PyObject* object, size_t place,
                             const std::vector<PyObject*>& constants) {
  const Source* base = of(object).host;
  if (!base) return {};
  Ref value = result_of(function, of(object).number.get(), place, constants);
  if (!value || !(PyFloat_CheckExact(value.get()) || PyLong_CheckExact(value.get()))) return {};
  const Source* source = computed_source(function, base, place, constants);
  if (!PyFloat_CheckExact(value.get())) return world_.read(value.get(), source);
  if (Tracked symbol = make_again(value.get(), source)) return symbol;
  guards_.add(GuardKind::kValue, source, value.get());
  return Tracked(std::move(value), source);
}

Tracked VaryingFloats::apply_to_two(PyObject* function, PyObject* a, PyObject* b) {
  const VaryingFloat &first = of(a), &second = of(b);
  if (!first.host || !second.host) return {};
  PyObject* arguments[] = {first.number.get(), second.number.get()};
  const Ref value = Ref::steal(PyObject_Vectorcall(function, arguments, 2, nullptr));
  if (!value) PyErr_Clear();  // Python says so of the numbers themselves
  if (!value || !PyFloat_CheckExact(value.get())) return {};
  return make_again(value.get(), computed_source(function, first.host, 0, {}, second.host));
}

Tracked VaryingFloats::make_again(PyObject* value, const Source* source) {
  for (const VaryingFloat& known : floats_)
    if (known.real && known.sources[0] == source) return Tracked(known.object, source);
  const auto found = dynamic_->floats.find(guards_.text_of(source));
  return found == dynamic_->floats.end() || found->second ? make(value, source) : Tracked();
}

namespace {

// The sum as a tensor of float32 has it.
PyObject* add_float32(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2 || !PyFloat_Check(args[0]) || !PyFloat_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "two floats are added");
    return nullptr;
  }
  return PyFloat_FromDouble(static_cast<float>(PyFloat_AS_DOUBLE(args[0])) +
                            static_cast<float>(PyFloat_AS_DOUBLE(args[1])));
}

PyObject* float32_adder() {
  static PyMethodDef definition = {
      "add_float32", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&add_float32)),
      METH_FASTCALL, nullptr};
  static PyObject* const function = PyCFunction_New(&definition, nullptr);
  return function;
}

}  // namespace

Tracked VaryingFloats::item(const Source* tensor, const Recording::Counter& counter) {
  if (!dynamic_ || dynamic_->mode == DynamicSizes::Mode::kNever) return {};
  static PyObject* const read =
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(known().tensor), "item");
  const Source* source = computed_source(read, tensor, 0, {});
  double value = counter.value;
  for (const double each : counter.added) {
    value = counter.single ? static_cast<float>(value) + static_cast<float>(each) : value + each;
    PyObject* add = counter.single ? float32_adder() : operator_callable("add");
    const Ref constant = Ref::steal(PyFloat_FromDouble(each));
    source = computed_source(add, source, 0, {constant.get()});
  }
  return make_again(Ref::steal(PyFloat_FromDouble(value)).get(), source);
}

bool VaryingFloats::fits_float32(PyObject* object) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  auto symbol = std::find_if(floats_.begin(), floats_.end(), [&](const VaryingFloat& known) {
    return known.object.get() == object;
  });
  BRAZE_CHECK(symbol != floats_.end(), "a torch.SymFloat from elsewhere");
  if (symbol->fits_float32) return true;
  const double value = PyFloat_AS_DOUBLE(symbol->number.get());
  if (!symbol->host || !(value >= -kLargest && value <= kLargest)) return false;
  const Ref low = Ref::steal(PyFloat_FromDouble(-kLargest)),
            high = Ref::steal(PyFloat_FromDouble(kLargest));
  compare(object, low.get(), Py_GE);
  compare(object, high.get(), Py_LE);
  return symbol->fits_float32 = true;
}

Tracked VaryingFloats::computed(Ref tensor, Ref number, std::vector<const Source*> sources,
                                const Source* host) {
  Ref object =
      Ref::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(known().sym_float), tensor.get()));
  BRAZE_CHECK(object, "a torch.SymFloat cannot be made");
  floats_.push_back(
      {object, std::move(tensor), Ref(), std::move(number), std::move(sources), host});
  return Tracked(std::move(object));
}

const VaryingFloat& VaryingFloats::of(PyObject* object) const {
  for (const VaryingFloat& known : floats_)
    if (known.object.get() == object) return known;
  BRAZE_UNREACHABLE("a torch.SymFloat from elsewhere");
}

Ref VaryingFloats::number_of(PyObject* object) {
  const VaryingFloat& symbol = of(object);
  for (const Source* source : symbol.sources)
    for (const VaryingFloat& root : floats_)
      if (root.real && root.sources[0] == source)
        guards_.add(GuardKind::kValue, source, root.number.get());
  return symbol.number;
}

std::vector<const Source*> VaryingFloats::fixed() const {
  std::vector<const Source*> fixed;
  for (const VaryingFloat& symbol : floats_) {
    if (!symbol.real) continue;
    if (guards_.has(GuardKind::kValue, symbol.sources[0])) fixed.push_back(symbol.sources[0]);
  }
  return fixed;
}

std::optional<bool> VaryingFloats::compare(PyObject* object, PyObject* number, int op) {
  const VaryingFloat& symbol = of(object);
  if (!symbol.host || (!PyFloat_CheckExact(number) && !PyLong_CheckExact(number)))
    return std::nullopt;
  const int outcome = PyObject_RichCompareBool(symbol.number.get(), number, op);
  if (outcome < 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  const Ref expected = Ref::steal(Py_BuildValue("(iOO)", op, number, outcome ? Py_True : Py_False));
  guards_.add(GuardKind::kFloatCompare, symbol.host, expected.get());
  return outcome != 0;
}

std::optional<bool> VaryingFloats::compare_two(PyObject* a, PyObject* b, int op) {
  constexpr const char* kNames[] = {"lt", "le", "eq", "ne", "gt", "ge"};
  const VaryingFloat &first = of(a), &second = of(b);
  if (!first.host || !second.host) return std::nullopt;
  const int outcome = PyObject_RichCompareBool(first.number.get(), second.number.get(), op);
  // RichCompareBool takes an object to be equal to itself, NaN as well.
  if (outcome < 0 || a == b) return PyErr_Clear(), std::nullopt;
  const double x = PyFloat_AS_DOUBLE(first.number.get()),
               y = PyFloat_AS_DOUBLE(second.number.get());
  if (x != x || y != y) return std::nullopt;
  guards_.add(GuardKind::kValue,
              computed_source(operator_callable(kNames[op]), first.host, 0, {}, second.host),
              outcome ? Py_True : Py_False);
  return outcome != 0;
}

}  // namespace braze::capture
