#include "capture/calls/torch.h"

#include <algorithm>

#include "base/is_one_of.h"
#include "capture/calls/autocast.h"
#include "capture/calls/builtins.h"
#include "capture/calls/calls.h"
#include "capture/calls/elements.h"
#include "capture/calls/exported_memory.h"
#include "capture/calls/native.h"
#include "capture/calls/torch_failures.h"
#include "capture/calls/torch_record.h"
#include "capture/frames/hook.h"
#include "capture/frames/subject.h"
#include "capture/known.h"
#include "capture/objects/attributes.h"
#include "capture/objects/operators.h"
#include "capture/objects/tensor_attributes.h"
#include "capture/symbols/calls.h"
#include "capture/symbols/floats.h"
#include "capture/symbols/integers.h"
#include "capture/trace_context.h"

namespace braze::capture {

namespace {

// Tensors, sizes and atoms, none of a class that overrides torch's functions.
bool is_plain_argument(PyObject* object, bool alone = true) {
  if (Py_TYPE(object) == known().tensor || Py_TYPE(object) == known().sym_int || is_atom(object))
    return true;
  const bool list =
      PyTuple_CheckExact(object) || PyList_CheckExact(object) || Py_TYPE(object) == known().size;
  if (!list || !alone) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
    if (!is_plain_argument(PySequence_Fast_GET_ITEM(object, i), false)) return false;
  return true;
}

bool are_plain(const Tracked& self, const Tracked* args, size_t count) {
  return Py_TYPE(self.get()) == known().tensor &&
         std::all_of(args, args + count,
                     [](const Tracked& arg) { return is_plain_argument(arg.get()); });
}

// The arguments of Tensor.new_tensor: numbers, and options by name.
bool is_data_of_numbers(const Tracked* args, size_t count, PyObject* kwnames) {
  const size_t keywords = kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0;
  for (size_t i = 0; i < keywords; ++i) {
    PyObject* keyword = PyTuple_GET_ITEM(kwnames, static_cast<Py_ssize_t>(i));
    if (PyUnicode_CompareWithASCIIString(keyword, "dtype") != 0 &&
        PyUnicode_CompareWithASCIIString(keyword, "device") != 0)
      return false;
  }
  const auto is_other = [](PyObject* object) {
    return !PyList_Check(object) && !PyTuple_Check(object) && !PyFloat_Check(object) &&
           !PyLong_Check(object) && !is_symbolic(object);
  };
  return count == keywords + 1 && !any_inside(args[0].get(), is_other, 0) &&
         !any_inside(args[0].get(), is_tensor);
}

// Of Tensor.new: sizes, nothing, or numbers in a list.
bool is_sizes_or_data(const Tracked* args, size_t count, PyObject* kwnames) {
  if (kwnames) return false;
  const auto is_size = [](const Tracked& arg) {
    return PyLong_CheckExact(arg.get()) || Py_TYPE(arg.get()) == known().sym_int;
  };
  if (std::all_of(args, args + count, is_size)) return true;
  if (count != 1) return false;
  return Py_TYPE(args[0].get()) == known().size ||
         ((PyList_CheckExact(args[0].get()) || PyTuple_CheckExact(args[0].get())) &&
          is_data_of_numbers(args, count, nullptr));
}

// Of a tensor method that bypasses the dispatcher.
BreakKind kind_of_tensor_method(std::string_view name) {
  if (is_one_of(name, {"__repr__", "__str__", "__format__"})) return BreakKind::kTensorAsText;
  if (is_one_of(name, {"tolist", "numpy", "__array__"})) return BreakKind::kDataDependent;
  return BreakKind::kTensorInternals;
}

// A function of trees that makes no tensors: no node of a graph.
bool only_rearranges(std::string_view module, std::string_view name) {
  return module == "torch.utils._pytree" &&
         is_one_of(name, {"tree_flatten", "tree_unflatten", "tree_leaves", "tree_structure"});
}

}  // namespace

static bool may_copy_data(TraceContext& trace, const char* name, const Tracked* args, size_t count);

// `requires_grad_()` of what the traced code has made.
static bool makes_leaf(TraceContext& trace, std::string_view name, const Tracked& self,
                       const Tracked* args, size_t count, PyObject* kwnames) {
  return name == "requires_grad_" && is_fake(self.get()) && !trace.world.source_of(self) &&
         !trace.torch_calls && !kwnames && (count == 0 || (count == 1 && args[0].get() == Py_True));
}

Tracked call_tensor_method(TraceContext& trace, const Tracked& callable, const char* name,
                           const Tracked& self, Tracked* args, size_t count, PyObject* kwnames,
                           bool unbound) {
  const Subject subject(trace, self);
  if (!may_show_sizes(trace, self.get(), name)) return {};
  if (std::string_view(name) == "size" && count <= 1 && !kwnames && !trace.torch_calls) {
    Ref size = count == 0 ? trace.recording.shape_of(self.get())
                          : trace.recording.size_of(self.get(), args[0].get());
    if (size) return Tracked(std::move(size));
  }
  if (std::string_view(name) == "item" && count == 0 && !kwnames)
    if (Tracked item = item_of_counter(trace, self); item || PyErr_Occurred()) return item;
  if (std::string_view(name) == "requires_grad_" && count <= 1 && (count == 1 || !kwnames) &&
      (count == 0 || PyBool_Check(args[0].get())) &&
      (change_requires_grad(trace, self, count == 0 || args[0].get() == Py_True) ||
       PyErr_Occurred()))
    return PyErr_Occurred() ? Tracked() : self;
  if (std::string_view(name) == "detach_" && count == 0 &&
      (detach_in_place(trace, self) || PyErr_Occurred()))
    return PyErr_Occurred() ? Tracked() : self;
  const char* why =
      makes_leaf(trace, name, self, args, count, kwnames) ? nullptr : tensor_method_break(name);
  if (why) {
    if (std::string_view(name) == "tolist" && count == 0)
      if (Tracked list = list_of_tensor(trace, self); list || PyErr_Occurred()) return list;
    std::string text = std::string("Tensor.") + name + "(): " + why;
    return trace.refuse(kind_of_tensor_method(name), text);
  }
  if (!may_copy_data(trace, name, args, count) || !read_arguments(trace, args, count)) return {};
  for (size_t i = 0; i < count; ++i)
    if (!may_give_torch(trace, args[i].get(), "Tensor", name)) return {};
  use_stand_ins(trace, args, count);
  Tracked result;
  std::vector<Tracked> all;
  // The method looks at the device of a tensor in a way that a fake has no answer to.
  if (is_fake(self.get()) &&
      ((std::string_view(name) == "new_tensor" && is_data_of_numbers(args, count, kwnames)) ||
       (std::string_view(name) == "new" && is_sizes_or_data(args, count, kwnames)))) {
    if (PyObject* substitute = substitute_for(names_in_tensor(name))) {
      all.push_back(self);
      all.insert(all.end(), args, args + count);
      return call(trace, trace.world.wrap(substitute), all.data(), all.size(), kwnames);
    }
  }
  if (trace.recording.has_floats() && (kwnames || !is_plain_operator(name))) {
    bool done = false;
    all.push_back(self);
    all.insert(all.end(), args, args + count);
    result = call_for_floats(trace, names_in_tensor(name), all.data(), all.size(), kwnames, done);
    if (done) return result;
    all.clear();
  }
  std::optional<Recording::PlainTorch> plain;
  if (trace.recording.has_symbols() && are_plain(self, args, count)) plain.emplace();
  if (unbound) {
    all.reserve(count + 1);
    all.push_back(self);
    all.insert(all.end(), args, args + count);
    result = call_native(trace, callable.get(), all.data(), count + 1, kwnames, true);
  } else {
    result = call_native(trace, callable.get(), args, count, kwnames, true);
  }
  if (!result) {
    if (unbound) return torch_failed(trace, callable.get(), all.data(), all.size(), kwnames);
    return torch_failed(trace, callable.get(), args, count, kwnames);
  }
  plain.reset();
  if (trace.torch_calls && trace.native.depth == 0) {
    PyObject* method =
        _PyType_Lookup(Py_TYPE(self.get()), Ref::steal(PyUnicode_FromString(name)).get());
    if (!unbound) {
      all.push_back(self);
      all.insert(all.end(), args, args + count);
    }
    record_torch_call(trace, method ? method : callable.get(), all.data(), all.size(), kwnames,
                      result.get());
  }
  return result;
}

bool may_give_torch(TraceContext& trace, PyObject* object, const char* owner,
                    const char* function) {
  if (is_atom(object) || is_tensor(object)) return true;
  const bool of_trees = std::string_view(owner) == "torch.utils._pytree";
  if (PyObject* memory = of_trees ? nullptr : memory_within(trace.world, object))
    return refuse_memory(trace.breaks, memory, std::string(owner) + "." + function + "()");
  if (is_immutable(object) || is_container(object) || !trace.world.is_outside(object) ||
      is_torch_module_name(module_of(Py_TYPE(object))))
    return true;
  return trace.breaks.refuse(
      Py_TYPE(object) == known().ndarray ? BreakKind::kNumpy : BreakKind::kNativeCall,
      std::string(owner) + "." + function + "() is given a '" + Py_TYPE(object)->tp_name +
          "' object from outside");
}

// What torch.tensor and its like are given.
static bool may_copy_data(TraceContext& trace, const char* name, const Tracked* args,
                          size_t count) {
  if (!copies_data(name)) return true;
  for (size_t i = 0; i < count; ++i)
    if (!is_tensor(args[i].get()) && holds_tensor(trace.world.effective(args[i].get())))
      return trace.breaks.refuse(BreakKind::kDataDependent,
                                 std::string(name) + "() reads the data of tensors in a list");
  return true;
}

// C.apply(...) of an autograd.Function of the user's, which hands its arguments on to a function of
// Python that is evaluated.
static bool applies_users_function(TraceContext& trace, const char* module, const char* name,
                                   const Tracked* args, size_t count) {
  if (std::string_view(module) != "torch.autograd.function" || std::string_view(name) != "apply")
    return false;
  if (trace.torch_calls || count == 0 || !PyType_Check(args[0].get())) return false;
  static PyObject* const forward_name = PyUnicode_InternFromString("forward");
  PyObject* found = _PyType_Lookup(reinterpret_cast<PyTypeObject*>(args[0].get()), forward_name);
  if (!found || !Py_IS_TYPE(found, &PyStaticMethod_Type)) return false;
  const Ref forward = Ref::steal(PyObject_GetAttrString(found, "__func__"));
  if (!forward || !PyFunction_Check(forward.get())) return false;
  auto* function = reinterpret_cast<PyFunctionObject*>(forward.get());
  const CodePolicy policy =
      code_policy(reinterpret_cast<PyCodeObject*>(function->func_code), function->func_globals);
  return policy.frame == FramePolicy::kInline && !policy.is_torch;
}

Tracked call_torch(TraceContext& trace, const Tracked& callable, const char* module,
                   const char* name, Tracked* args, size_t count, PyObject* kwnames) {
  if (is_hint_function(module, name)) return Tracked::borrow(Py_None);
  bool of_autocast = false;
  Tracked made = call_of_autocast(trace, callable, module, name, args, count, kwnames, of_autocast);
  if (of_autocast || PyErr_Occurred()) return made;
  // What torch's state is to become at the end of such an object is known to nobody.
  if (count > 0 && std::string_view(name) == "__exit__" && trace.world.is_outside(args[0].get()) &&
      !trace.is_state_guard(args[0].get()))
    return trace.refuse(
        BreakKind::kUntraceableOp,
        std::string("the end of a '") + Py_TYPE(args[0].get())->tp_name + "' object from outside");
  if (count > 0 && is_method_of_native_object(callable.get(), args[0].get(), name))
    return trace.refuse(BreakKind::kNativeObject, std::string("method ") +
                                                      Py_TYPE(args[0].get())->tp_name + "." + name +
                                                      " of PyTorch's native code");
  const TorchFunctionPolicy policy = torch_function_policy(module, name);
  const char* why = policy.refused;
  const auto has_tensor = [](const Tracked& arg) { return holds_tensor(arg.get()); };
  if (!why && !policy.may_see_fakes && std::any_of(args, args + count, has_tensor))
    why = "may look behind the tensors it is given";
  if (!why && std::string_view(module) == "torch._tensor") why = tensor_method_break(name);
  if (why && std::string_view(name) == "graph_break")
    return asked_break(trace, "torch._dynamo.graph_break()", args, count);
  if (why)
    return trace.refuse(BreakKind::kUntraceableOp, std::string(module) + "." + name + "(): " + why);
  if (count == 1 && is_tensor(args[0].get()) && !may_show_sizes(trace, args[0].get(), name))
    return {};
  if (!may_copy_data(trace, name, args, count)) return {};
  if (count == 0 && trace.native.depth == 0 && policy.reads_a_switch) {
    // Each call asks again.
    Ref value = call_raw(trace, callable.get(), args, count, kwnames);
    if (!value || is_atom(value.get()))
      return value ? trace.world.read(value.get(), trace.guards.source(SourceKind::kNative, nullptr,
                                                                       callable.get()))
                   : Tracked();
  }
  if (!policy.takes_objects) {
    const bool of_trees = std::string_view(module) == "torch.utils._pytree";
    if (!read_arguments(trace, args, count, of_trees ? Look::kHandsOn : Look::kDeep)) return {};
    use_stand_ins(trace, args, count);
    for (size_t i = 0; i < count; ++i) {
      PyObject* arg = args[i].get();
      if (!may_give_torch(trace, arg, module, name)) return {};
      if (!is_immutable(arg) && trace.world.is_outside(arg) &&
          PyObject_TypeCheck(arg, known().module))
        return trace.refuse(BreakKind::kNativeCall,
                            std::string(module) + "." + name + "() is given a module");
    }
  }
  if (trace.recording.has_floats() && (kwnames || !is_plain_operator(name))) {
    bool done = false;
    Tracked result = call_for_floats(trace, callable.get(), args, count, kwnames, done);
    if (done) return result;
  }
  int64_t recorded = trace.origins.recorded_nodes();
  const size_t effects = effects_so_far(trace);
  Tracked result = applies_users_function(trace, module, name, args, count)
                       ? call_as_given(trace, callable.get(), args, count, kwnames)
                       : call_native(trace, callable.get(), args, count, kwnames, true);
  if (!result) {
    // Without tensors the error is a fact about the environment (torch.cuda without CUDA).
    bool about_tensors = trace.origins.recorded_nodes() != recorded;
    for (size_t i = 0; i < count; ++i) about_tensors |= holds_tensor(args[i].get());
    return about_tensors || trace.breaks.under_way()
               ? torch_failed(trace, callable.get(), args, count, kwnames)
               : Tracked();
  }
  if (trace.torch_calls && effects_so_far(trace) != effects)  // of an autograd.Function's forward()
    return trace.refuse(BreakKind::kSideEffect,
                        std::string(module) + "." + name +
                            "() calls code with side effects, which would happen "
                            "again in a backend's graph");
  if (!only_rearranges(module, name))
    record_torch_call(trace, callable.get(), args, count, kwnames, result.get());
  return result;
}

}  // namespace braze::capture
