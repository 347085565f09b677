#include "passes/activation_budget.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <vector>

#include "passes/again.h"
#include "passes/min_cut.h"

namespace braze::passes {
namespace {

using graph::Node;
using graph::Value;

// Times are measured in KiB of memory traffic that take as long.
constexpr int64_t kUnit = 1024;
// Multiplications that take as long as the traffic of a byte: 200 GFLOP/s beside 10 GB/s.
constexpr double kProductsPerByte = 10;
// Of the cuts that are tried: each halves the largest step in bytes between two others.
constexpr size_t kMostCuts = 48;
// Exchange rates are whole numbers of this part of a unit of time for a KiB.
constexpr int64_t kRate = 1024;
// By how much less the first node's time counts than the last one's.
constexpr int64_t kOrder = 16;

double elements(const Value& value) {
  double count = 1;
  for (const sym::Int& size : value.type().sizes) count *= static_cast<double>(size.hint());
  return count;
}

int64_t bytes_of(const Value& value) {
  return static_cast<int64_t>(elements(value) *
                              static_cast<double>(graph::size_of(value.type().dtype)));
}

// A product of A and B that gives C has sqrt(|A| |B| |C|) multiplications: exact for matrices, near
// for convolutions (whose windows count once) and attention. Dimensions that all three share count
// once.
double products_of(const Node& node) {
  if (node.op().op_class != graph::OpClass::kExtern || !node.results()[0]) return 0;
  std::vector<const Value*> factors;
  for (const Value* operand : node.operands())
    if (operand->type().rank() >= 2) factors.push_back(operand);
  if (factors.size() < 2) return 0;
  std::ranges::stable_sort(factors, std::greater(), [](const Value* v) { return elements(*v); });
  const Value& result = *node.results()[0];
  double shared = 1;
  const auto& a = factors[0]->type().sizes;
  const auto& b = factors[1]->type().sizes;
  const auto& c = result.type().sizes;
  for (size_t i = 0; i + 2 < std::min({a.size(), b.size(), c.size()}); ++i) {
    if (a[i].hint() != b[i].hint() || a[i].hint() != c[i].hint()) break;
    shared *= static_cast<double>(a[i].hint());
  }
  return std::sqrt(elements(*factors[0]) * elements(*factors[1]) * elements(result) / shared);
}

int64_t time_of(const Node& node) {
  double bytes = 0;
  for (const Value* operand : node.operands()) bytes += static_cast<double>(bytes_of(*operand));
  for (const Value* result : node.results())
    if (result) bytes += static_cast<double>(bytes_of(*result));
  return 1 + static_cast<int64_t>((bytes + products_of(node) / kProductsPerByte) / kUnit);
}

struct Choice {
  std::set<const Node*> again;
  int64_t rate = 0;
  int64_t time = 0;  // of what is made again
  int64_t kept = 0;  // bytes / kUnit
};

// The family of cuts.
class Cuts {
 public:
  explicit Cuts(const Passage& passage) : passage_(passage) {
    for (const auto& node : passage.graph.nodes()) {
      number_.emplace(node.get(), static_cast<int>(nodes_.size()));
      nodes_.push_back(node.get());
    }
  }

  // In the order of their times.
  std::vector<Choice> all() const {
    std::vector<Choice> choices{cut_at(1), cut_at(kRate << 20)};
    std::vector<bool> is_closed{false};  // by choice: none between it and the next one
    while (choices.size() < kMostCuts) {
      size_t widest = choices.size();
      int64_t most = 0;
      for (size_t i = 0; i + 1 < choices.size(); ++i) {
        const int64_t step = choices[i].kept - choices[i + 1].kept;
        if (is_closed[i] || step <= most) continue;
        widest = i;
        most = step;
      }
      if (widest == choices.size()) break;
      const Choice &before = choices[widest], &after = choices[widest + 1];
      const double rate = static_cast<double>(after.time - before.time) * kRate /
                          static_cast<double>(before.kept - after.kept);
      Choice between = cut_at(std::max<int64_t>(1, std::llround(rate)));
      if (between.kept >= before.kept || between.kept <= after.kept) {
        is_closed[widest] = true;
        continue;
      }
      choices.insert(choices.begin() + widest + 1, std::move(between));
      is_closed.insert(is_closed.begin() + widest, false);
    }
    return choices;
  }

 private:
  enum Vertex { kSource, kSink, kFirst };

  int vertex(int node) const { return kFirst + node; }
  int vertex(const Value* value) const {
    return kFirst + static_cast<int>(nodes_.size()) + value->id();
  }

  bool is_done_again(const Node& node) const { return is_free(node) || passage_.is_again(node); }

  // Kept for nothing: the user has it.
  bool is_visible(const Node& node) const {
    return std::ranges::any_of(node.results(), [&](const Value* result) {
      return result && passage_.visible.contains(result->storage());
    });
  }

  // Nodes at the end of the graph take a little longer, so that of equal ones the first are chosen.
  int64_t time(int node) const {
    const auto count = static_cast<int64_t>(nodes_.size());
    return time_of(*nodes_[node]) * (kRate + kRate * node / (kOrder * count));
  }

  void add_node(MinCut& network, int number, int64_t rate) const {
    const Node& node = *nodes_[number];
    const bool again = is_done_again(node);
    if (!again) {
      const bool never = is_seen(node) || is_visible(node);
      network.add_edge(kSource, vertex(number), never ? MinCut::kInfinite : time(number));
    }
    for (const Value* operand : node.operands())
      network.add_edge(vertex(operand), vertex(number), MinCut::kInfinite);
    for (const Value* result : node.results()) {
      if (!result) continue;
      int64_t cost = MinCut::kInfinite;
      if (!again) cost = is_visible(node) ? 0 : kept_units(*result) * rate;
      network.add_edge(vertex(number), vertex(result), cost);
    }
  }

  static int64_t kept_units(const Value& value) {
    return std::max<int64_t>(1, bytes_of(value) / kUnit);
  }

  Choice cut_at(int64_t rate) const {
    const graph::Graph& graph = passage_.graph;
    MinCut network(kFirst + static_cast<int>(nodes_.size()) + graph.value_count());
    const auto need = [&](const Value* value) {
      value = passage_.chosen(value);
      if (!value->producer() || passage_.is_forward(*value->producer()))
        network.add_edge(vertex(value), kSink, MinCut::kInfinite);
    };
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
      if (passage_.is_forward(*nodes_[i])) {
        add_node(network, i, rate);
        continue;
      }
      for (const Value* operand : nodes_[i]->operands()) need(operand);
    }
    for (size_t i = 0; i < graph.outputs().size(); ++i)
      if (graph.output_roles()[i].kind == graph::OutputKind::kGradient) need(graph.outputs()[i]);
    for (const graph::Input& input : graph.inputs())
      if (passage_.written.contains(input.value->storage()))
        network.add_edge(kSource, vertex(input.value), kept_units(*input.value) * rate);
    return read(network.source_side(kSource, kSink), rate);
  }

  Choice read(const std::vector<bool>& is_source, int64_t rate) const {
    Choice choice;
    choice.rate = rate;
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
      const Node& node = *nodes_[i];
      if (!passage_.is_forward(node) || is_done_again(node)) continue;
      if (!is_source[vertex(i)]) {
        choice.again.insert(&node);
        choice.time += time(i) / kRate;
        continue;
      }
      for (const Value* result : node.results())
        if (result && !is_source[vertex(result)] && !is_visible(node))
          choice.kept += kept_units(*result);
    }
    return choice;
  }

  const Passage& passage_;
  std::vector<const Node*> nodes_;
  std::unordered_map<const Node*, int> number_;
};

// The most that is held while the backward runs, node by node.
class Peak {
 public:
  Peak(const Passage& passage, const std::set<const Node*>& again)
      : passage_(passage), again_(again) {
    uncounted_ = passage.visible;
    for (const graph::Input& input : passage.graph.inputs())
      uncounted_.insert(input.value->storage());
    for (size_t i = 0; i < passage.graph.outputs().size(); ++i)
      if (passage.graph.output_roles()[i].kind == graph::OutputKind::kGradient)
        uncounted_.insert(passage.graph.outputs()[i]->storage());
    find_needed();
    order();
  }

  int64_t bytes() const {
    std::unordered_map<int, Held> held;  // by storage
    const auto touch = [&](const Value* value, size_t place, bool is_made) {
      if (uncounted_.contains(value->storage())) return;
      const auto [entry, is_new] = held.try_emplace(value->storage());
      Held& storage = entry->second;
      if (is_new) storage.first = is_made ? place : 0;
      storage.last = place;
      storage.bytes = std::max(storage.bytes, bytes_of(*value));
    };
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (const Value* operand : nodes_[i]->operands()) touch(passage_.chosen(operand), i, false);
      for (const Value* result : nodes_[i]->results())
        if (result) touch(result, i, true);
    }
    std::vector<int64_t> change(nodes_.size() + 1);
    for (const auto& [storage, of] : held) {
      change[of.first] += of.bytes;
      change[of.last + 1] -= of.bytes;
    }
    int64_t now = 0, most = 0;
    for (const int64_t step : change) most = std::max(most, now += step);
    return most;
  }

 private:
  struct Held {
    size_t first = 0, last = 0;
    int64_t bytes = 0;
  };

  bool is_made(const Node& node) const {
    return !passage_.is_forward(node) || is_free(node) || passage_.is_again(node) ||
           again_.contains(&node);
  }

  void find_needed() {
    std::vector<const Value*> open(passage_.graph.outputs().begin(),
                                   passage_.graph.outputs().end());
    for (const graph::Mutation& mutation : passage_.graph.mutations())
      open.push_back(mutation.source);
    while (!open.empty()) {
      const Node* node = passage_.chosen(open.back())->producer();
      open.pop_back();
      if (!node || !is_made(*node) || !open_.insert(node).second) continue;
      for (const Value* operand : node->operands()) open.push_back(operand);
    }
  }

  // What tangents reach in its order, then the rest; what is made again as late as it is needed.
  void order() {
    std::set<const Value*> reached;
    for (const graph::Input& input : passage_.graph.inputs())
      if (input.kind == graph::InputKind::kTangent) reached.insert(input.value);
    std::vector<const Node*> flows, rest;
    for (const auto& node : passage_.graph.nodes()) {
      if (passage_.is_forward(*node)) continue;
      const bool flow = std::ranges::any_of(
          node->operands(), [&](const Value* operand) { return reached.contains(operand); });
      (flow ? flows : rest).push_back(node.get());
      if (flow) reached.insert(node->results().begin(), node->results().end());
    }
    for (const Node* node : flows) place(node);
    for (const Node* node : rest) place(node);
  }

  void place(const Node* last) {
    std::vector<const Node*> path{last};
    while (!path.empty()) {
      const Node* node = path.back();
      const size_t before = path.size();
      for (const Value* operand : node->operands()) {
        const Node* producer = passage_.chosen(operand)->producer();
        if (producer && open_.contains(producer)) path.push_back(producer);
      }
      if (path.size() > before) continue;
      path.pop_back();
      if (open_.erase(node)) nodes_.push_back(node);
    }
  }

  const Passage& passage_;
  const std::set<const Node*>& again_;
  std::set<int> uncounted_;         // storages
  std::set<const Node*> open_;      // still to be placed
  std::vector<const Node*> nodes_;  // in the order in which they run
};

}  // namespace

std::set<const Node*> made_again_within(int64_t bytes, const Passage& passage) {
  Choice least;
  int64_t least_peak = 0;
  for (Choice& choice : Cuts(passage).all()) {
    const int64_t peak = Peak(passage, choice.again).bytes();
    if (peak <= bytes) return std::move(choice.again);
    if (least_peak == 0 || peak < least_peak) {
      least_peak = peak;
      least = std::move(choice);
    }
  }
  return std::move(least.again);
}

}  // namespace braze::passes
