#include "passes/chunked_loss.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <unordered_map>

#include "graph/arguments.h"
#include "graph/emitter.h"
#include "graph/infer/promotion.h"
#include "graph/infer/strides.h"
#include "graph/op_kind.h"
#include "passes/again.h"
#include "passes/aliasing.h"
#include "passes/loss_reduction.h"
#include "passes/loss_region.h"

namespace braze::passes {
namespace {

using graph::Argument;
using graph::DType;
using graph::Emitter;
using graph::Graph;
using graph::Node;
using graph::None;
using graph::OpKind;
using graph::TensorType;
using graph::Value;
using sym::Int;

constexpr int64_t kMostChunks = 8;

// Which values stand for others at an earlier place.
class Earlier {
 public:
  // Behind `place` nothing is there yet; `region` never is.
  Earlier(Graph& graph, Node* place, const LossRegion& region)
      : graph_(graph), place_(place), depends_(graph.value_count()) {
    for (const graph::Input& input : graph.inputs())
      depends_[input.value->id()] = input.kind == graph::InputKind::kTangent;
    std::set<const Node*> members;
    for (const RegionMember& member : region.members) members.insert(member.node);
    bool is_before = true;
    for (const auto& node : graph.nodes()) {
      is_before &= node.get() != place;
      if (is_before) before_.insert(node.get());
      bool depends = members.contains(node.get());
      // A factory's operand tells of sizes alone.
      if (node->op().op_class != graph::OpClass::kFactory)
        for (const Value* operand : node->operands()) depends |= depends_[operand->id()];
      for (const Value* result : node->results())
        if (result) depends_[result->id()] = depends;
    }
  }

  // Whether it can be had at the place: it depends neither on the region nor on a tangent, and is
  // there, or is made again of what is.
  bool has(const Value* value) const {
    int count = kMostAgain;
    return has(value, count);
  }

  Value* at(Value* value) {
    Node* node = value->producer();
    if (!node || before_.contains(node)) return value;
    Value*& copy = copies_[value];
    if (copy) return copy;
    Emitter emit(graph_, place_);
    if (node->op().kind == OpKind::kones_like) return copy = emit.full(value->type(), 1.0);
    std::vector<Argument> args = node->args();
    for (Argument& argument : args)
      if (auto* operand = std::get_if<Value*>(&argument)) argument = at(*operand);
    const int alias = node->op().effects.aliased_argument(0);
    const int storage = alias < 0 ? -1 : std::get<Value*>(args[alias])->storage();
    return copies_[value] = emit.raw(node->op(), std::move(args), value->type(), storage);
  }

 private:
  bool has(const Value* value, int& count) const {
    const Node* node = value->producer();
    if (depends_[value->id()]) return false;
    if (!node || before_.contains(node)) return true;
    if (node->results().size() != 1 || --count < 0) return false;
    if (node->op().kind == OpKind::kones_like) return graph::is_row_major(value->type());
    if (!is_free(*node) && !is_cheap(*node)) return false;
    for (const Argument& argument : node->args())
      if (std::holds_alternative<std::vector<Value*>>(argument)) return false;
    return std::ranges::all_of(node->operands(),
                               [&](const Value* operand) { return has(operand, count); });
  }

  Graph& graph_;
  Node* place_;
  std::vector<bool> depends_;  // by value
  std::set<const Node*> before_;
  std::unordered_map<const Value*, Value*> copies_;
};

class Chunking {
 public:
  Chunking(Graph& graph, const LossRegion& region)
      : graph_(graph),
        region_(region),
        earlier_(graph, region.loss, region),
        reduction_(graph::int_arg(*region.loss, 3)),
        logarithms_(graph::tensor_arg(*region.loss, 0)->type().dtype) {}

  // Null: not possible. Else the gradients that are made for a one, without what multiplies them.
  std::optional<std::vector<Value*>> run(bool keeps) {
    if (!is_possible() || (keeps && is_unit_ && keeps_too_much())) return std::nullopt;
    mark_ = std::prev(place());
    emit_whole();
    const int64_t count = std::min(region_.row_count / kRowsOfChunk, kMostChunks);
    const int64_t size = (region_.row_count + count - 1) / count;
    for (int64_t begin = 0; begin < region_.row_count; begin += size)
      emit_chunk(begin, std::min(begin + size, region_.row_count));
    std::vector<Value*> made = replace();
    for (const RegionMember& member : std::views::reverse(region_.members))
      graph_.erase(member.node);
    return made;
  }

 private:
  using Place = std::list<std::unique_ptr<Node>>::const_iterator;

  bool is_possible() {
    const Value* incoming = graph::tensor_arg(*region_.gradient, 0);
    is_unit_ = !earlier_.has(incoming);
    if (is_unit_ && !region_.is_linear) return false;
    for (const RegionMember& member : region_.members) {
      for (const Value* operand : member.node->operands())
        if (operand != incoming && operand->producer() != region_.loss && !region_.holds(operand) &&
            !earlier_.has(operand))
          return false;
    }
    return true;
  }

  // Gradients live on until they are asked for, in place of the logits, and are then multiplied.
  bool keeps_too_much() const {
    int64_t bytes = 0;
    for (const RegionMember& member : region_.members)
      if (is_exit(member.role)) bytes += bytes_of(member.node->result()->type());
    return 2 * bytes > bytes_of(region_.product->result()->type());
  }

  Place place() const {
    return std::ranges::find(graph_.nodes(), region_.loss,
                             [](const auto& node) { return node.get(); });
  }

  // What has been made since the last call stands for `node`.
  void tell_origin(const Node& node, bool of_gradient = false) {
    graph::OriginId id = node.origin();
    if (of_gradient) {
      graph::Origin origin = id < 0 ? graph::Origin() : *graph_.origin(id);
      origin.is_backward = true;
      id = graph_.add_origin(std::move(origin));
    }
    while (std::next(mark_)->get() != region_.loss) {
      ++mark_;
      (*mark_)->set_origin(id);
    }
  }

  Value* number(DType dtype, Argument value) {
    return emit_.full(graph::make_type(dtype, {}, region_.product->result()->type().device),
                      std::move(value));
  }

  // What the chunks have in common.
  void emit_whole() {
    Value* incoming = graph::tensor_arg(*region_.gradient, 0);
    incoming_ = is_unit_ ? number(incoming->type().dtype, 1.0) : earlier_.at(incoming);
    emit_total();
    tell_origin(*region_.loss);
  }

  // The weights of the rows that are not to be ignored, in the dtype of the sums of eager.
  void emit_total() {
    const Node& loss = *region_.loss;
    const DType dtype = graph::compute_dtype(logarithms_);
    Value *target = graph::tensor_arg(loss, 1), *weight = graph::optional_tensor_arg(loss, 2);
    Value* ignored = emit_(OpKind::keq_Scalar, {target, loss.args().at(4)});
    Value* share = number(dtype, 1.0);
    if (weight) {
      Value* column = emit_.where(ignored, number(DType::kInt64, Int(0)), target);
      share = emit_.cast(emit_(OpKind::kindex_select, {weight, Int(0), column}), dtype);
    }
    total_ = emit_(OpKind::ksum, {emit_.where(ignored, number(dtype, 0.0), share), None{}});
  }

  void emit_chunk(int64_t begin, int64_t end) {
    begin_ = begin;
    end_ = end;
    chunk_.clear();
    for (const RegionMember& member : region_.members) {
      emit_member(member);
      tell_origin(*member.node, is_of_gradient(member));
    }
  }

  bool is_of_gradient(const RegionMember& member) const {
    return is_exit(member.role) || region_.of_gradient.contains(member.node->results()[0]);
  }

  void emit_member(const RegionMember& member) {
    const Node& node = *member.node;
    if (member.role == RowRole::kLoss) return emit_loss(node);
    if (is_exit(member.role)) return emit_exit(member);
    Value*& made = chunk_[node.result()];
    if (&node == region_.gradient)
      made = emit_gradient(node);
    else if (member.role == RowRole::kTurned)
      made = emit_(OpKind::kt, {at(node.operands()[0])});
    else
      made = node.op().view ? at(node.operands()[0]) : emit_rows(node);
  }

  // The node for the rows of the chunk.
  Value* emit_rows(const Node& node) {
    std::vector<Argument> args = node.args();
    for (Argument& argument : args)
      if (auto* operand = std::get_if<Value*>(&argument)) argument = at(*operand);
    if (&node == region_.product) {
      Argument& rows = args[node.op().kind == OpKind::kmm ? 0 : 1];
      rows = rows_of(std::get<Value*>(rows));
    }
    const TensorType& type = node.result()->type();
    return emit_.raw(
        node.op(), std::move(args),
        graph::make_type(type.dtype, {Int(end_ - begin_), type.sizes.back()}, type.device));
  }

  // Sums, as what is a number for each row could be put off until all of them are joined, and hold
  // the logits of all chunks.
  void emit_loss(const Node& loss) {
    const Value* weight = graph::optional_tensor_arg(loss, 2);
    Value* each = emit_(OpKind::knll_loss_forward,
                        {at(graph::tensor_arg(loss, 0)), rows_of(graph::tensor_arg(loss, 1)),
                         weight ? loss.args()[2] : None{}, Int(kEach), loss.args()[4]});
    Value* sum = emit_(OpKind::ksum, {emit_.cast(each, graph::compute_dtype(logarithms_)), None{}});
    loss_ = loss_ ? emit_.add(loss_, sum) : sum;
  }

  Value* emit_gradient(const Node& node) {
    std::vector<Argument> args = node.args();
    args[0] = incoming_;
    args[1] = at(graph::tensor_arg(node, 1));
    args[2] = rows_of(graph::tensor_arg(node, 2));
    args[6] = emit_.cast(total_, logarithms_);
    const TensorType& type = node.result()->type();
    return emit_.raw(
        node.op(), std::move(args),
        graph::make_type(type.dtype, {Int(end_ - begin_), type.sizes[1]}, type.device));
  }

  void emit_exit(const RegionMember& member) {
    const Node& node = *member.node;
    Value* rows = at(graph::tensor_arg(node, 0));
    std::vector<Value*>& parts = parts_[&node];
    if (member.role == RowRole::kColumns) {
      std::vector<Argument> args = node.args();
      args[0] = rows;
      Value* sum = emit_(OpKind::ksum_dim_IntList, std::move(args));
      if (parts.empty())
        parts.push_back(sum);
      else
        parts[0] = emit_.add(parts[0], sum);
      return;
    }
    Value* matrix = earlier_.at(graph::tensor_arg(node, 1));
    if (member.role == RowRole::kPart) {
      parts.push_back(emit_(OpKind::kmm, {rows, matrix}));
    } else if (parts.empty()) {
      parts.push_back(emit_(OpKind::kmm, {rows, rows_of(matrix)}));
    } else {
      parts[0] = emit_(OpKind::kaddmm, {parts[0], rows, rows_of(matrix), Int(1), Int(1)});
    }
  }

  // What stands for a value in this chunk: a part of it, or all where it is the same for each row.
  Value* at(Value* value) {
    const auto known = chunk_.find(value);
    return known == chunk_.end() ? earlier_.at(value) : known->second;
  }

  // The rows of the chunk of a value that is not of the region.
  Value* rows_of(Value* value) {
    value = earlier_.at(value);
    Value*& rows = slices_[{value, begin_}];
    if (!rows) rows = emit_(OpKind::kslice_Tensor, {value, Int(0), Int(begin_), Int(end_), Int(1)});
    return rows;
  }

  std::vector<Value*> replace() {
    Value* loss = reduction_ == kMean ? emit_.div(loss_, total_) : loss_;
    graph_.replace_all_uses(region_.loss->result(), emit_.cast(loss, logarithms_));
    if (Value* total = region_.loss->result(1))
      graph_.replace_all_uses(total, emit_.cast(total_, logarithms_));
    tell_origin(*region_.loss);
    std::vector<Value*> units;
    for (const RegionMember& member : region_.members) {
      if (!is_exit(member.role)) continue;
      const std::vector<Value*>& parts = parts_[member.node];
      Value* made = member.role == RowRole::kPart ? emit_(OpKind::kcat, {parts, Int(0)}) : parts[0];
      tell_origin(*member.node, true);
      if (is_unit_) {
        units.push_back(made);
        made = multiplied(made, member.node);
      }
      graph_.replace_all_uses(member.node->result(), made);
    }
    return units;
  }

  // What is ignored has no gradient, whatever comes to the loss.
  Value* multiplied(Value* made, Node* place) {
    Emitter emit(graph_, place);
    Value* product = emit.mul(made, graph::tensor_arg(*region_.gradient, 0));
    return emit.where(emit(OpKind::keq_Scalar, {made, 0.0}), made, product);
  }

  Graph& graph_;
  const LossRegion& region_;
  Earlier earlier_;
  Emitter emit_{graph_, region_.loss};
  const int64_t reduction_;
  const DType logarithms_;
  bool is_unit_ = false;       // gradients are made for a one
  Place mark_;                 // the last node that has its origin
  Value* incoming_ = nullptr;  // the gradient that comes to the loss
  Value* total_ = nullptr;     // the weight of all rows
  // Of the current chunk:
  int64_t begin_ = 0, end_ = 0;
  std::unordered_map<const Value*, Value*> chunk_;
  // Of all that have been made:
  std::map<std::pair<const Value*, int64_t>, Value*> slices_;  // by where they begin
  Value* loss_ = nullptr;                                      // a sum
  std::unordered_map<const Node*, std::vector<Value*>> parts_;
};

// Whether the graph changed. `kept`: null where forward and backward are one.
bool chunk(Graph& graph, std::vector<Value*>* kept) {
  std::vector<Node*> losses;
  for (const auto& node : graph.nodes())
    if (node->op().kind == OpKind::knll_loss_forward) losses.push_back(node.get());
  bool changed = false;
  for (Node* loss : losses) {
    const std::optional<LossRegion> region = find_loss_region(graph, loss);
    if (!region) continue;
    const auto units = Chunking(graph, *region).run(kept != nullptr);
    if (!units) continue;
    if (kept) kept->insert(kept->end(), units->begin(), units->end());
    changed = true;
  }
  if (changed) recompute_storages(graph);
  return changed;
}

}  // namespace

bool chunk_losses(Graph& graph) { return chunk(graph, nullptr); }

std::vector<Value*> chunk_losses_of_joint(Graph& joint) {
  std::vector<Value*> kept;
  chunk(joint, &kept);
  return kept;
}

}  // namespace braze::passes
