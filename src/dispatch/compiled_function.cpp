#include "dispatch/compiled_function.h"

#include <structmember.h>

#include <cstddef>
#include <cstdio>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cpython/frame.h"
#include "dispatch/compile_mutex.h"
#include "dispatch/compiler.h"
#include "dispatch/controls.h"
#include "dispatch/entry.h"
#include "dispatch/frame_driver.h"
#include "dispatch/recompiles.h"
#include "dispatch/report.h"
#include "dispatch/settings.h"

namespace braze::dispatch {
namespace {

using cpython::Ref;

struct State {
  Settings settings;
  int parameter_count = 0;
  size_t most_inputs = 0;                       // over all entries
  std::vector<std::shared_ptr<Entry>> entries;  // newest last
  std::shared_ptr<Segments> segments = std::make_shared<Segments>();
  bool limit_told = false;
  capture::DynamicSizes dynamic;  // what the calls so far have shown
  // Of a generator function: for the code that it had last. Null: its generators run in eager.
  std::unique_ptr<cpython::Resumable> resumable;
  cpython::Ref resumable_code;
};

struct CompiledFunction {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* function;  // PyFunctionObject: what is captured
  PyObject* self;      // bound first argument, or null
  PyObject* wrapped;   // what the user gave
  PyObject* dict;
  PyObject* weakrefs;
  State* state;
};

PyObject* graph_break_error = nullptr;
PyObject* parameter_names_of(PyFunctionObject* function) {  // borrowed: the code's co_varnames
  return reinterpret_cast<PyCodeObject*>(function->func_code)->co_localsplusnames;
}

CompiledFunction* cast(PyObject* object) { return reinterpret_cast<CompiledFunction*>(object); }

// Arguments as the underlying function takes them.
class FullArguments {
 public:
  FullArguments(CompiledFunction* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    count_ = PyVectorcall_NARGS(nargsf);
    kwnames_ = kwnames;
    if (!self->self) {
      args_ = args;
      return;
    }
    size_t total = count_ + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    if (total + 1 > kInline) {
      heap_.resize(total + 1);
      storage_ = heap_.data();
    }
    storage_[0] = self->self;
    std::copy(args, args + total, storage_ + 1);
    args_ = storage_;
    ++count_;
  }
  CallArguments get() const { return {args_, count_, kwnames_}; }

 private:
  static constexpr size_t kInline = 16;
  PyObject* inline_[kInline];
  std::vector<PyObject*> heap_;
  PyObject** storage_ = inline_;
  PyObject* const* args_ = nullptr;
  size_t count_ = 0;
  PyObject* kwnames_ = nullptr;
};

PyObject* run_original(CompiledFunction* self, const CallArguments& call) {
  return PyObject_Vectorcall(self->function, call.args, call.nargsf, call.kwnames);
}

bool makes_generators(const CompiledFunction* self) {
  auto* code = reinterpret_cast<PyCodeObject*>(
      reinterpret_cast<PyFunctionObject*>(self->function)->func_code);
  constexpr int kSuspends = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  return (code->co_flags & kSuspends) != 0 && cpython::Resumable::is_possible() &&
         !self->state->settings.fullgraph;
}

void prepare_generators(CompiledFunction* self) {
  State& state = *self->state;
  auto* function = reinterpret_cast<PyFunctionObject*>(self->function);
  if (state.resumable_code.get() == function->func_code) return;
  state.resumable.reset();
  state.resumable_code = Ref::borrow(function->func_code);
  auto context =
      std::make_shared<GeneratorContext>(GeneratorContext{state.settings, state.segments});
  try {
    state.resumable =
        make_resumable(reinterpret_cast<PyCodeObject*>(function->func_code), std::move(context));
  } catch (const std::exception& error) {
    PyErr_Clear();
    std::fprintf(stderr,
                 "braze: internal error: generators of %s run in eager. Please report this: %s\n",
                 describe(function).c_str(), error.what());
  }
}

// The generator is CPython's, made by the function itself; what it does between two yields is
// compiled when it is resumed.
PyObject* make_generator(CompiledFunction* self, const CallArguments& call) {
  prepare_generators(self);
  PyObject* made = run_original(self, call);
  State& state = *self->state;
  if (!made || !state.resumable) return made;
  auto known = state.segments->codes.find(state.resumable->code());
  if (known == state.segments->codes.end() || !known->second->left_to_cpython)
    state.resumable->take_over(made);
  return made;
}

std::string reason_of_miss(const State& state, PyFunctionObject* function, PyObject* const* bound) {
  return reason_of_miss(std::span(state.entries), bound, parameter_names_of(function));
}

// Once, on stderr: from here on the user loses what was asked for.
void tell_limit(State& state, PyFunctionObject* function, PyObject* const* bound) {
  if (std::exchange(state.limit_told, true)) return;
  log::warning(describe(function) +
               ": recompile_limit=" + std::to_string(state.settings.recompile_limit) +
               " is reached, calls that fit nothing compiled run in eager. The last: " +
               reason_of_miss(state, function, bound));
}

PyObject* raise_graph_break(const capture::BreakReason& reason) {
  std::string text = "fullgraph=True, but the whole function cannot be captured. [E113]\n" +
                     capture::to_string(reason);
  PyErr_SetString(graph_break_error, text.c_str());
  return nullptr;
}

PyObject* raise_recompile(State& state, PyFunctionObject* function, PyObject* const* bound) {
  std::string why = state.entries.empty() ? std::string("it has not been compiled yet")
                                          : reason_of_miss(state, function, bound);
  PyErr_Format(PyExc_RuntimeError,
               "%s would be compiled, which the stance 'fail_on_recompile' forbids: %s [E111]",
               describe(function).c_str(), why.c_str());
  return nullptr;
}

// Reasons that fullgraph=True does not turn into an error: the code is fine, the call is not one to
// compile.
bool runs_eagerly_under_fullgraph(const capture::BreakReason& reason) {
  return reason.kind == capture::BreakKind::kAutograd;
}

// Goes on behind the break that `entry` ends in.
PyObject* run_behind_break(CompiledFunction* self, const std::shared_ptr<Entry>& entry,
                           const CallArguments& call, std::vector<Ref> values) {
  const std::shared_ptr<Segments> segments = self->state->segments;
  DriverContext context{self->state->settings, *segments};
  return call_with_breaks(context, reinterpret_cast<PyFunctionObject*>(self->function), call, entry,
                          std::move(values));
}

bool goes_on_behind_break(CompiledFunction* self, const Entry& entry) {
  if (!goes_on_in_frame(entry.exit) || !cpython::can_be_driven(self->function)) return false;
  if (cpython::LiveFrame::is_watched(PyThreadState_Get())) return false;
  auto* code = reinterpret_cast<PyCodeObject*>(
      reinterpret_cast<PyFunctionObject*>(self->function)->func_code);
  if (code != entry.code) return false;  // the function has been given another
  auto known = self->state->segments->codes.find(code);
  return known == self->state->segments->codes.end() || !known->second->left_to_cpython ||
         entry.kind != EntryKind::kEager;
}

PyObject* run_entry(CompiledFunction* self, const std::shared_ptr<Entry>& hold,
                    PyObject* const* bound, const CallArguments& call,
                    c10::TensorImpl* const* inputs) {
  Entry& entry = *hold;
  const bool goes_on = goes_on_behind_break(self, entry);
  if (goes_on && entry.kind == EntryKind::kEager) {
    ++entry.calls;
    return run_behind_break(self, hold, call, {});
  }
  if (goes_on_in_frame(entry.exit) && !goes_on) return run_original(self, call);
  PyObject* result = nullptr;
  std::vector<Ref> values;
  std::string why;
  switch (entry.run(reinterpret_cast<PyFunctionObject*>(self->function), bound, inputs, &result,
                    values, &why)) {
    case Entry::Outcome::kDone:
      if (goes_on && !PyErr_Occurred())
        return run_behind_break(self, hold, call, std::move(values));
      return result;
    case Entry::Outcome::kRunEager:
      return run_original(self, call);
    case Entry::Outcome::kBroken:
      std::fprintf(stderr,
                   "braze: internal error in compiled %s; it runs in eager from now on. "
                   "Please report this: %s\n",
                   describe(reinterpret_cast<PyFunctionObject*>(self->function)).c_str(),
                   why.c_str());
      entry.kind = EntryKind::kEager;
      entry.reason =
          capture::BreakReason{capture::BreakKind::kInternal, "internal error: " + why, {}};
      return run_original(self, call);
  }
  return nullptr;
}

// Finds the entry that fits into `hold`. One that takes more tensors than `inputs` has room
// for was made meanwhile by another thread.
bool find_entry(State& state, PyObject* const* bound, std::span<c10::TensorImpl*> inputs,
                std::shared_ptr<Entry>& hold) {
  return find_newest_first(state.entries, hold, [&](Entry& entry) {
    return entry.input_count <= inputs.size() && entry.guards->check(bound, inputs.data());
  });
}

PyObject* compile_and_run(CompiledFunction* self, PyObject* const* bound,
                          const CallArguments& call) {
  State& state = *self->state;
  auto* function = reinterpret_cast<PyFunctionObject*>(self->function);
  if (stance() == Stance::kEagerOnRecompile) return run_original(self, call);
  if (stance() == Stance::kFailOnRecompile) return raise_recompile(state, function, bound);
  if (static_cast<int64_t>(state.entries.size()) >= state.settings.recompile_limit) {
    tell_limit(state, function, bound);
    return run_original(self, call);
  }
  std::unique_lock lock(compile_mutex(), std::try_to_lock);
  if (!lock || capturing()) return run_original(self, call);
  std::vector<c10::TensorImpl*> inputs(state.most_inputs + 1, nullptr);
  std::shared_ptr<Entry> hold;
  if (find_entry(state, bound, inputs, hold)) {  // made meanwhile
    lock.unlock();
    return run_entry(self, hold, bound, call, inputs.data());
  }
  if (!state.entries.empty() && log::enabled(log::Component::kRecompiles))
    log::write(log::Component::kRecompiles,
               describe(function) + ": compiled again, " + reason_of_miss(state, function, bound));
  learn_what_varies(state.dynamic, state.entries, bound, parameter_names_of(function));
  std::shared_ptr<Entry> entry = compile_entry(function, bound, state.settings, {}, &state.dynamic);
  lock.unlock();
  if (!entry) return nullptr;
  if (entry->reason && state.settings.fullgraph && !runs_eagerly_under_fullgraph(*entry->reason)) {
    if (entry->reason->kind == capture::BreakKind::kException) {
      // The user's own error, if eager has it too.
      Ref result = Ref::steal(run_original(self, call));
      if (!result) return nullptr;
    }
    return raise_graph_break(*entry->reason);
  }
  publish(state.entries, entry);
  state.most_inputs = std::max(state.most_inputs, entry->input_count);
  inputs.assign(entry->input_count + 1, nullptr);
  if (!entry->guards->check(bound, inputs.data())) {
    std::string why = entry->guards->why_not(bound, parameter_names_of(function));
    if (entry->kind == EntryKind::kEager) return run_original(self, call);
    std::fprintf(stderr,
                 "braze: guards of %s do not hold right after capture (%s); it runs in eager. "
                 "Please report this.\n",
                 describe(function).c_str(), why.c_str());
    return run_original(self, call);
  }
  return run_entry(self, entry, bound, call, inputs.data());
}

PyObject* call(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  CompiledFunction* self = cast(object);
  FullArguments full(self, args, nargsf, kwnames);
  CallArguments call = full.get();
  if (capturing() || stance() == Stance::kForceEager) return run_original(self, call);
  if (makes_generators(self)) return make_generator(self, call);
  State& state = *self->state;
  auto* function = reinterpret_cast<PyFunctionObject*>(self->function);
  constexpr int kInlineParameters = 32;
  PyObject* inline_bound[kInlineParameters];
  std::vector<PyObject*> heap_bound;
  PyObject** bound = inline_bound;
  int count = cpython::parameter_count(reinterpret_cast<PyCodeObject*>(function->func_code));
  if (count > kInlineParameters) {
    heap_bound.resize(count);
    bound = heap_bound.data();
  }
  std::vector<Ref> keep;
  if (!cpython::bind_arguments(function, call.args, call.nargsf, call.kwnames, bound, keep)) {
    if (PyErr_Occurred()) return nullptr;
    return run_original(self, call);  // raises CPython's own message
  }
  constexpr size_t kInlineInputs = 24;
  c10::TensorImpl* inline_inputs[kInlineInputs];
  std::vector<c10::TensorImpl*> heap_inputs;
  std::span<c10::TensorImpl*> inputs(inline_inputs);
  if (state.most_inputs > kInlineInputs) {
    heap_inputs.resize(state.most_inputs);
    inputs = heap_inputs;
  }
  std::shared_ptr<Entry> hold;
  if (state.most_inputs <= kInlineInputs) std::fill(inputs.begin(), inputs.end(), nullptr);
  if (find_entry(state, bound, inputs, hold))
    return run_entry(self, hold, bound, call, inputs.data());
  if (PyErr_Occurred()) return nullptr;
  return compile_and_run(self, bound, call);
}

// --------------------------------------------------------------------------------- the Python type

bool read_settings(PyObject* given, Settings& out) {
  auto flag = [&](const char* key, bool& value) {
    PyObject* item = PyDict_GetItemString(given, key);
    if (item) value = PyObject_IsTrue(item) == 1;
  };
  flag("fullgraph", out.fullgraph);
  flag("keep_report", out.keep_report);
  flag("capture_scalar_outputs", out.capture_scalars);
  flag("capture_dynamic_output_shape_ops", out.capture_sizes);
  if (PyObject* dynamic = PyDict_GetItemString(given, "dynamic"); dynamic && dynamic != Py_None)
    out.dynamic = dynamic == Py_True ? capture::DynamicSizes::Mode::kAlways
                                     : capture::DynamicSizes::Mode::kNever;
  if (PyObject* limit = PyDict_GetItemString(given, "recompile_limit"))
    out.recompile_limit = PyLong_AsLongLong(limit);
  PyObject* backend = PyDict_GetItemString(given, "backend");
  if (backend && PyUnicode_Check(backend)) {
    if (PyUnicode_CompareWithASCIIString(backend, "eager") == 0)
      out.backend = compile::Backend::kEager;
    else if (PyUnicode_CompareWithASCIIString(backend, "aten") == 0)
      out.backend = compile::Backend::kAten;
  } else if (backend) {
    out.custom_backend = Ref::borrow(backend);
  }
  return !PyErr_Occurred();
}

// CompiledFunction(function, self | None, wrapped, settings)
PyObject* construct(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *function, *self, *wrapped, *settings;
  if (!PyArg_ParseTuple(args, "O!OOO!", &PyFunction_Type, &function, &self, &wrapped, &PyDict_Type,
                        &settings))
    return nullptr;
  auto* object = cast(type->tp_alloc(type, 0));
  if (!object) return nullptr;
  object->vectorcall = &call;
  object->function = Py_NewRef(function);
  object->self = self == Py_None ? nullptr : Py_NewRef(self);
  object->wrapped = Py_NewRef(wrapped);
  object->state = new State;
  Ref result = Ref::steal(reinterpret_cast<PyObject*>(object));
  if (!read_settings(settings, object->state->settings)) return nullptr;
  object->state->dynamic.mode = object->state->settings.dynamic;
  object->dict = PyDict_New();
  if (!object->dict) return nullptr;
  for (const char* name : {"__module__", "__name__", "__qualname__", "__doc__"}) {
    Ref value = Ref::steal(PyObject_GetAttrString(wrapped, name));
    if (!value)
      PyErr_Clear();
    else if (PyDict_SetItemString(object->dict, name, value.get()))
      return nullptr;
  }
  if (PyDict_SetItemString(object->dict, "__wrapped__", wrapped)) return nullptr;
  if (PyDict_SetItemString(object->dict, "_settings", settings)) return nullptr;
  return result.release();
}

int traverse(PyObject* object, visitproc visit, void* arg) {
  CompiledFunction* self = cast(object);
  Py_VISIT(self->function);
  Py_VISIT(self->self);
  Py_VISIT(self->wrapped);
  Py_VISIT(self->dict);
  return 0;
}
int clear(PyObject* object) {
  CompiledFunction* self = cast(object);
  Py_CLEAR(self->dict);
  if (self->state) {
    auto entries = std::move(self->state->entries);  // a finaliser may call us again
    self->state->entries.clear();
  }
  return 0;
}
void deallocate(PyObject* object) {
  CompiledFunction* self = cast(object);
  PyObject_GC_UnTrack(object);
  if (self->weakrefs) PyObject_ClearWeakRefs(object);
  clear(object);
  delete self->state;
  Py_CLEAR(self->function);
  Py_CLEAR(self->self);
  Py_CLEAR(self->wrapped);
  Py_TYPE(object)->tp_free(object);
}

PyObject* get_attribute(PyObject* object, PyObject* name) {
  PyObject* own = PyObject_GenericGetAttr(object, name);
  if (own || !PyErr_ExceptionMatches(PyExc_AttributeError)) return own;
  PyErr_Clear();
  return PyObject_GetAttr(cast(object)->wrapped, name);
}
// What belongs to the function is set on the function: `f.__defaults__ = ...` must be noticed.
int set_attribute(PyObject* object, PyObject* name, PyObject* value) {
  for (const char* special : {"__defaults__", "__kwdefaults__", "__code__", "__annotations__"})
    if (PyUnicode_CompareWithASCIIString(name, special) == 0)
      return PyObject_SetAttr(cast(object)->wrapped, name, value);
  return PyObject_GenericSetAttr(object, name, value);
}
PyObject* bind_method(PyObject* object, PyObject* instance, PyObject*) {
  if (!instance || cast(object)->self) return Py_NewRef(object);
  return PyMethod_New(object, instance);
}
PyObject* represent(PyObject* object) {
  return PyUnicode_FromFormat("<compiled %R>", cast(object)->wrapped);
}

PyObject* reset(PyObject* object, PyObject*) {
  State& state = *cast(object)->state;
  auto entries = std::move(state.entries);
  state.entries.clear();
  state.dynamic = {.mode = state.settings.dynamic};
  state.limit_told = false;
  state.segments = std::make_shared<Segments>();
  state.resumable.reset();
  state.resumable_code = Ref();
  Py_RETURN_NONE;
}
PyObject* entries(PyObject* object, PyObject*) {
  CompiledFunction* self = cast(object);
  Ref list = Ref::steal(PyList_New(0));
  bool done = true;
  auto add = [&](const Entry& entry) {
    Ref item = done ? Ref::steal(report_of(entry)) : Ref();
    done = item && PyList_Append(list.get(), item.get()) == 0;
  };
  for (const auto& entry : self->state->entries) add(*entry);
  self->state->segments->each(add);
  return done ? list.release() : nullptr;
}
PyObject* reduce(PyObject* object, PyObject*) {
  Ref module = Ref::steal(PyImport_ImportModule("braze._pickle"));
  if (!module) return nullptr;
  return PyObject_CallMethod(module.get(), "reduce_function", "O", object);
}

PyMethodDef methods[] = {
    {"reset", reset, METH_NOARGS, "Forget every compiled entry of this function."},
    {"_entries", entries, METH_NOARGS, "One dict for each entry, oldest first."},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};
PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CompiledFunction, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(CompiledFunction, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(CompiledFunction, weakrefs), READONLY, nullptr},
    {"_function", T_OBJECT, offsetof(CompiledFunction, function), READONLY, nullptr},
    {"_self", T_OBJECT, offsetof(CompiledFunction, self), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyGetSetDef getters[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(construct)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                       {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(clear)},
                       {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_getattro, reinterpret_cast<void*>(get_attribute)},
                       {Py_tp_setattro, reinterpret_cast<void*>(set_attribute)},
                       {Py_tp_descr_get, reinterpret_cast<void*>(bind_method)},
                       {Py_tp_repr, reinterpret_cast<void*>(represent)},
                       {Py_tp_methods, methods},
                       {Py_tp_members, members},
                       {Py_tp_getset, getters},
                       {0, nullptr}};
PyType_Spec spec = {"braze._C.CompiledFunction", sizeof(CompiledFunction), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

// check_only(compiled, *args, **kwargs) -> bool: argument binding and guards, nothing else; what a
// call costs beyond running.
PyObject* check_only(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* kwnames) {
  if (count < 1) {
    PyErr_SetString(PyExc_TypeError, "check_only(compiled, *args)");
    return nullptr;
  }
  CompiledFunction* self = cast(args[0]);
  FullArguments full(self, args + 1, count - 1, kwnames);
  CallArguments call = full.get();
  auto* function = reinterpret_cast<PyFunctionObject*>(self->function);
  std::vector<PyObject*> bound(
      cpython::parameter_count(reinterpret_cast<PyCodeObject*>(function->func_code)) + 1);
  std::vector<Ref> keep;
  if (!cpython::bind_arguments(function, call.args, call.nargsf, call.kwnames, bound.data(), keep))
    Py_RETURN_FALSE;
  std::vector<c10::TensorImpl*> inputs(self->state->most_inputs + 1);
  std::shared_ptr<Entry> hold;
  return PyBool_FromLong(find_entry(*self->state, bound.data(), inputs, hold));
}
PyMethodDef functions[] = {
    {"check_only", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(check_only)),
     METH_FASTCALL | METH_KEYWORDS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool initialize(PyObject* module) {
  PyObject* type = PyType_FromSpec(&spec);
  if (!type || PyModule_AddObject(module, "CompiledFunction", type)) return false;
  graph_break_error = PyErr_NewExceptionWithDoc(
      "braze.GraphBreakError",
      "fullgraph=True was asked for, but something in the function cannot be captured.",
      PyExc_RuntimeError, nullptr);
  if (!graph_break_error) return false;
  Py_INCREF(graph_break_error);
  if (PyModule_AddObject(module, "GraphBreakError", graph_break_error)) return false;
  return PyModule_AddFunctions(module, functions) == 0 && initialize_controls(module);
}

}  // namespace braze::dispatch
