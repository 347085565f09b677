#include "dispatch/gradient_functions.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <map>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "cpython/ref.h"
#include "dispatch/break_log.h"
#include "dispatch/compile_mutex.h"
#include "dispatch/compiler.h"
#include "dispatch/fork_gate.h"
#include "dispatch/gil.h"
#include "dispatch/specializations.h"
#include "dispatch/training.h"
#include "passes/unsupported.h"
#include "trace/gradient_trace.h"

namespace braze::dispatch {
namespace {

using c10::DispatchKey;
using graph::Graph;
using graph::InputKind;
using graph::Value;
using Source = trace::GradientTrace::Input;
using Gradient = trace::GradientTrace::Gradient;

// What comes in more ways than this is left to PyTorch's operators. Of code for all sizes there is
// one function for each set of sizes: that would go on and on.
constexpr size_t kMostFunctionVariants = 8, kMostSymbolicVariants = 4;

// Tensors that only PyTorch's operators take, and wrappers that are to see every operator.
constexpr c10::DispatchKeySet kWrapped({DispatchKey::Python, DispatchKey::FuncTorchBatched,
                                        DispatchKey::Batched, DispatchKey::FuncTorchGradWrapper,
                                        DispatchKey::Functionalize, DispatchKey::ZeroTensor,
                                        DispatchKey::Conjugate, DispatchKey::Negative});
constexpr c10::DispatchKeySet kModes({DispatchKey::Python,
                                      DispatchKey::FuncTorchDynamicLayerFrontMode,
                                      DispatchKey::Functionalize, DispatchKey::Tracer,
                                      DispatchKey::Fake});

// Whether nobody watches the operators or changes what they do. Autocast would cast in the formulas
// of the backward.
bool is_plain_thread() {
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  constexpr c10::DispatchKeySet kAutocast({DispatchKey::AutocastCPU, DispatchKey::AutocastCUDA});
  return at::GradMode::is_enabled() && !keys.included_.has_any(kModes) &&
         (kAutocast - keys.excluded_).empty() && !torch::autograd::AnomalyMode::is_enabled() &&
         at::SavedTensorDefaultHooks::get_tls_state().stack.empty();
}

void append(std::vector<int64_t>& signature, c10::IntArrayRef numbers) {
  signature.push_back(static_cast<int64_t>(numbers.size()));
  signature.insert(signature.end(), numbers.begin(), numbers.end());
}

// The value becomes an input of the graph, behind those that there are. False: it shares memory
// with others, or is a result of the graph.
bool take_from_outside(Graph& graph, Value* value, const std::string& name) {
  if (!value || !value->producer()) return false;
  const auto has_memory = [&](const Value* other) {
    return other && other != value && other->storage() == value->storage();
  };
  if (std::ranges::find(graph.outputs(), value) != graph.outputs().end()) return false;
  for (const graph::Input& input : graph.inputs())
    if (has_memory(input.value)) return false;
  bool is_behind = false;  // views of it may come behind
  for (const auto& node : graph.nodes()) {
    for (const Value* result : node->results()) {
      if (has_memory(result) && !is_behind) return false;
      is_behind |= result == value;
    }
    if (node->mutated_arguments().empty()) continue;
    if (std::ranges::any_of(node->operands(), [&](const Value* operand) {
          return operand->storage() == value->storage();
        }))
      return false;
  }
  const int storage = value->storage();
  value->set_storage(graph.new_storage());
  Value* input = graph.add_input(value->type(), InputKind::kUser, name, storage);
  graph.replace_all_uses(value, input);
  return true;
}

// Removes what only values are made of that have become inputs. What is drawn before something that
// is still needed has to be drawn.
void drop_unneeded_draws(Graph& graph) {
  std::set<const Value*> needed(graph.outputs().begin(), graph.outputs().end());
  bool draws = false;
  for (auto place = graph.nodes().end(); place != graph.nodes().begin();) {
    const auto current = std::prev(place);
    graph::Node& node = **current;
    const graph::Effects& effects = node.op().effects;
    const bool is_needed =
        effects.opaque || !node.mutated_arguments().empty() || (effects.random && draws) ||
        std::ranges::any_of(node.results(),
                            [&](const Value* result) { return needed.contains(result); });
    if (!is_needed) {
      graph.erase(&node);
      continue;
    }
    draws |= effects.random;
    for (const Value* operand : node.operands()) needed.insert(operand);
    place = current;
  }
}

}  // namespace

// One compiled function.
class GradientFunctions::Function {
 public:
  Function(const Forward& forward, trace::GradientTrace traced, const Settings& settings,
           const std::string& name)
      : sources_(std::move(traced.inputs)), gradients_(std::move(traced.gradients)) {
    for (const Forward::Result& result : forward.results) results_.push_back(result.number);
    Graph graph = std::move(traced.trace.graph);
    std::vector<at::Tensor> constants;
    const std::vector<int> numbers = number_of_inputs(forward.graph);
    for (size_t i = 0; i < sources_.size(); ++i) {
      const Source& source = sources_[i];
      const bool is_constant = source.kind == Source::Kind::kConstant;
      constants.push_back(is_constant ? traced.trace.inputs[i].tensor : at::Tensor());
      if (source.kind != Source::Kind::kInput || numbers[source.index] < 0) continue;
      graph.set_input_kind(static_cast<int>(i), InputKind::kNumber);
      numbers_.push_back(numbers[source.index]);
    }
    Graph complete = graph.clone();
    for (size_t i = 0; i < forward.kept.size(); ++i) {
      const size_t number = forward.kept[i].number;
      if (!take_from_outside(graph, traced.looked_for[i], "kept" + std::to_string(number)))
        continue;
      kept_.push_back(number);
      constants.emplace_back();
    }
    graph.move_inputs_to_end(InputKind::kTangent);
    drop_unneeded_draws(graph);
    if (!traced.trace.joint.empty())
      training_ = Training::make(graph, traced.trace.joint, settings, constants, name, &complete);
    draws_ = std::ranges::any_of(graph.nodes(),
                                 [](const auto& node) { return node->op().effects.random; });
    Specializations specializations(std::move(graph), graph::DataSymbols{}, settings,
                                    std::move(constants), name);
    code_ = specializations.add({}, nullptr);
  }

  // Nothing where a result is not there.
  std::optional<std::vector<at::Tensor>> run(const Call& call) const {
    std::vector<c10::TensorImpl*> inputs;
    std::vector<at::Tensor> unpacked;
    for (const Source& source : sources_) {
      at::Tensor tensor;
      if (source.kind == Source::Kind::kInput) tensor = call.inputs[source.index];
      if (source.kind == Source::Kind::kTangent) tensor = call.tangents[source.index];
      if (source.kind == Source::Kind::kResult) {
        tensor = call.unpack_result(results_[source.index]);
        if (!tensor.defined()) return std::nullopt;
        unpacked.push_back(tensor);
      }
      inputs.push_back(tensor.defined() ? tensor.unsafeGetTensorImpl() : nullptr);
    }
    std::vector<at::Tensor> kept;
    for (const size_t number : kept_) {
      kept.push_back(call.unpack_kept(number));
      inputs.push_back(kept.back().unsafeGetTensorImpl());
    }
    std::vector<double> numbers;
    for (const int number : numbers_) numbers.push_back(call.numbers[number]);
    std::vector<at::Tensor> outputs;
    if (draws_) {
      const pytorch::GeneratorState now(call.drawn_from->gpu());
      call.drawn_from->restore();
      code_->executable->run(inputs, outputs, {}, numbers);
      now.restore();
    } else {
      code_->executable->run(inputs, outputs, {}, numbers);
    }
    if (training_) {
      std::vector<at::Tensor> for_backward = training_->take_kept(outputs);
      training_->give_history(inputs.data(), outputs, std::move(for_backward), {}, numbers,
                              call.drawn_from);
    }
    std::vector<at::Tensor> found;
    for (const Gradient& gradient : gradients_) {
      switch (gradient.kind) {
        case Gradient::Kind::kUndefined:
          found.emplace_back();
          break;
        case Gradient::Kind::kOutput:
          found.push_back(outputs[gradient.index]);
          if (!gradient.expanded.empty()) found.back() = found.back().expand(gradient.expanded);
          break;
        case Gradient::Kind::kTangent:
          found.push_back(call.tangents[gradient.index]);
          break;
        case Gradient::Kind::kInput:
          found.push_back(call.inputs[gradient.index]);
          break;
      }
    }
    return found;
  }

 private:
  // By input: which float of the call it is, or -1.
  static std::vector<int> number_of_inputs(const Graph& forward) {
    std::vector<int> numbers;
    int next = 0;
    for (const graph::Input& input : forward.inputs())
      numbers.push_back(input.kind == InputKind::kNumber ? next++ : -1);
    return numbers;
  }

  std::vector<Source> sources_;         // of inputs, less those of what is kept
  std::vector<size_t> kept_;            // those behind
  std::vector<size_t> results_;         // of the call, by number in the trace
  std::vector<Gradient> gradients_;     // by leaf
  std::vector<int> numbers_;            // which floats of the call it takes
  std::unique_ptr<Training> training_;  // null: no gradient has a history
  std::shared_ptr<Specialization> code_;
  bool draws_ = false;
};

GradientFunctions::GradientFunctions(Forward forward, Settings settings, std::string name)
    : forward_(std::move(forward)), settings_(std::move(settings)), name_(std::move(name)) {}

GradientFunctions::~GradientFunctions() = default;

GradientFunctions::Signature GradientFunctions::signature_of(const Call& call) {
  Signature signature(call.symbols.begin(), call.symbols.end());
  for (const at::Tensor& tangent : call.tangents) {
    signature.push_back(static_cast<int64_t>(tangent.scalar_type()));
    signature.push_back(tangent.requires_grad());
    signature.push_back(static_cast<int64_t>(tangent.key_set().raw_repr()));
    append(signature, tangent.sizes());
    append(signature, tangent.strides());
  }
  for (const at::Tensor& input : call.inputs)
    signature.push_back(input.defined() && input.requires_grad());
  return signature;
}

std::optional<std::shared_ptr<GradientFunctions::Function>> GradientFunctions::find(
    const Signature& signature) {
  std::lock_guard lock(mutex_);
  for (const Variant& variant : variants_)
    if (variant.signature == signature) return variant.function;
  return std::nullopt;
}

bool GradientFunctions::is_full() {
  std::lock_guard lock(mutex_);
  return variants_.size() >=
         (forward_.graph.is_symbolic() ? kMostSymbolicVariants : kMostFunctionVariants);
}

// With the GIL.
void GradientFunctions::tell(const std::string& why) const {
  log_break(name_, {capture::BreakKind::kAutograd,
                    "gradients with create_graph=True run through PyTorch's operators: " + why,
                    {}});
}

void GradientFunctions::refuse(const Signature& signature) {
  std::lock_guard lock(mutex_);
  for (Variant& variant : variants_)
    if (variant.signature == signature) variant.function.reset();
}

// Null where another thread or an outer call compiles just now: PyTorch's operators do it this
// time.
std::shared_ptr<GradientFunctions::Function> GradientFunctions::make(const Call& call,
                                                                     const Signature& signature) {
  const Gil gil;
  std::unique_lock lock(compile_mutex(), std::try_to_lock);
  if (!lock || capturing()) return nullptr;
  if (const auto known = find(signature)) return *known;
  if (is_full()) {
    tell("they are asked for in too many ways (sizes, layouts of tangents)");
    return nullptr;
  }
  const auto start = std::chrono::steady_clock::now();
  std::shared_ptr<Function> function;
  std::string why;
  try {
    Graph graph = forward_.graph.clone();
    std::vector<Value*> outputs = graph.outputs();
    std::map<int, Value*> by_id;
    for (const auto& node : graph.nodes())
      for (Value* result : node->results())
        if (result) by_id[result->id()] = result;
    for (const Forward::Kept& kept : forward_.kept) outputs.push_back(by_id.at(kept.of->id()));
    graph.set_outputs(std::move(outputs));
    std::vector<int> outputs_of;
    for (const Forward::Result& known : forward_.results) outputs_of.push_back(known.output);
    const auto result = [&](size_t i) { return call.unpack_result(forward_.results[i].number); };
    std::vector<at::Tensor> inputs = call.inputs;
    size_t number = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (i < forward_.constants.size() && forward_.constants[i].defined())
        inputs[i] = forward_.constants[i];
      if (graph.inputs()[i].kind == InputKind::kNumber)
        inputs[i] = at::scalar_tensor(call.numbers[number++], at::TensorOptions(at::kDouble));
    }
    trace::GradientTrace traced;
    {
      const CaptureStretch stretch;
      traced =
          trace::trace_gradients({graph, forward_.kept.size(), std::move(inputs), call.tangents,
                                  forward_.leaves, call.symbols, outputs_of, result});
    }
    why = traced.why;
    if (why.empty())
      function = std::make_shared<Function>(forward_, std::move(traced), settings_,
                                            "gradients of " + name_);
  } catch (const InternalError& error) {
    if (braze::options().strict) throw;
    std::fprintf(stderr,
                 "braze: internal error in the gradients of %s; they run through PyTorch's "
                 "operators. Please report this: %s\n",
                 name_.c_str(), error.what());
    why = std::string("internal error: ") + error.what();
  } catch (const c10::Error& error) {  // what cannot be traced or differentiated
    why = error.what_without_backtrace();
  } catch (const std::exception& error) {  // nor cut
    why = error.what();
  }
  if (log::enabled(log::Component::kTiming)) {
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - start;
    char text[32];
    std::snprintf(text, sizeof text, ": total %.1f ms", taken.count());
    log::write(log::Component::kTiming, "gradients of " + name_ + text);
  }
  if (!function) tell(why);
  std::lock_guard guard(mutex_);
  variants_.push_back({signature, function});
  return function;
}

std::optional<std::vector<at::Tensor>> GradientFunctions::run(const Call& call) {
  const auto is_wrapped = [](const at::Tensor& tensor) {
    return tensor.key_set().has_any(kWrapped) || tensor.layout() != at::kStrided;
  };
  if (!is_plain_thread() || std::ranges::any_of(call.tangents, is_wrapped)) return std::nullopt;
  const Signature signature = signature_of(call);
  const auto known = find(signature);
  if (!known && is_full() && !log::enabled(log::Component::kBreaks)) return std::nullopt;
  const std::shared_ptr<Function> function = known ? *known : make(call, signature);
  if (!function) return std::nullopt;
  try {
    return function->run(call);
  } catch (const runtime::NeedsEager&) {  // PyTorch's operators know what is wrong
  } catch (const InternalError& error) {
    if (braze::options().strict) throw;
    refuse(signature);
    std::fprintf(stderr,
                 "braze: internal error in the gradients of %s; they run through PyTorch's "
                 "operators. Please report this: %s\n",
                 name_.c_str(), error.what());
  }
  return std::nullopt;
}

}  // namespace braze::dispatch
