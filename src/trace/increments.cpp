// Counters: tensors of one float from outside to which the traced code adds constants.
#include "graph/call_facts.h"
#include "graph/graph.h"
#include "trace/trace_state.h"

namespace braze::trace {

namespace {

std::optional<double> number(const graph::Argument& argument) {
  if (const auto* real = std::get_if<double>(&argument)) return *real;
  const auto* integer = std::get_if<sym::Int>(&argument);
  if (!integer || !integer->is_constant()) return std::nullopt;
  return static_cast<double>(integer->constant());
}

bool shares_memory(const graph::Node& node, const graph::Value& value) {
  for (const graph::Value* result : node.results())
    if (result && result->storage() == value.storage()) return true;
  return false;
}

}  // namespace

std::optional<std::vector<double>> TraceState::added_to(const at::Tensor& real) {
  const auto found = outside_.find(real.unsafeGetTensorImpl());
  if (found == outside_.end() || !found->second.fake.defined() || control_flow.is_used())
    return std::nullopt;
  const graph::Value* counter = as_fake(found->second.fake)->value;
  if (!counter || counter->producer() || counter->type().rank() != 0) return std::nullopt;
  for (const graph::Input& input : graph_.inputs())
    if (input.value != counter && input.value->storage() == counter->storage()) return std::nullopt;
  std::vector<double> added;
  for (graph::Node* user : counter->users()) {
    const bool writes = !user->mutated_arguments().empty();
    if (!writes && !shares_memory(*user, *counter)) continue;
    const std::vector<graph::Argument>& args = user->args();
    const bool in_place = graph::has_call_fact(user->op().name, graph::kAddsInPlace);
    if (!in_place || std::get<graph::Value*>(args[0]) != counter ||
        !user->result()->users().empty())
      return std::nullopt;
    std::optional<double> other = number(args[1]);
    if (const auto* constant = std::get_if<graph::Value*>(&args[1])) {
      if (*constant == counter || !constants_.contains(*constant) ||
          (*constant)->type().rank() != 0)
        return std::nullopt;
      other = constants_.evaluate(*constant).item().toDouble();
    }
    if (!other || number(args[2]) != 1.0) return std::nullopt;
    added.push_back(*other);
  }
  return added;
}

}  // namespace braze::trace
