// Which Python code is evaluated.
#include <string_view>
#include <unordered_set>

#include "capture/known.h"
#include "capture/policy/policy.h"
#include "cpython/text.h"

namespace braze::capture {

namespace {

std::string_view text(PyObject* globals, PyObject* key) {
  PyObject* value = globals ? PyDict_GetItemWithError(globals, key) : nullptr;
  if (!value || !PyUnicode_Check(value)) {
    PyErr_Clear();
    return {};
  }
  return cpython::utf8_of(value);
}

// Python code of torch that calls the user's or keeps state that the evaluator must see.
constexpr std::string_view kInline[] = {
    "torch.nn.modules.", "torch.nn.utils.", "torch.utils._contextlib", "torch.autograd.grad_mode",
    "torch.nn.parameter", "torch.nn.attention", "torch.utils.hooks",
    // Wraps Module.__init__ once torch.compile was used.
    "torch._dynamo.mutation_guard"};
// Libraries whose functions run natively: they read what never changes (see `library_break`).
constexpr std::string_view kNative[] = {
    "inspect",           "re",   "re._compiler", "re._parser", "abc",      "_py_abc",  "typing",
    "typing_extensions", "enum", "importlib",    "linecache",  "tokenize", "traceback"};

// "numpy" and "numpy.linalg", not "numpy_helpers".
bool is_in_package(std::string_view module, std::string_view package) {
  return module.starts_with(package) &&
         (module.size() == package.size() || module[package.size()] == '.');
}

}  // namespace

bool is_torch_module_name(PyObject* name) {
  return name && PyUnicode_Check(name) && is_in_package(cpython::utf8_of(name), "torch");
}

bool is_numpy_module_name(PyObject* name) {
  return name && PyUnicode_Check(name) && is_in_package(cpython::utf8_of(name), "numpy");
}

FramePolicy frame_policy(PyObject* globals) {
  std::string_view module = text(globals, names().name);
  for (std::string_view prefix : kInline)
    if (module.starts_with(prefix)) return FramePolicy::kInline;
  for (std::string_view package : {"torch", "numpy", "importlib"})
    if (is_in_package(module, package)) return FramePolicy::kNative;
  for (std::string_view native : kNative)
    if (module == native) return FramePolicy::kNative;
  std::string_view file = text(globals, names().file);
  bool standard = file.find("/lib/python3.") != std::string_view::npos &&
                  file.find("site-packages") == std::string_view::npos;
  return standard ? FramePolicy::kLibrary : FramePolicy::kInline;
}

// A handle of a hook counts itself in its class, which is no matter: while the hook stays, the
// guards of the module's hooks fail, and when it is removed in the same call its number is free
// again. GenerationTracker.tag speaks to torch.compile alone (see `is_hint_function`).
FramePolicy code_policy(PyObject* globals, std::string_view qualname) {
  const bool native = qualname == "RemovableHandle.__init__"
                          ? text(globals, names().name) == "torch.utils.hooks"
                          : qualname == "GenerationTracker.tag" &&
                                text(globals, names().name) == "torch._dynamo.mutation_guard";
  return native ? FramePolicy::kNative : frame_policy(globals);
}

const LibraryBreak* library_break(PyObject* globals, std::string_view qualname) {
  static constexpr LibraryBreak kFrames{BreakKind::kIntrospection,
                                        "it looks at frames, files or all attributes of an object"};
  static constexpr LibraryBreak kChanges{BreakKind::kSideEffect, "it changes a class or a module"};
  static constexpr LibraryBreak kArrays{BreakKind::kNumpy, "a function of numpy"};
  // Of inspect: what depends on nothing but functions and classes.
  static const std::unordered_set<std::string_view> looks_at_functions = {"signature",
                                                                          "getfullargspec",
                                                                          "isfunction",
                                                                          "ismethod",
                                                                          "isclass",
                                                                          "ismodule",
                                                                          "isbuiltin",
                                                                          "isroutine",
                                                                          "isgenerator",
                                                                          "iscoroutinefunction",
                                                                          "isgeneratorfunction",
                                                                          "isasyncgenfunction",
                                                                          "iscoroutine",
                                                                          "isawaitable",
                                                                          "isabstract",
                                                                          "ismethoddescriptor",
                                                                          "isdatadescriptor",
                                                                          "unwrap",
                                                                          "getmro",
                                                                          "cleandoc"};
  const std::string_view module = text(globals, names().name);
  if (module == "inspect") {
    const bool of_signature = qualname.starts_with("Signature.") ||
                              qualname.starts_with("Parameter.") ||
                              qualname.starts_with("BoundArguments.");
    return of_signature || looks_at_functions.contains(qualname) ? nullptr : &kFrames;
  }
  if (module == "traceback" || module == "linecache" || module == "tokenize") return &kFrames;
  if (module.starts_with("numpy")) return &kArrays;
  const bool changes = (module.starts_with("importlib") && qualname == "reload") ||
                       qualname == "ABCMeta.register" || (module == "re" && qualname == "purge");
  return changes ? &kChanges : nullptr;
}

bool may_drive_code(PyObject* globals) {
  std::string_view module = text(globals, names().name);
  if (module == "braze" || module.starts_with("braze.")) return false;
  return frame_policy(globals) == FramePolicy::kInline;
}

Drive how_to_drive(PyFunctionObject* function) {
  if (PyObject* marks = function->func_dict) {
    for (PyObject* mark : {names().recursive_mark, names().torch_recursive_mark})
      if (PyDict_GetItemWithError(marks, mark) == Py_False) return Drive::kStepsInside;
    if (PyDict_GetItemWithError(marks, names().disable_mark)) return Drive::kNot;
  }
  return may_drive_code(function->func_globals) ? Drive::kCapture : Drive::kNot;
}

cpython::Ref python_call_method(PyObject* instance) {
  PyTypeObject* type = Py_TYPE(instance);
  if (type->tp_call != known().module->tp_call) return {};
  PyObject* method = _PyType_Lookup(type, names().call);
  return method && PyFunction_Check(method) ? cpython::Ref::borrow(method) : cpython::Ref();
}

}  // namespace braze::capture
