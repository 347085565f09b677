#include "capture/tensors.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/python_variable.h>

#include "base/error.h"
#include "capture/identity_map.h"
#include "capture/known.h"
#include "guard/guard.h"
#include "trace/testing.h"
#include "trace/tracer.h"

namespace braze::capture {

bool is_tensor(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == known().tensor || type == known().parameter) return true;
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return false;
  return PyType_IsSubtype(type, known().tensor);
}

bool is_fake(PyObject* object) {
  return is_tensor(object) && trace::Tracer::is_fake(THPVariable_Unpack(object));
}

bool requires_grad(PyObject* tensor) { return THPVariable_Unpack(tensor).requires_grad(); }

bool share_storage(PyObject* a, PyObject* b) {
  const at::Tensor& x = THPVariable_Unpack(a);
  const at::Tensor& y = THPVariable_Unpack(b);
  return x.has_storage() && y.has_storage() && x.storage().is_alias_of(y.storage());
}

std::vector<Ref> replay(const graph::Graph& graph, const std::vector<PyObject*>& inputs) {
  std::vector<at::Tensor> tensors;
  for (PyObject* input : inputs) tensors.push_back(THPVariable_Unpack(input));
  std::vector<Ref> outputs;
  for (const at::Tensor& output : trace::replay(graph, tensors))
    outputs.push_back(Ref::steal(THPVariable_Wrap(output)));
  return outputs;
}

struct Recording::Impl {
  trace::Tracer tracer;
  std::optional<trace::Tracer::Scope> scope;
  std::optional<at::ThreadLocalState> thread_state;
  at::ScalarType autocast_dtype = at::kFloat;
  bool autocast_cache = true;
  guard::GlobalState state;
};

Recording::Recording() : impl_(std::make_unique<Impl>()) {}
Recording::~Recording() {
  if (impl_->scope) stop();
}

void Recording::start() {
  impl_->state = guard::GlobalState::current();
  impl_->thread_state.emplace();
  impl_->autocast_dtype = at::autocast::get_autocast_dtype(at::kCPU);
  impl_->autocast_cache = at::autocast::is_autocast_cache_enabled();
  impl_->scope.emplace(impl_->tracer);
}

bool Recording::stop() {
  impl_->scope.reset();
  bool unchanged = guard::GlobalState::current() == impl_->state;
  if (!unchanged) {
    at::ThreadLocalState::setThreadLocalState(*impl_->thread_state);
    at::autocast::set_autocast_dtype(at::kCPU, impl_->autocast_dtype);
    at::autocast::set_autocast_cache_enabled(impl_->autocast_cache);
  }
  impl_->thread_state.reset();
  return unchanged;
}

void Recording::set_origin_provider(graph::Origin (*provider)(void*), void* context) {
  impl_->tracer.set_origin_provider([=] { return provider(context); });
}

bool Recording::declare(PyObject* tensor, graph::InputKind kind, std::string name,
                        std::string* why) {
  return impl_->tracer.declare(THPVariable_Unpack(tensor), kind, std::move(name), why);
}

bool Recording::needs_autograd() const { return impl_->tracer.needs_autograd(); }

namespace {

BreakKind kind_of(trace::NeedsData needs_data) {
  switch (needs_data) {
    case trace::NeedsData::kNo:
      return BreakKind::kUntraceableOp;
    case trace::NeedsData::kForAValue:
      return BreakKind::kDataDependent;
    case trace::NeedsData::kForASize:
      return BreakKind::kDataDependentSize;
  }
  return BreakKind::kUntraceableOp;
}

}  // namespace

bool Recording::take_break(OpBreak& out) {
  if (!PyErr_ExceptionMatches(trace::trace_break_type())) return false;
  PyErr_Clear();
  const auto& last = impl_->tracer.last_break();
  if (last) {
    out.what = last->op + ": " + last->what;
    out.kind = kind_of(last->needs_data);
  } else {
    out.what = "an operator that cannot be traced";
  }
  return true;
}

Recording::Result Recording::finish(const std::vector<PyObject*>& outputs) {
  std::vector<at::Tensor> tensors;
  for (PyObject* output : outputs) tensors.push_back(THPVariable_Unpack(output));
  trace::Trace trace = impl_->tracer.finish(tensors);
  Result result{.graph = std::move(trace.graph)};
  for (auto& input : trace.inputs)
    result.inputs.push_back(Ref::steal(THPVariable_Wrap(input.tensor)));
  return result;
}

}  // namespace braze::capture
