// Python floats that vary: tensors of one element in the graph, torch.SymFloats in the traced code.
#include "base/error.h"
#include "capture/known.h"
#include "capture/world.h"

namespace braze::capture {

Slot World::read_float(PyObject* value, const Source* source) {
  for (const SymbolicFloat& known : symbolic_floats_)
    if (known.real && known.sources[0] == source) return Slot(known.object, source);
  const auto id = static_cast<size_t>(source->id);
  if (id < guarded_.size() && guarded_[id] & (1u << static_cast<int>(GuardKind::kValue))) return {};
  const std::string name = text_of(source);
  auto found = dynamic_->floats.find(name);
  if (found == dynamic_->floats.end() || !found->second) return {};
  guard(GuardKind::kType, source, reinterpret_cast<PyObject*>(&PyFloat_Type));
  Recording::SymbolicFloat made = recording_.symbolic_float(PyFloat_AS_DOUBLE(value), name);
  Slot symbol = computed_float(std::move(made.fake), Ref::borrow(value), {source});
  symbolic_floats_.back().real = std::move(made.real);
  return Slot(symbol.object, source);
}

Slot World::computed_float(Ref tensor, Ref number, std::vector<const Source*> sources) {
  Ref object =
      Ref::steal(PyObject_CallOneArg(reinterpret_cast<PyObject*>(known().sym_float), tensor.get()));
  BRAZE_CHECK(object, "a torch.SymFloat cannot be made");
  symbolic_floats_.push_back(
      {object, std::move(tensor), Ref(), std::move(number), std::move(sources)});
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
  if (!symbol.real || (!PyFloat_CheckExact(number) && !PyLong_CheckExact(number)))
    return std::nullopt;
  const int outcome = PyObject_RichCompareBool(symbol.number.get(), number, op);
  if (outcome < 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  const Ref expected = Ref::steal(Py_BuildValue("(iOO)", op, number, outcome ? Py_True : Py_False));
  guard(GuardKind::kFloatCompare, symbol.sources[0], expected.get());
  return outcome != 0;
}

}  // namespace braze::capture
