#include "capture/calls/torch_record.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>

#include "capture/frames/origin.h"
#include "capture/objects/operators.h"
#include "capture/trace_context.h"
#include "pytorch/aten.h"
#include "torch_python/objects.h"

namespace braze::capture {

namespace {

PyObject* as_python(at::ScalarType dtype) { return torch_python::dtype_object(dtype); }

// What braze._fx.torch_state() gives; without Python code, which would be traced.
Ref torch_state() {
  auto autocast = [](const char* name, c10::DeviceType device) {
    return Py_BuildValue("(sOO)", name, as_python(pytorch::autocast_dtype(device)),
                         pytorch::is_autocast_enabled(device) ? Py_True : Py_False);
  };
  return Ref::steal(Py_BuildValue("(O(NN)(OO))", at::GradMode::is_enabled() ? Py_True : Py_False,
                                  autocast("cpu", at::kCPU), autocast("cuda", at::kCUDA),
                                  c10::InferenceMode::is_enabled() ? Py_True : Py_False,
                                  as_python(c10::get_default_dtype_as_scalartype())));
}

}  // namespace

void record_torch_call(TraceContext& trace, PyObject* callable, const Tracked* args, size_t count,
                       PyObject* kwnames, PyObject* result) {
  if (!trace.torch_calls || trace.native.depth != 0 || !callable) return;
  bool about_tensors = holds_tensor(result);
  for (size_t i = 0; i < count && !about_tensors; ++i)
    about_tensors = args[i] && holds_tensor(args[i].get());
  if (!about_tensors) return;
  size_t keywords = kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0;
  Ref positional = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(count - keywords)));
  for (size_t i = 0; i + keywords < count; ++i) {
    PyObject* arg = args[i] ? args[i].get() : Py_None;
    Py_INCREF(arg);
    PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i), arg);
  }
  Ref named = Ref::steal(PyDict_New());
  for (size_t i = 0; i < keywords; ++i)
    PyDict_SetItem(named.get(), PyTuple_GET_ITEM(kwnames, static_cast<Py_ssize_t>(i)),
                   args[count - keywords + i].get());
  std::vector<StackEntry> where = user_stack(trace);
  StackEntry entry = where.empty() ? StackEntry{} : where.front();
  Ref record = Ref::steal(Py_BuildValue("(OOOO(sis)N)", callable, positional.get(), named.get(),
                                        result, entry.file.c_str(), entry.line,
                                        entry.function.c_str(), torch_state().release()));
  if (!record || PyList_Append(trace.torch_calls.get(), record.get()) < 0) PyErr_Clear();
}

}  // namespace braze::capture
