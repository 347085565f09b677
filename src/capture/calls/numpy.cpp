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

namespace {

// For as long as it lives numpy raises where its switches of the thread say that it warns.
class Raising {
 public:
  Raising() {
    static PyObject* const all = Py_BuildValue("(s)", "all");
    static PyObject* const raise = PyUnicode_InternFromString("raise");
    if (set() && all && raise) before_ = Ref::steal(cpython::call_unhooked(set(), &raise, 0, all));
  }
  ~Raising() {
    if (!before_) return;
    const cpython::SavedException pending;
    const Ref kinds = Ref::steal(PySequence_Tuple(before_.get()));
    std::vector<PyObject*> values;
    for (Py_ssize_t i = 0; kinds && i < PyTuple_GET_SIZE(kinds.get()); ++i)
      values.push_back(PyDict_GetItemWithError(before_.get(), PyTuple_GET_ITEM(kinds.get(), i)));
    if (kinds) Ref::steal(cpython::call_unhooked(set(), values.data(), 0, kinds.get()));
  }
  Raising(const Raising&) = delete;
  // False with an exception.
  explicit operator bool() const { return static_cast<bool>(before_); }

 private:
  static PyObject* set() {
    static PyObject* const function = [] {
      const Ref numpy = Ref::steal(PyImport_ImportModule("numpy"));
      return numpy ? PyObject_GetAttrString(numpy.get(), "seterr") : nullptr;
    }();
    return function;
  }
  Ref before_;  // a dict, by kind of error
};

}  // namespace

Tracked call_numpy(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
                   PyObject* kwnames) {
  for (size_t i = 0; i < count; ++i) {
    make_concrete(trace, args[i]);
    if (!is_atom(args[i].get()) && !PyTuple_Check(args[i].get()))
      return trace.refuse(BreakKind::kNumpy, "a numpy function that is given more than numbers");
  }
  if (!check_native_arguments(trace, "a numpy function", args, count, true)) return {};
  // Of what makes arithmetic there is one class only.
  if (const Source* source = trace.world.source_of(callable))
    trace.guards.add(GuardKind::kIdentity, source, callable.get());
  const Raising raising;
  if (!raising) return {};
  Tracked result = call_native(trace, callable.get(), args, count, kwnames, true);
  if (result || !PyErr_ExceptionMatches(PyExc_FloatingPointError)) return result;
  PyErr_Clear();
  return trace.refuse(BreakKind::kNumpy, "a numpy function that warns");
}

}  // namespace braze::capture
