#include "trace/elements.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "graph/op_kind.h"
#include "pytorch/operators.h"
#include "trace/fake_tensor.h"
#include "trace/trace_state.h"

namespace braze::trace {
namespace {

constexpr int64_t kRank = 4;
using ValueSet = std::unordered_set<const graph::Value*>;

std::string tensor_of_rank(int64_t rank) {
  return "a tensor of " + std::to_string(rank) + (rank == 1 ? " dimension" : " dimensions");
}

bool is_pointwise(const graph::Op& op) {
  if (op.pointwise) return true;
  if (op.op_class != graph::OpClass::kUnknown) return false;
  const auto handle = pytorch::find_operator(op.name);
  return handle && handle->hasTag(at::Tag::pointwise);
}

bool is_like_its_argument(const graph::Op& op) {
  return op.op_class == graph::OpClass::kFactory && op.name.ends_with("_like");
}

// Integers, or floats, of which an operator is given several.
int category_of(const graph::Value* value) {
  const graph::DType dtype = value->type().dtype;
  return graph::is_float(dtype) ? 2 : graph::is_integral(dtype, false) ? 1 : 0;
}

// Numbers have no dimensions, so that the widest dtype of a category decides. A real tensor without
// dimensions counts less than tensors of four.
bool promotes_otherwise(const graph::Node& node, const ValueSet& numbers) {
  std::vector<graph::DType> dtypes;
  int category = 1;
  for (const graph::Value* operand : node.operands())
    if (numbers.contains(operand)) category = std::max(category, category_of(operand));
  for (const graph::Value* operand : node.operands())
    if (numbers.contains(operand) && category_of(operand) == category)
      dtypes.push_back(operand->type().dtype);
  for (const graph::Value* operand : node.operands()) {
    if (numbers.contains(operand) || category_of(operand) != category) continue;
    const graph::DType dtype = operand->type().dtype;
    const auto is_wider = [&](graph::DType other) {
      return other != dtype && graph::size_of(other) <= graph::size_of(dtype);
    };
    if (!dtypes.empty() && std::all_of(dtypes.begin(), dtypes.end(), is_wider)) return true;
  }
  return false;
}

std::string looks_up_otherwise(const graph::Node& node, const ValueSet& numbers) {
  const auto* table = std::get_if<graph::Value*>(&node.args()[0]);
  const auto* indices = std::get_if<graph::OptionalRefs<graph::Value*>>(&node.args()[1]);
  if (!table || !indices || numbers.contains(*table)) return "it indexes what a table gives";
  bool each = static_cast<int64_t>(indices->refs.size()) == (*table)->type().rank();
  for (const auto& index : indices->refs) each &= index.has_value();
  if (!each) return "it looks up more than a number in a table";
  for (const auto& index : indices->refs) {
    if (!graph::is_integral((*index)->type().dtype, false)) return "it looks up a table by a mask";
    if (!numbers.contains(*index) && (*index)->type().rank() != 0)
      return "it looks up a table by " + tensor_of_rank((*index)->type().rank());
  }
  return "";
}

// Of a node that is given numbers.
std::string computes_otherwise(const graph::Node& node, const ValueSet& numbers) {
  const graph::Op& op = node.op();
  if (op.kind == graph::OpKind::kindex_Tensor) return looks_up_otherwise(node, numbers);
  if (op.kind == graph::OpKind::kdetach || op.kind == graph::OpKind::kalias) return "";
  if (op.op_class == graph::OpClass::kFactory) return "";
  if (!is_pointwise(op)) return op.name + " does not compute each number by itself";
  for (const graph::Value* operand : node.operands())
    if (!numbers.contains(operand) && operand->type().rank() != 0)
      return op.name + " is given " + tensor_of_rank(operand->type().rank());
  if (promotes_otherwise(node, numbers))
    return op.name + " is given a tensor of a wider dtype than its numbers";
  return "";
}

}  // namespace

Elements::Elements(const std::vector<at::Tensor>& arguments)
    : state_(*current_state()),
      first_value_(state_.graph().value_count()),
      last_node_(state_.graph().nodes().empty() ? nullptr : state_.graph().nodes().back().get()) {
  for (const at::Tensor& argument : arguments) {
    const FakeTensorImpl* fake = as_fake(argument);
    BRAZE_CHECK(fake && fake->value && argument.dim() == kRank, "numbers are computed");
    arguments_.insert(fake->value);
  }
}

bool Elements::may_hold(const at::Tensor& tensor) const {
  const FakeTensorImpl* fake = as_fake(tensor);
  if (!fake || !fake->value) return false;
  return fake->value->id() >= first_value_ || arguments_.contains(fake->value);
}

std::string Elements::why_not(const at::Tensor& result) const {
  std::vector<const graph::Node*> nodes;
  for (auto it = state_.graph().nodes().rbegin(); it != state_.graph().nodes().rend(); ++it) {
    if (it->get() == last_node_) break;
    nodes.push_back(it->get());
  }
  std::reverse(nodes.begin(), nodes.end());
  ValueSet numbers = arguments_;
  for (const graph::Node* node : nodes) {
    const graph::Op& op = node->op();
    if (op.effects.random) return op.name + " draws random numbers";
    if (!op.effects.mutates.empty() || op.effects.inplace_view) return op.name + " writes in place";
    if (op.effects.opaque) return op.name + " has an effect of its own";
    const std::vector<graph::Value*> operands = node->operands();
    const auto is_number = [&](const graph::Value* value) { return numbers.contains(value); };
    if (std::none_of(operands.begin(), operands.end(), is_number)) continue;
    if (std::string why = computes_otherwise(*node, numbers); !why.empty()) return why;
    if (op.op_class == graph::OpClass::kFactory && !is_like_its_argument(op)) continue;
    for (const graph::Value* made : node->results())
      if (made) numbers.insert(made);
  }
  const FakeTensorImpl* fake = as_fake(result);
  const bool is_number = (fake && numbers.contains(fake->value)) || result.dim() == 0;
  return is_number ? "" : "it gives " + tensor_of_rank(result.dim());
}

}  // namespace braze::trace
