#include "passes/made_otherwise.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "graph/arguments.h"
#include "graph/emitter.h"
#include "graph/infer/promotion.h"
#include "graph/op_kind.h"
#include "passes/few_rows.h"

namespace braze::passes {
namespace {

using graph::Emitter;
using graph::Graph;
using graph::Node;
using graph::OpKind;
using graph::Value;

class Finder {
 public:
  explicit Finder(Graph& joint) : joint_(joint) {
    for (const graph::Input& input : joint.inputs()) seen_.insert(input.value->storage());
    for (size_t i = 0; i < joint.outputs().size(); ++i)
      if (joint.output_roles()[i].kind == graph::OutputKind::kUser)
        seen_.insert(joint.outputs()[i]->storage());
    for (const graph::Mutation& mutation : joint.mutations())
      seen_.insert(mutation.source->storage());
  }

  MadeOtherwise run() {
    for (auto place = joint_.nodes().begin(); place != joint_.nodes().end();) {
      Node& node = **place;
      ++place;
      Node* next = place == joint_.nodes().end() ? nullptr : place->get();
      Emitter emit(joint_, next);
      switch (role_of(node)) {
        case Role::kLayerNorm:
          layer_norm(emit, node);
          break;
        case Role::kConversion:
          conversion(emit, node);
          break;
        case Role::kLogarithms:
          logarithms(emit, node);
          break;
        case Role::kOther:
          break;
      }
    }
    return std::move(found_);
  }

 private:
  enum class Role { kOther, kLayerNorm, kConversion, kLogarithms };

  static Role role_of(const Node& node) {
    const OpKind kind = node.op().kind;
    if (kind == OpKind::knative_layer_norm) return Role::kLayerNorm;
    if (kind == OpKind::k_to_copy) return Role::kConversion;
    return kind == OpKind::k_log_softmax ? Role::kLogarithms : Role::kOther;
  }

  void add(const Value* value, Otherwise other) {
    if (other.value->type() == value->type()) found_.emplace(value, std::move(other));
  }

  // (x - mean) * rstd * weight + bias as it is decomposed: halves are rounded once, at the end.
  void layer_norm(Emitter& emit, const Node& node) {
    const auto& results = node.results();
    if (results.size() != 3 || !results[0] || !results[1] || !results[2]) return;
    Value* x = graph::tensor_arg(node, 0);
    if (!graph::is_float(x->type().dtype)) return;
    const graph::DType dtype = graph::compute_dtype(x->type().dtype);
    const auto wide = [&](Value* value) { return emit.cast(value, dtype); };
    Value* out = emit.mul(emit.sub(wide(x), wide(results[1])), wide(results[2]));
    if (Value* weight = graph::optional_tensor_arg(node, 2)) out = emit.mul(out, wide(weight));
    if (Value* bias = graph::optional_tensor_arg(node, 3)) out = emit.add(out, wide(bias));
    out = emit.cast(out, results[0]->type().dtype);
    const std::vector<Value*> operands = node.operands();
    add(results[0], {out, {operands.begin(), operands.end()}, {}});
  }

  static bool is_wider(const Value* value, const Value* than) {
    return graph::is_half(than->type().dtype) && graph::is_float(value->type().dtype) &&
           !graph::is_half(value->type().dtype);
  }

  // What can be kept of the value, which takes no more memory than its elements. Null: nothing.
  Value* own(Value* value) const {
    const Value* root = value;
    while (root->producer() && root->producer()->op().op_class == graph::OpClass::kView)
      root = root->producer()->operands().at(0);
    const bool fits = root->producer() && root->type().numel() == value->type().numel();
    return fits && !seen_.contains(value->storage()) ? value : nullptr;
  }

  Value* copy_of(Emitter& emit, Value* value) {
    Value*& copy = copies_[value];
    if (!copy) copy = emit(OpKind::kclone, {value, graph::None{}});
    return copy;
  }

  void conversion(Emitter& emit, const Node& node) {
    Value *wide = node.result(), *narrow = graph::tensor_arg(node, 0);
    if (!is_wider(wide, narrow) || wide->type().device != narrow->type().device) return;
    Value* kept = own(narrow);
    if (!kept) kept = copy_of(emit, narrow);
    add(wide, {emit.cast(kept, wide->type().dtype), {}, {kept}});
  }

  // Where nothing reads all of them but the backward and what becomes one kernel with them.
  void logarithms(Emitter& emit, Node& node) {
    const Value* result = node.result();
    const auto has = [&](OpKind kind) {
      return std::ranges::any_of(result->users(),
                                 [&](const Node* user) { return user->op().kind == kind; });
    };
    if (seen_.contains(result->storage()) || !has(OpKind::k_log_softmax_backward_data)) return;
    const bool all_fuse = std::ranges::all_of(result->users(), [](const Node* user) {
      using Class = graph::OpClass;
      const Class of = user->op().op_class;
      return user->op().pointwise || of == Class::kReduction || of == Class::kIndexing;
    });
    if (!all_fuse) return;
    Value* x = graph::tensor_arg(node, 0);
    Emitter before(joint_, &node);
    const auto made = logarithms_of_classes(before, node);
    if (!made) return;
    Value* narrow = x;
    if (const Node* from = x->producer(); from && role_of(*from) == Role::kConversion)
      if (is_wider(x, graph::tensor_arg(*from, 0))) narrow = graph::tensor_arg(*from, 0);
    joint_.replace_all_uses(node.result(), made->result);
    joint_.erase(&node);
    Value* kept = own(narrow);
    if (!kept && !is_wider(made->result, narrow)) return;
    if (!kept) kept = copy_of(emit, narrow);
    Value* wide = emit.cast(kept, made->result->type().dtype);
    add(made->result,
        {emit.sub(emit.sub(wide, made->max), made->log_sum), {}, {kept, made->max, made->log_sum}});
  }

  Graph& joint_;
  std::set<int> seen_;  // storages of the caller's memory, and of what the call gives
  std::unordered_map<const Value*, Value*> copies_;
  MadeOtherwise found_;
};

}  // namespace

MadeOtherwise made_otherwise(Graph& joint) { return Finder(joint).run(); }

}  // namespace braze::passes
