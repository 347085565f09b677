#include "trace/recorder.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <utility>

#include "graph/in_place.h"
#include "graph/op_kind.h"
#include "torch_python/errors.h"
#include "trace/break.h"
#include "trace/dtype_errors.h"
#include "trace/kernel_scope.h"
#include "trace/number_range.h"
#include "trace/probe.h"
#include "trace/sym_node.h"

namespace braze::trace {
namespace {

bool same_hints(std::span<const sym::Int> a, std::span<const sym::Int> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](sym::Int x, sym::Int y) { return x.hint() == y.hint(); });
}

bool has_concrete_numel_zero(const graph::TensorType& type) {
  for (const sym::Int& size : type.sizes)
    if (size == sym::Int(0)) return true;
  return false;
}

}  // namespace

void Recorder::fail(std::string what, const char* way_out, NeedsData needs_data) const {
  raise_break({graph_name(info_.handle.operator_name()), std::move(what), way_out, needs_data});
}

void Recorder::run() {
  switch (info_.treatment) {
    case Treatment::kComposite:
      // What the kernel calls comes back to the fallback one by one.
      return info_.handle.redispatchBoxed(c10::DispatchKeySet(info_.composed_by), &stack_);
    case Treatment::kMetadata: {
      c10::impl::ExcludeDispatchKeyGuard below_autograd(kAboveFake);
      return info_.handle.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack_);
    }
    case Treatment::kBreak:
      fail(info_.what, kMoveOut);
    case Treatment::kLiteral:
      return literal();
    case Treatment::kResize:
      if (resize()) return;
      fail("it changes the size of a tensor in place", "create the tensor with its final size");
    case Treatment::kEvaluate:
    case Treatment::kRecord:
    case Treatment::kBatchNorm:
    case Treatment::kProbe:
      break;
  }
  if (state_.data_capture.sizes && expand_masks()) return;
  take_arguments();
  if (only_numbers()) return run_for_real();
  if (info_.treatment == Treatment::kEvaluate && !(constant_ && operands_.empty())) {
    const int size = info_.handle.schema().argumentIndexWithName("output_size").value_or(-1);
    if (size < 0 || argument(size).isNone()) return evaluate();
  }
  take_devices();
  check_writes();
  if (std::string why = refused_by_kernel(info_, stack_.data() + begin_); !why.empty())
    fail(why, "use a number that the dtype holds, or another dtype");
  refuse_unchecked();
  check_filling();
  if (device_.is_cpu()) refuse_dtypes(info_, stack_, begin_);
  check_rerun();
  use_overload_with_number();
  compute_metadata();
  check_overlap();
  check_broadcast();
  take_results();
  check_sizes();
  if (info_.treatment == Treatment::kBatchNorm) batch_norm();
  complete_dtype();
  complete_dim_of_nothing();
  append_node();
}

bool Recorder::only_numbers() {
  if (!info_.takes_tensor || !operands_.empty()) return false;
  for (size_t i = 0; i < info_.arguments.size(); ++i)
    if (info_.arguments[i] == ArgumentKind::kTensor && argument(i).isTensor()) return true;
  return false;
}

void Recorder::run_for_real() {
  RealCallScope scope;
  info_.handle.callBoxed(stack_);
}

void Recorder::use_overload_with_number() {
  if (info_.op_with_number == nullptr || arguments_.size() < 2) return;
  const graph::Argument& second = arguments_[1];
  const bool is_number =
      std::holds_alternative<sym::Int>(second) || std::holds_alternative<double>(second) ||
      std::holds_alternative<bool>(second) || std::holds_alternative<std::complex<double>>(second);
  if (is_number && std::holds_alternative<graph::Value*>(arguments_[0])) op_ = info_.op_with_number;
}

namespace {

void call_metadata_kernel(const OperatorInfo& info, torch::jit::Stack& stack) {
  const c10::DispatchKeySet meta(c10::DispatchKey::Meta);
  if (info.kernel)
    info.kernel->callBoxed(info.handle, meta, &stack);
  else
    info.handle.redispatchBoxed(meta, &stack);
}

}  // namespace

void compute_results(const OperatorInfo& info, torch::jit::Stack& stack) {
  if ((info.python_kernel || info.treatment == Treatment::kProbe) && info.probe_allowed &&
      probe(info, stack))
    return;
  if (!info.uncertain_kernel || !info.probe_allowed) return call_metadata_kernel(info, stack);
  const size_t begin = stack.size() - info.arguments.size();
  const torch::jit::Stack saved(stack.begin() + begin, stack.end());
  try {
    call_metadata_kernel(info, stack);
  } catch (const c10::Error&) {
    stack.resize(begin);
    stack.insert(stack.end(), saved.begin(), saved.end());
    if (!probe(info, stack)) throw;
  }
}

void Recorder::compute_metadata() {
  // What an operator writes to may overlap with itself or with what it reads, which is an error:
  // only numbers tell.
  auto may_overlap = [&](const Operand& written) {
    for (const sym::Int& stride : written.value->type().strides)
      if (stride == sym::Int(0)) return true;
    for (const Operand& other : operands_)
      if (other.value != written.value && other.value->storage() == written.value->storage())
        return true;
    return false;
  };
  KernelScope scope;
  if (info_.has(graph::kKeepsUnknownSize) && requires_grad_ && at::GradMode::is_enabled()) {
    // Of halves its kernel gives gradients of another dtype.
    const bool is_f32 = argument(0).toTensor().scalar_type() == at::kFloat;
    if (!symbolic_ && is_f32 && probe(info_, stack_)) return;
    fail("only its library knows the size of what it keeps for a backward", kMoveOut);
  }
  for (int position : info_.mutates)
    for (const Operand& operand : operands_)
      if (symbolic_ && operand.argument == position && may_overlap(operand)) {
        specialise_symbols();
        symbolic_ = false;
      }
  try {
    if (info_.rules.metadata && use_metadata_rule()) return;
    if ((symbolic_ ? info_.infer != nullptr : info_.infer_always) && use_rule()) return;
    if (symbolic_) {
      if (!info_.rules.metadata && !info_.infer && try_elementwise()) return;
      // What may resize its argument, a probe with the sizes seen tells.
      const bool may_resize = info_.treatment == Treatment::kProbe && !info_.mutates.empty();
      const bool usable = !info_.python_kernel || info_.is_custom;
      if (usable && !may_resize && try_symbolic_kernel()) return;
      specialise_symbols();
    }
    compute_results(info_, stack_);
  } catch (const c10::NotImplementedError&) {
    fail("PyTorch has no function for its result's shape", kMoveOut);
  } catch (const c10::Error&) {
    // Samplers look at the values of their parameters before they look at the sizes.
    if (info_.random && operands_.size() > 1) fail("it refuses its arguments", kMoveOut);
    throw;
  } catch (const std::exception& error) {
    if (torch_python::carries_python_error(error, PyExc_NotImplementedError))
      fail("PyTorch has no function for its result's shape", kMoveOut);
    throw;
  }
}

bool Recorder::use_metadata_rule() {
  if (!has_named_dims()) fail("it has no such dimension, or is given one twice", kMoveOut);
  const ShapeCall call{info_, stack_, begin_};
  if (!symbolic_) return info_.rules.metadata(call);
  try {
    return info_.rules.metadata(call);
  } catch (const c10::Error&) {
    return false;  // not for these symbols: the kernel decides, with the hints
  }
}

bool Recorder::use_rule() {
  if (!has_named_dims()) fail("it has no such dimension, or is given one twice", kMoveOut);
  GuardedSizes sizes(state_.shapes);
  try {
    if (info_.infer->rule(graph::InferCall(arguments_, sizes, inferred_, default_dtype()))) {
      put_results(info_, stack_, begin_, inferred_);
      return true;
    }
  } catch (const sym::NotConstant&) {  // a symbol where the rule needs a number
  }
  inferred_.clear();
  return false;
}

void Recorder::take_results() {
  const size_t first = stack_.size() - info_.result_count;
  results_.reserve(info_.result_count);
  for (size_t i = first; i < stack_.size(); ++i) {
    c10::IValue& value = stack_[i];
    if (value.isTensor()) {
      value = take_result(value.toTensor());
    } else if (value.isTensorList()) {
      auto list = value.toTensorList();
      for (size_t j = 0; j < list.size(); ++j) list.set(j, take_result(list.get(j)));
    } else if (!info_.returns_tensor) {
      fail("it returns a Python value", kMoveOut);
    }
  }
}

at::Tensor Recorder::take_result(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    results_.emplace_back();
    return tensor;
  }
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  FakeTensorImpl* fake = as_fake(tensor);
  if (fake && fake->value) return take_known_result(tensor, *fake);
  if (tensor.layout() != at::kStrided) fail("its result is not a dense tensor", kMoveOut);
  if (!try_dtype_of(tensor.scalar_type()))
    fail(std::string("its result has dtype ") + c10::toString(tensor.scalar_type()) +
             ", which is not supported",
         kMoveOut);
  if (tensor.is_conj() || tensor.is_neg())
    fail("its result is lazily conjugated or negated", kMoveOut);
  if (!fake && !impl.key_set().has(c10::DispatchKey::Meta) && !impl.key_set().has(kFakeKey))
    fail("its result is on device " + tensor.device().str(), kMoveOut);

  const size_t place = results_.size();
  constexpr size_t kSeed = 2;
  const bool on_cpu = place >= kSeed && info_.has(graph::kSeedOnCpu);
  const c10::Device device = on_cpu ? c10::Device(c10::kCPU) : device_;
  at::Tensor result = fake ? tensor : make_fake(impl.unsafe_storage(), impl, device);
  fake = as_fake(result);
  fake->set_fake_device(device);
  const TraceState::KnownStorage storage = state_.known_storage(fake->unsafe_storage());
  fake->set_inference(storage.inference);
  const bool known = place < inferred_.size();
  if (known) inferred_[place].type.device = graph_device(device);
  results_.push_back(
      {true, known ? std::move(inferred_[place].type) : type_of(result), storage.number, fake});
  if (requires_grad_) result_tensors_.push_back(result);
  return result;
}

// In the graph it makes another view of the input, if it is one.
void Recorder::count_reshape(const graph::Value* view) {
  const graph::Value* counted = graph::counted_with(state_.graph_, view);
  const std::vector<graph::Input>& inputs = state_.graph_.inputs();
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].value == counted) state_.graph_.count_reshape(static_cast<int>(i));
}

// An argument comes back: in-place ops and out=.
at::Tensor Recorder::take_known_result(const at::Tensor& tensor, FakeTensorImpl& fake) {
  fake.forget_row_major();
  if (info_.inplace_view) count_reshape(fake.value);
  Result result{true, type_of(tensor), state_.storage_number(fake.unsafe_storage()), nullptr};
  if (fake.specialised_from) {
    if (!same_hints(result.type.sizes, fake.value->type().sizes))
      fail("it changes sizes that vary", "use the out-of-place operator");
    result.type = fake.value->type();
  } else if (result.type != fake.value->type()) {
    if (fake.outside || fake.stands_for_input)
      fail("it changes the sizes of a tensor from outside",
           "give it an output tensor of the right size");
    if (info_.inplace_view) {
      result.bind = &fake;
    } else if (has_concrete_numel_zero(fake.value->type())) {
      // out=torch.empty(0): memory is allocated now; what was there is empty.
      const graph::Op& empty = graph::op_of(graph::OpKind::kempty_strided);
      result.storage = state_.renew_storage_number(fake.unsafe_storage());
      graph::Node* node =
          state_.graph_.add_node(empty,
                                 {result.type.sizes, result.type.strides, result.type.dtype,
                                  graph::None{}, result.type.device, graph::None{}},
                                 {result.type}, state_.origin(), nullptr, {result.storage});
      for (graph::Argument& argument : arguments_)
        if (auto* value = std::get_if<graph::Value*>(&argument); value && *value == fake.value)
          *value = node->result();
      for (Operand& operand : operands_)
        if (operand.value == fake.value) operand.value = node->result();
      state_.bind(&fake, node->result());
      constant_ = false;
    } else {
      fail("it changes the size of its output tensor",
           "give it an output tensor of the right size, or an empty one");
    }
  }
  results_.push_back(std::move(result));
  c10::TensorImpl* stands_for = fake.outside ? fake.outside : fake.specialised_from;
  if (stands_for) return at::Tensor(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(stands_for));
  if (requires_grad_) result_tensors_.push_back(tensor);
  return tensor;
}

// Tensors of size [0] join along any dimension, as eager allows it for old programs: there may be
// no such dimension.
void Recorder::complete_dim_of_nothing() {
  constexpr int kDim = 1;
  if (info_.op->kind != graph::OpKind::kcat || results_.size() != 1) return;
  const sym::Dims& sizes = results_[0].type.sizes;
  if (sizes.size() == 1 && sizes[0] == sym::Int(0)) arguments_[kDim] = sym::Int(0);
}

// The default dtype is part of the program as traced.
void Recorder::complete_dtype() {
  if (info_.dtype_argument < 0 || !operands_.empty() || results_.size() != 1) return;
  graph::Argument& dtype = arguments_[info_.dtype_argument];
  if (std::holds_alternative<graph::None>(dtype) && results_[0].defined)
    dtype = results_[0].type.dtype;
}

void Recorder::append_node() {
  const graph::Op& op = op_ ? *op_ : *info_.op;
  std::vector<graph::TensorType> types;
  std::vector<int> storages;
  types.reserve(results_.size());
  storages.reserve(results_.size());
  for (Result& result : results_) {
    types.push_back(std::move(result.type));
    storages.push_back(result.storage);
  }
  graph::Node* node = state_.graph_.add_node(op, std::move(arguments_), std::move(types),
                                             state_.origin(), nullptr, std::move(storages));
  for (size_t i = 0; i < results_.size(); ++i) {
    if (!results_[i].defined)
      state_.graph_.set_result_undefined(node, static_cast<int>(i));
    else if (results_[i].bind)
      state_.bind(results_[i].bind, node->result(static_cast<int>(i)));
  }
  note_constants(*node);
  if (requires_grad_ && at::GradMode::is_enabled()) {
    state_.watch_autograd(std::move(result_tensors_));
    state_.note_forward(node->origin());
  } else if (requires_grad_) {
    state_.without_history_.push_back(node);
  }
}

// Whether an argument is a size that varies: there is nothing to compute with yet.
static bool has_symbols(const std::vector<c10::IValue>& arguments) {
  return std::ranges::any_of(arguments, [](const c10::IValue& value) {
    return value.isSymInt() || value.isSymFloat() || value.isSymBool() || value.isSymIntList();
  });
}

void Recorder::note_constants(const graph::Node& node) {
  state_.has_effects_ |= info_.random || node.op().effects.opaque;
  for (int position : node.mutated_arguments())
    for (const Operand& operand : operands_)
      if (operand.argument == position)
        state_.has_effects_ |= state_.is_outside_storage(operand.value->storage());
  if (constant_ && !info_.random && info_.treatment != Treatment::kBatchNorm &&
      !has_symbols(constant_call_)) {
    std::vector<const graph::Value*> results(node.results().begin(), node.results().end());
    state_.constants_.add_call(info_.handle, std::move(constant_call_), std::move(operands_),
                               std::move(results));
    return;
  }
  for (int position : node.op().effects.mutates)
    for (const Operand& operand : operands_)
      if (operand.argument == position) state_.constants_.invalidate(operand.value->storage());
}

void Recorder::evaluate() {
  if (!constant_) {
    if (capture_data()) return;
    if (info_.handle.hasTag(at::Tag::dynamic_output_shape))
      fail("the size of its result depends on the data of a tensor", kReadsData,
           NeedsData::kForASize);
    fail("it reads the data of a tensor", kReadsData, NeedsData::kForAValue);
  }
  for (const Operand& operand : operands_)
    put_operand(argument(operand.argument), operand.element,
                state_.constants_.evaluate(operand.value));
  run_for_real();
  for (size_t i = stack_.size() - info_.result_count; i < stack_.size(); ++i)
    if (stack_[i].isTensor()) stack_[i] = state_.literal(stack_[i].toTensor());
}

void Recorder::literal() {
  const at::Tensor tensor = argument(0).toTensor();
  if (as_fake(tensor) || state_.is_declared(tensor)) return;
  argument(0) = state_.literal(tensor);
}

bool Recorder::resize() {
  const at::Tensor tensor = argument(0).toTensor();
  const c10::IValue& sizes = argument(1);
  if (!sizes.isIntList() || tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides() ||
      tensor.sizes() != c10::IntArrayRef(sizes.toIntVector()))
    return false;
  stack_.resize(begin_);
  stack_.emplace_back(tensor);
  return true;
}

// native_batch_norm and cudnn_batch_norm write to running_mean and running_var in training without
// saying so. PyTorch has the former under names whose schemas say what happens.
void Recorder::batch_norm() {
  using graph::OpKind;
  constexpr int kRunningMean = 3, kTraining = 5;
  const bool trains = std::get<bool>(arguments_[kTraining]);
  if (trains && std::holds_alternative<graph::Value*>(arguments_[kRunningMean]))
    for (const Operand& operand : operands_)
      if (operand.argument == kRunningMean || operand.argument == kRunningMean + 1)
        if (state_.is_outside_storage(operand.value->storage())) note_write(operand);
  if (info_.op->kind == OpKind::kcudnn_batch_norm)
    return;  // functionalise makes it one of the others
  if (!trains) {
    op_ = &graph::op_of(OpKind::k_native_batch_norm_legit_no_training);
    arguments_.erase(arguments_.begin() + kTraining);
  } else if (std::holds_alternative<graph::Value*>(arguments_[kRunningMean])) {
    op_ = &graph::op_of(OpKind::k_native_batch_norm_legit);
  } else {
    op_ = &graph::op_of(OpKind::k_native_batch_norm_legit_no_stats);
    arguments_.erase(arguments_.begin() + kRunningMean, arguments_.begin() + kRunningMean + 2);
  }
}

}  // namespace braze::trace
