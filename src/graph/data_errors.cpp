#include "graph/data_errors.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "base/is_one_of.h"
#include "graph/arguments.h"
#include "sym/facts.h"

namespace braze::graph {
namespace {

// "scatter" of "aten.scatter.src" and "aten.scatter_.src"; empty for an op that is not PyTorch's.
std::string_view base_name(std::string_view name) {
  constexpr std::string_view kPrefix = "aten.";
  if (!name.starts_with(kPrefix)) return {};
  name.remove_prefix(kPrefix.size());
  name = name.substr(0, name.find('.'));
  if (name.ends_with('_') && !name.ends_with("__")) name.remove_suffix(1);
  return name;
}

bool is_total(std::string_view base) {
  static const std::unordered_set<std::string_view> names = {
#define X(name) name,
#include "graph/total_ops.inc"
#undef X
  };
  return names.contains(base);
}

// Integers divided by zero are an error.
bool divides(std::string_view base) {
  return is_one_of(base, {"div", "floor_divide", "remainder", "fmod"});
}

bool is_nonzero_number(const Argument& argument) {
  if (auto* integer = std::get_if<sym::Int>(&argument))
    return sym::known_positive(*integer) || sym::known_less(*integer, 0);
  return is_scalar(argument) && scalar_to_double(argument) != 0;
}

}  // namespace

bool may_refuse_data(const Op& op) {
  const std::string_view base = base_name(op.name);
  switch (op.op_class) {
    case OpClass::kPointwise:
      return divides(base);
    case OpClass::kIndexing:
      return is_one_of(base, {"embedding", "index", "_unsafe_index", "gather", "index_select",
                              "index_put", "index_add", "scatter", "scatter_add", "scatter_reduce",
                              "nll_loss_forward", "nll_loss_backward"});
    case OpClass::kRandom:
      return is_one_of(op.name, {"aten.bernoulli", "aten.multinomial"});  // probabilities
    case OpClass::kView:
    case OpClass::kFactory:
    case OpClass::kReduction:
    case OpClass::kExtern:
      return false;
    case OpClass::kUnknown:
      break;
  }
  const bool is_view = op.effects.aliased_argument(0) >= 0 && op.effects.mutates.empty();
  return !is_view && (divides(base) || !is_total(base));
}

bool may_refuse_data(const Node& node) {
  if (!may_refuse_data(node.op())) return false;
  if (!divides(base_name(node.op().name)) || node.args().size() < 2) return true;
  const Value* result = node.results().empty() ? nullptr : node.result();
  if (result && !is_integral(result->type().dtype, true)) return false;
  return !is_nonzero_number(node.args()[1]);
}

}  // namespace braze::graph
