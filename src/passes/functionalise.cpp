#include "passes/functionalise.h"

#include <algorithm>
#include <unordered_map>

#include "graph/arguments.h"
#include "graph/in_place.h"
#include "graph/infer/infer.h"
#include "graph/infer/promotion.h"
#include "graph/infer/strides.h"
#include "graph/op_kind.h"
#include "passes/aliasing.h"
#include "passes/twins.h"
#include "passes/view_chain.h"

namespace braze::passes {
namespace {

using graph::Argument;
using graph::Emitter;
using graph::Graph;
using graph::Input;
using graph::InputKind;
using graph::Node;
using graph::Op;
using graph::OpKind;
using graph::TensorType;
using graph::Value;

class Functionaliser {
 public:
  Functionaliser(Graph& graph, bool keeps_histories)
      : graph_(graph), keeps_histories_(keeps_histories) {}

  void run() {
    find_memories();
    std::vector<Node*> nodes;
    for (const auto& node : graph_.nodes()) nodes.push_back(node.get());
    for (Node* node : nodes) visit(node);
    finish_outputs();
    finish_mutations();
    for (Node* node : std::vector(replaced_.rbegin(), replaced_.rend())) graph_.erase(node);
    recompute_storages(graph_);
  }

 private:
  // A storage that some node writes to.
  struct Memory {
    Value* root = nullptr;  // the input or result that first had it
    TensorType root_type;
    bool written_back = false;  // an input whose memory outlives the call
    Value* current = nullptr;   // functional contents of the root
    int version = 0;            // number of writes so far
  };
  // What stands for a value of a mutated storage.
  struct Latest {
    Value* value = nullptr;
    int version = -1;
  };

  void find_memories() {
    for (const auto& node : graph_.nodes()) {
      for (int position : node->mutated_arguments())
        for_each_value(node->args()[position],
                       [&](const Value* value) { memories_[value->storage()]; });
      if (node->op().effects.inplace_view)
        for (const Value* value : node->operands()) memories_[value->storage()];
    }
    for (const Input& input : graph_.inputs()) {
      Memory* memory = memory_of(input.value);
      if (!memory) continue;
      if (graph::may_overlap_itself(input.value->type()))
        throw Unsupported("input " + input.name,
                          "several of its elements lie in one place, and it is written to");
      if (!memory->root) {
        set_root(*memory, input.value);
        memory->written_back = input.kind != InputKind::kConstant;
        continue;
      }
      TensorType a = memory->root_type, b = input.value->type();
      if (a != b)
        throw Unsupported("input " + input.name,
                          "it shares memory with another input of other sizes, and one of them "
                          "is written to");
      link_same(input.value, memory->root);
    }
  }

  void set_root(Memory& memory, Value* root) {
    memory.root = root;
    memory.root_type = root->type();
    memory.current = root;
  }

  Memory* memory_of(const Value* value) {
    if (value->storage() < 0) return nullptr;
    auto found = memories_.find(value->storage());
    return found == memories_.end() ? nullptr : &found->second;
  }

  void link_same(Value* value, Value* parent) {
    links_[value] = {.parent = parent, .type = value->type(), .parent_type = parent->type()};
  }

  // Reading.

  // The functional value that `value` has at this point of the program.
  Value* latest(Value* value, Emitter& emit) {
    Memory* memory = memory_of(value);
    if (!memory) return value;
    if (value == memory->root) return memory->current;
    Latest& known = latest_[value];
    if (known.version == memory->version) return known.value;
    const ViewLink& link = link_of(value);
    Value* made = emit_view(emit, link, latest(link.parent, emit));
    latest_[value] = {made, memory->version};
    return made;
  }

  const ViewLink& link_of(const Value* value) {
    auto found = links_.find(value);
    if (found == links_.end())
      throw Unsupported(value->producer() ? value->producer()->op().name : "input",
                        "its result shares memory with a mutated tensor in an unknown way");
    return found->second;
  }

  void visit(Node* node) {
    if (!node->mutated_arguments().empty() || node->op().effects.inplace_view)
      return visit_mutation(node);
    Emitter emit(graph_, node);
    if (has_pieces(node->op()) && memory_of(graph::tensor_arg(*node, 0)))
      return visit_pieces(node, emit);
    const int aliased = node->results().empty() ? -1 : node->op().effects.aliased_argument(0);
    Value* parent = aliased >= 0 ? graph::optional_tensor_arg(*node, aliased) : nullptr;
    const std::vector<Argument> original = node->args();
    for (Value* operand : node->operands()) node->replace_operand(operand, latest(operand, emit));
    for (Value* result : node->results()) {
      if (!result) continue;
      Memory* memory = memory_of(result);
      if (!memory) continue;
      if (!memory->root && (!parent || parent->storage() != result->storage())) {
        set_root(*memory, result);
      } else if (parent && memory_of(parent) == memory && aliased == 0 &&
                 node->results().size() == 1) {
        note_view(node, result, parent, original, *memory);
      }
    }
  }

  // A view node that reads the latest parent: its result is up to date.
  void note_view(Node* node, Value* result, Value* parent, const std::vector<Argument>& original,
                 const Memory& memory) {
    ViewLink link{.parent = parent,
                  .op = &node->op(),
                  .args = original,
                  .type = result->type(),
                  .parent_type = parent->type()};
    if (link.op->kind == OpKind::kas_strided) {
      // It views the storage, whatever tensor it was called on.
      link.parent = memory.root;
      link.parent_type = memory.root_type;
    }
    links_[result] = link;
    if (memory.version == 0) {
      latest_[result] = {result, 0};
      return;
    }
    Emitter emit(graph_, node);
    replaced_.push_back(node);
    latest(result, emit);
  }

  // split, unbind of a mutated tensor: each piece becomes a view by itself.
  void visit_pieces(Node* node, Emitter& emit) {
    Value* parent = graph::tensor_arg(*node, 0);
    Memory& memory = *memory_of(parent);
    Value* base = latest(parent, emit);
    node->replace_operand(parent, base);
    for (Value* result : node->results()) {
      if (!result) continue;
      Value* piece = emit_piece(emit, *node, result->result_index());
      ViewLink link{.parent = parent,
                    .op = &piece->producer()->op(),
                    .args = piece->producer()->args(),
                    .type = result->type(),
                    .parent_type = parent->type()};
      links_[result] = std::move(link);
      latest_[result] = {piece, memory.version};
    }
    replaced_.push_back(node);
  }

  // Writing.

  void visit_mutation(Node* node) {
    replaced_.push_back(node);
    Emitter emit(graph_, node);
    if (node->op().effects.inplace_view) return visit_inplace_view(node, emit);
    const std::vector<int> mutated = node->mutated_arguments();
    if (node->op().has(graph::kRunningStatistics)) return visit_batch_norm(node, emit);
    if (mutated.size() != 1 || !std::holds_alternative<Value*>(node->args()[mutated[0]]))
      throw Unsupported(node->op().name, "it writes to several tensors at once");
    Value* target = graph::tensor_arg(*node, mutated[0]);
    Value* written = functional_result(*node, mutated[0], emit);
    write(target, written, emit, node->op());
    for (Value* result : node->results()) {
      if (result) link_same(result, target);
    }
  }

  // t_, squeeze_: the tensor is from now on the view.
  void visit_inplace_view(Node* node, Emitter& emit) {
    const Op* twin = functional_twin(node->op());
    if (!twin || !twin->view || node->results().size() != 1)
      throw Unsupported(node->op().name, "it changes the shape or memory of a tensor in place");
    Value* parent = graph::tensor_arg(*node, 0);
    links_[node->result()] = {.parent = parent,
                              .op = twin,
                              .args = node->args(),
                              .type = node->result()->type(),
                              .parent_type = parent->type()};
    latest(node->result(), emit);
  }

  // The new contents of the argument that `node` writes to.
  Value* functional_result(const Node& node, int position, Emitter& emit) {
    const TensorType& type = graph::tensor_arg(node, position)->type();
    std::vector<Argument> args = latest_args(node, emit);
    if (node.op().effects.random) return drawn_result(node, std::move(args), type, emit);
    const Op* twin = functional_twin(node.op());
    if (!twin) throw Unsupported(node.op().name, "it has no form that does not mutate");
    if (twin->kind == OpKind::kzeros_like || twin->kind == OpKind::kfill_Scalar) {
      Argument filled = twin->kind == OpKind::kzeros_like ? Argument(sym::Int(0)) : args.at(1);
      if (!keeps_histories_) return emit.full(type, std::move(filled));
      return emit(OpKind::kfill_Scalar, {args.at(0), std::move(filled)});
    }
    constexpr size_t kIndexPutArguments = 4;  // _index_put_impl_ has one more: whether to check
    if (twin->kind == OpKind::kindex_put && args.size() > kIndexPutArguments)
      args.resize(kIndexPutArguments);
    if (is_out_variant(node.op())) args.erase(args.begin() + position);
    constexpr int kDtype = 2;
    if (twin->has(graph::kWidensIntegers) && graph::is_integral(type.dtype, true) &&
        args.size() > kDtype)
      args[kDtype] = type.dtype;
    if (const auto types = graph::infer_types(*twin, args)) {
      if (!graph::can_cast(types->at(0).dtype, type.dtype))
        throw Unsupported(node.op().name,
                          "its result does not fit the dtype that it is written to");
      return emit.raw(*twin, args, types->at(0));
    }
    // Without a rule for its metadata: the op keeps dtype and sizes in place, and also out of place
    // if nothing promotes. From a contiguous tensor every such op makes a contiguous one; from
    // others some keep the strides.
    TensorType result = type;
    result.offset = 0;
    result.strides = sym::contiguous_strides(type.sizes);
    for (const Value* operand : node.operands()) {
      if (operand->type().dtype != type.dtype &&
          graph::kind_of(operand->type().dtype) > graph::DTypeKind::kSigned)
        throw Unsupported(node.op().name, "operands of different dtypes in an op without a rule");
    }
    if (position != 0) throw Unsupported(node.op().name, "it has no form that does not mutate");
    args[0] = emit.contiguous(std::get<Value*>(args[0]));
    return emit.raw(*twin, std::move(args), std::move(result));
  }

  // In which order the numbers go into a tensor that is not contiguous is the kernel's affair.
  Value* drawn_result(const Node& node, std::vector<Argument> args, const TensorType& type,
                      Emitter& emit) {
    const Op* twin = drawing_twin(node.op());
    if (!twin || !type.is_contiguous() || !std::holds_alternative<Value*>(args.at(0)))
      throw Unsupported(node.op().name, "it draws random numbers in place");
    TensorType drawn = type;
    drawn.offset = 0;
    args[0] = emit.contiguous(std::get<Value*>(args[0]));
    return emit.raw(*twin, std::move(args), std::move(drawn));
  }

  std::vector<Argument> latest_args(const Node& node, Emitter& emit) {
    std::vector<Argument> args = node.args();
    for (Argument& argument : args) {
      if (auto* value = std::get_if<Value*>(&argument)) {
        *value = latest(*value, emit);
      } else if (auto* list = std::get_if<std::vector<Value*>>(&argument)) {
        for (Value*& value : *list) value = latest(value, emit);
      } else if (auto* optional = std::get_if<graph::OptionalRefs<Value*>>(&argument)) {
        for (std::optional<Value*>& value : optional->refs) {
          if (value) value = latest(*value, emit);
        }
      }
    }
    return args;
  }

  // `target` now has the contents `written`.
  void write(Value* target, Value* written, Emitter& emit, const Op& op) {
    if (written->type().sizes != target->type().sizes)
      throw Unsupported(op.name, "its result has another size than the tensor it is written to");
    Memory& memory = *memory_of(target);
    Value* contents = emit.cast(written, target->type().dtype);
    bool is_hidden = false;
    for (Value* value = target; value != memory.root;) {
      const ViewLink& link = link_of(value);
      is_hidden |= link.op && link.op->kind == OpKind::kdetach;
      contents = emit_inverse(emit, link, latest(link.parent, emit), contents);
      value = link.parent;
    }
    if (is_hidden && keeps_histories_)
      contents = emit.raw(graph::find_or_add_op(graph::kWithHistory), {contents, memory.current},
                          contents->type());
    memory.current = with_layout(contents, memory, emit, op);
    ++memory.version;
  }

  // The contents in the memory layout that the root's views rely on.
  Value* with_layout(Value* contents, const Memory& memory, Emitter& emit, const Op& op) {
    const TensorType& wanted = memory.root_type;
    if (contents->type().strides == wanted.strides) return contents;
    if (!graph::is_dense(wanted)) {
      if (memory.written_back) return contents;
      throw Unsupported(op.name, "the tensor that it writes to has gaps in memory");
    }
    return emit(OpKind::kcopy, {memory.current, contents, false});
  }

  // Batch norm that trains: the new running statistics are results of its functional form. cuDNN's
  // has PyTorch's form from here on, and its reserve, which is for its own backward, is empty.
  void visit_batch_norm(Node* node, Emitter& emit) {
    std::vector<Argument> args = latest_args(*node, emit);
    if (graph::is_none(*node, 3) || graph::is_none(*node, 4))
      throw Unsupported(node->op().name, "it trains with one running statistic only");
    Node* functional = emit.node(OpKind::k_native_batch_norm_legit_functional, std::move(args));
    constexpr size_t kReserve = 3;
    for (size_t i = 0; i < node->results().size(); ++i) {
      Value* result = node->results()[i];
      if (!result) continue;
      Value* stands_for =
          i == kReserve ? emit.full(result->type(), sym::Int(0)) : functional->results()[i];
      stands_for->set_type(result->type());
      graph_.replace_all_uses(result, stands_for);
      if (memory_of(result)) renamed_root(result, stands_for);
    }
    if (memory_of(graph::tensor_arg(*node, 3)) == memory_of(graph::tensor_arg(*node, 4)))
      throw Unsupported(node->op().name, "both running statistics are in one memory");
    write(graph::tensor_arg(*node, 3), functional->results()[3], emit, node->op());
    write(graph::tensor_arg(*node, 4), functional->results()[4], emit, node->op());
  }

  void renamed_root(const Value* from, Value* to) {
    Memory& memory = *memory_of(from);
    to->set_storage(from->storage());
    set_root(memory, to);
  }

  // The end of the graph.

  void finish_outputs() {
    Emitter emit(graph_, nullptr);
    std::vector<Value*> outputs = graph_.outputs();
    for (Value*& output : outputs) {
      const Memory* memory = memory_of(output);
      if (!memory) continue;
      const bool lives_in_input = memory->written_back && memory->version > 0;
      output = lives_in_input ? on_input(output, emit) : latest(output, emit);
    }
    graph_.set_outputs(std::move(outputs), graph_.output_roles());
  }

  // The chain of views of `value`, on the input's own memory.
  Value* on_input(Value* value, Emitter& emit) {
    if (!value->producer()) return value;
    Value*& known = on_input_[value];
    if (!known) {
      const ViewLink& link = link_of(value);
      known = emit_view(emit, link, on_input(link.parent, emit));
    }
    return known;
  }

  void finish_mutations() {
    std::vector<graph::Mutation> mutations = graph_.mutations();
    for (const Input& input : graph_.inputs()) {
      const Memory* memory = memory_of(input.value);
      if (!memory || memory->root != input.value || !memory->written_back) continue;
      if (memory->version > 0) mutations.push_back({input.value, memory->current});
    }
    graph_.set_mutations(std::move(mutations));
  }

  Graph& graph_;
  const bool keeps_histories_;
  std::unordered_map<int, Memory> memories_;
  std::unordered_map<const Value*, ViewLink> links_;
  std::unordered_map<const Value*, Latest> latest_;
  std::unordered_map<const Value*, Value*> on_input_;
  std::vector<Node*> replaced_;  // in order of execution; erased at the end
};

bool mutates(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    return !node->mutated_arguments().empty() || node->op().effects.inplace_view;
  });
}

bool made_functional(Graph& graph, bool keeps_histories) {
  if (!mutates(graph)) return false;
  Graph copy = graph.clone();
  Functionaliser(copy, keeps_histories).run();
  graph = std::move(copy);
  return true;
}

}  // namespace

bool hides_histories(const Graph& graph) {
  const auto is_detached = [](const Value* value) {
    for (const Value* base; (base = graph::aliased_by(value)); value = base)
      if (value->producer()->op().kind == OpKind::kdetach) return true;
    return false;
  };
  return std::ranges::any_of(graph.nodes(), [&](const auto& node) {
    const std::vector<int> mutated = node->mutated_arguments();
    if (mutated.size() != 1 || node->op().has(graph::kRunningStatistics)) return false;
    const Op* twin = functional_twin(node->op());
    if (twin && (twin->kind == OpKind::kzeros_like || twin->kind == OpKind::kfill_Scalar))
      return true;
    const auto* target = std::get_if<Value*>(&node->args()[mutated[0]]);
    return target && is_detached(*target);
  });
}

bool functionalise(Graph& graph) { return made_functional(graph, false); }
bool functionalise_with_histories(Graph& graph) { return made_functional(graph, true); }

}  // namespace braze::passes
