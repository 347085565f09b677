// Captures a call and carries the draft out with real ops.
#include "capture/capture.h"

#include <chrono>

#include "base/error.h"
#include "capture/breaks/catalogue.h"
#include "capture/policy/torch_code.h"
#include "capture/world/kinds.h"
#include "cpython/frame.h"
#include "hooks.h"
#include "torch_python/objects.h"
#include "trace/probe.h"

namespace braze::capture {

using cpython::Ref;

namespace {

struct Captured {
  std::unique_ptr<Draft> draft;
  Ref function;
  std::vector<PyObject*> bound;
  std::vector<Ref> held;  // what `bound` points to
  int64_t probes = 0;
};

constexpr const char* kCapsule = "braze.captured";

// Calls `work` and turns C++ exceptions into Python's.
template <class Work>
PyObject* guarded(Work work) {
  try {
    return work();
  } catch (const std::exception& error) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, error.what());
    return nullptr;
  }
}

bool set(PyObject* dict, const char* key, PyObject* stolen) {
  Ref value = Ref::steal(stolen);
  return value && PyDict_SetItemString(dict, key, value.get()) == 0;
}

PyObject* texts(const std::vector<std::string>& lines) {
  PyObject* list = PyList_New(0);
  for (const std::string& line : lines) {
    Ref text = Ref::steal(PyUnicode_FromString(line.c_str()));
    PyList_Append(list, text.get());
  }
  return list;
}

std::string guard_text(const guard::Guard& guard, PyObject* names) {
  static constexpr const char* kTexts[] = {
#define X(id, text) text,
      BRAZE_GUARDS(X)
#undef X
  };
  std::string text =
      guard::to_string(guard.source, names) + " " + kTexts[static_cast<int>(guard.kind)];
  if (guard.has_group()) {
    const std::vector<const guard::Source*>& group = guard.details->group;
    for (size_t i = 1; i < group.size(); ++i)
      text += (i == 1 ? ": from " : ", ") + guard::to_string(group[i], names);
  }
  if (guard.other) return text + " " + guard::to_string(guard.other, names);
  if (!guard.expected || guard.kind == guard::GuardKind::kTensor) return text;
  // The program's own classes are not asked: their __repr__ may do anything.
  auto* type = PyType_Check(guard.expected.get())
                   ? reinterpret_cast<PyTypeObject*>(guard.expected.get())
                   : Py_TYPE(guard.expected.get());
  Ref repr = Ref::steal(PyType_Check(guard.expected.get()) || is_python_class(type)
                            ? PyUnicode_FromString(type->tp_name)
                            : PyObject_Repr(guard.expected.get()));
  const char* utf8 = repr ? PyUnicode_AsUTF8(repr.get()) : nullptr;
  if (!utf8) PyErr_Clear();
  return text + " " + (utf8 ? utf8 : "?");
}

// What is left of the call from the middle, or the whole call.
PyObject* continue_call(const Captured& captured, const std::vector<Ref>& values) {
  const recipe::Recipe& recipe = captured.draft->recipe;
  auto* code = reinterpret_cast<PyCodeObject*>(
      reinterpret_cast<PyFunctionObject*>(captured.function.get())->func_code);
  std::vector<PyObject*> args(captured.bound.begin(), captured.bound.begin() + code->co_argcount);
  Ref names = Ref::steal(PyTuple_New(code->co_kwonlyargcount));
  for (int i = 0; i < code->co_kwonlyargcount; ++i) {
    PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, code->co_argcount + i);
    PyTuple_SET_ITEM(names.get(), i, Ref::borrow(name).release());
    args.push_back(captured.bound[static_cast<size_t>(code->co_argcount + i)]);
  }
  auto positional = static_cast<size_t>(code->co_argcount);
  if (recipe.locals.empty())
    return PyObject_Vectorcall(captured.function.get(), args.data(), positional, names.get());
  cpython::FrameState state;
  state.offset = recipe.offset;
  auto take = [&](const std::vector<int>& actions, std::vector<Ref>& into) {
    for (int action : actions)
      into.push_back(action < 0 ? Ref() : values[static_cast<size_t>(action)]);
  };
  take(recipe.locals, state.locals);
  take(recipe.stack, state.stack);
  return cpython::call_from(captured.function.get(), args.data(), positional, names.get(),
                            std::move(state));
}

PyObject* run(PyObject* capsule, PyObject*) {
  auto* captured = static_cast<Captured*>(PyCapsule_GetPointer(capsule, kCapsule));
  if (!captured) return nullptr;
  return guarded([&]() -> PyObject* {
    const Draft& draft = *captured->draft;
    std::vector<at::Tensor> inputs;
    for (const DraftInput& input : draft.inputs)
      inputs.push_back(torch_python::tensor_of(input.tensor.get()));
    std::vector<Ref> outputs;
    for (const at::Tensor& output : trace::replay_as_traced(draft.graph, inputs))
      outputs.push_back(Ref::steal(torch_python::wrap(output)));
    std::vector<PyObject*> borrowed;
    for (const Ref& output : outputs) borrowed.push_back(output.get());
    std::vector<Ref> values;
    if (!draft.recipe.run(captured->function.get(), captured->bound.data(), borrowed, {}, values))
      return nullptr;
    if (draft.exit == ExitKind::kReturn)
      return values[static_cast<size_t>(draft.recipe.result)].release();
    return continue_call(*captured, values);
  });
}

PyObject* describe(std::unique_ptr<Captured> captured) {
  const Draft& draft = *captured->draft;
  auto* code = reinterpret_cast<PyCodeObject*>(
      reinterpret_cast<PyFunctionObject*>(captured->function.get())->func_code);
  Ref names =
      Ref::steal(PyTuple_GetSlice(code->co_localsplusnames, 0, cpython::parameter_count(code)));
  std::vector<std::string> guards, inputs;
  for (const guard::Guard& guard : draft.guards) guards.push_back(guard_text(guard, names.get()));
  for (const DraftInput& input : draft.inputs)
    inputs.push_back(input.source ? guard::to_string(input.source, names.get()) : "constant");
  Ref dict = Ref::steal(PyDict_New());
  auto text = [](const std::string& s) { return PyUnicode_FromString(s.c_str()); };
  bool done = set(dict.get(), "exit",
                  text(draft.exit == ExitKind::kReturn  ? "return"
                       : draft.exit == ExitKind::kBreak ? "break"
                       : draft.exit == ExitKind::kRaise ? "raise"
                                                        : "give up")) &&
              set(dict.get(), "traced", PyBool_FromLong(draft.traced)) &&
              set(dict.get(), "offset", PyLong_FromLong(draft.recipe.offset)) &&
              set(dict.get(), "graph", text(graph::to_string(draft.graph))) &&
              set(dict.get(), "recipe", text(recipe::to_string(draft.recipe))) &&
              set(dict.get(), "reason", text(draft.reason ? to_string(*draft.reason) : "")) &&
              set(dict.get(), "kind", text(draft.reason ? words_of(draft.reason->kind).id : "")) &&
              set(dict.get(), "guards", texts(guards)) &&
              set(dict.get(), "inputs", texts(inputs)) &&
              set(dict.get(), "calls",
                  draft.torch_calls ? Ref(draft.torch_calls).release() : PyList_New(0)) &&
              set(dict.get(), "nodes", PyLong_FromLongLong(draft.statistics.nodes)) &&
              set(dict.get(), "probes", PyLong_FromLongLong(captured->probes)) &&
              set(dict.get(), "bytecodes", PyLong_FromLongLong(draft.statistics.bytecodes)) &&
              set(dict.get(), "seconds", PyFloat_FromDouble(draft.statistics.total_seconds));
  if (!done) return nullptr;
  static PyMethodDef method = {"run", run, METH_NOARGS, nullptr};
  Ref capsule = Ref::steal(PyCapsule_New(captured.release(), kCapsule, [](PyObject* c) {
    delete static_cast<Captured*>(PyCapsule_GetPointer(c, kCapsule));
  }));
  if (!capsule || !set(dict.get(), "run", PyCFunction_New(&method, capsule.get()))) return nullptr;
  return dict.release();
}

PyObject* capture_call(PyObject*, PyObject* arguments, PyObject* keywords) {
  static const char* const kNames[] = {"function", "args", "kwargs", "record", "dynamic", nullptr};
  PyObject *function, *args, *kwargs = nullptr;
  int record = 0, dynamic = 0;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OO!|O!pp", const_cast<char**>(kNames),
                                   &function, &PyTuple_Type, &args, &PyDict_Type, &kwargs, &record,
                                   &dynamic))
    return nullptr;
  return guarded([&]() -> PyObject* {
    auto captured = std::make_unique<Captured>();
    std::vector<PyObject*> given;
    if (PyMethod_Check(function)) {
      given.push_back(PyMethod_GET_SELF(function));
      function = PyMethod_GET_FUNCTION(function);
    }
    if (!PyFunction_Check(function)) {
      PyErr_SetString(PyExc_TypeError, "capture() needs a Python function");
      return nullptr;
    }
    captured->function = Ref::borrow(function);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i)
      given.push_back(PyTuple_GET_ITEM(args, i));
    size_t positional = given.size();
    Ref names;
    if (kwargs && PyDict_GET_SIZE(kwargs)) {
      names = Ref::steal(PySequence_Tuple(kwargs));
      for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names.get()); ++i)
        given.push_back(PyDict_GetItem(kwargs, PyTuple_GET_ITEM(names.get(), i)));
    }
    auto* f = reinterpret_cast<PyFunctionObject*>(function);
    int count = cpython::parameter_count(reinterpret_cast<PyCodeObject*>(f->func_code));
    captured->bound.resize(static_cast<size_t>(count) + 1);
    if (!cpython::bind_arguments(f, given.data(), positional, names.get(), captured->bound.data(),
                                 captured->held))
      return PyObject_Call(function, args, kwargs);  // raises CPython's message
    for (PyObject* value : captured->bound) captured->held.push_back(Ref::borrow(value));
    const DynamicSizes always{.mode = DynamicSizes::Mode::kAlways};
    const int64_t probes = trace::probe_count();
    const auto start = std::chrono::steady_clock::now();
    captured->draft =
        capture(f, captured->bound.data(),
                {.record_torch_calls = record != 0, .dynamic = dynamic ? &always : nullptr});
    if (!captured->draft) return nullptr;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    captured->draft->statistics.total_seconds = spent.count();
    captured->probes = trace::probe_count() - probes;
    return describe(std::move(captured));
  });
}

// [(module, name, "evaluated" | "native" | "function" | "refused", why), ...]
PyObject* torch_code_list(PyObject*, PyObject*) {
  static const char* const kWords[] = {"evaluated", "native", "function", "refused"};
  Ref list = Ref::steal(PyList_New(0));
  for (const TorchCodeEntry& entry : torch_code_entries()) {
    Ref row = Ref::steal(
        Py_BuildValue("(s#s#ss)", entry.module.data(), static_cast<Py_ssize_t>(entry.module.size()),
                      entry.name.data(), static_cast<Py_ssize_t>(entry.name.size()),
                      kWords[static_cast<int>(entry.what)], entry.why));
    if (!list || !row || PyList_Append(list.get(), row.get()) < 0) return nullptr;
  }
  return list.release();
}

PyMethodDef g_methods[] = {
    {"torch_code_list", torch_code_list, METH_NOARGS,
     "The rows of src/capture/policy/torch_code.h."},
    {"capture", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(capture_call)),
     METH_VARARGS | METH_KEYWORDS, "Captures a call; see tests/hooks/hooks.h."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_hooks(PyObject* module) { return PyModule_AddFunctions(module, g_methods) == 0; }

}  // namespace braze::capture
