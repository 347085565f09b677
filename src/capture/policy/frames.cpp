// Which Python code is evaluated.
#include <algorithm>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "capture/known.h"
#include "capture/policy/policy.h"
#include "capture/policy/torch_code.h"
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

std::span<const TorchCodeEntry> torch_code_entries() {
  static constexpr TorchCodeEntry kEntries[] = {
#define X(module, name, what, why) {module, name, TorchCode::what, why},
      BRAZE_TORCH_CODE(X)
#undef X
  };
  return kEntries;
}

const TorchCodeEntry* torch_code(std::string_view module, std::string_view qualname) {
  // By module, that with the longest name first.
  static const auto by_module = [] {
    std::unordered_map<std::string_view, std::vector<const TorchCodeEntry*>> index;
    for (const TorchCodeEntry& entry : torch_code_entries()) index[entry.module].push_back(&entry);
    for (auto& [name, entries] : index)
      std::ranges::stable_sort(entries, std::greater(),
                               [](const TorchCodeEntry* entry) { return entry->name.size(); });
    return index;
  }();
  for (std::string_view package = module;; package = package.substr(0, package.rfind('.'))) {
    if (const auto found = by_module.find(package); found != by_module.end())
      for (const TorchCodeEntry* entry : found->second)
        if (entry->name.empty() || (package == module && qualname.starts_with(entry->name)))
          return entry;
    if (package.find('.') == package.npos) return nullptr;
  }
}

namespace {

// The code, or a function of its module that it calls, says `warnings`.
bool may_warn(PyCodeObject* code, PyObject* globals, int depth = 0) {
  static PyObject* const warnings = PyUnicode_InternFromString("warnings");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); ++i) {
    PyObject* name = PyTuple_GET_ITEM(code->co_names, i);
    if (name == warnings) return true;
    PyObject* called = depth < 3 ? PyDict_GetItemWithError(globals, name) : nullptr;
    if (!called || !PyFunction_Check(called)) continue;
    auto* function = reinterpret_cast<PyFunctionObject*>(called);
    auto* callee = reinterpret_cast<PyCodeObject*>(function->func_code);
    if (function->func_globals == globals && callee != code && may_warn(callee, globals, depth + 1))
      return true;
  }
  return false;
}

}  // namespace

FramePolicy frame_policy(PyObject* globals) {
  std::string_view module = text(globals, names().name);
  if (is_in_package(module, "torch")) {
    const TorchCodeEntry* listed = torch_code(module, "");
    const bool evaluated = !listed || listed->what == TorchCode::kEvaluated;
    return evaluated ? FramePolicy::kInline : FramePolicy::kNative;
  }
  for (std::string_view package : {"numpy", "importlib"})
    if (is_in_package(module, package)) return FramePolicy::kNative;
  for (std::string_view native : kNative)
    if (module == native) return FramePolicy::kNative;
  std::string_view file = text(globals, names().file);
  bool standard = file.find("/lib/python3.") != std::string_view::npos &&
                  file.find("site-packages") == std::string_view::npos;
  return standard ? FramePolicy::kLibrary : FramePolicy::kInline;
}

CodePolicy code_policy(PyCodeObject* code, PyObject* globals) {
  std::string_view module = text(globals, names().name);
  if (!is_in_package(module, "torch")) {
    // Gives back what it is given, whatever the type is.
    if (module == "typing" && std::string_view(cpython::utf8_of(code->co_qualname)) == "cast")
      return {FramePolicy::kInline};
    return {.frame = frame_policy(globals), .is_stand_in = module.starts_with("braze._")};
  }
  CodePolicy policy{.frame = FramePolicy::kInline, .is_torch = true};
  const TorchCodeEntry* listed = torch_code(module, cpython::utf8_of(code->co_qualname));
  if (!listed || listed->what == TorchCode::kEvaluated) return policy;
  policy.frame = FramePolicy::kNative;
  if (listed->what == TorchCode::kRefused) policy.refused = listed->why;
  policy.is_random = module == "torch.random";
  policy.may_warn = listed->what == TorchCode::kFunction && may_warn(code, globals);
  return policy;
}

bool gives_what_is_only_read(PyObject* globals, std::string_view name) {
  // What a pattern of einops says of tensors, and what it says of one of given sizes.
  constexpr std::string_view kOfEinops[] = {"_prepare_transformation_recipe",
                                            "_reconstruct_from_shape_uncached"};
  const std::string_view module = text(globals, names().name);
  if (module == "einops.packing") return name == "analyze_pattern";
  return module == "einops.einops" && std::ranges::find(kOfEinops, name) != std::end(kOfEinops);
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
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  const bool driven = may_drive_code(function->func_globals) &&
                      code_policy(code, function->func_globals).frame == FramePolicy::kInline;
  return driven ? Drive::kCapture : Drive::kNot;
}

cpython::Ref python_call_method(PyObject* instance) {
  PyTypeObject* type = Py_TYPE(instance);
  if (type->tp_call != known().module->tp_call) return {};
  PyObject* method = _PyType_Lookup(type, names().call);
  return method && PyFunction_Check(method) ? cpython::Ref::borrow(method) : cpython::Ref();
}

}  // namespace braze::capture
