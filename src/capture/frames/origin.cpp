// Where the trace is: for messages, for the graph's nodes, for the record of torch-level calls.
#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>

#include "capture/evaluator.h"
#include "capture/known.h"
#include "cpython/text.h"
#include "pytorch/aten.h"
#include "pytorch/objects.h"

namespace braze::capture {

namespace {

bool is_user_frame(const Frame& frame) { return !frame.info->policy.is_torch; }

std::string text_of(PyObject* unicode) {
  return unicode && PyUnicode_Check(unicode) ? cpython::utf8_of(unicode) : "";
}

StackEntry entry_of(const Frame& frame) {
  return {.file = text_of(frame.code()->co_filename),
          .line = frame.line(),
          .function = text_of(frame.code()->co_qualname)};
}

// With the expression, which takes CPython a walk through the code's position table.
StackEntry exact_entry_of(const Frame& frame) {
  StackEntry entry = entry_of(frame);
  const int offset = frame.info->decoded->instructions[static_cast<size_t>(frame.current())].offset;
  const int bytes = offset * static_cast<int>(sizeof(_Py_CODEUNIT));
  int line, end_line, column, end_column;
  if (PyCode_Addr2Location(frame.code(), bytes, &line, &column, &end_line, &end_column) &&
      line == entry.line && column >= 0) {
    entry.end_line = end_line;
    entry.column = column;
    entry.end_column = end_column;
  }
  return entry;
}

// "a 'Table' object", "a builtin function"
std::string kind_of(PyObject* object) {
  if (is_tensor(object)) return "a tensor";
  if (PyModule_Check(object)) return "a module";
  if (PyType_Check(object)) return "a class";
  if (PyCFunction_Check(object)) return "a builtin function";
  if (PyFunction_Check(object)) return "a Python function";
  return std::string("a '") + Py_TYPE(object)->tp_name + "' object";
}

// "torch.sin", "F.linear", "Tensor.relu"
std::string name_of_callable(PyObject* callable) {
  if (!callable) return {};
  std::string name, owner;
  if (PyCFunction_Check(callable)) {
    name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
    Ref module = Ref::steal(PyObject_GetAttr(callable, names().module));
    if (!module) PyErr_Clear();
    owner = text_of(module.get()) == "_operator" ? "operator" : "torch";
  } else if (PyFunction_Check(callable)) {
    auto* function = reinterpret_cast<PyFunctionObject*>(callable);
    name = text_of(function->func_name);
    owner = text_of(function->func_module);
    if (owner == "torch.nn.functional") owner = "F";
  } else if (Py_IS_TYPE(callable, &PyMethodDescr_Type) ||
             Py_IS_TYPE(callable, &PyWrapperDescr_Type) ||
             Py_IS_TYPE(callable, &PyGetSetDescr_Type)) {
    name = text_of(reinterpret_cast<PyDescrObject*>(callable)->d_name);
    owner = "Tensor";
  } else {
    Ref attribute = Ref::steal(PyObject_GetAttr(callable, names().name));
    if (!attribute) PyErr_Clear();
    name = text_of(attribute.get());
  }
  if (name.empty()) return {};
  return owner.empty() ? name : owner + "." + name;
}

PyObject* as_python(at::ScalarType dtype) { return pytorch::dtype_object(dtype); }

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

std::vector<StackEntry> Evaluator::stack() const {
  std::vector<StackEntry> entries;
  bool user = false;
  for (const Frame* frame = top_; frame; frame = frame->back) {
    user = user || is_user_frame(*frame);
    if (user) entries.push_back(exact_entry_of(*frame));
  }
  if (entries.empty() && top_) entries.push_back(exact_entry_of(*top_));
  return entries;
}

void Evaluator::locate(BreakReason& reason) const {
  reason.stack = stack();
  if (!subject_ || subject_frame_ != top_ || !*subject_) return;
  PyObject* object = subject_->get();
  if (const Source* source = world_.source_of(*subject_))
    reason.object =
        guard::to_string(source, world_.parameter_names(), reinterpret_cast<PyObject*>(root_)) +
        ", " + kind_of(object);
  else if (is_fake(object))
    reason.object = "a tensor that the compiled code computes";
  else
    reason.object = kind_of(object);
}

std::string Evaluator::place() {
  // Guards are recorded inside of operators, too, where PyTorch has given the GIL up.
  struct Gil {
    PyGILState_STATE state = PyGILState_Ensure();
    ~Gil() { PyGILState_Release(state); }
  } gil;
  const Frame* frame = top_;
  while (frame && !is_user_frame(*frame) && frame->back) frame = frame->back;
  if (!frame) return "";
  const StackEntry entry = entry_of(*frame);
  return entry.file + ":" + std::to_string(entry.line) + " in " + entry.function;
}

// Of the innermost frame of a method of a module.
const Source* Evaluator::module_under_way() const {
  for (const Frame* frame = top_; frame; frame = frame->back) {
    if (frame->locals.empty() || frame->code()->co_argcount == 0) continue;
    PyObject* self = frame->locals[0].get();
    if (!self || !PyObject_TypeCheck(self, known().module)) continue;
    if (const Source* module = world_.source_of(self)) return module;
  }
  return nullptr;
}

graph::OriginId Evaluator::origin(graph::Graph& graph) {
  // PyTorch's bindings give the GIL up around an operator.
  struct Gil {
    PyGILState_STATE state = PyGILState_Ensure();
    ~Gil() { PyGILState_Release(state); }
  };
  ++recorded_nodes_;
  const Frame* frame = top_;
  while (frame && !is_user_frame(*frame) && frame->back) frame = frame->back;
  if (!frame) return graph.add_origin({});
  OriginKey key{frame->info, frame->current(), native_module_, native_callee_};
  if (native_callee_ && PyCFunction_Check(native_callee_))
    key.callee = reinterpret_cast<PyCFunctionObject*>(native_callee_)->m_ml;
  std::optional<Gil> gil;
  if (native_frame_ != top_) {
    gil.emplace();
    key.module = module_under_way();
  }
  auto [place, fresh] = origins_.try_emplace(key, -1);
  if (!fresh) return place->second;
  if (!gil) gil.emplace();
  StackEntry entry = entry_of(*frame);
  place->second = graph.add_origin({.file = std::move(entry.file),
                                    .line = entry.line,
                                    .function = std::move(entry.function),
                                    .module_path = module_path(key.module),
                                    .call = callee_name(key.callee)});
  return place->second;
}

// Of the native callee under way, which has this key.
const std::string& Evaluator::callee_name(const void* key) {
  auto [place, fresh] = callee_names_.try_emplace(key);
  if (fresh && native_callee_) {
    place->second = name_of_callable(native_callee_);
    world_.hold(Ref::borrow(native_callee_));  // so that the key stays its own
  }
  return place->second;
}

// "encoder.layer.3.attention": the modules between the outermost one and this.
const std::string& Evaluator::module_path(const Source* module) {
  if (auto known = module_paths_.find(module); known != module_paths_.end()) return known->second;
  std::string path = make_module_path(module);
  return module_paths_[module] = std::move(path);
}

std::string Evaluator::make_module_path(const Source* module) {
  if (!module || !module->base) return "";
  const bool is_child = module->kind == SourceKind::kItem &&
                        module->base->kind == SourceKind::kAttribute &&
                        module->base->key.get() == names().modules;
  const bool is_attribute =
      module->kind == SourceKind::kAttribute && module->key.get() != names().modules;
  std::string path = module_path(is_child ? module->base->base : module->base);
  if ((!is_child && !is_attribute) || !PyUnicode_Check(module->key.get())) return path;
  const std::string part = text_of(module->key.get());
  if (part == "__self__" || part == "__func__") return path;
  return path.empty() ? part : path + "." + part;
}

void Evaluator::record_torch_call(PyObject* callable, const Slot* args, size_t count,
                                  PyObject* kwnames, PyObject* result) {
  if (!torch_calls_ || native_depth_ != 0 || !callable) return;
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
  std::vector<StackEntry> where = stack();
  StackEntry entry = where.empty() ? StackEntry{} : where.front();
  Ref record = Ref::steal(Py_BuildValue("(OOOO(sis)N)", callable, positional.get(), named.get(),
                                        result, entry.file.c_str(), entry.line,
                                        entry.function.c_str(), torch_state().release()));
  if (!record || PyList_Append(torch_calls_.get(), record.get()) < 0) PyErr_Clear();
}

}  // namespace braze::capture
