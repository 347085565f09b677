#include "graph/data_errors.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "graph/arguments.h"
#include "graph/op_kind.h"
#include "graph/op_name.h"
#include "sym/facts.h"

namespace braze::graph {
namespace {

// "scatter" of "aten.scatter.src" and "aten.scatter_.src"; empty for an op that is not PyTorch's.
std::string_view base_name(std::string_view name) {
  constexpr std::string_view kPrefix = "aten.";
  if (!name.starts_with(kPrefix)) return {};
  return OpName(name).functional_base().substr(kPrefix.size());
}

bool is_total(std::string_view base) {
  static const std::unordered_set<std::string_view> names = {
#define X(name) name,
#include "graph/total_ops.inc"
#undef X
  };
  return names.contains(base);
}

// Integers divided by zero are an error, in the op's variants in place and with out= too.
bool divides(const Op& op) {
  static const std::unordered_set<std::string_view> names = [] {
    std::unordered_set<std::string_view> all;
    for (int kind = 1; kind < static_cast<int>(OpKind::kCount); ++kind)
      if (const Op& known = op_of(static_cast<OpKind>(kind)); known.has(kDivides))
        all.insert(base_name(known.name));
    return all;
  }();
  return op.has(kDivides) || (op.kind == OpKind::kUnknown && names.contains(base_name(op.name)));
}

bool is_nonzero_number(const Argument& argument) {
  if (auto* integer = std::get_if<sym::Int>(&argument))
    return sym::known_positive(*integer) || sym::known_less(*integer, 0);
  return is_scalar(argument) && scalar_to_double(argument) != 0;
}

}  // namespace

bool may_refuse_data(const Op& op) {
  if (op.kind != OpKind::kUnknown) return op.has(kRefusesData) || op.has(kDivides);
  const bool is_view = op.effects.aliased_argument(0) >= 0 && op.effects.mutates.empty();
  return !is_view && !is_total(base_name(op.name));
}

bool may_refuse_data(const Node& node) {
  if (!may_refuse_data(node.op())) return false;
  if (!divides(node.op()) || node.args().size() < 2) return true;
  const Value* result = node.results().empty() ? nullptr : node.result();
  if (result && !is_integral(result->type().dtype, true)) return false;
  return !is_nonzero_number(node.args()[1]);
}

}  // namespace braze::graph
