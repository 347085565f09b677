#include "trace/control_flow.h"

#include "capture/recording/impl.h"

namespace braze::capture {

std::string Recording::begin_region(int* number) {
  trace::ControlFlow& control = impl_->tracer.control_flow();
  if (std::string why = control.why_not(); !why.empty()) return why;
  impl_->region_states.push_back(guard::GlobalState::current());
  *number = control.begin();
  return "";
}

std::string Recording::end_region(int number, const std::vector<PyObject*>& outputs) {
  const bool same = impl_->region_states.back() == guard::GlobalState::current();
  impl_->region_states.pop_back();
  if (!same) return "a branch changes a switch of PyTorch";
  std::string why;
  std::string known =
      explained(&why, [&] { return impl_->tracer.control_flow().end(number, unpack(outputs)); });
  return why.empty() ? known : why;
}

Ref Recording::loop_parameter(PyObject* like, int number) {
  return Ref::steal(
      torch_python::wrap(impl_->tracer.control_flow().parameter(tensor_of(like), number)));
}

std::vector<Ref> Recording::cond(PyObject* predicate, int yes, int no, std::string* why) {
  return explained(why, [&] {
    return wrap(impl_->tracer.control_flow().cond(tensor_of(predicate), yes, no, why));
  });
}

std::vector<Ref> Recording::loop(int condition, int body, const std::vector<PyObject*>& carried,
                                 std::string* why) {
  return explained(why, [&] {
    return wrap(impl_->tracer.control_flow().loop(condition, body, unpack(carried), why));
  });
}

}  // namespace braze::capture
