#include "passes/partition.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>

#include "graph/arguments.h"
#include "graph/emitter.h"
#include "graph/infer/strides.h"
#include "graph/node_copier.h"
#include "graph/op_kind.h"
#include "graph/substitute.h"
#include "passes/activation_budget.h"
#include "passes/again.h"
#include "passes/made_otherwise.h"
#include "passes/unsupported.h"

namespace braze::passes {
namespace {

using graph::Graph;
using graph::Input;
using graph::InputKind;
using graph::Node;
using graph::NodeCopier;
using graph::OutputKind;
using graph::OutputRole;
using graph::Value;
using BackwardInput = Partition::BackwardInput;

class Cut {
 public:
  Cut(const Graph& joint, const PartitionOptions& options, MadeOtherwise instead)
      : joint_(joint),
        options_(options),
        instead_(std::move(instead)),
        needs_tangent_(joint.value_count()),
        in_forward_(joint.value_count()),
        of_seeds_(made_of_seeds(joint)),
        forward_(joint, partition_.forward),
        backward_(joint, partition_.backward) {}

  Partition run() {
    find_forward();
    choose_again();
    if (options_.activation_memory) keep_within(*options_.activation_memory);
    build_forward();
    build_backward();
    return std::move(partition_);
  }

 private:
  // What depends on no tangent and can be seen by the user belongs to the forward, with all that it
  // needs.
  void find_forward() {
    for (const Input& input : joint_.inputs())
      needs_tangent_[input.value->id()] = input.kind == InputKind::kTangent;
    std::vector<const Value*> open(options_.early.begin(), options_.early.end());
    for (const auto& node : joint_.nodes()) {
      bool reached = false;
      for (const Value* operand : node->operands()) reached |= needs_tangent_[operand->id()];
      for (const Value* result : node->results())
        if (result) needs_tangent_[result->id()] = reached;
      if (reached || !is_seen(*node)) continue;
      seen_.insert(node.get());
      for (const Value* operand : node->operands()) open.push_back(operand);
    }
    for (size_t i = 0; i < joint_.outputs().size(); ++i)
      if (joint_.output_roles()[i].kind == OutputKind::kUser) open.push_back(joint_.outputs()[i]);
    for (const graph::Mutation& mutation : joint_.mutations()) open.push_back(mutation.source);
    add_to_forward(std::move(open));
  }

  // Them, and all that they are made of.
  void add_to_forward(std::vector<const Value*> open) {
    while (!open.empty()) {
      const Value* value = open.back();
      open.pop_back();
      BRAZE_CHECK(!needs_tangent_[value->id()], "what a call gives needs a tangent");
      if (in_forward_[value->id()]) continue;
      in_forward_[value->id()] = true;
      if (!value->producer()) continue;
      for (const Value* operand : value->producer()->operands()) open.push_back(operand);
    }
  }

  bool is_in_forward(const Node& node) const {
    if (seen_.contains(&node)) return true;
    return std::any_of(node.results().begin(), node.results().end(),
                       [&](const Value* result) { return result && in_forward_[result->id()]; });
  }

  // Whether the backward makes the node's results again, though the forward computes them.
  bool is_made_again(const Node& node) const {
    if (is_free(node) || again_.contains(&node)) return true;
    return !node.results().empty() &&
           std::all_of(node.results().begin(), node.results().end(),
                       [&](const Value* result) { return result && of_seeds_[result->id()]; });
  }

  std::set<int> visible_storages() const {
    std::set<int> visible;
    for (size_t i = 0; i < joint_.outputs().size(); ++i)
      if (joint_.output_roles()[i].kind == OutputKind::kUser)
        visible.insert(joint_.outputs()[i]->storage());
    for (const graph::Mutation& mutation : joint_.mutations()) {
      visible.insert(mutation.target->storage());
      visible.insert(mutation.source->storage());
    }
    return visible;
  }

  void keep_within(int64_t bytes) {
    Passage passage{joint_,
                    [&](const Node& node) { return is_in_forward(node); },
                    [&](const Node& node) { return is_made_again(node); },
                    [&](const Value* value) { return chosen(value); },
                    visible_storages(),
                    {}};
    for (const graph::Mutation& mutation : joint_.mutations())
      passage.written.insert(mutation.target->storage());
    again_.merge(made_again_within(bytes, passage));
  }

  // What is pointwise, or a norm's result, of what is kept anyway need not be kept.
  void choose_again() {
    const std::set<int> visible = visible_storages();
    again_ = checkpointed(joint_, visible, [&](const Node& node) { return is_in_forward(node); });
    find_taken(visible);
    const auto is_taken = [&](const Value* value) { return taken_.contains(value); };
    for (const auto& node : joint_.nodes()) {
      for (const Value* result : node->results()) {
        if (!result || !taken_.contains(result) || visible.contains(result->storage())) continue;
        const auto other = instead_.find(result);
        std::set<const Node*> chain;
        bool of_kept = other != instead_.end() && other->second.taken.empty();
        if (is_cheap(*node) && can_be_made(*node, chain, of_kept) && of_kept) {
          again_.insert(chain.begin(), chain.end());
        } else if (other != instead_.end() && std::ranges::all_of(other->second.taken, is_taken)) {
          used_instead_.emplace(result, other->second.value);
          add_to_forward(other->second.kept);
        }
      }
    }
  }

  // What the backward takes of the forward, and of the inputs, if nothing more is made again.
  void find_taken(const std::set<int>& visible) {
    const std::vector<const Node*> nodes = nodes_of_backward();
    const std::set<const Node*> made(nodes.begin(), nodes.end());
    const auto add = [&](const Value* value) {
      if (value->producer() && made.contains(value->producer())) return;
      if (value->producer() || !visible.contains(value->storage())) taken_.insert(value);
    };
    for (const Node* node : nodes)
      for (const Value* operand : node->operands()) add(operand);
    for (size_t i = 0; i < joint_.outputs().size(); ++i)
      if (joint_.output_roles()[i].kind == OutputKind::kGradient) add(joint_.outputs()[i]);
    for (const Input& input : joint_.inputs()) {
      if (input.kind == InputKind::kTangent) taken_.erase(input.value);
      if (input.kind == InputKind::kNumber) bound_.insert(input.value);
    }
  }

  // Collects the nodes that make the node's result of what is taken anyway: of nothing else, as
  // the user may change the rest between the forward and the backward. `of_kept`: some of it is
  // made by the forward.
  bool can_be_made(const Node& node, std::set<const Node*>& chain, bool& of_kept) const {
    if (chain.contains(&node)) return true;
    if (chain.size() >= kMostAgain) return false;
    chain.insert(&node);
    for (const Value* operand : node.operands()) {
      if (taken_.contains(operand)) {
        of_kept |= operand->producer() != nullptr;
        continue;
      }
      if (bound_.contains(operand)) continue;
      const Node* producer = operand->producer();
      if (!producer || (!is_cheap(*producer) && !is_free(*producer))) return false;
      if (!can_be_made(*producer, chain, of_kept)) return false;
    }
    return true;
  }

  const Value* chosen(const Value* value) const {
    const auto other = used_instead_.find(value);
    return other == used_instead_.end() ? value : other->second;
  }

  void build_forward() {
    Graph& graph = partition_.forward;
    for (const Input& input : joint_.inputs()) {
      if (input.kind == InputKind::kTangent) continue;
      inputs_.push_back(input.value);
      forward_.add_input(input);
    }
    for (const auto& node : joint_.nodes())
      if (is_in_forward(*node)) forward_.add(*node);
    for (size_t i = 0; i < joint_.outputs().size(); ++i)
      if (joint_.output_roles()[i].kind == OutputKind::kUser)
        outputs_.push_back(forward_.at(joint_.outputs()[i]));
    std::vector<graph::Mutation> mutations;
    for (const graph::Mutation& mutation : joint_.mutations())
      mutations.push_back({forward_.at(mutation.target), forward_.at(mutation.source)});
    graph.set_mutations(std::move(mutations));
    std::vector<graph::SymbolBinding> bindings = joint_.symbols();
    for (graph::SymbolBinding& binding : bindings)
      if (binding.input) binding.input = forward_.at(binding.input);
    graph.set_symbols(joint_.arena(), std::move(bindings));
    graph.set_conditions(joint_.conditions());
  }

  void build_backward() {
    Graph& graph = partition_.backward;
    std::vector<const Node*> nodes = nodes_of_backward();
    std::set<const Node*> made(nodes.begin(), nodes.end());
    // Inputs first; tangents stand last.
    for (const Node* node : nodes)
      for (const Value* operand : node->operands()) take(operand, made);
    for (size_t i = 0; i < joint_.outputs().size(); ++i)
      if (joint_.output_roles()[i].kind == OutputKind::kGradient) take(joint_.outputs()[i], made);
    int tangent = 0;
    for (const Input& input : joint_.inputs()) {
      if (input.kind != InputKind::kTangent) continue;
      backward_.add_input(input);
      partition_.backward_inputs.push_back({BackwardInput::Kind::kTangent, tangent++});
    }
    std::unordered_map<const Value*, const Value*> replaced;  // by what stands for them
    for (const auto& [value, other] : used_instead_) replaced.emplace(other, value);
    for (const Node* node : nodes) {
      backward_.add(*node);
      for (const Value* result : node->results())
        if (const auto value = replaced.find(result); value != replaced.end())
          backward_.set(value->second, backward_.at(result));
    }
    std::vector<Value*> gradients;
    for (size_t i = 0; i < joint_.outputs().size(); ++i)
      if (joint_.output_roles()[i].kind == OutputKind::kGradient)
        gradients.push_back(backward_.at(joint_.outputs()[i]));
    std::vector<OutputRole> roles(gradients.size(), {OutputKind::kGradient, {}});
    graph.set_outputs(std::move(gradients), std::move(roles));
    std::vector<graph::SymbolBinding> bindings;
    for (int i = 0; i < static_cast<int>(joint_.symbols().size()); ++i)
      bindings.push_back({graph::SymbolBinding::Kind::kScalar, nullptr, i});
    graph.set_symbols(joint_.arena(), std::move(bindings));
    graph.set_conditions(joint_.conditions());
    graph::take_own_arena(graph);
    roles.clear();
    for (const OutputRole& role : joint_.output_roles())
      if (role.kind == OutputKind::kUser) roles.push_back(role);
    roles.resize(outputs_.size(), {OutputKind::kSaved, {}});
    partition_.forward.set_outputs(outputs_, std::move(roles));
  }

  // What the gradients take that the forward does not compute, in its order, and what of the
  // forward is done again, each part as late as it is needed.
  std::vector<const Node*> nodes_of_backward() const {
    std::set<const Node*> needed;
    std::vector<const Value*> open;
    for (size_t i = 0; i < joint_.outputs().size(); ++i)
      if (joint_.output_roles()[i].kind == OutputKind::kGradient)
        open.push_back(joint_.outputs()[i]);
    while (!open.empty()) {
      const Node* node = chosen(open.back())->producer();
      open.pop_back();
      if (!node || needed.contains(node)) continue;
      if (is_in_forward(*node) && !is_made_again(*node)) continue;
      needed.insert(node);
      for (const Value* operand : node->operands()) open.push_back(operand);
    }
    std::vector<const Node*> nodes;
    for (const bool flows : {true, false})
      for (const auto& node : joint_.nodes())
        if (needed.contains(node.get()) && is_reached(*node) == flows)
          place_behind_operands(node.get(), needed, nodes);
    return nodes;
  }

  // Whether it depends on a tangent.
  bool is_reached(const Node& node) const {
    return std::ranges::any_of(node.results(), [&](const Value* result) {
      return result && needs_tangent_[result->id()];
    });
  }

  // Moves the node, and before it those of `open` that it needs, from there to the end of `nodes`.
  void place_behind_operands(const Node* last, std::set<const Node*>& open,
                             std::vector<const Node*>& nodes) const {
    std::vector<const Node*> path{last};
    while (!path.empty()) {
      const Node* node = path.back();
      const size_t before = path.size();
      for (const Value* operand : node->operands()) {
        const Node* producer = chosen(operand)->producer();
        if (producer && open.contains(producer)) path.push_back(producer);
      }
      if (path.size() > before) continue;
      path.pop_back();
      if (open.erase(node)) nodes.push_back(node);
    }
  }

  // Makes an input of the backward of what it does not make itself.
  void take(const Value* value, const std::set<const Node*>& made) {
    const Node* producer = chosen(value)->producer();
    if (backward_.has(value) || (producer && made.contains(producer))) return;
    const auto input = std::find(inputs_.begin(), inputs_.end(), value);
    if (input == inputs_.end() && !value->producer()) return;  // a tangent
    if (input == inputs_.end()) {
      if (const Value* target = written_with(value)) return keep_input(target, value);
      return keep(value, forward_.at(value));
    }
    const auto number = static_cast<size_t>(input - inputs_.begin());
    const bool is_written = std::any_of(joint_.mutations().begin(), joint_.mutations().end(),
                                        [&](const graph::Mutation& mutation) {
                                          return mutation.target->storage() == value->storage();
                                        });
    if (is_written) return keep(value, copy_of(value));
    const Input& of_joint = joint_.inputs()[number];
    const bool is_bound =
        of_joint.kind == InputKind::kConstant || of_joint.kind == InputKind::kNumber;
    if (is_bound)
      backward_.add_input(of_joint);
    else
      backward_.add_input(value, InputKind::kSaved, of_joint.name);
    partition_.backward_inputs.push_back({BackwardInput::Kind::kInput, static_cast<int>(number)});
  }

  // The input that holds just this when the forward is over. Null: there is none.
  const Value* written_with(const Value* value) const {
    const Value* target = nullptr;
    for (const graph::Mutation& mutation : joint_.mutations())
      if (mutation.source == value && mutation.target->type() == value->type())
        target = mutation.target;
    const auto is_of_it = [&](const graph::Mutation& mutation) {
      return mutation.target->storage() == target->storage();
    };
    return target && std::ranges::count_if(joint_.mutations(), is_of_it) == 1 ? target : nullptr;
  }

  // The input as the forward leaves it: as in eager, it may not be written to any more.
  void keep_input(const Value* input, const Value* value) {
    const auto place = std::ranges::find(inputs_, input);
    backward_.add_input(value, InputKind::kSaved, "saved" + std::to_string(value->id()));
    partition_.backward_inputs.push_back(
        {BackwardInput::Kind::kInput, static_cast<int>(place - inputs_.begin())});
  }

  void keep(const Value* value, Value* in_forward) {
    backward_.add_input(value, InputKind::kSaved, "saved" + std::to_string(value->id()));
    partition_.backward_inputs.push_back(
        {BackwardInput::Kind::kOutput, static_cast<int>(outputs_.size())});
    outputs_.push_back(in_forward);
  }

  // What an input holds before the forward writes to it.
  Value* copy_of(const Value* input) {
    if (!graph::is_dense(input->type()))
      throw Unsupported("backward",
                        "it needs what a tensor with gaps held before it was written to");
    Value* copy = graph::Emitter(partition_.forward, nullptr)(graph::OpKind::kclone,
                                                              {forward_.at(input), graph::None{}});
    return copy;
  }

  const Graph& joint_;
  const PartitionOptions& options_;
  const MadeOtherwise instead_;                                  // what could be made otherwise
  std::unordered_map<const Value*, const Value*> used_instead_;  // what is, in the backward
  std::set<const Node*> again_;                                  // done again in the backward
  std::set<const Value*> taken_;                                 // find_taken
  std::set<const Value*> bound_;                                 // numbers of the call
  std::vector<bool> needs_tangent_, in_forward_;                 // by value
  const std::vector<bool> of_seeds_;                             // made_of_seeds
  std::set<const Node*> seen_;        // that belong to the forward for their effects
  std::vector<const Value*> inputs_;  // of the forward, in the joint graph
  std::vector<Value*> outputs_;       // of the forward
  Partition partition_;
  NodeCopier forward_, backward_;
};

}  // namespace

Partition partition(Graph& joint, const PartitionOptions& options) {
  MadeOtherwise instead = made_otherwise(joint);
  return Cut(joint, options, std::move(instead)).run();
}

}  // namespace braze::passes
