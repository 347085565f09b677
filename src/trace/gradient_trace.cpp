#include "trace/gradient_trace.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/clone.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <exception>
#include <set>
#include <thread>

#include "graph/infer/strides.h"
#include "pytorch/nodes.h"
#include "trace/backward.h"
#include "trace/fake_tensor.h"
#include "trace/replay.h"

namespace braze::trace {
namespace {

using Input = GradientTrace::Input;
using Gradient = GradientTrace::Gradient;

// A leaf in place of the tensor: histories end there, and two that are one tensor now may be two
// in another call.
at::Tensor leaf_like(const at::Tensor& tensor) {
  at::Tensor leaf = tensor.variable_data();
  leaf.set_requires_grad(tensor.requires_grad());
  return leaf;
}

class GradientTracer {
 public:
  explicit GradientTracer(const GradientRequest& request) : request_(request) {}

  GradientTrace run() {
    GradientTrace result;
    if (!declare(result.why)) return result;
    std::vector<at::Tensor> outputs, looked_for;
    {
      const at::AutoGradMode mode(true);
      const Tracer::Scope scope(tracer_);
      result.why = differentiate(outputs, looked_for, result.gradients);
    }
    if (result.why.empty()) result.why = tracer_.differentiate(outputs);
    if (!result.why.empty()) return result;
    for (const at::Tensor& tensor : looked_for) {
      const FakeTensorImpl* fake = as_fake(tensor);
      result.looked_for.push_back(fake ? fake->value : nullptr);
    }
    result.trace = tracer_.finish(outputs);
    if (!result.trace.data_symbols.empty()) result.why = "sizes depend on data";
    take_results(result.trace);
    for (const GraphInput& input : result.trace.inputs)
      result.inputs.push_back(place_of(input.tensor));
    return result;
  }

 private:
  bool declare(std::string& why) {
    for (const at::Tensor& input : request_.inputs)
      inputs_.push_back(input.defined() ? leaf_like(input) : input);
    for (const at::Tensor& tangent : request_.tangents) tangents_.push_back(leaf_like(tangent));
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const graph::Input& input = request_.graph.inputs()[i];
      if (inputs_[i].defined() && input.kind != graph::InputKind::kConstant &&
          !tracer_.declare(inputs_[i], graph::InputKind::kUser, input.name, &why))
        return false;
    }
    for (size_t i = 0; i < tangents_.size(); ++i)
      if (!tracer_.declare(tangents_[i], graph::InputKind::kUser, "grad" + std::to_string(i), &why))
        return false;
    return true;
  }

  // Within the scope. `outputs`: the gradients that are results of the trace.
  std::string differentiate(std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& looked_for,
                            std::vector<Gradient>& gradients) {
    const uint64_t begin = at::sequence_number::peek();
    std::vector<at::Tensor> results =
        replay(request_.graph, inputs_, request_.symbols, /*check=*/false);
    for (const int output : request_.results) computed_.push_back(results[output]);
    const size_t count = tangents_.size();
    looked_for.assign(results.end() - static_cast<std::ptrdiff_t>(request_.looked_for),
                      results.end());
    results.resize(count);
    BackwardCall call{.keeps_graph = true, .creates_graph = true};
    for (size_t i = 0; i < count; ++i) {
      if (!results[i].requires_grad()) continue;
      call.roots.push_back(results[i]);
      call.tangents.push_back(tangents_[i]);
    }
    std::vector<size_t> places;
    for (size_t i = 0; i < request_.leaves.size(); ++i) {
      const at::Tensor& leaf = inputs_[static_cast<size_t>(request_.leaves[i])];
      if (!leaf.defined() || !leaf.requires_grad()) continue;
      call.inputs.push_back(leaf);
      places.push_back(i);
    }
    gradients.resize(request_.leaves.size());
    if (call.roots.empty() || call.inputs.empty()) return "";
    BackwardResult found;
    if (std::string why = tracer_.run_backward(call, found); !why.empty()) return why;
    if (std::string why = lead_to_results(found.gradients, begin); !why.empty()) return why;
    for (size_t i = 0; i < places.size(); ++i) {
      if (!found.gradients[i].defined()) continue;
      std::string why = add(found.gradients[i], outputs, gradients[places[i]]);
      if (!why.empty()) return why;
    }
    return "";
  }

  // What flows to a result that the replay has computed flows to the user's, a leaf of the trace.
  std::string lead_to_results(const std::vector<at::Tensor>& gradients, uint64_t begin) {
    using torch::autograd::impl::gradient_edge;
    std::vector<torch::autograd::Edge> own;
    for (const at::Tensor& tensor : computed_)
      own.push_back(tensor.requires_grad() ? gradient_edge(tensor) : torch::autograd::Edge());
    const auto found = pytorch::edges_to(own, gradients, begin);
    results_.resize(computed_.size());
    for (size_t i = 0; i < computed_.size(); ++i) {
      for (const at::Tensor& gradient : gradients)
        if (own[i].is_valid() && gradient.defined() && gradient.is_same(computed_[i]))
          return "a gradient is a result itself";
      if (found[i].empty()) continue;
      const at::Tensor real = request_.result(i);
      if (!real.defined()) return "a result that the gradients depend on has not been kept";
      if (type_of(real) != type_of(computed_[i])) return "a result lies in another layout";
      results_[i] = leaf_like(real);
      std::string why;
      if (!tracer_.declare(results_[i], graph::InputKind::kUser, "result" + std::to_string(i),
                           &why))
        return why;
      for (torch::autograd::Edge* edge : found[i]) *edge = gradient_edge(results_[i]);
      const at::AutoGradMode off(false);
      results_[i].detach();  // an operator that makes it an input
    }
    return "";
  }

  // The graph computes with the user's results.
  void take_results(Trace& trace) const {
    for (size_t i = 0; i < trace.inputs.size(); ++i) {
      const auto result = std::ranges::find_if(results_, [&](const at::Tensor& tensor) {
        return tensor.defined() && tensor.is_same(trace.inputs[i].tensor);
      });
      if (result == results_.end()) continue;
      graph::Value* from = as_fake(computed_[result - results_.begin()])->value;
      graph::Value* to = trace.graph.inputs()[i].value;
      std::set<const graph::Value*> views = {from};
      for (const auto& node : trace.graph.nodes())
        for (graph::Value* view : node->results())
          if (view && view->storage() == from->storage() &&
              std::ranges::any_of(node->operands(), [&](const graph::Value* operand) {
                return views.contains(operand);
              }))
            views.insert(view);
      for (const auto& node : trace.graph.nodes())
        for (graph::Value* view : node->results())
          if (view != from && views.contains(view)) view->set_storage(to->storage());
      trace.graph.replace_all_uses(from, to);
    }
  }

  // One that is a tangent itself, or another gradient, is that very tensor, as in eager. What else
  // shares memory with them can have no history of its own in compiled code and becomes a copy.
  std::string add(at::Tensor gradient, std::vector<at::Tensor>& outputs, Gradient& place) {
    if (!as_fake(gradient)) {
      const Input from = place_of(gradient);
      if (from.kind == Input::Kind::kConstant) return "a gradient is a constant";
      place.kind =
          from.kind == Input::Kind::kTangent ? Gradient::Kind::kTangent : Gradient::Kind::kInput;
      place.index = from.index;
      return "";
    }
    const auto known = std::ranges::find_if(
        outputs, [&](const at::Tensor& output) { return output.is_same(gradient); });
    place.kind = Gradient::Kind::kOutput;
    place.index = static_cast<int>(known - outputs.begin());
    if (known != outputs.end()) return "";
    if (shares_memory(gradient, outputs)) {
      gradient = without_expansion(gradient, place.expanded);
      if (!graph::is_dense(as_fake(gradient)->value->type()))
        return "a gradient is a view of a tangent whose elements lie apart";
      gradient = at::clone(gradient);
    }
    outputs.push_back(std::move(gradient));
    return "";
  }

  // One element of each dimension that has one element alone in memory.
  static at::Tensor without_expansion(at::Tensor gradient, std::vector<int64_t>& sizes) {
    const std::vector<int64_t> all = gradient.sizes().vec();
    for (int64_t dim = 0; dim < gradient.dim(); ++dim) {
      if (gradient.stride(dim) != 0 || gradient.size(dim) < 2) continue;
      gradient = gradient.narrow(dim, 0, 1);
      sizes = all;
    }
    return gradient;
  }

  bool shares_memory(const at::Tensor& gradient, const std::vector<at::Tensor>& outputs) const {
    if (!gradient.requires_grad()) return false;
    const int storage = as_fake(gradient)->value->storage();
    return std::ranges::any_of(outputs,
                               [&](const at::Tensor& output) {
                                 return as_fake(output)->value->storage() == storage;
                               }) ||
           std::ranges::any_of(computed_,
                               [&](const at::Tensor& result) {
                                 const FakeTensorImpl* fake = as_fake(result);
                                 return fake && fake->value->storage() == storage;
                               }) ||
           tracer_.is_outside_memory(gradient);
  }

  Input place_of(const at::Tensor& tensor) const {
    const auto index_in = [&](const std::vector<at::Tensor>& tensors) {
      const auto found = std::ranges::find_if(
          tensors, [&](const at::Tensor& other) { return other.is_same(tensor); });
      return found == tensors.end() ? -1 : static_cast<int>(found - tensors.begin());
    };
    if (const int i = index_in(tangents_); i >= 0) return {Input::Kind::kTangent, i};
    if (const int i = index_in(results_); i >= 0) return {Input::Kind::kResult, i};
    const int i = index_in(inputs_);
    const bool is_constant =
        i < 0 || request_.graph.inputs()[i].kind == graph::InputKind::kConstant;
    return is_constant ? Input{} : Input{Input::Kind::kInput, i};
  }

  const GradientRequest& request_;
  std::vector<at::Tensor> inputs_, tangents_;  // leaves of the trace
  std::vector<at::Tensor> computed_;           // by result: of the replay
  std::vector<at::Tensor> results_;            // leaves in their place; undefined: none is needed
  Tracer tracer_;
};

}  // namespace

// On a thread of its own, which no run of autograd's engine is in: of the thread that asks, the
// nodes of autograd would take it that gradients are wanted of what that run wants them of.
GradientTrace trace_gradients(const GradientRequest& request) {
  GradientTrace result;
  std::exception_ptr error;
  PyThreadState* const state = PyEval_SaveThread();
  std::thread([&] {
    const PyGILState_STATE gil = PyGILState_Ensure();
    try {
      result = GradientTracer(request).run();
    } catch (...) {
      error = std::current_exception();
    }
    PyGILState_Release(gil);
  }).join();
  PyEval_RestoreThread(state);
  if (error) std::rethrow_exception(error);
  return result;
}

}  // namespace braze::trace
