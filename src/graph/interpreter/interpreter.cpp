#include "graph/interpreter/interpreter.h"

#include <unordered_map>

#include "graph/arguments.h"
#include "graph/infer/infer.h"
#include "graph/op_kind.h"

namespace braze::graph {
namespace interpreter {

const TensorArgument& Call::arg(int i) const {
  static const TensorArgument absent = None{};
  return i < static_cast<int>(args.size()) ? args[i] : absent;
}

const Tensor& Call::tensor(int i) const {
  auto* tensor = std::get_if<Tensor>(&arg(i));
  BRAZE_CHECK(tensor, "argument ", i, " of ", op_of(kind).name, " is no tensor");
  return *tensor;
}

int64_t Call::integer(int i, int64_t otherwise) const {
  if (is_none(i)) return otherwise;
  return std::get<sym::Int>(arg(i)).constant();
}

double Call::number(int i, double otherwise) const {
  if (is_none(i)) return otherwise;
  if (auto* value = std::get_if<sym::Int>(&arg(i))) return static_cast<double>(value->constant());
  if (auto* value = std::get_if<bool>(&arg(i))) return *value;
  return std::get<double>(arg(i));
}

bool Call::boolean(int i, bool otherwise) const {
  return is_none(i) ? otherwise : std::get<bool>(arg(i));
}

std::vector<int64_t> Call::integers(int i) const {
  if (auto* value = std::get_if<sym::Int>(&arg(i))) return {value->constant()};
  return sym::constants(std::get<std::vector<sym::Int>>(arg(i)));
}

namespace {

// Writes `source`, broadcast, into `target`.
void copy_into(Tensor target, const Tensor& source) {
  std::vector<Number> values;
  const size_t missing = target.type.sizes.size() - source.type.sizes.size();
  for_each_index(target.type.sizes, [&](std::span<const int64_t> index) {
    std::vector<int64_t> from(index.begin() + static_cast<int64_t>(missing), index.end());
    for (size_t i = 0; i < from.size(); ++i) {
      if (source.type.sizes[i].constant() == 1) from[i] = 0;
    }
    values.push_back(source.get(from));
  });
  size_t next = 0;
  for_each_index(target.type.sizes,
                 [&](std::span<const int64_t> index) { target.set(index, values[next++]); });
}

using Values = std::unordered_map<const Value*, Tensor>;

// An argument with its tensors in place of the values.
struct Evaluate {
  const Values& values;

  TensorArgument operator()(Value* value) const { return values.at(value); }
  TensorArgument operator()(const std::vector<Value*>& list) const {
    std::vector<Tensor> tensors;
    for (const Value* value : list) tensors.push_back(values.at(value));
    return tensors;
  }
  TensorArgument operator()(const OptionalRefs<Value*>& list) const {
    OptionalRefs<Tensor> tensors;
    for (const std::optional<Value*>& value : list.refs)
      tensors.refs.push_back(value ? std::optional(values.at(*value)) : std::nullopt);
    return tensors;
  }
  template <class T>
  TensorArgument operator()(const T& other) const {
    return other;
  }
};

class Interpreter {
 public:
  explicit Interpreter(const Graph& graph) : graph_(graph) {}

  std::vector<Tensor> run(std::span<const Tensor> inputs) {
    BRAZE_CHECK(inputs.size() == graph_.inputs().size(), "number of inputs");
    for (size_t i = 0; i < inputs.size(); ++i) {
      BRAZE_CHECK(inputs[i].type == graph_.inputs()[i].value->type(), "type of input ", i);
      values_[graph_.inputs()[i].value] = inputs[i];
    }
    for (const auto& node : graph_.nodes()) run_node(*node);
    for (const Mutation& mutation : graph_.mutations())
      copy_into(values_.at(mutation.target), values_.at(mutation.source));
    std::vector<Tensor> outputs;
    for (const Value* output : graph_.outputs()) outputs.push_back(values_.at(output));
    return outputs;
  }

 private:
  void run_node(const Node& node) {
    if (!node.mutated_arguments().empty()) return run_in_place(node);
    const std::optional<std::vector<TensorType>> inferred = infer_types(node.op(), node.args());
    if (node.op().view) {
      BRAZE_CHECK(inferred, "no inference for ", to_string(node));
      const Tensor base = values_.at(tensor_arg(node, 0));
      for (const Value* result : node.results()) {
        if (!result) continue;
        const TensorType& type = inferred->at(result->result_index());
        BRAZE_CHECK(type == result->type(), "the type of %", result->id(), " is ", to_string(type),
                    ", in ", to_string(node));
        values_[result] = view_of(base, type);
      }
      return;
    }
    std::vector<Tensor> results;
    for (const Value* result : node.results()) {
      results.push_back(result ? make_tensor(result->type()) : Tensor{});
      if (!result || !inferred) continue;
      const TensorType& type = inferred->at(result->result_index());
      BRAZE_CHECK(type.sizes == result->type().sizes && type.dtype == result->type().dtype,
                  "the type of %", result->id(), " is ", to_string(type), ", in ", to_string(node));
    }
    results = call(node.op(), node.args(), std::move(results));
    for (size_t i = 0; i < results.size(); ++i) {
      if (node.results()[i]) values_[node.results()[i]] = results[i];
    }
  }

  // The functional form of the op by its name, then a write to argument 0.
  void run_in_place(const Node& node) {
    Tensor target = values_.at(tensor_arg(node, 0));
    const Op& op = functional_form(node.op());
    const std::optional<std::vector<TensorType>> types = infer_types(op, node.args());
    BRAZE_CHECK(types, "no inference for ", op.name);
    copy_into(target, call(op, node.args(), {make_tensor(types->at(0))})[0]);
    for (const Value* result : node.results()) values_[result] = target;
  }

  static const Op& functional_form(const Op& op) {
    if (op.name == "aten.zero_") return op_of(OpKind::kzeros_like);
    std::string name = op.name;
    const size_t dot = name.find('.', name.find('.') + 1);
    name.erase((dot == std::string::npos ? name.size() : dot) - 1, 1);
    return find_or_add_op(name);
  }

  std::vector<Tensor> call(const Op& op, const std::vector<Argument>& args,
                           std::vector<Tensor> results) {
    Call call{.kind = op.kind, .results = std::move(results)};
    for (const Argument& argument : args) call.args.push_back(evaluate(argument));
    const bool done = run_pointwise(call) || run_factory(call) || run_reduction(call) ||
                      run_indexing(call) || run_matmul(call);
    BRAZE_CHECK(done, "the interpreter does not know ", op.name);
    return std::move(call.results);
  }

  TensorArgument evaluate(const Argument& argument) {
    return std::visit(Evaluate{values_}, argument);
  }

  const Graph& graph_;
  Values values_;
};

}  // namespace
}  // namespace interpreter

std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs) {
  return interpreter::Interpreter(graph).run(inputs);
}

}  // namespace braze::graph
