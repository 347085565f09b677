#include "capture/calls/torch_failures.h"

#include "capture/calls/native_scope.h"
#include "capture/known.h"
#include "capture/trace_context.h"
#include "pytorch/random.h"

namespace braze::capture {

namespace {

constexpr int kMaximalNesting = 8;

// The same argument with real tensors of zeros for all tensors; empty if that cannot be said of it.
Ref with_zeros(PyObject* value, Zeros& zeros, int depth = 0) {
  if (depth > kMaximalNesting) return {};
  if (is_tensor(value)) return zeros.like(value);
  if (PyTuple_CheckExact(value) || PyList_CheckExact(value)) {
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(value);
    Ref items = Ref::steal(PyList_New(n));
    for (Py_ssize_t i = 0; i < n; ++i) {
      Ref item = with_zeros(PySequence_Fast_GET_ITEM(value, i), zeros, depth + 1);
      if (!item) return {};
      PyList_SET_ITEM(items.get(), i, item.release());
    }
    return PyList_CheckExact(value) ? std::move(items) : Ref::steal(PyList_AsTuple(items.get()));
  }
  if (PySlice_Check(value)) {
    auto* slice = reinterpret_cast<PySliceObject*>(value);
    for (PyObject* part : {slice->start, slice->stop, slice->step})
      if (is_tensor(part)) return {};
    return Ref::borrow(value);
  }
  if (is_atom(value) || is_immutable(value)) return Ref::borrow(value);
  return {};
}

}  // namespace

Tracked torch_failed(TraceContext& trace, PyObject* callable, const Tracked* args, size_t count,
                     PyObject* kwnames) {
  if (trace.breaks.under_way()) return {};
  if (Recording::OpBreak op; trace.recording.take_break(op)) return trace.refuse(op.kind, op.what);
  if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) return {};
  Ref error = take_exception();
  auto break_off = [&] {
    PyErr_Clear();
    return trace.refuse(BreakKind::kException,
                        "a tensor operation failed: " + describe_exception(error.get()));
  };
  // What raises for the sizes and dtypes of its arguments raises on every call that the guards let
  // through, and the real kernels say it in eager's words.
  if (!callable || trace.native.depth > 0) return break_off();
  Ref self;
  if (PyCFunction_Check(callable) && PyCFunction_GET_SELF(callable) &&
      is_tensor(PyCFunction_GET_SELF(callable)))
    self = Ref::borrow(PyCFunction_GET_SELF(callable));
  Zeros zeros;
  std::vector<Ref> real;
  for (size_t i = 0; i < count; ++i) {
    real.push_back(with_zeros(trace.world.effective(args[i].get()), zeros));
    if (!real.back()) return break_off();
  }
  Ref function = Ref::borrow(callable);
  if (self) {
    Ref owner = zeros.like(self.get());
    Ref name = Ref::steal(PyObject_GetAttr(callable, names().name));
    if (!owner || !name) return break_off();
    function = Ref::steal(PyObject_GetAttr(owner.get(), name.get()));
    if (!function) return break_off();
  }
  std::vector<PyObject*> raw;
  for (const Ref& value : real) raw.push_back(value.get());
  size_t keywords = kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0;
  Ref result;
  {
    NativeScope scope(trace, true, callable);
    Recording::Pause pause;
    const pytorch::GeneratorState before;
    result = Ref::steal(PyObject_Vectorcall(function.get(), raw.data(), count - keywords, kwnames));
    before.restore();
  }
  if (result || !PyErr_Occurred()) return break_off();
  Ref real_error = take_exception();
  // PyTorch's words for symbols where its kernels take numbers alone are not eager's.
  const std::string words = describe_exception(real_error.get());
  const bool about_symbols = words.find("only concrete integers") != std::string::npos;
  // The elements of a tensor, and its type.
  const bool prints_data =
      words.find("[ torch.") != std::string::npos || words.find("[ CPU") != std::string::npos;
  if (about_symbols || prints_data || Py_TYPE(real_error.get()) != Py_TYPE(error.get()))
    return break_off();
  restore_exception(std::move(real_error));
  return {};
}

}  // namespace braze::capture
