#include "capture/exit/shape_guards.h"

namespace braze::capture {

using guard::Quantity;
using sym::Int;

namespace {

// Collects what gives each symbol its value, and what must follow from that.
class Collector {
 public:
  Collector(std::shared_ptr<sym::ExprArena> arena, guard::ShapeGuards& shapes) : shapes_(shapes) {
    shapes_.arena = std::move(arena);
    shapes_.symbols.resize(static_cast<size_t>(shapes_.arena->symbol_count()));
  }

  void add(Quantity quantity, Int value) {
    const sym::Expr* e = value.expr();
    if (e && e->kind == sym::ExprKind::kSymbol) {
      Quantity& place = shapes_.symbols[static_cast<size_t>(e->symbol)];
      if (!place.source) {
        place = quantity;
        return;
      }
    }
    shapes_.facts.push_back({quantity, value});
  }

 private:
  guard::ShapeGuards& shapes_;
};

}  // namespace

std::string broken_marks(TraceContext& trace) {
  sym::ShapeEnv& shapes = trace.recording.shapes();
  for (const World::SymbolicTensor& input : trace.world.symbolic_tensors()) {
    const std::vector<int64_t> hints = sizes_of(input.tensor.get());
    for (const DynamicDimension& dim : input.dims) {
      if (!dim.mark.strict) continue;
      const int64_t hint = hints[static_cast<size_t>(dim.mark.dim)];
      const std::string name =
          trace.guards.text_of(input.source) + ".size(" + std::to_string(dim.mark.dim) + ")";
      const std::string marked = name + " is marked as dynamic (mark_dynamic), but ";
      if (hint < 2)
        return marked + "it is " + std::to_string(hint) +
               " in this call: sizes 0 and 1 are always compiled for themselves. Compile with a "
               "larger one first, or use maybe_mark_dynamic.";
      if (hint < dim.mark.range.low || hint > dim.mark.range.high)
        return name + " is " + std::to_string(hint) +
               ", outside of the range that it is marked with";
      const Int size = trace.recording.size_of(trace.world.stand_in(input), dim.mark.dim);
      if (!shapes.normal(size).is_constant()) continue;
      const sym::ShapeEnv::Guard* guard = shapes.why_constant(size);
      return marked + "the code works for the size " + std::to_string(hint) + " only" +
             (guard && !guard->place.empty() ? ", because of " + guard->place : "") +
             ". Change that line, or use maybe_mark_dynamic, which allows it.";
    }
  }
  return "";
}

void add_shape_guards(TraceContext& trace, const Recording::Result& recorded, Draft& draft) {
  if (!recorded.arena) return;
  World& world = trace.world;
  Collector collector(recorded.arena, draft.shapes);
  const auto& tensors = world.symbolic_tensors();
  BRAZE_CHECK(tensors.size() == recorded.shapes.size(), "symbolic tensors and their shapes differ");
  for (const bool strides : {false, true}) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const uint64_t free = strides ? tensors[i].free_strides : tensors[i].free_sizes;
      const sym::Dims& dims = strides ? recorded.shapes[i].strides : recorded.shapes[i].sizes;
      const Quantity::Kind kind = strides ? Quantity::Kind::kStride : Quantity::Kind::kSize;
      for (size_t d = 0; d < dims.size(); ++d)
        if (free >> d & 1) collector.add({kind, tensors[i].source, static_cast<int>(d)}, dims[d]);
    }
  }
  const auto& integers = world.symbolic_integers();
  for (size_t i = 0; i < integers.size(); ++i) {
    collector.add({Quantity::Kind::kInteger, integers[i].source, 0}, recorded.integers[i]);
    if (recorded.integers[i].is_constant())
      draft.fixed_integers.push_back(trace.guards.text_of(integers[i].source));
  }
  draft.shapes.conditions = recorded.conditions;
  draft.data_symbols = recorded.data_symbols;
  draft.assertions = recorded.assertions;
  for (recipe::Recipe::Action& action : draft.recipe.actions)
    action.number = sym::replace(action.number, recorded.values);
}

}  // namespace braze::capture
