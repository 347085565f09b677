#include "passes/stages.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

#include "graph/emitter.h"
#include "graph/infer/strides.h"
#include "graph/node_copier.h"
#include "graph/op_kind.h"
#include "graph/substitute.h"
#include "passes/again.h"

namespace braze::passes {
namespace {

using graph::Graph;
using graph::Input;
using graph::InputKind;
using graph::Node;
using graph::Value;

int64_t bytes_of(const Value& value) {
  int64_t bytes = graph::size_of(value.type().dtype);
  for (const sym::Int& size : value.type().sizes) bytes *= size.hint();
  return bytes;
}

// In the order of their numbers, so that a graph is cut in the same way each time.
struct ByNumber {
  bool operator()(const Value* a, const Value* b) const { return a->id() < b->id(); }
};
using Values = std::set<const Value*, ByNumber>;

class Cutter {
 public:
  Cutter(const Graph& backward, const std::vector<int>& gradient_of)
      : backward_(backward), gradient_of_(gradient_of), is_reached_(backward.value_count()) {
    for (size_t i = 0; i < backward.inputs().size(); ++i) {
      const Input& input = backward.inputs()[i];
      if (input.kind != InputKind::kTangent) continue;
      is_reached_[input.value->id()] = true;
      tangents_.push_back(input.value);
    }
    for (const auto& node : backward.nodes()) {
      place_.emplace(node.get(), static_cast<int>(nodes_.size()));
      nodes_.push_back(node.get());
      bool reached = false;
      for (const Value* operand : node->operands()) reached |= is_reached_[operand->id()];
      for (const Value* result : node->results())
        if (result) is_reached_[result->id()] = reached;
    }
  }

  std::vector<BackwardStage> run(int64_t bytes) {
    choose_ends(bytes);
    find_needed();
    std::vector<BackwardStage> stages(count());
    for (int stage = 0; stage < count(); ++stage) build(stage, stages);
    return stages;
  }

 private:
  int count() const { return static_cast<int>(ends_.size()) + 1; }

  // Inputs stand before all nodes.
  int place_of(const Value* value) const {
    return value->producer() ? place_.at(value->producer()) : -1;
  }
  int stage_of(int place) const {
    return static_cast<int>(std::ranges::lower_bound(ends_, place) - ends_.begin());
  }

  // Whether each stage that needs the node's result makes it for itself.
  bool is_made_anew(const Node& node) const {
    return is_free(node) || (is_cheap(node) && !is_reached_[node.result()->id()]);
  }

  // The place of the last node that reads the value, or what is made of it anew; that behind which
  // one of them is given.
  int last_use(const Value* value) const {
    int last = -1;
    for (size_t i = 0; i < given_at_.size(); ++i)
      if (backward_.outputs()[i] == value) last = std::max(last, given_at_[i]);
    for (const Node* user : value->users()) {
      last = std::max(last, place_.at(user));
      if (!is_made_anew(*user)) continue;
      for (const Value* result : user->results())
        if (result) last = std::max(last, last_use(result));
    }
    return last;
  }

  void choose_ends(int64_t bytes) {
    const std::vector<Value*>& gradients = backward_.outputs();
    int64_t to_come = 0, gathered = 0;
    for (const Value* gradient : gradients) {
      given_at_.push_back(place_of(gradient));
      to_come += bytes_of(*gradient);
    }
    for (bool changed = true; std::exchange(changed, false);)
      for (size_t i = 0; i < gradients.size(); ++i) {
        const int last =
            gradient_of_[i] < 0 ? -1 : last_use(backward_.inputs()[gradient_of_[i]].value);
        changed |= last > given_at_[i];
        given_at_[i] = std::max(given_at_[i], last);
      }
    std::vector<int> order(gradients.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](int i) { return given_at_[i]; });
    for (size_t i = 0; i + 1 < order.size(); ++i) {
      const int64_t own = bytes_of(*gradients[order[i]]);
      gathered += own;
      to_come -= own;
      const int end = given_at_[order[i]];
      if (gathered < bytes || to_come < bytes || end == given_at_[order[i + 1]]) continue;
      ends_.push_back(end);
      gathered = 0;
    }
  }

  // What each stage computes, and what it needs for it, from the last node on.
  void find_needed() {
    needed_.resize(count());
    made_.resize(count());
    for (size_t i = 0; i < given_at_.size(); ++i)
      needed_[stage_of(given_at_[i])].insert(backward_.outputs()[i]);
    for (size_t place = nodes_.size(); place-- > 0;) {
      const Node& node = *nodes_[place];
      const int own = stage_of(static_cast<int>(place));
      for (int stage = count() - 1; stage >= own; --stage) {
        bool is_needed = false;
        for (const Value* result : node.results()) {
          if (!result || !needed_[stage].contains(result)) continue;
          is_needed = true;
          if (stage > own && !is_made_anew(node)) needed_[own].insert(result);
        }
        if (!is_needed || (stage > own && !is_made_anew(node))) continue;
        made_[stage].insert(&node);
        for (const Value* operand : node.operands()) needed_[stage].insert(operand);
      }
    }
  }

  // The stage that another one has the value from; -1: it is a tangent.
  int source_of(const Value* value) const {
    return value->producer() ? stage_of(place_of(value)) : -1;
  }

  // What the stage needs of what others compute, and of the tangents.
  std::vector<const Value*> taken_by(int stage) const {
    if (stage == 0) return tangents_;
    std::vector<const Value*> taken;
    for (const Value* value : needed_[stage])
      if (value->producer() ? !made_[stage].contains(value->producer())
                            : std::ranges::find(tangents_, value) != tangents_.end())
        taken.push_back(value);
    return taken;
  }

  void build(int number, std::vector<BackwardStage>& stages) const {
    BackwardStage& stage = stages[number];
    graph::NodeCopier copier(backward_, stage.graph);
    for (size_t i = 0; i < backward_.inputs().size(); ++i) {
      const Input& input = backward_.inputs()[i];
      if (input.kind == InputKind::kTangent || !needed_[number].contains(input.value)) continue;
      copier.add_input(input);
      stage.inputs.push_back(static_cast<int>(i));
    }
    for (const Value* value : taken_by(number)) {
      copier.add_input(value, InputKind::kTangent, "tangent" + std::to_string(value->id()));
      const int source = source_of(value);
      const auto index = source < 0 ? std::ranges::find(tangents_, value) - tangents_.begin()
                                    : place_in(handed_on(source), value) + given_in(source);
      stage.tangents.push_back({source, static_cast<int>(index), is_reached_[value->id()]});
    }
    stage.graph.set_symbols(backward_.arena(), backward_.symbols());
    stage.graph.set_conditions(backward_.conditions());
    for (const Node* node : nodes_)
      if (made_[number].contains(node)) copier.add(*node);
    // Whoever takes a gradient may write to it; autograd copies those with gaps itself.
    const auto copy = [&](Value* value) {
      return graph::Emitter(stage.graph, nullptr)(graph::OpKind::kclone, {value, graph::None{}});
    };
    const Values taken_again = taken_again_behind(number);
    std::vector<Value*> outputs;
    Values given;
    for (size_t i = 0; i < given_at_.size(); ++i) {
      if (stage_of(given_at_[i]) != number) continue;
      const Value* gradient = backward_.outputs()[i];
      const bool is_shared = std::ranges::any_of(taken_again, [&](const Value* value) {
        return graph::is_dense(gradient->type()) && gradient != value &&
               gradient->storage() == value->storage();
      });
      stage.gradients.push_back(static_cast<int>(i));
      outputs.push_back(is_shared ? copy(copier.at(gradient)) : copier.at(gradient));
      given.insert(gradient);
    }
    for (const Value* value : handed_on(number)) {
      const bool is_shared = std::ranges::any_of(given, [&](const Value* gradient) {
        return gradient != value && gradient->storage() == value->storage();
      });
      outputs.push_back(is_shared ? copy(copier.at(value)) : copier.at(value));
    }
    std::vector<graph::OutputRole> roles(outputs.size(), {graph::OutputKind::kGradient, {}});
    stage.graph.set_outputs(std::move(outputs), std::move(roles));
    graph::take_own_arena(stage.graph);
  }

  size_t given_in(int stage) const {
    return static_cast<size_t>(
        std::ranges::count_if(given_at_, [&](int place) { return stage_of(place) == stage; }));
  }

  // What later stages take of this one.
  std::vector<const Value*> handed_on(int stage) const {
    Values found;
    for (int later = stage + 1; later < count(); ++later)
      for (const Value* value : taken_by(later))
        if (source_of(value) == stage) found.insert(value);
    return {found.begin(), found.end()};
  }

  // What the stage takes of others, and later ones take as well.
  Values taken_again_behind(int stage) const {
    const std::vector<const Value*> own = taken_by(stage);
    Values found;
    for (int later = stage + 1; later < count(); ++later)
      for (const Value* value : taken_by(later))
        if (std::ranges::find(own, value) != own.end()) found.insert(value);
    return found;
  }

  static size_t place_in(const std::vector<const Value*>& values, const Value* value) {
    return static_cast<size_t>(std::ranges::find(values, value) - values.begin());
  }

  const Graph& backward_;
  const std::vector<int>& gradient_of_;
  std::vector<bool> is_reached_;  // by value: a tangent flows into it
  std::vector<const Value*> tangents_;
  std::vector<const Node*> nodes_;
  std::unordered_map<const Node*, int> place_;  // in nodes_
  std::vector<int> given_at_;                   // by gradient: the place behind which it is given
  std::vector<int> ends_;                       // the last place of each stage but the last one
  std::vector<Values> needed_;                  // by stage
  std::vector<std::set<const Node*>> made_;     // by stage
};

}  // namespace

std::vector<BackwardStage> cut_into_stages(const Graph& backward,
                                           const std::vector<int>& gradient_of, int64_t bytes) {
  return Cutter(backward, gradient_of).run(bytes);
}

}  // namespace braze::passes
