#include "capture/calls/numpy.h"

#include <string_view>
#include <vector>

#include "base/is_one_of.h"
#include "capture/calls/native.h"
#include "capture/known.h"
#include "capture/symbols/integers.h"
#include "capture/trace_context.h"
#include "cpython/exception.h"
#include "cpython/frame.h"
#include "cpython/text.h"

namespace braze::capture {

bool is_numpy_arithmetic(PyObject* callable) {
  const std::string_view type = Py_TYPE(callable)->tp_name;
  if (type == "numpy.ufunc") return true;
  if (type != "numpy._ArrayFunctionDispatcher") return false;
  const Ref name = Ref::steal(PyObject_GetAttr(callable, names().name));
  if (!name || !PyUnicode_Check(name.get())) return PyErr_Clear(), false;
  return is_one_of(cpython::utf8_of(name.get()),
                   {"prod", "sum", "mean", "max", "min", "amax", "amin", "clip", "round"});
}

Tracked call_numpy(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
                   PyObject* kwnames) {
  for (size_t i = 0; i < count; ++i) {
    make_concrete(trace, args[i]);
    if (!is_atom(args[i].get()) && !PyTuple_Check(args[i].get()))
      return trace.refuse(BreakKind::kNumpy, "a numpy function that is given more than numbers");
  }
  // Where it would warn, as numpy's switches of the thread say, it raises.
  static PyObject* set_errors = [] {
    const Ref numpy = Ref::steal(PyImport_ImportModule("numpy"));
    return numpy ? PyObject_GetAttrString(numpy.get(), "seterr") : nullptr;
  }();
  static PyObject* names_it = Py_BuildValue("(s)", "all");
  static PyObject* raise = PyUnicode_InternFromString("raise");
  const Ref before = set_errors && names_it && raise
                         ? Ref::steal(cpython::call_unhooked(set_errors, &raise, 0, names_it))
                         : Ref();
  if (!before) return {};
  Tracked result = call_native(trace, callable.get(), args, count, kwnames, true);
  const bool warns = !result && PyErr_ExceptionMatches(PyExc_FloatingPointError);
  if (warns) PyErr_Clear();
  {
    const cpython::SavedException pending;
    const Ref keys = Ref::steal(PySequence_Tuple(before.get()));
    std::vector<PyObject*> values;
    for (Py_ssize_t i = 0; keys && i < PyTuple_GET_SIZE(keys.get()); ++i)
      values.push_back(PyDict_GetItemWithError(before.get(), PyTuple_GET_ITEM(keys.get(), i)));
    if (!keys || !Ref::steal(cpython::call_unhooked(set_errors, values.data(), 0, keys.get())))
      PyErr_Clear();
  }
  if (warns) return trace.refuse(BreakKind::kNumpy, "a numpy function that warns");
  return result;
}

}  // namespace braze::capture
