// Inside of guard/: ShapeGuards as they are checked on every call.
#pragma once

#include <optional>
#include <span>

#include "guard/shapes.h"
#include "guard/tree.h"

namespace braze::guard {

class ShapeCheck {
 public:
  ShapeCheck(ShapeGuards guards, const Tree& tree);

  bool empty() const { return guards_.symbols.empty() && guards_.facts.empty(); }
  // On the objects and tensors that `tree` holds after its own check.
  bool holds(const Tree& tree);
  std::span<const int64_t> values() const { return values_; }

  using SourceText = std::string (*)(const Source*, void*);
  // As the user would write them: "x.size(0) == y.size(0)".
  std::vector<std::string> describe(SourceText text, void* context) const;
  // The first that fails for these objects (by tree node), with the numbers; empty if none does.
  std::string failure(std::span<const cpython::Ref> objects, const Tree& tree, SourceText text,
                      void* context) const;
  // Facts that do not hold for these objects; nothing if a condition or a type fails.
  std::optional<std::vector<const ShapeGuards::Fact*>> broken_facts(
      std::span<const cpython::Ref> objects, const Tree& tree) const;

 private:
  struct Place {
    int tensor = -1;  // index into Tree::tensors
    int node = -1;
  };
  Place place_of(const Quantity& quantity, const Tree& tree) const;
  std::vector<sym::Int> names(SourceText text, void* context, sym::ExprArena& arena) const;

  ShapeGuards guards_;
  std::vector<Place> symbols_, facts_;
  std::vector<int64_t> values_;
};

}  // namespace braze::guard
