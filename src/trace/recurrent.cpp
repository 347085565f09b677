// Recurrent layers (nn.LSTM, nn.GRU, nn.RNN) over sizes that are symbols.
//
// PyTorch's composite kernels take one step of time after the other in C++, so that a trace of them
// holds as many copies of the cell as this call's sequence has steps. With a symbolic size the
// operator is recorded as it is, and runs as in eager. With numbers for sizes the kernel is traced:
// then its steps can be fused. Where a gradient is wanted and the length varies, it is a break: a
// trace for each length would cost more than it gains.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include "pytorch/aten.h"
#include "trace/break.h"
#include "trace/composites.h"
#include "trace/fake_tensor.h"
#include "trace/recorder.h"
#include "trace/rules/rules.h"
#include "trace/shapes/common.h"

namespace braze::trace {
namespace {

// input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first. `hx` is
// one tensor, or for an LSTM a list of two.
constexpr int kLayerArguments = 9;
enum Position { kInput, kState, kParams, kBiases, kLayers, kDropout, kTrain, kBidirectional };

struct Layer {
  // `gates`: rows of a weight for each element of the state.
  explicit Layer(const c10::IValue* arguments, int64_t gates = 0)
      : input(arguments[kInput].toTensor()),
        states(arguments[kState].isTensor() ? std::vector<at::Tensor>{arguments[kState].toTensor()}
                                            : arguments[kState].toTensorVector()),
        params(arguments[kParams].toTensorVector()),
        has_biases(arguments[kBiases].toBool()),
        directions(arguments[kBidirectional].toBool() ? 2 : 1),
        cells(arguments[kLayers].toInt() * directions),
        drops(arguments[kTrain].toBool() && arguments[kDropout].toDouble() != 0),
        batch_first(arguments[kLayerArguments - 1].toBool()),
        gates(gates) {}

  at::Tensor input;
  std::vector<at::Tensor> states, params;
  bool has_biases;
  int64_t directions, cells;
  bool drops, batch_first;
  int64_t gates;

  c10::SymInt batch() const { return input.sym_size(batch_first ? 0 : 1); }
  c10::SymInt length() const { return input.sym_size(batch_first ? 1 : 0); }
};

bool has_symbolic_sizes(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

// Sizes of features are those of the weights, which are numbers: a guard makes sure of it.
int64_t features_of(const at::Tensor& state) {
  return state.sym_size(2).guard_int(__FILE__, __LINE__);
}

bool fits_state(const Layer& layer, const at::Tensor& state) {
  return state.defined() && state.dim() == 3 && equal(state.sym_size(0), layer.cells) &&
         equal(state.sym_size(1), layer.batch()) &&
         state.scalar_type() == layer.input.scalar_type();
}

// Weights of input and state, biases of both, and an LSTM's projection, for each cell.
bool fit_params(const Layer& layer) {
  const int64_t output = features_of(layer.states.front());
  const int64_t hidden = features_of(layer.states.back());
  const bool projects = layer.states.size() == 2 && output != hidden;
  const int64_t of_cell = (layer.has_biases ? 4 : 2) + (projects ? 1 : 0);
  if (static_cast<int64_t>(layer.params.size()) != of_cell * layer.cells) return false;
  const int64_t rows = layer.gates * hidden;
  for (size_t i = 0; i < layer.params.size(); ++i) {
    const at::Tensor& param = layer.params[i];
    if (!param.defined() || has_symbolic_sizes(param) ||
        param.scalar_type() != layer.input.scalar_type())
      return false;
    const int64_t kind = static_cast<int64_t>(i) % of_cell;
    const int64_t cell = static_cast<int64_t>(i) / of_cell;
    const c10::SymInt columns =
        cell < layer.directions ? layer.input.sym_size(2) : c10::SymInt(output * layer.directions);
    auto is_matrix = [&](int64_t height, const c10::SymInt& width) {
      return param.dim() == 2 && param.size(0) == height && equal(width, param.size(1));
    };
    const bool fits = kind == 0                         ? is_matrix(rows, columns)
                      : kind == 1                       ? is_matrix(rows, output)
                      : projects && kind == of_cell - 1 ? is_matrix(output, hidden)
                                                        : param.dim() == 1 && param.size(0) == rows;
    if (!fits) return false;
  }
  return true;
}

bool needs_gradient(const Layer& layer) {
  if (!at::GradMode::is_enabled()) return false;
  auto requires_grad = [](const at::Tensor& tensor) { return tensor.requires_grad(); };
  return layer.input.requires_grad() || std::ranges::any_of(layer.states, requires_grad) ||
         std::ranges::any_of(layer.params, requires_grad);
}

bool has_varying_length(const Layer& layer) {
  const int64_t dim = layer.batch_first && layer.input.dim() == 3 ? 1 : 0;
  return layer.input.dim() > 1 && layer.input.sym_size(dim).is_symbolic();
}

// Where anything is unusual PyTorch's kernel is asked, which raises or specialises.
bool is_recorded_whole(const Layer& layer) try {
  if (!has_symbolic_sizes(layer.input) || layer.input.dim() != 3 || layer.drops) return false;
  if (pytorch::is_autocast_enabled(at::kCPU) || thread_state.in_kernel) return false;
  const at::ScalarType dtype = layer.input.scalar_type();
  if (dtype != at::kFloat && dtype != at::kDouble) return false;
  for (const at::Tensor& state : layer.states)
    if (!fits_state(layer, state)) return false;
  return !layer.params.empty() && fit_params(layer) && !needs_gradient(layer);
} catch (const sym::Undecidable&) {
  return false;  // unusual as well: a size that comes from data
}

// `gates`: of its cells.
template <int64_t gates>
void recurrent(const c10::OperatorHandle& handle, c10::DispatchKeySet, torch::jit::Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard below(kCompositeKey);
  const Layer layer(&*(stack->end() - kLayerArguments), gates);
  if (needs_gradient(layer) && has_varying_length(layer))
    raise_break({graph_name(handle.operator_name()),
                 "with a gradient, it is compiled for one length of its sequences alone",
                 kMoveOut});
  if (!is_recorded_whole(layer))
    return handle.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  // An LSTM's output is a view where the batch comes first.
  const bool transposes = layer.batch_first && layer.states.size() == 2;
  if (transposes) {
    *(stack->end() - kLayerArguments) = layer.input.transpose(0, 1);
    stack->back() = false;
  }
  record_call(operator_info(handle), *stack);
  c10::IValue& output = *(stack->end() - 3);
  if (transposes) output = output.toTensor().transpose(0, 1);
}

}  // namespace

// Steps outermost, whatever comes first.
bool metadata::recurrent_layer(const ShapeCall& call) {
  const Layer layer(&call.stack[call.begin]);
  const at::ScalarType dtype = layer.input.scalar_type();
  const int64_t features = features_of(layer.states[0]) * layer.directions;
  at::Tensor output = fresh(Dims{layer.length(), layer.batch(), features}, dtype);
  if (layer.batch_first)
    output = make_fake(Dims{layer.batch(), layer.length(), features},
                       Dims{output.sym_stride(1), output.sym_stride(0), 1}, dtype);
  std::vector<at::Tensor> states;
  for (const at::Tensor& state : layer.states) states.push_back(fresh(state.sym_sizes(), dtype));
  if (states.size() == 1) return call.give(output, states[0]);
  return call.give(output, states[0], states[1]);
}

// Gradients of the input, of weights and biases and of both states.
bool metadata::recurrent_layer_backward(const ShapeCall& call) {
  const auto gradient = [&](int argument) {
    const at::Tensor& of = call.stack[call.begin + argument].toTensor();
    return fresh(of.sym_sizes(), of.scalar_type());
  };
  return call.give(gradient(0), gradient(1), gradient(2), gradient(3), gradient(4), gradient(5),
                   gradient(6));
}

void register_recurrent(torch::Library& operators) {
  operators.impl("lstm.input", torch::CppFunction::makeFromBoxedFunction<&recurrent<4>>());
  operators.impl("gru.input", torch::CppFunction::makeFromBoxedFunction<&recurrent<3>>());
  operators.impl("rnn_tanh.input", torch::CppFunction::makeFromBoxedFunction<&recurrent<1>>());
  operators.impl("rnn_relu.input", torch::CppFunction::makeFromBoxedFunction<&recurrent<1>>());
}

}  // namespace braze::trace
