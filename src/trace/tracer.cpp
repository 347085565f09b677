#include "trace/tracer.h"

#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <utility>

#include "pytorch/aten.h"
#include "trace/break.h"
#include "trace/composites.h"
#include "trace/kernel_scope.h"
#include "trace/metadata.h"
#include "trace/recorder.h"
#include "trace/sym_node.h"

namespace braze::trace {
namespace {

struct StorageVisible {
  StorageVisible() { thread_state.storage_visible = true; }
  ~StorageVisible() { thread_state.storage_visible = previous; }
  const bool previous = thread_state.storage_visible;
};

// Kernels of PyTorch that make a view of a fake let it be on the device that the fake stands for,
// in versions that have a use for kFakeKey of their own; but all else in a kernel for metadata is
// on meta. A fake says so too.
bool is_off_meta(const at::Tensor& view) {
  return view.defined() && view.key_set().has(kFakeKey) && !view.device().is_meta() &&
         !as_fake(view);
}

at::Tensor on_meta(const at::Tensor& view) {
  c10::TensorImpl& impl = *view.unsafeGetTensorImpl();
  return make_fake(impl.unsafe_storage(), impl, view.device());
}

void hold_views_on_meta(torch::jit::Stack& stack, size_t begin) {
  for (size_t i = begin; i < stack.size(); ++i) {
    if (stack[i].isTensor()) {
      if (is_off_meta(stack[i].toTensor())) stack[i] = on_meta(stack[i].toTensor());
    } else if (stack[i].isTensorList()) {
      auto views = stack[i].toTensorList();
      for (size_t j = 0; j < views.size(); ++j)
        if (is_off_meta(views.get(j))) views.set(j, on_meta(views.get(j)));
    }
  }
}

// A kernel for metadata calls another operator: metadata only.
void nested_call(const OperatorInfo& info, torch::jit::Stack& stack) {
  const size_t begin = stack.size() - info.arguments.size();
  if (info.treatment == Treatment::kEvaluate) {
    if (TraceState* state = current_state(); state && state->evaluate_nested(info, stack)) return;
    raise_break({graph_name(info.handle.operator_name()),
                 "the size or value of a result depends on the data of a tensor", kReadsData,
                 NeedsData::kForAValue});
  }
  if (info.rules.metadata && info.rules.metadata(ShapeCall{info, stack, begin})) return;
  if (info.infer_always && infer_nested(info, stack)) return;
  compute_results(info, stack);
  hold_views_on_meta(stack, begin);
}

void fallback(const c10::OperatorHandle& handle, c10::DispatchKeySet, torch::jit::Stack* stack) {
  record_call(operator_info(handle), *stack);
}

void include_keys(bool included) {
  c10::impl::tls_set_dispatch_key_included(kFakeKey, included);
  c10::impl::tls_set_dispatch_key_included(kCompositeKey, included);
}

}  // namespace

void record_call(const OperatorInfo& info, torch::jit::Stack& stack) {
  if (thread_state.in_kernel) return nested_call(info, stack);
  TraceState* state = current_state();
  TORCH_CHECK(
      state, info.handle.operator_name(),
      ": a tensor without data, made while braze was tracing, is used outside of the trace");
  StorageVisible visible;
  state->settle_autograd();
  try {
    // A copy may have been made because of what was assumed; a view is one in any case.
    const std::vector<std::function<void()>> assumed = std::exchange(state->assumed, {});
    if (info.has(graph::kGivesLayout))
      for (const std::function<void()>& make_sure : assumed) make_sure();
    Recorder(*state, info, stack).run();
    state->assumed.clear();
  } catch (const sym::Undecidable& question) {
    raise_break({graph_name(info.handle.operator_name()),
                 std::string("its result depends on a number that is read from data: ") +
                     question.what() + " is not known",
                 kReadsData, NeedsData::kForAValue});
  }
}

struct Tracer::Impl {
  TraceState state;
  bool autocast_cache = true;
};

Tracer::Tracer() : impl_(std::make_unique<Impl>()) {}
Tracer::~Tracer() = default;

// Observers may keep what a call is given.
Tracer::Scope::Scope(Tracer& tracer)
    : previous_(nullptr), observed_(at::isRecordFunctionEnabled()) {
  BRAZE_CHECK(thread_state.state == nullptr, "scopes of tracers do not nest");
  previous_ = &tracer;
  thread_state.state = &tracer.impl_->state;
  // The cache of casted weights would keep fakes beyond the trace.
  tracer.impl_->autocast_cache = pytorch::is_autocast_cache_enabled();
  pytorch::set_autocast_cache_enabled(false);
  at::enableRecordFunction(false);
  include_keys(true);
}

Tracer::Scope::~Scope() {
  include_keys(false);
  at::enableRecordFunction(observed_);
  previous_->impl_->state.restore_versions();
  // A context that the traced code entered has switched it on again.
  if (pytorch::is_autocast_cache_enabled()) pytorch::clear_autocast_cache();
  pytorch::set_autocast_cache_enabled(previous_->impl_->autocast_cache);
  thread_state.state = nullptr;
}

Tracer::Pause::Pause()
    : in_kernel_(thread_state.in_kernel),
      included_(c10::impl::tls_is_dispatch_key_included(kFakeKey)) {
  thread_state.in_kernel = false;
  include_keys(false);
}

Tracer::Pause::~Pause() {
  include_keys(included_);
  thread_state.in_kernel = in_kernel_;
}

bool Tracer::declare(const at::Tensor& real, graph::InputKind kind, std::string name,
                     std::string* why) {
  return impl_->state.declare(real, kind, std::move(name), why);
}

at::Tensor Tracer::symbolic_input(const at::Tensor& real, graph::InputKind kind, std::string name,
                                  std::span<const DynamicDim> dims, const std::set<int>& strides) {
  return impl_->state.symbolic_input(real, kind, std::move(name), dims, strides);
}

std::optional<std::vector<double>> Tracer::added_to(const at::Tensor& real) {
  return impl_->state.added_to(real);
}

at::Tensor Tracer::stand_in(const at::Tensor& real, std::string name) {
  return impl_->state.stand_in(real, graph::InputKind::kUser, std::move(name));
}

c10::SymInt Tracer::symbolic_integer(int64_t value) {
  return to_symint(impl_->state.symbolic_integer(value), impl_->state.shapes);
}

void Tracer::set_data_capture(DataCapture capture) { impl_->state.data_capture = capture; }

void Tracer::set_origin_provider(std::function<graph::OriginId(graph::Graph&)> provider) {
  impl_->state.origin_provider = std::move(provider);
}

bool Tracer::is_fake(const at::Tensor& tensor) {
  return tensor.defined() && as_fake(tensor) != nullptr;
}

const std::optional<TraceBreak>& Tracer::last_break() const { return impl_->state.last_break; }

bool Tracer::is_outside_memory(const at::Tensor& fake) const {
  return impl_->state.is_outside_storage(as_fake(fake)->value->storage());
}

bool Tracer::needs_autograd() const { return impl_->state.needs_autograd(); }

std::string Tracer::run_backward(const BackwardCall& call, BackwardResult& result) {
  return impl_->state.run_backward(call, result);
}

std::string Tracer::differentiate(const std::vector<at::Tensor>& outputs) {
  const Scope scope(*this);
  return impl_->state.differentiate(outputs);
}

Trace Tracer::finish(const std::vector<at::Tensor>& outputs) {
  return impl_->state.finish(outputs);
}

sym::ShapeEnv& Tracer::shapes() { return impl_->state.shapes; }

ControlFlow& Tracer::control_flow() { return impl_->state.control_flow; }
ChangedLeaves& Tracer::changed_leaves() { return impl_->state.changed_leaves; }

std::string initialize(PyObject* module) {
  if (!create_break_type(module)) {
    PyErr_Clear();
    return "the exception type TraceBreak could not be created";
  }
  static bool registered = false;
  if (registered) return "";
  if (c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(kFakeKey))
    return "this PyTorch has its own fallback on the dispatch key " +
           std::string(c10::toString(kFakeKey)) +
           ", which tracing needs; use an older PyTorch or a newer Braze";
  // Never destroyed: unregistering at exit would race with the interpreter's shutdown.
  static auto& library =
      *new torch::Library(torch::Library::IMPL, "_", kFakeKey, __FILE__, __LINE__);
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
  watch_operators();
  registered = true;
  return register_composites();
}

}  // namespace braze::trace
