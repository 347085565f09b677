#include "passes/twins.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

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

// In-place ops without a functional op of that name and those arguments. (All others of PyTorch
// have one; compared by schema.)
constexpr std::array<std::string_view, 30> kWithoutTwin = {"__ilshift__",
                                                           "__irshift__",
                                                           "resize_",
                                                           "resize_as_",
                                                           "set_",
                                                           "set_data",
                                                           "random_",
                                                           "normal_",
                                                           "uniform_",
                                                           "bernoulli_",
                                                           "cauchy_",
                                                           "exponential_",
                                                           "geometric_",
                                                           "log_normal_",
                                                           "detach_",
                                                           "swap_",
                                                           "requires_grad_",
                                                           "sparse_resize_",
                                                           "dropout_",
                                                           "as_strided_",
                                                           "alpha_dropout_",
                                                           "feature_dropout_",
                                                           "polygamma_",
                                                           "ldexp_",
                                                           "float_power_",
                                                           "fill_diagonal_",
                                                           "_resize_output_",
                                                           "_sobol_engine_ff_",
                                                           "_sobol_engine_initialize_state_",
                                                           "_sobol_engine_scramble_"};

// In-place ops whose functional op has another overload name.
constexpr std::array<std::pair<std::string_view, OpKind>, 6> kOtherNames = {{
    {"aten.zero_", OpKind::kzeros_like},
    {"aten.pow_.Scalar", OpKind::kpow_Tensor_Scalar},
    {"aten.pow_.Tensor", OpKind::kpow_Tensor_Tensor},
    {"aten.floor_divide_.Tensor", OpKind::kfloor_divide},
    {"aten.transpose_", OpKind::ktranspose_int},
    {"aten._index_put_impl_", OpKind::kindex_put},
}};

// The same arguments, in the same order.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kDrawing = {{
    {"aten.bernoulli_.float", "aten.bernoulli.p"},
    {"aten.bernoulli_.Tensor", "aten.bernoulli.Tensor"},
    {"aten.normal_", "aten.normal_functional"},
    {"aten.uniform_", "aten.uniform"},
    {"aten.exponential_", "aten.exponential"},
    {"aten.cauchy_", "aten.cauchy"},
    {"aten.geometric_", "aten.geometric"},
    {"aten.log_normal_", "aten.log_normal"},
    {"aten.random_", "aten.random"},
    {"aten.random_.from", "aten.random.from"},
    {"aten.random_.to", "aten.random.to"},
}};

// Whether the out= variant of this op takes the arguments of the functional one and `out`.
bool has_regular_out_variant(const Op& op) {
  switch (op.kind) {
    case OpKind::k_to_copy:
      return false;
    case OpKind::kmm:
    case OpKind::kbmm:
    case OpKind::kaddmm:
    case OpKind::kbaddbmm:
    case OpKind::kcat:
    case OpKind::kstack:
      return true;
    default:
      return op.pointwise;
  }
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
    if (twin && has_regular_out_variant(*twin)) return twin;
  }
  return nullptr;
}

}  // namespace

const Op* drawing_twin(const Op& op) {
  for (const auto& [in_place, functional] : kDrawing)
    if (op.name == in_place) return &graph::find_or_add_op(functional, {.random = true});
  return nullptr;
}

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
  if (is_out_variant(op)) return twin_of_out_variant(base, overload);
  for (const auto& [name, kind] : kOtherNames) {
    if (op.name == name) return &graph::op_of(kind);
  }
  if (!base.ends_with('_') ||
      std::find(kWithoutTwin.begin(), kWithoutTwin.end(), base) != kWithoutTwin.end())
    return nullptr;
  if (op.effects.mutates != std::vector<int>{0} && !op.effects.inplace_view) return nullptr;
  const std::string name = join(base.substr(0, base.size() - 1), overload);
  if (op.effects.inplace_view) return &graph::find_or_add_op(name, {.results_alias = {0}});
  return &graph::find_or_add_op(name);
}

}  // namespace braze::passes
