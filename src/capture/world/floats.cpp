#include "capture/world/floats.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "capture/known.h"
#include "capture/world/world.h"
#include "guard/value.h"

namespace braze::capture {

Tracked VaryingFloats::read(PyObject* value, const Source* source) {
  for (const VaryingFloat& known : floats_)
    if (known.real && known.sources[0] == source) return Tracked(known.object, source);
  if (guards_.has(GuardKind::kValue, source)) return {};
  const std::string name = guards_.text_of(source);
  auto found = dynamic_->floats.find(name);
  if (found == dynamic_->floats.end() || !found->second) return {};
  return make(value, source);
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
                                             const std::vector<PyObject*>& constants) {
  if (!base) return nullptr;
  Ref key = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(constants.size() + 2)));
  PyTuple_SET_ITEM(key.get(), 0, Py_NewRef(function));
  PyTuple_SET_ITEM(key.get(), 1, PyLong_FromSsize_t(static_cast<Py_ssize_t>(place)));
  for (size_t i = 0; i < constants.size(); ++i)
    PyTuple_SET_ITEM(key.get(), static_cast<Py_ssize_t>(i + 2), Py_NewRef(constants[i]));
  for (const Source* known : computed_sources_)
    if (known->base == base && guard::same_value(known->key.get(), key.get())) return known;
  computed_sources_.push_back(guards_.source(SourceKind::kComputed, base, key.get()));
  return computed_sources_.back();
}

Tracked VaryingFloats::apply(PyObject* function, PyObject* object, size_t place,
                             const std::vector<PyObject*>& constants) {
  const Source* base = of(object).host;
  if (!base) return {};
  std::vector<PyObject*> arguments = constants;
  arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(place), of(object).number.get());
  Ref value =
      Ref::steal(PyObject_Vectorcall(function, arguments.data(), arguments.size(), nullptr));
  if (!value) PyErr_Clear();  // Python says so of the number itself
  if (!value || !(PyFloat_CheckExact(value.get()) || PyLong_CheckExact(value.get()))) return {};
  const Source* source = computed_source(function, base, place, constants);
  if (!PyFloat_CheckExact(value.get())) return world_.read(value.get(), source);
  for (const VaryingFloat& known : floats_)
    if (known.real && known.sources[0] == source) return Tracked(known.object, source);
  auto found = dynamic_->floats.find(guards_.text_of(source));
  if (found == dynamic_->floats.end() || found->second) return make(value.get(), source);
  guards_.add(GuardKind::kValue, source, value.get());
  return Tracked(std::move(value), source);
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

}  // namespace braze::capture
