#include "trace/replay.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <unordered_map>

#include "graph/in_place.h"
#include "graph/op_kind.h"
#include "pytorch/boxed_arguments.h"
#include "pytorch/nodes.h"
#include "pytorch/operators.h"
#include "trace/fake_tensor.h"
#include "trace/tracer.h"

namespace braze::trace {

namespace {

using ValueTensors = std::unordered_map<const graph::Value*, at::Tensor>;

void check_metadata(const graph::Node& node, const graph::TensorType& traced,
                    const at::Tensor& tensor, std::span<const int64_t> symbols) {
  graph::TensorType expected = traced, got = type_of(tensor);
  for (sym::Dims* dims : {&expected.sizes, &expected.strides})
    for (sym::Int& dim : *dims) dim = sym::evaluate(dim, symbols);
  expected.offset = sym::evaluate(expected.offset, symbols);
  TORCH_CHECK(expected == got, node.op().name, ": traced as ", graph::to_string(expected), ", is ",
              graph::to_string(got));
}

// `value` with that history, by operators, which a trace of the replay sees: a node of autograd
// alone would be none to whoever differentiates what was traced.
at::Tensor written_over(const at::Tensor& history, const at::Tensor& value) {
  at::Tensor made = at::empty_like(value);
  made.copy_(history);
  const at::NoGradGuard hidden;
  made.copy_(value);
  return made;
}

void run_node(const graph::Node& node, ValueTensors& values, std::span<const int64_t> symbols,
              bool check) {
  if (node.op().kind == graph::OpKind::kcopy) {  // autograd knows the in-place op alone
    const auto operand = [&](int i) { return values.at(node.operands()[i]); };
    const at::Tensor target = operand(0);
    // What is overwritten has a gradient of zeros.
    const at::Tensor made = target.requires_grad() ? target.clone() : at::empty_like(target);
    values[node.result()] = made.copy_(operand(1));
    return;
  }
  if (node.op().name == graph::kWithHistory) {
    const at::Tensor& value = values.at(node.operands()[0]);
    const at::Tensor& history = values.at(node.operands()[1]);
    values[node.result()] =
        as_fake(value) ? written_over(history, value) : pytorch::with_history(value, history);
    return;
  }
  if (node.op().kind == graph::OpKind::kslice_scatter &&
      values.at(node.operands()[0]).is_complex()) {
    // PyTorch's operator has no gradient for these, what is written in place has.
    const auto number = [&](int i, int64_t otherwise) {
      const auto* given = static_cast<size_t>(i) < node.args().size()
                              ? std::get_if<sym::Int>(&node.args()[i])
                              : nullptr;
      return given ? sym::evaluate(*given, symbols) : otherwise;
    };
    const at::Tensor made = values.at(node.operands()[0]).clone();
    constexpr int kDim = 2, kStart = 3, kEnd = 4, kStep = 5;
    const int64_t dim = number(kDim, 0);
    made.slice(dim, number(kStart, 0), number(kEnd, made.size(dim)), number(kStep, 1))
        .copy_(values.at(node.operands()[1]));
    values[node.result()] = made;
    return;
  }
  if (node.op().kind == graph::OpKind::kas_strided_scatter &&
      values.at(node.operands()[0]).is_non_overlapping_and_dense()) {
    // PyTorch's formula for the gradient of what is written to gives the written part of it.
    const auto ints = [&](int i) {
      std::vector<int64_t> values_of;
      for (const sym::Int& dim : std::get<sym::Dims>(node.args()[i]))
        values_of.push_back(sym::evaluate(dim, symbols));
      return values_of;
    };
    constexpr int kSizes = 2, kStrides = 3, kOffset = 4;
    const auto* offset = std::get_if<sym::Int>(&node.args()[kOffset]);
    const at::Tensor made = values.at(node.operands()[0]).clone();
    made.as_strided(ints(kSizes), ints(kStrides), offset ? sym::evaluate(*offset, symbols) : 0)
        .copy_(values.at(node.operands()[1]));
    values[node.result()] = made;
    return;
  }
  const auto handle = pytorch::find_operator(node.op().name);
  TORCH_CHECK(handle, "this PyTorch has no operator ", node.op().name);
  const auto tensor_of = [&](const graph::Value* value) { return values.at(value); };
  const auto number_of = [&](sym::Int value) { return sym::evaluate(value, symbols); };
  torch::jit::Stack stack;
  for (size_t i = 0; i < node.args().size(); ++i)
    stack.push_back(
        pytorch::boxed(node.args()[i], handle->schema().arguments()[i], tensor_of, number_of));
  handle->callBoxed(stack);
  size_t next = 0;
  auto take = [&](const at::Tensor& tensor) {
    const graph::Value* value = node.results().at(next++);
    if (value == nullptr) return;
    values[value] = tensor;
    if (check) check_metadata(node, value->type(), tensor, symbols);
  };
  for (const c10::IValue& result : stack) {
    if (result.isTensor()) take(result.toTensor());
    if (result.isTensorList())
      for (const at::Tensor& tensor : result.toTensorVector()) take(tensor);
  }
}

}  // namespace

std::vector<at::Tensor> replay(const graph::Graph& graph, std::span<const at::Tensor> inputs,
                               std::span<const int64_t> symbols, bool check) {
  ValueTensors values;
  for (size_t i = 0; i < inputs.size(); ++i) values[graph.inputs()[i].value] = inputs[i];
  for (const auto& node : graph.nodes()) run_node(*node, values, symbols, check);
  std::vector<at::Tensor> outputs;
  for (const graph::Value* output : graph.outputs()) outputs.push_back(values.at(output));
  return outputs;
}

}  // namespace braze::trace
