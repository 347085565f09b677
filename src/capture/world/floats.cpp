// Python floats that vary: tensors of one element in the graph, torch.SymFloats in the traced code.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "capture/known.h"
#include "capture/world/world.h"
#include "guard/value.h"

namespace braze::capture {

Slot World::read_float(PyObject* value, const Source* source) {
  for (const SymbolicFloat& known : symbolic_floats_)
    if (known.real && known.sources[0] == source) return Slot(known.object, source);
  const auto id = static_cast<size_t>(source->id);
  if (id < guarded_.size() && guarded_[id] & (1u << static_cast<int>(GuardKind::kValue))) return {};
  const std::string name = text_of(source);
  auto found = dynamic_->floats.find(name);
  if (found == dynamic_->floats.end() || !found->second) return {};
  return symbolic_float(value, source);
}

Slot World::symbolic_float(PyObject* value, const Source* source) {
  guard(GuardKind::kType, source, reinterpret_cast<PyObject*>(&PyFloat_Type));
  Recording::SymbolicFloat made =
      recording_.symbolic_float(PyFloat_AS_DOUBLE(value), text_of(source));
  Slot symbol = computed_float(std::move(made.fake), Ref::borrow(value), {source}, source);
  symbolic_floats_.back().real = std::move(made.real);
  return Slot(symbol.object, source);
}

const Source* World::computed_source(PyObject* function, const Source* base, size_t place,
                                     const std::vector<PyObject*>& constants) {
  if (!base) return nullptr;
  Ref key = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(constants.size() + 2)));
  PyTuple_SET_ITEM(key.get(), 0, Py_NewRef(function));
  PyTuple_SET_ITEM(key.get(), 1, PyLong_FromSsize_t(static_cast<Py_ssize_t>(place)));
  for (size_t i = 0; i < constants.size(); ++i)
    PyTuple_SET_ITEM(key.get(), static_cast<Py_ssize_t>(i + 2), Py_NewRef(constants[i]));
  for (const Source* known : computed_sources_)
    if (known->base == base && guard::same_value(known->key.get(), key.get())) return known;
  computed_sources_.push_back(source(SourceKind::kComputed, base, key.get()));
  return computed_sources_.back();
}

Slot World::apply_to_float(PyObject* function, PyObject* object, size_t place,
                           const std::vector<PyObject*>& constants) {
  const Source* base = float_of(object).host;
  if (!base) return {};
  std::vector<PyObject*> arguments = constants;
  arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(place),
                   float_of(object).number.get());
  Ref value =
      Ref::steal(PyObject_Vectorcall(function, arguments.data(), arguments.size(), nullptr));
  if (!value) PyErr_Clear();  // Python says so of the number itself
  if (!value || !(PyFloat_CheckExact(value.get()) || PyLong_CheckExact(value.get()))) return {};
  const Source* source = computed_source(function, base, place, constants);
  if (!PyFloat_CheckExact(value.get())) return read(value.get(), source);
  for (const SymbolicFloat& known : symbolic_floats_)
    if (known.real && known.sources[0] == source) return Slot(known.object, source);
  auto found = dynamic_->floats.find(text_of(source));
  if (found == dynamic_->floats.end() || found->second) return symbolic_float(value.get(), source);
  guard(GuardKind::kValue, source, value.get());
  return Slot(std::move(value), source);
}

bool World::fits_float32(PyObject* object) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  auto symbol =
      std::find_if(symbolic_floats_.begin(), symbolic_floats_.end(),
                   [&](const SymbolicFloat& known) { return known.object.get() == object; });
  BRAZE_CHECK(symbol != symbolic_floats_.end(), "a torch.SymFloat from elsewhere");
  if (symbol->fits_float32) return true;
  const double value = PyFloat_AS_DOUBLE(symbol->number.get());
  if (!symbol->host || !(value >= -kLargest && value <= kLargest)) return false;
  const Ref low = Ref::steal(PyFloat_FromDouble(-kLargest)),
            high = Ref::steal(PyFloat_FromDouble(kLargest));
  compare_float(object, low.get(), Py_GE);
  compare_float(object, high.get(), Py_LE);
  return symbol->fits_float32 = true;
}

Slot World::computed_float(Ref tensor, Ref number, std::vector<const Source*> sources,
                           const Source* host) {
  Ref object =
      Ref::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(known().sym_float), tensor.get()));
  BRAZE_CHECK(object, "a torch.SymFloat cannot be made");
  symbolic_floats_.push_back(
      {object, std::move(tensor), Ref(), std::move(number), std::move(sources), host});
  return Slot(std::move(object));
}

const World::SymbolicFloat& World::float_of(PyObject* object) const {
  for (const SymbolicFloat& known : symbolic_floats_)
    if (known.object.get() == object) return known;
  BRAZE_UNREACHABLE("a torch.SymFloat from elsewhere");
}

Ref World::number_of_float(PyObject* object) {
  const SymbolicFloat& symbol = float_of(object);
  for (const Source* source : symbol.sources)
    for (const SymbolicFloat& root : symbolic_floats_)
      if (root.real && root.sources[0] == source)
        guard(GuardKind::kValue, source, root.number.get());
  return symbol.number;
}

std::vector<const Source*> World::fixed_floats() const {
  std::vector<const Source*> fixed;
  for (const SymbolicFloat& symbol : symbolic_floats_) {
    if (!symbol.real) continue;
    const uint32_t kinds = guarded_[static_cast<size_t>(symbol.sources[0]->id)];
    if (kinds & (1u << static_cast<int>(GuardKind::kValue))) fixed.push_back(symbol.sources[0]);
  }
  return fixed;
}

std::optional<bool> World::compare_float(PyObject* object, PyObject* number, int op) {
  const SymbolicFloat& symbol = float_of(object);
  if (!symbol.host || (!PyFloat_CheckExact(number) && !PyLong_CheckExact(number)))
    return std::nullopt;
  const int outcome = PyObject_RichCompareBool(symbol.number.get(), number, op);
  if (outcome < 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  const Ref expected = Ref::steal(Py_BuildValue("(iOO)", op, number, outcome ? Py_True : Py_False));
  guard(GuardKind::kFloatCompare, symbol.host, expected.get());
  return outcome != 0;
}

}  // namespace braze::capture
