#include "guard/shape_check.h"

#include <ATen/core/Tensor.h>

#include "base/error.h"

namespace braze::guard {

using cpython::Ref;

namespace {

using Kind = Quantity::Kind;

// False for an integer that is none or too large.
bool read(const Quantity& quantity, const c10::TensorImpl* impl, PyObject* object, int64_t* value) {
  switch (quantity.kind) {
    case Kind::kSize:
      *value = impl->sizes()[quantity.dim];
      return true;
    case Kind::kStride:
      *value = impl->strides()[quantity.dim];
      return true;
    case Kind::kInteger: {
      if (object == nullptr || !PyLong_CheckExact(object)) return false;
      int overflow = 0;
      *value = PyLong_AsLongLongAndOverflow(object, &overflow);
      return overflow == 0;
    }
  }
  BRAZE_UNREACHABLE("kind of a quantity");
}

// The same of an object whose guards have not been checked.
bool read_unchecked(const Quantity& quantity, PyObject* object, int64_t* value) {
  if (quantity.kind == Kind::kInteger) return read(quantity, nullptr, object, value);
  const c10::TensorImpl* impl = tensor_of(object);
  return impl != nullptr && quantity.dim < impl->dim() && read(quantity, impl, object, value);
}

std::string text_of(const Quantity& quantity, const std::string& source) {
  switch (quantity.kind) {
    case Kind::kSize:
      return source + ".size(" + std::to_string(quantity.dim) + ")";
    case Kind::kStride:
      return source + ".stride(" + std::to_string(quantity.dim) + ")";
    case Kind::kInteger:
      return source;
  }
  BRAZE_UNREACHABLE("kind of a quantity");
}

}  // namespace

ShapeCheck::ShapeCheck(ShapeGuards guards, const Tree& tree) : guards_(std::move(guards)) {
  for (const Quantity& quantity : guards_.symbols) symbols_.push_back(place_of(quantity, tree));
  for (const auto& fact : guards_.facts) facts_.push_back(place_of(fact.quantity, tree));
  values_.resize(symbols_.size());
}

ShapeCheck::Place ShapeCheck::place_of(const Quantity& quantity, const Tree& tree) const {
  if (!quantity.source) return {};
  const int node = tree.node_of(quantity.source);
  BRAZE_CHECK(node >= 0, "a symbol of ", to_string(quantity.source), ", which has no guard");
  const int tensor = tree.nodes[node].tensor;
  BRAZE_CHECK(tensor >= 0 || quantity.kind == Kind::kInteger, "a size of ",
              to_string(quantity.source), ", which has no tensor guard");
  return {tensor, node};
}

bool ShapeCheck::holds(const Tree& tree) {
  auto value_of = [&](const Quantity& quantity, const Place& place, int64_t* value) {
    const c10::TensorImpl* impl = place.tensor >= 0 ? tree.tensors[place.tensor].impl : nullptr;
    return read(quantity, impl, tree.nodes[place.node].object, value);
  };
  for (size_t i = 0; i < symbols_.size(); ++i)
    if (guards_.symbols[i].source && !value_of(guards_.symbols[i], symbols_[i], &values_[i]))
      return false;
  for (size_t i = 0; i < facts_.size(); ++i) {
    const ShapeGuards::Fact& fact = guards_.facts[i];
    int64_t value = 0;
    if (!value_of(fact.quantity, facts_[i], &value)) return false;
    if (value != sym::evaluate(fact.value, values_)) return false;
  }
  for (const sym::Condition& condition : guards_.conditions)
    if (!sym::holds(condition, values_)) return false;
  return true;
}

// The symbols under the names of what they stand for.
std::vector<sym::Int> ShapeCheck::names(SourceText text, void* context,
                                        sym::ExprArena& arena) const {
  std::vector<sym::Int> symbols;
  for (size_t i = 0; i < guards_.symbols.size(); ++i) {
    const Quantity& quantity = guards_.symbols[i];
    const int number = static_cast<int>(i);
    const std::string name =
        quantity.source ? text_of(quantity, text(quantity.source, context)) : "<from data>";
    symbols.emplace_back(
        arena.symbol(name, guards_.arena->symbol_expr(number)->hint, guards_.arena->range(number)));
  }
  return symbols;
}

namespace {

std::string fact_text(const ShapeGuards::Fact& fact, const std::string& source,
                      std::span<const sym::Int> names) {
  return text_of(fact.quantity, source) + " == " + sym::to_string(sym::replace(fact.value, names));
}

}  // namespace

std::vector<std::string> ShapeCheck::describe(SourceText text, void* context) const {
  sym::ExprArena arena;
  const std::vector<sym::Int> symbols = names(text, context, arena);
  std::vector<std::string> lines;
  for (const ShapeGuards::Fact& fact : guards_.facts)
    lines.push_back(fact_text(fact, text(fact.quantity.source, context), symbols));
  for (const sym::Condition& condition : guards_.conditions)
    lines.push_back(sym::to_string(sym::replace(condition, symbols)));
  return lines;
}

std::string ShapeCheck::failure(std::span<const Ref> objects, const Tree& tree, SourceText text,
                                void* context) const {
  sym::ExprArena arena;
  const std::vector<sym::Int> symbols = names(text, context, arena);
  std::vector<int64_t> values(symbols.size());
  auto object_of = [&](const Quantity& quantity) {
    return objects[tree.node_of(quantity.source)].get();
  };
  std::string now;
  for (size_t i = 0; i < values.size(); ++i) {
    const Quantity& quantity = guards_.symbols[i];
    if (!quantity.source) continue;
    if (!read_unchecked(quantity, object_of(quantity), &values[i]))
      return text(quantity.source, context) + ": expected an int of 64 bits";
    now += (i ? ", " : "") + sym::to_string(symbols[i]) + " is " + std::to_string(values[i]);
  }
  for (const ShapeGuards::Fact& fact : guards_.facts) {
    int64_t value = 0;
    const std::string line = fact_text(fact, text(fact.quantity.source, context), symbols);
    if (!read_unchecked(fact.quantity, object_of(fact.quantity), &value)) return line;
    if (value != sym::evaluate(fact.value, values))
      return line + ": is " + std::to_string(value) + (now.empty() ? "" : ", where " + now);
  }
  for (const sym::Condition& condition : guards_.conditions)
    if (!sym::holds(condition, values))
      return sym::to_string(sym::replace(condition, symbols)) + ": " + now;
  return "";
}

std::optional<std::vector<const ShapeGuards::Fact*>> ShapeCheck::broken_facts(
    std::span<const Ref> objects, const Tree& tree) const {
  std::vector<int64_t> values(guards_.symbols.size());
  auto object_of = [&](const Quantity& quantity) {
    return objects[tree.node_of(quantity.source)].get();
  };
  for (size_t i = 0; i < values.size(); ++i)
    if (guards_.symbols[i].source &&
        !read_unchecked(guards_.symbols[i], object_of(guards_.symbols[i]), &values[i]))
      return std::nullopt;
  std::vector<const ShapeGuards::Fact*> broken;
  for (const ShapeGuards::Fact& fact : guards_.facts) {
    int64_t value = 0;
    if (!read_unchecked(fact.quantity, object_of(fact.quantity), &value)) return std::nullopt;
    if (value != sym::evaluate(fact.value, values)) broken.push_back(&fact);
  }
  for (const sym::Condition& condition : guards_.conditions)
    if (!sym::holds(condition, values)) return std::nullopt;
  return broken;
}

}  // namespace braze::guard
