#include "passes/twins.h"

#include <algorithm>
#include <array>

namespace braze::passes {

using graph::Op;
using graph::OpKind;

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
  return op.kind == OpKind::kUnknown ? nullptr : &op;
}

// What an in-place op of this base name does has no counterpart by the naming rule.
constexpr std::array kWithoutTwin = {
    "resize_",  "resize_as_", "set_",           "set_data",       "random_",         "normal_",
    "uniform_", "bernoulli_", "cauchy_",        "exponential_",   "geometric_",      "log_normal_",
    "detach_",  "swap_",      "requires_grad_", "sparse_resize_", "_resize_output_", "as_strided_"};

}  // namespace

bool is_out_variant(const Op& op) {
  const OpName name = parts(op.name);
  return name.overload == "out" || name.overload.ends_with("_out");
}

bool is_batch_norm(const Op& op) {
  return op.kind == OpKind::knative_batch_norm || op.kind == OpKind::k_native_batch_norm_legit;
}

const Op* functional_twin(const Op& op) {
  const auto [base, overload] = parts(op.name);
  if (base.empty()) return nullptr;
  if (is_out_variant(op)) {
    std::vector<std::string> candidates;
    if (overload == "out")
      candidates = {join(base, "Tensor"), join(base, ""), join(base, "self")};
    else
      candidates = {join(base, overload.substr(0, overload.size() - 4))};
    for (const std::string& candidate : candidates) {
      if (const Op* twin = known(candidate)) return twin;
    }
    return nullptr;
  }
  if (!base.ends_with('_') ||
      std::find(kWithoutTwin.begin(), kWithoutTwin.end(), base) != kWithoutTwin.end())
    return nullptr;
  if (base == "zero_") return &graph::op_of(OpKind::kzeros_like);
  const std::string twin = join(base.substr(0, base.size() - 1), overload);
  // An op of the in-place kind that the list does not know keeps its arguments in their places.
  return op.effects.mutates == std::vector<int>{0} || op.effects.inplace_view
             ? &graph::find_or_add_op(twin)
             : nullptr;
}

}  // namespace braze::passes
