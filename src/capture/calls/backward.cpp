#include "capture/calls/backward.h"

#include "capture/calls/native_scope.h"
#include "capture/known.h"
#include "capture/objects/tensor_attributes.h"
#include "capture/trace_context.h"

namespace braze::capture {

namespace {

Tracked decline_backward(TraceContext& trace, const std::string& why) {
  return trace.refuse(BreakKind::kAutograd, "a backward that cannot be compiled: " + why);
}

std::vector<PyObject*> items_of(PyObject* tuple) {
  BRAZE_CHECK(PyTuple_CheckExact(tuple), "run_backward() is given tuples");
  std::vector<PyObject*> items;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    items.push_back(PyTuple_GET_ITEM(tuple, i));
  return items;
}

// Eager's own tensors are those of the plain classes.
bool is_plain_leaf(PyObject* leaf) {
  return Py_TYPE(leaf) == known().tensor || Py_TYPE(leaf) == known().parameter;
}

bool accumulate(TraceContext& trace, size_t number, PyObject* leaf, bool creates_graph) {
  leaf = trace.world.real_of(leaf);
  if (!requires_grad(leaf)) return true;  // no longer, and eager drops the gradient
  const Source* source = trace.world.source_of(leaf);
  const bool is_made = is_fake(leaf);
  if ((!source && !is_made) || !is_plain_leaf(leaf))
    return bool(
        decline_backward(trace, "a gradient of a tensor from outside that no input leads to"));
  Tracked before = tensor_attribute_of(trace, Tracked::borrow(leaf, source), names().grad, nullptr);
  if (!before) return false;
  Ref stored;
  std::string why;
  {
    const NativeScope scope(trace, true, nullptr);
    stored = trace.recording.accumulated(number, before.get(), creates_graph, &why);
  }
  if (!why.empty()) return bool(decline_backward(trace, why));
  if (source) trace.guards.add_no_hooks(source);
  if (!stored || stored.get() == before.get()) return true;
  if (is_made) return PyObject_SetAttr(leaf, names().grad, stored.get()) == 0;
  return trace.world.write_attribute(leaf, names().grad, stored.get(), true);
}

}  // namespace

Tracked call_backward(TraceContext& trace, Tracked* args, size_t count) {
  BRAZE_CHECK(count == 6, "run_backward() takes six arguments");
  if (trace.torch_calls) return decline_backward(trace, "a backend of the user's takes none");
  const Recording::BackwardCall call{.roots = items_of(args[0].get()),
                                     .tangents = items_of(args[1].get()),
                                     .inputs = items_of(args[2].get()),
                                     .keeps_graph = args[3].get() == Py_True,
                                     .creates_graph = args[4].get() == Py_True,
                                     .accumulates = args[5].get() == Py_True};
  std::string why;
  std::vector<Ref> given;  // leaves or gradients
  {
    const NativeScope scope(trace, true, nullptr);
    given = trace.recording.run_backward(call, &why);
  }
  if (!why.empty()) return decline_backward(trace, why);
  if (call.accumulates) {
    for (size_t i = 0; i < given.size(); ++i)
      if (!accumulate(trace, i, given[i].get(), call.creates_graph)) return {};
    return Tracked::borrow(Py_None);
  }
  for (PyObject* input : call.inputs)
    if (const Source* source = trace.world.source_of(input)) trace.guards.add_no_hooks(source);
  Ref result = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(given.size())));
  for (size_t i = 0; result && i < given.size(); ++i)
    PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), given[i].release());
  return Tracked(std::move(result));
}

}  // namespace braze::capture
