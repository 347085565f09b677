#include "capture/frames/origin.h"

#include "capture/known.h"
#include "capture/trace_context.h"
#include "cpython/text.h"

namespace braze::capture {

namespace {

struct Gil {
  PyGILState_STATE state = PyGILState_Ensure();
  ~Gil() { PyGILState_Release(state); }
};

bool is_user_frame(const Frame& frame) {
  return !frame.info->policy.is_torch && !frame.info->policy.is_stand_in;
}

std::string text_of(PyObject* unicode) {
  return unicode && PyUnicode_Check(unicode) ? cpython::utf8_of(unicode) : "";
}

StackEntry entry_of(const Frame& frame) {
  return {.file = frame.info->file, .line = frame.line(), .function = frame.info->function};
}

// With the expression, which takes CPython a walk through the code's position table.
StackEntry exact_entry_of(const Frame& frame) {
  StackEntry entry = entry_of(frame);
  const int offset = frame.info->decoded->instructions[static_cast<size_t>(frame.current())].offset;
  const int bytes = offset * static_cast<int>(cpython::kBytesPerUnit);
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

}  // namespace

std::vector<StackEntry> user_stack(TraceContext& trace) {
  std::vector<StackEntry> entries;
  bool user = false;
  for (const Frame* frame = trace.frames.top(); frame; frame = frame->back) {
    user = user || is_user_frame(*frame);
    if (user) entries.push_back(exact_entry_of(*frame));
  }
  if (entries.empty() && trace.frames.top()) entries.push_back(exact_entry_of(*trace.frames.top()));
  return entries;
}

void locate(TraceContext& trace, BreakReason& reason) {
  reason.stack = user_stack(trace);
  if (!trace.subject.tracked || trace.subject.frame != trace.frames.top() ||
      !*trace.subject.tracked)
    return;
  PyObject* object = trace.subject.tracked->get();
  if (const Source* source = trace.world.source_of(*trace.subject.tracked))
    reason.object = trace.guards.text_of(source) + ", " + kind_of(object);
  else if (is_fake(object))
    reason.object = "a tensor that the compiled code computes";
  else
    reason.object = kind_of(object);
}

std::string user_place(TraceContext& trace) {
  const Gil gil;  // guards are recorded inside of operators, too, where PyTorch has given it up
  const Frame* frame = trace.frames.top();
  while (frame && !is_user_frame(*frame) && frame->back) frame = frame->back;
  if (!frame) return "";
  const StackEntry entry = entry_of(*frame);
  return entry.file + ":" + std::to_string(entry.line) + " in " + entry.function;
}

const Source* module_under_way(TraceContext& trace) {
  for (const Frame* frame = trace.frames.top(); frame; frame = frame->back) {
    if (frame->locals.empty() || frame->code()->co_argcount == 0) continue;
    PyObject* self = frame->locals[0].get();
    if (!self || !PyObject_TypeCheck(self, known().module)) continue;
    if (const Source* module = trace.world.source_of(self)) return module;
  }
  return nullptr;
}

size_t OriginTracker::KeyHash::operator()(const Key& key) const {
  size_t hash = reinterpret_cast<size_t>(key.code) >> 4;
  hash = hash * 1000003u ^ reinterpret_cast<size_t>(key.module) >> 4;
  hash = hash * 1000003u ^ reinterpret_cast<size_t>(key.callee) >> 4;
  hash = hash * 1000003u ^ static_cast<size_t>(2 * key.checkpoint + key.is_data);
  return hash * 1000003u ^ static_cast<size_t>(key.at);
}

graph::OriginId OriginTracker::origin(graph::Graph& graph) {
  ++recorded_nodes_;
  const Frame* frame = trace_.frames.top();
  while (frame && !is_user_frame(*frame) && frame->back) frame = frame->back;
  if (!frame) return graph.add_origin({});
  Key key{frame->info,          frame->current(), trace_.native.module,
          trace_.native.callee, checkpoint_,      is_data_};
  if (trace_.native.callee && PyCFunction_Check(trace_.native.callee))
    key.callee = reinterpret_cast<PyCFunctionObject*>(trace_.native.callee)->m_ml;
  // PyTorch's bindings give the GIL up around an operator: it is taken for what is new only.
  std::optional<Gil> gil;
  if (trace_.native.frame != trace_.frames.top()) {
    gil.emplace();
    key.module = module_under_way(trace_);
  }
  auto [place, fresh] = origins_.try_emplace(key, -1);
  if (!fresh) return place->second;
  if (!gil && !(frame->info->knows_line(key.at) && module_paths_.contains(key.module) &&
                callee_names_.contains(key.callee)))
    gil.emplace();
  place->second = graph.add_origin({.file = frame->info->file,
                                    .line = frame->line(),
                                    .function = frame->info->function,
                                    .module_path = module_path(key.module),
                                    .call = callee_name(key.callee),
                                    .checkpoint = key.checkpoint,
                                    .is_data = key.is_data});
  return place->second;
}

// Of the native callee under way, which has this key.
const SharedText& OriginTracker::callee_name(const void* key) {
  auto [place, fresh] = callee_names_.try_emplace(key);
  if (fresh && trace_.native.callee) {
    place->second = name_of_callable(trace_.native.callee);
    trace_.world.hold(Ref::borrow(trace_.native.callee));  // so that the key stays its own
  }
  return place->second;
}

// "encoder.layer.3.attention": the modules between the outermost one and this.
const SharedText& OriginTracker::module_path(const Source* module) {
  if (auto known = module_paths_.find(module); known != module_paths_.end()) return known->second;
  SharedText path = make_module_path(module);
  return module_paths_[module] = std::move(path);
}

std::string OriginTracker::make_module_path(const Source* module) {
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

}  // namespace braze::capture
