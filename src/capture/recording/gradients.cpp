#include <utility>

#include "capture/recording/impl.h"
#include "trace/changed_leaves.h"

namespace braze::capture {

bool Recording::needs_autograd() const { return impl_->tracer.needs_autograd(); }

namespace {

at::Tensor tensor_or_undefined(PyObject* object) {
  return object == Py_None ? at::Tensor() : tensor_of(object);
}

Ref wrap_or_none(at::Tensor tensor) {
  if (!tensor.defined()) return Ref::borrow(Py_None);
  return Ref::steal(torch_python::wrap(std::move(tensor)));
}

}  // namespace

std::vector<Ref> Recording::run_backward(const BackwardCall& asked, std::string* why) {
  trace::BackwardCall call{.roots = unpack(asked.roots),
                           .tangents = unpack(asked.tangents),
                           .inputs = unpack(asked.inputs),
                           .keeps_graph = asked.keeps_graph,
                           .creates_graph = asked.creates_graph,
                           .accumulates = asked.accumulates};
  trace::BackwardResult& result = impl_->backward;
  result = {};
  std::string known = explained(why, [&] { return impl_->tracer.run_backward(call, result); });
  if (why->empty()) *why = std::move(known);
  if (asked.accumulates) return wrap(result.leaves);
  std::vector<Ref> gradients;
  for (at::Tensor& gradient : std::exchange(result, {}).gradients)
    gradients.push_back(wrap_or_none(std::move(gradient)));
  return gradients;
}

Ref Recording::accumulated(size_t leaf, PyObject* before, bool creates_graph, std::string* why) {
  trace::BackwardResult& result = impl_->backward;
  at::Tensor gradient = std::move(result.gradients[leaf]);
  if (!gradient.defined()) return {};
  return explained(why, [&] {
    return wrap_or_none(trace::accumulated(result.leaves[leaf], tensor_or_undefined(before),
                                           std::move(gradient), creates_graph));
  });
}

void Recording::set_requires_grad(PyObject* leaf, bool value) {
  impl_->tracer.changed_leaves().set_requires_grad(tensor_of(leaf), value);
}

void Recording::detach_in_place(PyObject* tensor, std::string* why) {
  impl_->tracer.changed_leaves().note_detached();
  explained(why, [&] {
    at::Tensor detached = tensor_of(tensor);
    return detached.detach_().defined();
  });
}

void Recording::count_apart(PyObject* tensor) {
  c10::TensorImpl* impl = tensor_of(tensor).unsafeGetTensorImpl();
  if (!impl->is_inference()) impl->set_version_counter(c10::VariableVersion(/*version=*/0));
}

Ref Recording::gradient_of(PyObject* tensor) {
  const at::Tensor& gradient =
      tensor_of(tensor).unsafeGetTensorImpl()->grad();  // without a warning
  return gradient.defined() ? Ref::steal(torch_python::wrap(gradient)) : Ref();
}

std::string Recording::differentiate(const std::vector<PyObject*>& outputs) {
  std::string why;
  std::string known = explained(&why, [&] { return impl_->tracer.differentiate(unpack(outputs)); });
  return why.empty() ? known : why;
}

}  // namespace braze::capture
