#include "graph/substitute.h"

namespace braze::graph {
namespace {

// Replaces each expression `e` of the graph by `replaced(e)`.
template <class Replaced>
void replace_expressions(Graph& graph, const Replaced& replaced) {
  auto settle = [&](Value* value) {
    TensorType type = value->type();
    for (sym::Int& size : type.sizes) size = replaced(size);
    for (sym::Int& stride : type.strides) stride = replaced(stride);
    type.offset = replaced(type.offset);
    value->set_type(std::move(type));
  };
  for (const Input& input : graph.inputs()) settle(input.value);
  for (const auto& node : graph.nodes()) {
    for (size_t i = 0; i < node->args().size(); ++i) {
      if (auto* scalar = std::get_if<sym::Int>(&node->args()[i])) {
        if (!scalar->is_constant()) node->set_arg(static_cast<int>(i), replaced(*scalar));
      } else if (auto* list = std::get_if<std::vector<sym::Int>>(&node->args()[i])) {
        std::vector<sym::Int> values = *list;
        for (sym::Int& value : values) value = replaced(value);
        node->set_arg(static_cast<int>(i), std::move(values));
      }
    }
    for (Value* value : node->results()) {
      if (value) settle(value);
    }
  }
}

}  // namespace

Graph substitute(const Graph& graph, std::span<const int64_t> values) {
  BRAZE_CHECK(values.size() == graph.symbols().size(), "one value for each symbol");
  Graph result = graph.clone();
  replace_expressions(result,
                      [&](const sym::Int& e) { return sym::Int(sym::evaluate(e, values)); });
  result.set_symbols(nullptr, {});
  return result;
}

void take_own_arena(Graph& graph) {
  if (!graph.is_symbolic()) return;
  const sym::ExprArena& shared = *graph.arena();
  auto own = std::make_shared<sym::ExprArena>();
  std::vector<sym::Int> symbols;
  for (int i = 0; i < shared.symbol_count(); ++i)
    symbols.emplace_back(own->symbol(shared.name(i), shared.symbol_expr(i)->hint, shared.range(i)));
  sym::Replacement replaced(symbols);
  replace_expressions(graph, [&](const sym::Int& e) { return replaced(e); });
  std::vector<sym::Condition> conditions = graph.conditions();
  for (sym::Condition& condition : conditions)
    condition = {condition.relation, replaced(condition.a), replaced(condition.b)};
  graph.set_symbols(std::move(own), graph.symbols());
  graph.set_conditions(std::move(conditions));
}

}  // namespace braze::graph
