#include "graph/substitute.h"

namespace braze::graph {

Graph substitute(const Graph& graph, std::span<const int64_t> values) {
  BRAZE_CHECK(values.size() == graph.symbols().size(), "one value for each symbol");
  Graph result = graph.clone();
  auto number = [&](sym::Int& value) { value = sym::evaluate(value, values); };
  auto settle = [&](Value* value) {
    TensorType type = value->type();
    for (sym::Int& size : type.sizes) number(size);
    for (sym::Int& stride : type.strides) number(stride);
    number(type.offset);
    value->set_type(std::move(type));
  };
  for (const Input& input : result.inputs()) settle(input.value);
  for (const auto& node : result.nodes()) {
    for (size_t i = 0; i < node->args().size(); ++i) {
      if (auto* scalar = std::get_if<sym::Int>(&node->args()[i])) {
        if (!scalar->is_constant())
          node->set_arg(static_cast<int>(i), sym::Int(sym::evaluate(*scalar, values)));
      } else if (auto* list = std::get_if<std::vector<sym::Int>>(&node->args()[i])) {
        std::vector<sym::Int> numbers = *list;
        for (sym::Int& value : numbers) number(value);
        node->set_arg(static_cast<int>(i), std::move(numbers));
      }
    }
    for (Value* value : node->results()) {
      if (value) settle(value);
    }
  }
  result.set_symbols(nullptr, {});
  return result;
}

}  // namespace braze::graph
