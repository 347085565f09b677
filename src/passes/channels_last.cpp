#include "passes/channels_last.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "graph/arguments.h"
#include "graph/emitter.h"
#include "graph/infer/infer.h"
#include "graph/infer/strides.h"
#include "graph/op_kind.h"
#include "passes/aliasing.h"
#include "passes/dce.h"
#include "passes/decompose_rules.h"

namespace braze::passes {

using graph::Argument;
using graph::DType;
using graph::Emitter;
using graph::Graph;
using graph::MemoryFormat;
using graph::Node;
using graph::OpClass;
using graph::OpKind;
using graph::TensorType;
using graph::Value;
using sym::Dims;
using sym::Int;

namespace {

// Copies may take this part of the bytes that the library is spared. Equal bytes are no gain: a
// copy is a launch of its own, and for some sizes the library has kernels that need no turning.
constexpr int64_t kSparedPerCopied = 2;

Dims channels_last(const Dims& sizes) {
  return graph::format_strides(sizes, MemoryFormat::kChannelsLast, graph::traced_sizes());
}

// Whether channels-last strides of these sizes put elements elsewhere than row-major ones.
bool has_own_order(const Dims& sizes) {
  return sizes.size() == 4 && sizes[1] != Int(1) && (sizes[2] != Int(1) || sizes[3] != Int(1));
}

bool is_channels_last(const TensorType& type) {
  return type.rank() == 4 && type.strides == channels_last(type.sizes);
}

bool same_places(const TensorType& a, const TensorType& b) {
  for (size_t i = 0; i < a.sizes.size(); ++i)
    if (a.sizes[i] != Int(1) && a.strides[i] != b.strides[i]) return false;
  return true;
}

int64_t bytes_of(const TensorType& type) {
  return type.numel().hint() * graph::size_of(type.dtype);
}

const graph::Op& convolution_backward() {
  static const graph::Op& op = graph::find_or_add_op("aten.convolution_backward");
  return op;
}

// A convolution's call, or that of its gradients.
struct Convolution {
  int first;  // argument: the input, behind it the weight
  bool is_backward;
  Value *input, *weight;
  Value* gradient;  // of the output; null: no backward
};

std::optional<Convolution> convolution_of(const Node& node) {
  const bool is_backward = &node.op() == &convolution_backward();
  if (!is_backward && node.op().kind != OpKind::kconvolution) return std::nullopt;
  const int first = is_backward ? 1 : 0;
  return Convolution{.first = first,
                     .is_backward = is_backward,
                     .input = graph::tensor_arg(node, first),
                     .weight = graph::tensor_arg(node, first + 1),
                     .gradient = is_backward ? graph::tensor_arg(node, 0) : nullptr};
}

bool is_wanted(const Node& node, const Convolution& conv, ChannelsLast which) {
  const TensorType &input = conv.input->type(), &weight = conv.weight->type();
  const DType dtype = input.dtype;
  if (!graph::is_half(dtype) && (dtype != DType::kFloat32 || which != ChannelsLast::kAll))
    return false;
  if (input.rank() != 4 || weight.rank() != 4 || weight.dtype != dtype ||
      (conv.gradient && conv.gradient->type().dtype != dtype))
    return false;
  const auto is_empty = [](const TensorType& type) {
    return std::ranges::find(type.sizes, Int(0)) != type.sizes.end();
  };
  if (is_empty(input) || is_empty(weight)) return false;
  const bool is_grouped =
      graph::sym_arg(node, conv.first + 8) != Int(1) && weight.sizes[1] != Int(1);
  return which == ChannelsLast::kAll || !is_grouped;
}

bool takes_any_layout(const graph::Op& op) {
  static const std::unordered_set<std::string_view> names = {
#define ANY(name) name,
#define LIKE(name, argument)
#include "graph/layout_facts.inc"
#undef LIKE
#undef ANY
  };
  return names.contains(op.name);
}

// The argument as which the first result lies; -1: a rule of graph/infer/ tells.
int argument_followed(const graph::Op& op) {
  static const std::unordered_map<std::string_view, int> followed = {
#define ANY(name)
#define LIKE(name, argument) {name, argument},
#include "graph/layout_facts.inc"
#undef LIKE
#undef ANY
  };
  const auto found = followed.find(op.name);
  return found == followed.end() ? -1 : found->second;
}

// Whether the operator computes the same for operands in another layout.
bool goes_on(const Node& node) {
  const graph::Op& op = node.op();
  if (op.effects.random || op.effects.opaque || !node.mutated_arguments().empty()) return false;
  switch (op.op_class) {
    case OpClass::kPointwise:
    case OpClass::kIndexing:
    case OpClass::kReduction:
      return true;
    case OpClass::kView:  // these say where elements lie
      return op.kind != OpKind::kas_strided && op.kind != OpKind::k_reshape_alias;
    case OpClass::kUnknown:
    case OpClass::kExtern:
      return takes_any_layout(op);
    case OpClass::kFactory:  // these look at metadata, which a copy that is never made has too
    case OpClass::kRandom:
      return false;
  }
  return false;
}

using Substitutes = std::unordered_map<Value*, Value*>;

void substitute(Argument& argument, const Substitutes& taken) {
  if (auto* value = std::get_if<Value*>(&argument)) {
    *value = taken.at(*value);
  } else if (auto* list = std::get_if<std::vector<Value*>>(&argument)) {
    for (Value*& each : *list) each = taken.at(each);
  } else if (auto* optional = std::get_if<graph::OptionalRefs<Value*>>(&argument)) {
    for (std::optional<Value*>& each : optional->refs)
      if (each) each = taken.at(*each);
  }
}

class Relayout {
 public:
  Relayout(Graph& graph, ChannelsLast which) : graph_(graph), which_(which) {}

  bool run() {
    for (auto place = graph_.nodes().begin(); place != graph_.nodes().end();) {
      Node* node = (place++)->get();
      if (const auto conv = convolution_of(*node))
        turn_convolution(node, *conv);
      else if (goes_on(*node))
        carry_on(node);
    }
    if (!changed_) return false;
    eliminate_dead_code(graph_);
    recompute_storages(graph_);
    return true;
  }

  bool pays() const {
    int64_t copied = 0;
    for (const auto& node : graph_.nodes())
      if (copies_.contains(node.get()) && is_made(*node))
        copied += bytes_of(node->result()->type());
    return copied * kSparedPerCopied <= spared_;
  }

 private:
  // Whether a copy moves anything: not where what computes its elements can as well write them in
  // its order, or where nothing reads them.
  static bool is_made(const Node& copy) {
    const Value* source = graph::tensor_arg(copy, 0);
    if (source->producer() && source->producer()->op().pointwise && source->users().size() == 1)
      return false;
    return !std::ranges::all_of(copy.result()->users(), [](const Node* user) {
      return user->op().op_class == OpClass::kFactory;
    }) || copy.result()->users().empty();
  }

  // The value in the layout that comes, if that is another than its own.
  Value* as_it_comes(Value* value) const {
    const auto found = last_.find(value);
    return found == last_.end() ? value : found->second;
  }

  // With channels-last strides, a copy where nothing has them.
  Value* with_channels_last(Emitter& emit, Value* value) {
    value = as_it_comes(value);
    if (is_channels_last(value->type())) return value;
    Value*& copy = copied_[value];
    if (!copy) {
      copy = emit(OpKind::kclone, {value, MemoryFormat::kChannelsLast});
      copies_.insert(copy->producer());
    }
    return copy;
  }

  void turn_convolution(Node* node, const Convolution& conv) {
    if (!is_wanted(*node, conv, which_)) return;
    const Dims& input = conv.input->type().sizes;
    const Value* output = conv.is_backward ? conv.gradient : node->results()[0];
    // Of maps of one point channels are innermost anyway.
    if (!has_own_order(input) && !has_own_order(output->type().sizes)) return;
    // Here PyTorch does something else with them.
    if (!conv.is_backward && is_channels_last(conv.input->type()) && has_own_order(input) &&
        has_own_order(output->type().sizes) && !is_channels_last(output->type()))
      return;
    Emitter emit(graph_, node);
    std::vector<Argument> args = node->args();
    args[conv.first] = with_channels_last(emit, conv.input);
    const auto turn = [&](int i, Value* value) {
      args[i] =
          has_own_order(value->type().sizes) ? with_channels_last(emit, value) : as_it_comes(value);
    };
    turn(conv.first + 1, conv.weight);
    if (conv.gradient) turn(0, conv.gradient);
    if (args == node->args()) return;
    std::vector<TensorType> types = types_of(*node);
    for (size_t i = 0; i < types.size(); ++i)
      if (node->results()[i] && has_own_order(types[i].sizes))
        types[i].strides = channels_last(types[i].sizes);
    for (const Value* value : node->operands()) spare(value->type());
    for (const Value* result : node->results())
      if (result) spare(result->type());
    replace(node, std::move(args), std::move(types));
  }

  void spare(const TensorType& type) {
    if (has_own_order(type.sizes) && !is_channels_last(type)) spared_ += bytes_of(type);
  }

  // Of results; those that are undefined have that of the first.
  static std::vector<TensorType> types_of(const Node& node) {
    std::vector<TensorType> types;
    const auto first = std::ranges::find_if(node.results(), [](Value* value) { return value; });
    for (const Value* result : node.results())
      types.push_back(result ? result->type() : (*first)->type());
    return types;
  }

  void carry_on(Node* node) {
    const std::vector<Value*> operands = node->operands();
    const auto comes = [&](Value* value) { return as_it_comes(value) != value; };
    if (std::ranges::none_of(operands, comes) || !can_be_copied(*node)) return;
    Emitter emit(graph_, node);
    Substitutes taken;
    for (Value* operand : operands) taken[operand] = as_it_comes(operand);
    if (node->op().pointwise || node->op().kind == OpKind::kcat) join(emit, *node, taken);
    std::vector<Argument> args = node->args();
    for (Argument& argument : args) substitute(argument, taken);
    const auto types = types_with(*node, args);
    if (!types) return;
    if (node->op().view) {
      carry_view(node, std::move(args), *types);
      return;
    }
    Value* copied = node->op().kind == OpKind::kclone ? as_it_comes(operands[0]) : nullptr;
    const Node* made = replace(node, std::move(args), *types);
    // Who reads a copy in another layout can as well read what was copied.
    if (copied && !last_.contains(made->result())) last_[made->result()] = copied;
  }

  // Elements of row-major operands are met in the order of the others.
  void join(Emitter& emit, const Node& node, Substitutes& taken) {
    const Dims& sizes = node.result()->type().sizes;
    const bool is_cat = node.op().kind == OpKind::kcat;
    const auto is_large = [&](const Value* value) {
      return has_own_order(value->type().sizes) && (is_cat || value->type().sizes == sizes);
    };
    const auto leads = [&](const auto& pair) {
      return pair.first != pair.second && is_large(pair.first) &&
             is_channels_last(pair.second->type());
    };
    if (std::ranges::none_of(taken, leads)) return;
    for (Value* operand : node.operands())
      if (is_large(operand) && taken[operand]->type().is_contiguous())
        taken[operand] = with_channels_last(emit, operand);
  }

  // Whether results of another layout could be given back the one that they have.
  static bool can_be_copied(const Node& node) {
    return std::ranges::all_of(node.results(), [](const Value* result) {
      return !result ||
             (!graph::is_complex(result->type().dtype) &&
              (result->producer()->op().view || !graph::may_overlap_itself(result->type())));
    });
  }

  // The results' types for these arguments. Empty: not known, or others than in their layout.
  std::optional<std::vector<TensorType>> types_with(const Node& node,
                                                    const std::vector<Argument>& args) const {
    std::vector<TensorType> types = types_of(node);
    if (const int followed = argument_followed(node.op()); followed >= 0) {
      if (!is_channels_last(graph::tensor_arg(args, followed)->type())) return std::nullopt;
      if (node.results()[0] && has_own_order(types[0].sizes))
        types[0].strides = channels_last(types[0].sizes);
      return types;
    }
    auto inferred = graph::infer_types(node.op(), args);
    if (!inferred && node.op().pointwise && types.size() == 1) {
      std::vector<const TensorType*> operands;
      for (const Argument& argument : args)
        graph::for_each_value(argument, [&](Value* value) { operands.push_back(&value->type()); });
      inferred = types;
      inferred->at(0).strides = graph::pointwise_strides(operands, types[0].sizes);
    }
    if (!inferred || inferred->size() != types.size()) return std::nullopt;
    for (size_t i = 0; i < types.size(); ++i) {
      TensorType& type = inferred->at(i);
      if (!node.results()[i] || type.dtype != types[i].dtype || type.sizes != types[i].sizes)
        return std::nullopt;
      type.device = types[i].device;
      if (!node.op().view && same_places(type, types[i])) type = types[i];
    }
    return inferred;
  }

  // The view stays as well, for who needs its strides or its memory.
  void carry_view(Node* node, std::vector<Argument> args, std::vector<TensorType> types) {
    const std::vector<int> storages(types.size(), graph::tensor_arg(args, 0)->storage());
    const Node* made = graph_.add_node(node->op(), std::move(args), std::move(types),
                                       node->origin(), node, storages);
    for (size_t i = 0; i < node->results().size(); ++i)
      last_[node->results()[i]] = made->results()[i];
  }

  // A node of these arguments and types takes the place of the node; its results are copied into
  // the layout of the old ones for who needs that.
  Node* replace(Node* node, std::vector<Argument> args, std::vector<TensorType> types) {
    changed_ = true;
    for (size_t i = 0; i < types.size(); ++i)
      if (node->results()[i] && is_seen(node->results()[i]) &&
          same_places({.sizes = types[i].sizes, .strides = channels_last(types[i].sizes)},
                      types[i]))
        types[i].strides = channels_last(types[i].sizes);
    Node* made =
        graph_.add_node(node->op(), std::move(args), std::move(types), node->origin(), node);
    Emitter emit(graph_, node);
    for (size_t i = 0; i < node->results().size(); ++i) {
      Value* old = node->results()[i];
      if (!old) {
        graph_.set_result_undefined(made, static_cast<int>(i));
        continue;
      }
      Value* result = made->results()[i];
      if (result->type().strides == old->type().strides) {
        graph_.replace_all_uses(old, result);
        continue;
      }
      if (same_places(result->type(), old->type())) {
        const TensorType& type = old->type();
        graph_.replace_all_uses(
            old, emit(OpKind::kas_strided, {result, type.sizes, type.strides, graph::None{}}));
        continue;
      }
      Value* copy = emit_copy(emit, result, old->type().strides);
      copies_.insert(copy->producer());
      last_[copy] = result;
      graph_.replace_all_uses(old, copy);
    }
    graph_.erase(node);
    return made;
  }

  // Whether PyTorch makes it and the user gets it, or a view of it, as it is: dimensions of size 1
  // with the strides that PyTorch gives them.
  bool is_seen(const Value* result) const {
    const OpClass op_class = result->producer()->op().op_class;
    return (op_class == OpClass::kExtern || op_class == OpClass::kUnknown) &&
           result->type().rank() == 4 &&
           std::ranges::any_of(graph_.outputs(), [&](const Value* output) {
             return output->storage() == result->storage();
           });
  }

  Graph& graph_;
  const ChannelsLast which_;
  std::unordered_map<const Value*, Value*> last_;    // the same elements in the layout that comes
  std::unordered_map<const Value*, Value*> copied_;  // to channels-last
  std::set<const Node*> copies_;
  int64_t spared_ = 0;  // bytes that the library turned
  bool changed_ = false;
};

bool has_any(const Graph& graph, ChannelsLast which) {
  return std::ranges::any_of(graph.nodes(), [&](const auto& node) {
    const auto conv = convolution_of(*node);
    return conv && is_wanted(*node, *conv, which);
  });
}

}  // namespace

bool use_channels_last(Graph& graph, ChannelsLast which) {
  if (which == ChannelsLast::kNone || !has_any(graph, which)) return false;
  if (which == ChannelsLast::kAll) return Relayout(graph, which).run();
  Graph turned = graph.clone();
  Relayout relayout(turned, which);
  if (!relayout.run() || !relayout.pays()) return false;
  graph = std::move(turned);
  return true;
}

}  // namespace braze::passes
