#include "passes/twins.h"

#include <vector>

#include "graph/in_place.h"
#include "graph/op_kind.h"

namespace braze::passes {

using graph::Op;

namespace {

// "aten.add_.Tensor" in its parts; the overload may be empty.
struct OpName {
  std::string_view base;      // "add_"
  std::string_view overload;  // "Tensor"
};

OpName parts(std::string_view name) {
  constexpr std::string_view kNamespace = "aten.";
  if (!name.starts_with(kNamespace)) return {};
  name.remove_prefix(kNamespace.size());
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return {name, {}};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

std::string join(std::string_view base, std::string_view overload) {
  std::string name = "aten." + std::string(base);
  if (!overload.empty()) name += "." + std::string(overload);
  return name;
}

const Op* known(const std::string& name) {
  const Op& op = graph::find_or_add_op(name);
  return op.kind == graph::OpKind::kUnknown ? nullptr : &op;
}

// Whether the out= variant of this op takes the arguments of the functional one and `out`.
bool has_usual_out_variant(const Op& op) {
  return op.has(graph::kUsualOut) || (op.pointwise && !op.has(graph::kOtherOut));
}

const Op* twin_of_out_variant(std::string_view base, std::string_view overload) {
  std::vector<std::string> candidates;
  if (overload != "out")
    candidates = {join(base, overload.substr(0, overload.size() - 4))};
  else if (base.starts_with("clamp"))  // clamp.out takes numbers, clamp.Tensor_out tensors
    candidates = {join(base, "")};
  else
    candidates = {join(base, "Tensor"), join(base, "")};
  for (const std::string& candidate : candidates) {
    const Op* twin = known(candidate);
    if (twin && has_usual_out_variant(*twin)) return twin;
  }
  return nullptr;
}

}  // namespace

const Op* drawing_twin(const Op& op) {
  const std::string_view twin = graph::drawing_name(op.name);
  return twin.empty() ? nullptr : &graph::find_or_add_op(twin, {.random = true});
}

bool is_out_variant(const Op& op) {
  const OpName name = parts(op.name);
  return name.overload == "out" || name.overload.ends_with("_out");
}

const Op* functional_twin(const Op& op) {
  const auto [base, overload] = parts(op.name);
  if (base.empty()) return nullptr;
  if (is_out_variant(op)) return twin_of_out_variant(base, overload);
  const std::string name = graph::functional_name(op.name);
  if (name.empty()) return nullptr;
  if (op.effects.mutates != std::vector<int>{0} && !op.effects.inplace_view) return nullptr;
  if (op.effects.inplace_view) return &graph::find_or_add_op(name, {.results_alias = {0}});
  return &graph::find_or_add_op(name);
}

}  // namespace braze::passes
