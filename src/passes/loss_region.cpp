#include "passes/loss_region.h"

#include <algorithm>

#include "graph/arguments.h"
#include "graph/infer/strides.h"
#include "graph/op_kind.h"
#include "passes/again.h"
#include "passes/loss_reduction.h"

namespace braze::passes {
namespace {

using graph::Argument;
using graph::DType;
using graph::Graph;
using graph::Node;
using graph::OpKind;
using graph::TensorType;
using graph::Value;
using sym::Int;

constexpr int64_t kLeastBytes = 16 << 20;  // of logits; fewer stay in caches

class Search {
 public:
  Search(const Graph& graph, Node* loss) : graph_(graph) { region_.loss = loss; }

  std::optional<LossRegion> run() {
    if (!is_worth_it() || !find_product()) return std::nullopt;
    bool begun = false;
    for (const auto& node : graph_.nodes()) {
      begun |= node.get() == region_.product;
      if (begun && !add(node.get())) return std::nullopt;
    }
    if (!region_.gradient) return std::nullopt;
    return std::move(region_);
  }

 private:
  bool is_worth_it() {
    const Node& loss = *region_.loss;
    const TensorType& type = graph::tensor_arg(loss, 0)->type();
    const TensorType& target = graph::tensor_arg(loss, 1)->type();
    if (type.rank() != 2 || target.rank() != 1 || target.dtype != DType::kInt64 ||
        type.device.type != graph::Device::Type::kCPU || !type.numel().is_constant() ||
        !type.sizes[0].is_constant() || target.sizes[0] != type.sizes[0] ||
        graph::int_arg(loss, 3) == kEach)
      return false;
    region_.row_count = type.sizes[0].constant();
    region_.classes = type.sizes[1].constant();
    return bytes_of(type) >= kLeastBytes && region_.row_count >= 2 * kRowsOfChunk;
  }

  // [rows, classes], or several dimensions of rows.
  bool has_rows(const TensorType& type) const {
    return type.rank() >= 2 && type.sizes.back() == Int(region_.classes) &&
           type.numel() == Int(region_.row_count) * Int(region_.classes) &&
           graph::is_row_major(type);
  }

  bool find_product() {
    Value* value = graph::tensor_arg(*region_.loss, 0);
    while (true) {
      Node* node = value->producer();
      if (!node || !has_rows(value->type())) return false;
      if (node->op().kind == OpKind::kmm || node->op().kind == OpKind::kaddmm) {
        region_.product = node;
        return is_product(*node);
      }
      const std::vector<Value*> operands = node->operands();
      const auto next = std::ranges::find_if(
          operands, [&](const Value* operand) { return has_rows(operand->type()); });
      if (next == operands.end()) return false;
      value = *next;
    }
  }

  static bool is_product(const Node& node) {
    const DType dtype = node.result()->type().dtype;
    if (dtype != DType::kFloat32 && dtype != DType::kBFloat16) return false;
    return node.op().kind == OpKind::kmm || graph::tensor_arg(node, 0)->type().rank() < 2;
  }

  // False: the node stands in the way.
  bool add(Node* node) {
    const bool is_product = node == region_.product;
    const auto held = [&](const Value* value) { return region_.holds(value); };
    if (!is_product && std::ranges::none_of(node->operands(), held)) return true;
    const std::optional<RowRole> role = is_product ? RowRole::kRows : role_of(node);
    if (!role) return false;
    region_.members.push_back({node, *role});
    const auto from_gradient = [&](const Value* value) {
      return region_.of_gradient.contains(value);
    };
    const bool of_gradient =
        node == region_.gradient || std::ranges::any_of(node->operands(), from_gradient);
    if (is_exit(*role)) return of_gradient && graph::is_row_major(node->result()->type());
    if (*role == RowRole::kLoss) return true;
    const Value* result = node->result();
    (*role == RowRole::kTurned ? region_.turned : region_.rows).insert(result);
    if (of_gradient) region_.of_gradient.insert(result);
    if (of_gradient && node->op().pointwise && !node->op().has(graph::kCopies))
      region_.is_linear = false;
    const auto is_source = [&](const graph::Mutation& mutation) {
      return mutation.source == result;
    };
    return std::ranges::count(graph_.outputs(), result) == 0 &&
           std::ranges::none_of(graph_.mutations(), is_source);
  }

  std::optional<RowRole> role_of(Node* at) {
    const Node& node = *at;
    const bool same = node.results().size() == 1 && has_rows(node.result()->type());
    const OpKind kind = node.op().kind;
    if (kind == OpKind::knll_loss_forward) return if_so(is_the_loss(node), RowRole::kLoss);
    if (kind == OpKind::knll_loss_backward) return if_so(is_its_gradient(at), RowRole::kRows);
    if (kind == OpKind::k_log_softmax)
      return if_so(is_of_rows(node, 1) && !graph::bool_arg(node, 2), RowRole::kRows);
    if (kind == OpKind::k_log_softmax_backward_data)
      return if_so(is_of_rows(node, 2) && region_.rows.contains(graph::tensor_arg(node, 1)),
                   RowRole::kRows);
    if (kind == OpKind::kmm) return role_of_product(node);
    if (kind == OpKind::ksum_dim_IntList) return if_so(is_over_rows(node), RowRole::kColumns);
    if (node.op().view) {
      if (same && region_.rows.contains(node.operands()[0])) return RowRole::kRows;
      return if_so(is_turned(node), RowRole::kTurned);
    }
    return if_so(same && is_row_by_row(node), RowRole::kRows);
  }

  static std::optional<RowRole> if_so(bool condition, RowRole role) {
    return condition ? std::optional(role) : std::nullopt;
  }

  bool is_the_loss(const Node& node) const {
    return &node == region_.loss && region_.rows.contains(graph::tensor_arg(node, 0));
  }

  // grad, logarithms, target, weight, reduction, index to ignore, total weight
  bool is_its_gradient(Node* at) {
    const Node &node = *at, &loss = *region_.loss;
    if (region_.gradient) return false;
    for (int i = 0; i < 5; ++i)
      if (loss.args().at(i) != node.args().at(i + 1)) return false;
    const int64_t reduction = graph::int_arg(loss, 3);
    if (region_.holds(graph::tensor_arg(node, 0)) ||
        (reduction == kMean && graph::tensor_arg(node, 6) != loss.result(1)))
      return false;
    // Behind the loss: the region is computed in its place.
    const auto is_loss = [&](const RegionMember& member) { return member.node == &loss; };
    if (std::ranges::none_of(region_.members, is_loss)) return false;
    region_.gradient = at;
    return true;
  }

  bool is_of_rows(const Node& node, int dim) const {
    const TensorType& type = node.result()->type();
    return type.rank() == 2 && has_rows(type) &&
           region_.rows.contains(graph::tensor_arg(node, 0)) &&
           graph::normalize_dim(graph::int_arg(node, dim), 2) == 1;
  }

  std::optional<RowRole> role_of_product(const Node& node) const {
    const Value *a = graph::tensor_arg(node, 0), *b = graph::tensor_arg(node, 1);
    if (region_.holds(b)) return std::nullopt;
    return region_.turned.contains(a) ? RowRole::kSum : RowRole::kPart;
  }

  // x, dims, whether they stay, dtype
  bool is_over_rows(const Node& node) const {
    const Value* x = graph::tensor_arg(node, 0);
    const std::vector<int64_t> dims = graph::reduction_dims_arg(node, 1, x->type().rank());
    return region_.rows.contains(x) && x->type().rank() == 2 && dims == std::vector<int64_t>{0} &&
           graph::is_none(node, 3);
  }

  bool is_turned(const Node& node) const {
    const TensorType& type = node.result()->type();
    const Int rows(region_.row_count), classes(region_.classes);
    return region_.rows.contains(node.operands()[0]) && type.rank() == 2 &&
           type.sizes == sym::Dims{classes, rows} && type.strides == sym::Dims{Int(1), classes};
  }

  // Pointwise of rows, and of what is the same for each of them.
  bool is_row_by_row(const Node& node) const {
    if (!node.op().pointwise || is_seen(node)) return false;
    for (const Argument& argument : node.args())
      if (std::holds_alternative<std::vector<Int>>(argument)) return false;
    return std::ranges::all_of(node.operands(), [&](const Value* operand) {
      const TensorType& type = operand->type();
      if (region_.holds(operand))
        return region_.rows.contains(operand) && type.sizes == node.result()->type().sizes;
      return type.rank() == 0 || (type.rank() == 1 && type.sizes[0] == Int(region_.classes));
    });
  }

  const Graph& graph_;
  LossRegion region_;
};

}  // namespace

std::optional<LossRegion> find_loss_region(const Graph& graph, Node* loss) {
  return Search(graph, loss).run();
}

bool is_exit(RowRole role) {
  return role == RowRole::kPart || role == RowRole::kSum || role == RowRole::kColumns;
}

int64_t bytes_of(const TensorType& type) {
  return type.numel().constant() * graph::size_of(type.dtype);
}

}  // namespace braze::passes
