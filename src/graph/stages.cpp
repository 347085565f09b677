#include "graph/stages.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "graph/call_facts.h"
#include "graph/infer/strides.h"
#include "graph/node_copier.h"

namespace braze::graph {
namespace {

int number_arg(const Node& node, int i) {
  return static_cast<int>(std::get<sym::Int>(node.args()[i]).constant());
}

class Splitter {
 public:
  Splitter(const Graph& graph, std::span<const int> data_symbols)
      : graph_(graph), unread_(data_symbols.begin(), data_symbols.end()) {}

  Staged run() {
    find_last_uses();
    staged_.register_count = graph_.value_count();
    for (const Input& input : graph_.inputs()) staged_.inputs.push_back(input.value->id());
    for (const Value* output : graph_.outputs()) staged_.outputs.push_back(output->id());
    BRAZE_CHECK(graph_.mutations().empty(), "a graph is cut before it is made functional");
    Nodes nodes;
    for (const auto& node : graph_.nodes()) {
      if (take_region(*node) || node->op().name == kRegionParameter) continue;
      const bool control = node->op().name == kCond || node->op().name == kWhile;
      std::vector<Stage::Read::Size> symbols = symbols_of(*node);
      if (symbols.empty() && !control) {
        nodes.push_back(node.get());
        continue;
      }
      Stage& stage = add_stage(nodes);
      nodes.clear();
      if (!control)
        stage.read = read_of(*node, std::move(symbols));
      else if (node->op().name == kCond)
        stage.cond = cond_of(*node);
      else
        stage.loop = loop_of(*node);
    }
    add_stage(nodes);
    BRAZE_CHECK(unread_.empty(), "a symbol whose value nothing reads");
    return std::move(staged_);
  }

 private:
  using Nodes = std::vector<const Node*>;

  // By value: the place of the last node that uses it; outputs, and what regions use, are used
  // behind all.
  void find_last_uses() {
    last_use_.resize(graph_.value_count(), -1);
    const int end = static_cast<int>(graph_.nodes().size());
    int place = 0, depth = 0;
    for (const auto& node : graph_.nodes()) {
      depth += node->op().name == kRegionBegin;
      for (const Value* operand : node->operands())
        last_use_[operand->id()] = depth > 0 ? end : std::max(place, last_use_[operand->id()]);
      depth -= node->op().name == kRegionEnd;
      places_[node.get()] = place++;
    }
    for (const Value* output : graph_.outputs()) last_use_[output->id()] = end;
  }

  // Whether the node belongs to a region, which is kept until its node comes.
  bool take_region(const Node& node) {
    const bool begin = node.op().name == kRegionBegin, end = node.op().name == kRegionEnd;
    if (open_ < 0) {
      BRAZE_CHECK(!end, "the end of a region that has not begun");
      if (begin) open_ = number_arg(node, 0);
      return begin;
    }
    if (end && number_arg(node, 0) == open_) {
      ends_[open_] = &node;
      open_ = -1;
    } else {
      regions_[open_].push_back(&node);
    }
    return true;
  }

  Region region_of(int number) {
    const Node& end = *ends_.at(number);
    Region region;
    region.graph =
        graph_of(regions_[number], std::get<std::vector<Value*>>(end.args()[1]), region.inputs);
    return region;
  }

  static std::vector<int> registers_of(const std::vector<Value*>& values) {
    std::vector<int> registers;
    for (const Value* value : values) registers.push_back(value ? value->id() : -1);
    return registers;
  }

  Stage::Cond cond_of(const Node& node) {
    return {.predicate = std::get<Value*>(node.args()[0])->id(),
            .yes = region_of(number_arg(node, 1)),
            .no = region_of(number_arg(node, 2)),
            .results = registers_of(node.results())};
  }

  Stage::Loop loop_of(const Node& node) {
    return {.condition = region_of(number_arg(node, 0)),
            .body = region_of(number_arg(node, 1)),
            .carried = registers_of(std::get<std::vector<Value*>>(node.args()[2])),
            .results = registers_of(node.results())};
  }

  std::optional<int> symbol_in(sym::Int value) const {
    if (value.is_constant() || value.expr()->kind != sym::ExprKind::kSymbol) return std::nullopt;
    return value.expr()->symbol;
  }

  // The symbols whose values this node gives.
  std::vector<Stage::Read::Size> symbols_of(const Node& node) {
    std::vector<Stage::Read::Size> found;
    auto take = [&](sym::Int value, int result, int dim) {
      const std::optional<int> symbol = symbol_in(value);
      if (symbol && unread_.erase(*symbol) > 0) found.push_back({*symbol, result, dim});
    };
    if (node.op().name == kItem) take(std::get<sym::Int>(node.args()[1]), -1, 0);
    for (size_t i = 0; i < node.results().size(); ++i) {
      const Value* result = node.results()[i];
      for (int dim = 0; result && dim < result->type().rank(); ++dim)
        take(result->type().sizes[dim], static_cast<int>(i), dim);
    }
    return found;
  }

  // What nodes behind these use of them is given on.
  Stage& add_stage(const Nodes& nodes) {
    Stage& stage = staged_.stages.emplace_back();
    std::vector<Value*> outputs;
    const int end = nodes.empty() ? 0 : places_.at(nodes.back());
    for (const Node* node : nodes)
      for (Value* result : node->results())
        if (result && last_use_[result->id()] > end) outputs.push_back(result);
    stage.graph = graph_of(nodes, outputs, stage.inputs);
    stage.outputs = registers_of(outputs);
    return stage;
  }

  static int register_of(const Value* value) {
    const Node* producer = value->producer();
    if (producer && producer->op().name == kRegionParameter) return -1 - number_arg(*producer, 0);
    return value->id();
  }

  // A graph of these nodes, which come one after the other.
  Graph graph_of(const Nodes& nodes, const std::vector<Value*>& results, std::vector<int>& inputs) {
    Graph graph;
    NodeCopier copier(graph_, graph);
    std::set<const Value*> made;
    for (const Node* node : nodes)
      for (const Value* result : node->results())
        if (result) made.insert(result);
    for (const Node* node : nodes) {
      for (const Value* operand : node->operands()) {
        if (made.contains(operand) || copier.has(operand)) continue;
        const Input* input = input_of(operand);
        // What a part is given is a tensor.
        const bool is_plain = !input || input->kind == InputKind::kNumber;
        copier.add_input(operand, is_plain ? InputKind::kUser : input->kind,
                         input ? input->name : "v" + std::to_string(operand->id()));
        inputs.push_back(register_of(operand));
      }
    }
    for (const Node* node : nodes) add_node(copier, *node);
    std::vector<Value*> outputs;
    for (const Value* result : results) outputs.push_back(copier.at(result));
    graph.set_outputs(std::move(outputs));
    std::vector<SymbolBinding> bindings;
    for (int i = 0; i < static_cast<int>(graph_.symbols().size()); ++i)
      bindings.push_back({SymbolBinding::Kind::kScalar, nullptr, i});
    graph.set_symbols(graph_.arena(), std::move(bindings));
    return graph;
  }

  void add_node(NodeCopier& copier, const Node& node) {
    // A tensor from an earlier stage may lie elsewhere in its memory than when it was traced.
    if (has_call_fact(node.op().name, kCountsFromMemory)) {
      const Value* viewed = std::get<Value*>(node.args()[0]);
      BRAZE_CHECK(lies_as_traced(*viewed) || copier.at(viewed)->producer() != nullptr,
                  "as_strided of a tensor from before a number that is read from data");
    }
    copier.add(node);
  }

  static Stage::Read read_of(const Node& node, std::vector<Stage::Read::Size> symbols) {
    Stage::Read read{.op = node.op().name, .symbols = std::move(symbols)};
    for (const Argument& argument : node.args())
      read.args.push_back(std::visit(
          [](const auto& value) -> BasicArgument<int> {
            using T = std::decay_t<decltype(value)>;
            if constexpr (std::is_same_v<T, Value*>) {
              return value->id();
            } else if constexpr (std::is_same_v<T, std::vector<Value*>>) {
              std::vector<int> ids;
              for (const Value* element : value) ids.push_back(element->id());
              return ids;
            } else if constexpr (std::is_same_v<T, OptionalRefs<Value*>>) {
              OptionalRefs<int> ids;
              for (const std::optional<Value*>& element : value.refs)
                ids.refs.push_back(element ? std::optional<int>((*element)->id()) : std::nullopt);
              return ids;
            } else {
              return value;
            }
          },
          argument));
    read.results = registers_of(node.results());
    for (const Value* result : node.results())
      read.types.push_back(result ? result->type() : TensorType{});
    return read;
  }

  const Input* input_of(const Value* value) const {
    for (const Input& input : graph_.inputs())
      if (input.value == value) return &input;
    return nullptr;
  }

  const Graph& graph_;
  std::set<int> unread_;
  std::vector<int> last_use_;
  std::unordered_map<const Node*, int> places_;
  int open_ = -1;                           // the outermost region under way
  std::unordered_map<int, Nodes> regions_;  // by number
  std::unordered_map<int, const Node*> ends_;
  Staged staged_;
};

}  // namespace

bool has_control_flow(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    return node->op().name == kCond || node->op().name == kWhile;
  });
}

bool lies_as_traced(const Value& value) {
  if (value.producer() == nullptr) return true;
  return value.producer()->op().effects.aliased_argument(value.result_index()) < 0 &&
         value.type().offset == sym::Int(0) && is_dense(value.type());
}

Staged split_at_data(const Graph& graph, std::span<const int> data_symbols) {
  return Splitter(graph, data_symbols).run();
}

}  // namespace braze::graph
