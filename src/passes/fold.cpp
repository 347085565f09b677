#include "passes/fold.h"

#include <algorithm>
#include <cmath>

#include "graph/arguments.h"
#include "graph/emitter.h"
#include "graph/infer/strides.h"
#include "graph/op_kind.h"
#include "passes/aliasing.h"
#include "passes/uniform.h"

namespace braze::passes {
namespace {

using graph::Argument;
using graph::DType;
using graph::Emitter;
using graph::Graph;
using graph::Node;
using graph::OpKind;
using graph::Value;

// Whether argument i is the number `value`, or a tensor filled with it.
bool is_uniform_number(const Node& node, int i, double value) {
  const std::optional<double> number = uniform_value(graph::ArgumentList(node)[i]);
  return number && *number == value && !std::signbit(*number);
}

// The operand that the node gives back unchanged, apart from its type; null: none.
Value* identity_operand(const Node& node) {
  auto tensor = [&](int i) -> Value* {
    const graph::ArgumentList arguments(node);
    auto* value = std::get_if<Value*>(&arguments[i]);
    return value ? *value : nullptr;
  };
  if (node.op().view || node.op().has(graph::kCopies)) return tensor(0);
  const bool is_exact_sum = is_integral(node.result()->type().dtype, true);
  switch (node.op().kind) {
    case OpKind::kmul_Tensor:
    case OpKind::kmul_Scalar:
      if (is_uniform_number(node, 1, 1)) return tensor(0);
      return is_uniform_number(node, 0, 1) ? tensor(1) : nullptr;
    case OpKind::kdiv_Tensor:
    case OpKind::kdiv_Scalar:
    case OpKind::kpow_Tensor_Scalar:
    case OpKind::kpow_Tensor_Tensor:
      return is_uniform_number(node, 1, 1) ? tensor(0) : nullptr;
    case OpKind::ksub_Tensor:
    case OpKind::ksub_Scalar:  // exact for floats too: -0.0 - 0 is -0.0
      return is_uniform_number(node, 1, 0) && is_uniform_number(node, 2, 1) ? tensor(0) : nullptr;
    case OpKind::kadd_Tensor:
    case OpKind::kadd_Scalar:
      if (!is_exact_sum || !is_uniform_number(node, 2, 1)) return nullptr;
      if (is_uniform_number(node, 1, 0)) return tensor(0);
      return is_uniform_number(node, 0, 0) ? tensor(1) : nullptr;
    default:
      return nullptr;
  }
}

// Whether something reads the offset in the value's type: further views count on it.
bool offset_matters(const Value* value) {
  return std::any_of(value->users().begin(), value->users().end(), [](const Node* user) {
    return user->op().op_class == graph::OpClass::kUnknown || user->op().view;
  });
}

// Whether the node's result is the operand. A view of the same type in the same memory is the same
// tensor, whatever the op. Other ops return the operand's values, and the type must be the same.
bool is_identity(const Node& node, const Value* operand) {
  graph::TensorType type = operand->type();
  if (!node.op().view && !offset_matters(node.result())) type.offset = node.result()->type().offset;
  return node.result()->type() == type;
}

// The value that owns the memory that `value` is a view of; `value` itself where it is no view.
const Value* memory_of(const Value* value) {
  while (const Node* node = value->producer()) {
    const int position = node->op().effects.aliased_argument(value->result_index());
    const Value* base = position < 0 ? nullptr : graph::optional_tensor_arg(*node, position);
    if (!base) break;
    value = base;
  }
  return value;
}

// PyTorch's kernels copy their argument with the memory around it.
bool keeps_surroundings(OpKind kind) {
  return kind == OpKind::kslice_scatter || kind == OpKind::kselect_scatter ||
         kind == OpKind::kdiagonal_scatter || kind == OpKind::kas_strided_scatter;
}

class Folder {
 public:
  explicit Folder(Graph& graph) : graph_(graph), aliasing_(graph) {}

  // Folds until nothing changes: a fold may make another possible further up.
  bool run() {
    bool changed = false;
    while (run_once()) {
      changed = true;
      recompute_storages(graph_);
      aliasing_ = Aliasing(graph_);
    }
    return changed;
  }

 private:
  bool run_once() {
    bool changed = false;
    for (auto place = graph_.nodes().begin(); place != graph_.nodes().end();) {
      Node* node = place->get();
      ++place;
      if (node->results().size() != 1 || !node->result()) continue;
      if (!node->mutated_arguments().empty()) continue;
      changed |= fold_identity(node) || fold_uniform(node) || fold_view_of_view(node);
    }
    return changed;
  }

  bool replace(Node* node, Value* with) {
    if (!aliasing_.replaceable(node->result(), with)) return false;
    aliasing_.replace(graph_, node->result(), with);
    graph_.erase(node);
    return true;
  }

  bool fold_identity(Node* node) {
    Value* operand = identity_operand(*node);
    return operand && is_identity(*node, operand) && !is_seen_in_less_memory(*node, operand) &&
           replace(node, operand);
  }

  // Whether the user sees the result, which begins where its memory does and fills it, while the
  // operand is a part of another tensor's memory.
  bool is_seen_in_less_memory(const Node& node, const Value* operand) const {
    if (node.op().view || !aliasing_.reaches_output(node.result())) return false;
    const Value* whole = memory_of(operand);
    if (whole->producer() && keeps_surroundings(whole->producer()->op().kind)) return true;
    return whole->type().numel() != operand->type().numel() ||
           operand->type().offset != node.result()->type().offset;
  }

  bool fold_uniform(Node* node) {
    const graph::TensorType& type = node->result()->type();
    if (node->op().kind == OpKind::kfull || type.strides != sym::contiguous_strides(type.sizes))
      return false;
    // A view that the user sees keeps its memory.
    if (node->op().view && aliasing_.reaches_output(node->result())) return false;
    if (type.offset != sym::Int(0) && offset_matters(node->result())) return false;
    const std::optional<Argument> value = fold_to_uniform(*node);
    if (!value) return false;
    Emitter emit(graph_, node);
    Value* full = emit.full(type, *value);
    if (replace(node, full)) return true;
    graph_.erase(full->producer());
    return false;
  }

  // view(view(x)) -> view(x), permute(permute(x)) -> permute(x).
  bool fold_view_of_view(Node* node) {
    Value* middle = node->op().view ? graph::tensor_arg(*node, 0) : nullptr;
    const Node* inner = middle ? middle->producer() : nullptr;
    if (!inner || !inner->op().view) return false;
    auto is_reshape = [](const Node& n) {
      switch (n.op().kind) {
        case OpKind::kview:
        case OpKind::k_unsafe_view:
        case OpKind::kunsqueeze:
        case OpKind::ksqueeze:
        case OpKind::ksqueeze_dim:
        case OpKind::ksqueeze_dims:
          return true;
        default:
          return false;
      }
    };
    Value* base = graph::tensor_arg(*inner, 0);
    const graph::TensorType& type = node->result()->type();
    if (base->type() == type && replace(node, base)) return true;
    Emitter emit(graph_, node);
    if (node->op().kind == OpKind::kpermute && inner->op().kind == OpKind::kpermute) {
      const std::vector<int64_t> outer = graph::ints_arg(*node, 1);
      std::vector<int64_t> order;
      for (int64_t dim : outer) {
        const auto rank = static_cast<int64_t>(outer.size());
        order.push_back(graph::normalize_dim(
            graph::ints_arg(*inner, 1)[graph::normalize_dim(dim, rank)], rank));
      }
      return replace_view(node, emit.permute(graph::tensor_arg(*inner, 0), std::move(order)));
    }
    const bool reshapes =
        (node->op().kind == OpKind::kview || node->op().kind == OpKind::k_unsafe_view) &&
        is_reshape(*inner);
    if (!reshapes) return false;
    const auto strides = graph::view_strides(base->type(), type.sizes);
    if (!strides || *strides != type.strides) return false;
    return replace_view(node, emit(OpKind::kview, {base, type.sizes}));
  }

  bool replace_view(Node* node, Value* with) {
    if (with->type() == node->result()->type() && replace(node, with)) return true;
    graph_.erase(with->producer());
    return false;
  }

  Graph& graph_;
  Aliasing aliasing_;
};

}  // namespace

bool fold(Graph& graph) { return Folder(graph).run(); }

}  // namespace braze::passes
