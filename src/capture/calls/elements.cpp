#include "capture/calls/elements.h"

#include "base/is_one_of.h"
#include "capture/calls/calls.h"
#include "capture/recording/elements.h"
#include "capture/trace_context.h"

namespace braze::capture {
namespace {

// What the function that is under way on this thread is given.
thread_local const Elements* elements_under_way = nullptr;

class Scope {
 public:
  explicit Scope(const Elements& elements)
      : previous_(std::exchange(elements_under_way, &elements)) {}
  ~Scope() { elements_under_way = previous_; }
  Scope(const Scope&) = delete;

 private:
  const Elements* previous_;
};

Tracked decline_elements(TraceContext& trace, const std::string& why) {
  return trace.refuse(BreakKind::kUntraceableOp,
                      "a function of single scores and positions: " + why);
}

bool shows_sizes(std::string_view name) {
  return is_one_of(name, {"shape", "ndim", "size", "dim", "ndimension", "numel", "nelement",
                          "stride", "is_contiguous", "nbytes"});
}

}  // namespace

Tracked call_elementwise(TraceContext& trace, const Tracked& function, const Tracked& arguments) {
  std::vector<PyObject*> tensors;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments.get()); ++i)
    tensors.push_back(PyTuple_GET_ITEM(arguments.get(), i));
  const Elements elements(tensors);
  const Scope scope(elements);
  Tracked given = call_ex(trace, function, arguments.get(), nullptr);
  if (!given) {
    if (trace.breaks.under_way() || !PyErr_ExceptionMatches(PyExc_Exception)) return {};
    const Ref exception = take_exception();
    return decline_elements(trace, "it raises " + describe_exception(exception.get()));
  }
  if (!is_tensor(given.get())) return decline_elements(trace, "it gives no tensor");
  if (std::string why = elements.why_not(given.get()); !why.empty())
    return decline_elements(trace, why);
  return given;
}

Tracked call_element_program(TraceContext& trace, const Tracked* arguments) {
  if (trace.torch_calls) return Tracked::borrow(Py_None);  // operators of PyTorch alone
  for (int i = 0; i < 3; ++i)
    for (Py_ssize_t item = 0; item < PyTuple_GET_SIZE(arguments[i].get()); ++item)
      if (!is_tensor(PyTuple_GET_ITEM(arguments[i].get(), item)))
        return decline_elements(trace, "it is no tensor");
  return Tracked(element_program(arguments[0].get(), arguments[1].get(), arguments[2].get()));
}

bool may_show_sizes(TraceContext& trace, PyObject* tensor, std::string_view name) {
  const Elements* elements = elements_under_way;
  if (!elements || !shows_sizes(name) || !elements->may_hold(tensor)) return true;
  return bool(decline_elements(trace, "it asks for Tensor." + std::string(name)));
}

}  // namespace braze::capture
