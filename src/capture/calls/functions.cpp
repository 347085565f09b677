#include "capture/calls/functions.h"

#include <ATen/core/grad_mode.h>

#include "capture/calls/calls.h"
#include "capture/calls/marks.h"
#include "capture/calls/native.h"
#include "capture/calls/native_scope.h"
#include "capture/calls/output.h"
#include "capture/calls/torch.h"
#include "capture/frames/evaluate.h"
#include "capture/frames/generators.h"
#include "capture/known.h"
#include "capture/objects/items.h"
#include "capture/objects/named_tuples.h"
#include "capture/objects/operators.h"
#include "capture/objects/variables.h"
#include "capture/trace_context.h"
#include "cpython/text.h"

namespace braze::capture {

namespace {

// Parameter names of a code object, without *args and **kwargs.
PyObject* parameter_name(PyCodeObject* code, Py_ssize_t i) {
  return PyTuple_GET_ITEM(code->co_localsplusnames, i);
}

Py_ssize_t find_parameter(PyCodeObject* code, PyObject* name) {
  Py_ssize_t total = code->co_argcount + code->co_kwonlyargcount;
  for (Py_ssize_t i = code->co_posonlyargcount; i < total; ++i)
    if (parameter_name(code, i) == name) return i;
  for (Py_ssize_t i = code->co_posonlyargcount; i < total; ++i)
    if (PyUnicode_Compare(parameter_name(code, i), name) == 0) return i;
  return -1;
}

// What torch.compiler.is_compiling() says while tracing: true, which is what code asks it for. Two
// keep eager's answer: nn.Module's own call, which would skip hooks that run always, and
// optimizers, which would leave out checks and keep counts of steps as tensors.
bool says_compiling(const Frame* asking) {
  if (!asking) return true;
  PyObject* name = PyDict_GetItemWithError(asking->globals.get(), names().name);
  if (!name || !PyUnicode_Check(name)) return true;
  const std::string_view module = cpython::utf8_of(name);
  return module != "torch.nn.modules.module" && !module.starts_with("torch.optim.");
}

bool is_named(PyObject* text, const char* name) {
  return PyUnicode_CompareWithASCIIString(text, name) == 0;
}

// What functools.singledispatch calls `dispatch`, with a cache that nobody looks into.
bool is_single_dispatch(PyFunctionObject* function) {
  if (!is_named(function->func_qualname, "singledispatch.<locals>.dispatch")) return false;
  PyObject* module = PyDict_GetItemWithError(function->func_globals, names().name);
  if (!function->func_closure || !module || !PyUnicode_Check(module) ||
      !is_named(module, "functools"))
    return false;
  static PyObject* const weak_keys = [] {
    const Ref weakref = Ref::steal(PyImport_ImportModule("weakref"));
    return PyObject_GetAttrString(weakref.get(), "WeakKeyDictionary");
  }();
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  const int first = code->co_nlocalsplus - code->co_nfreevars;
  for (int i = 0; i < code->co_nfreevars; ++i) {
    if (!is_named(parameter_name(code, first + i), "dispatch_cache")) continue;
    PyObject* cache = PyCell_GET(PyTuple_GET_ITEM(function->func_closure, i));
    return cache && reinterpret_cast<PyObject*>(Py_TYPE(cache)) == weak_keys;
  }
  return false;
}

}  // namespace

static Tracked result_of_library(TraceContext& trace, Ref result);

// The arguments do not fit: CPython fails to bind them, with its own message, before any code runs.
static Tracked bind_failure(TraceContext& trace, PyFunctionObject* function, Tracked* args,
                            size_t count, PyObject* kwnames) {
  std::vector<PyObject*> raw;
  for (size_t i = 0; i < count; ++i) raw.push_back(args[i].get());
  size_t keywords = kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0;
  NativeScope scope(trace, true, nullptr);
  Ref result = Ref::steal(PyObject_Vectorcall(reinterpret_cast<PyObject*>(function), raw.data(),
                                              count - keywords, kwnames));
  if (result)
    return trace.refuse(BreakKind::kUnsupported, "arguments that bind in CPython's way only");
  return {};
}

static bool bind_defaults(TraceContext& trace, Frame& frame, PyFunctionObject* function) {
  PyCodeObject* code = frame.code();
  Py_ssize_t positional = code->co_argcount, total = positional + code->co_kwonlyargcount;
  PyObject* defaults = function->func_defaults;
  Py_ssize_t given = defaults ? PyTuple_GET_SIZE(defaults) : 0;
  for (Py_ssize_t i = 0; i < total; ++i) {
    Tracked& local = frame.locals[static_cast<size_t>(i)];
    if (local) continue;
    PyObject* value = nullptr;
    if (i < positional) {
      if (i + given >= positional) value = PyTuple_GET_ITEM(defaults, i + given - positional);
    } else if (function->func_kwdefaults) {
      value = PyDict_GetItemWithError(function->func_kwdefaults, parameter_name(code, i));
    }
    if (!value) return false;
    if (!frame.outside_function) {
      local = trace.world.wrap(value);
      continue;
    }
    const Source* base = trace.guards.function_base(function);
    if (i < positional) {
      Ref index = Ref::steal(PyLong_FromSsize_t(i + given - positional));
      local = trace.world.read(value, trace.guards.source(SourceKind::kDefault, base, index.get()));
    } else {
      local = trace.world.read(
          value, trace.guards.source(SourceKind::kKwDefault, base, parameter_name(code, i)));
    }
    if (!local) return false;
  }
  return true;
}

Tracked refuse_code(TraceContext& trace, const CodeInfo& info, BreakKind kind, const char* why) {
  return trace.refuse(kind, std::string(cpython::utf8_of(info.code()->co_qualname)) + "(): " + why);
}

Tracked refuse_library(TraceContext& trace, const CodeInfo& info) {
  return refuse_code(trace, info, info.library_break->kind, info.library_break->why);
}

bool runs_natively(TraceContext& trace, const CodeInfo& info) {
  return info.policy.frame == FramePolicy::kNative && (!info.policy.may_warn || trace.torch_calls);
}

// What inspect.signature() says of a function depends on its code, defaults and annotations. A
// signature and its parameters stay as they are; what is bound to one does not.
static bool rely_on_signatures(TraceContext& trace, Tracked* args, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    PyObject* object = args[i].get();
    const Source* source = trace.world.source_of(args[i]);
    PyObject* module = source ? module_of(Py_TYPE(object)) : nullptr;
    if (module && PyUnicode_Check(module) &&
        std::string_view(cpython::utf8_of(module)) == "inspect") {
      if (std::string_view(Py_TYPE(object)->tp_name) == "BoundArguments")
        return trace.breaks.refuse(BreakKind::kNativeCall,
                                   "arguments from outside that are bound to a signature");
      trace.world.guard_as_key(object);
    }
    if (source && PyMethod_Check(object)) {
      object = PyMethod_GET_FUNCTION(object);
      source = trace.world.source_of(object);
    }
    if (!source || !PyFunction_Check(object)) continue;
    auto* function = reinterpret_cast<PyFunctionObject*>(object);
    trace.world.rely_on(function);
    for (auto [value, name] : {std::pair{function->func_defaults, names().defaults},
                               std::pair{function->func_kwdefaults, names().kwdefaults},
                               std::pair{function->func_annotations, names().annotations}}) {
      const Source* part = trace.guards.source(SourceKind::kAttribute, source, name);
      if (value && trace.world.read(value, part)) trace.world.read_all(value);
    }
  }
  return true;
}

Tracked call_function(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
                      PyObject* kwnames) {
  auto* function = reinterpret_cast<PyFunctionObject*>(callable.get());
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  if (callable.get() == known().is_compiling && count == 0)
    return Tracked::borrow(says_compiling(trace.frames.top()) ? Py_True : Py_False);
  const CodeInfo& info = code_info(code, function->func_globals);
  if (PyObject* original = own_function_that_torch_disables(function)) {
    trace.world.guard_identity_of_function(callable.get());
    return call_function(trace, Tracked::borrow(original), args, count, kwnames);
  }
  if (PyObject* mark = disable_mark(function))
    return trace.refuse(
        BreakKind::kDisabled,
        std::string(cpython::utf8_of(function->func_qualname)) +
            (mark == names().disable_mark ? "() is marked with braze.disable"
                                          : "() is marked with torch.compiler.disable"));
  if (!runs_natively(trace, info) && (function->func_dict || trace.torch_calls)) {
    bool done = false;
    Tracked result = call_marked(trace, callable, args, count, kwnames, done);
    if (done) return result;
  }
  return call_unmarked(trace, callable, args, count, kwnames);
}

// What it computes is made again in the backward. In eager the function itself is called again
// there, and so does again what it does beside.
static Tracked call_checkpointed(TraceContext& trace, std::unique_ptr<Frame> frame) {
  const OriginTracker::Checkpointed checkpointed(trace.origins);
  const auto effects = [&] { return change_count(trace.world) + trace.deferred.size(); };
  const size_t before = effects();
  Tracked result = start_frame(trace, std::move(frame));
  if (!result || effects() == before) return result;
  trace.breaks.raise(BreakKind::kSideEffect,
                     "a checkpointed function changes an object from outside, once more in the "
                     "backward");
  return {};
}

// The function for a class. What has been found before functools keeps by weak references to
// classes; here it is looked for again, by the same rule. The call itself is made when the compiled
// code runs, so that functools then keeps what it would.
static Tracked choose_by_class(TraceContext& trace, const Tracked& callable, Tracked cls) {
  auto* function = reinterpret_cast<PyFunctionObject*>(callable.get());
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  if (!trace.world.made_function(callable.get())) {
    trace.world.rely_on(function);
    read_closure(trace, function);
  }
  Tracked registry;
  const int first = code->co_nlocalsplus - code->co_nfreevars;
  for (int i = 0; i < code->co_nfreevars; ++i)
    if (is_named(parameter_name(code, first + i), "registry"))
      registry = read_cell(trace, PyTuple_GET_ITEM(function->func_closure, i));
  if (!registry) return {};
  const int found = contains(trace, registry, cls);
  if (found < 0) return {};
  static PyObject* const find = [] {
    const Ref functools = Ref::steal(PyImport_ImportModule("functools"));
    return PyObject_GetAttrString(functools.get(), "_find_impl");
  }();
  Tracked args[2] = {cls, registry};
  Tracked chosen =
      found ? getitem(trace, registry, cls) : call(trace, trace.world.wrap(find), args, 2, nullptr);
  return chosen && defer_call(trace, callable, &cls, 1, nullptr) ? std::move(chosen) : Tracked();
}

Tracked call_unmarked(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
                      PyObject* kwnames) {
  auto* function = reinterpret_cast<PyFunctionObject*>(callable.get());
  auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
  const CodeInfo& info = code_info(code, function->func_globals);
  if (info.policy.is_torch)
    if (PyObject* substitute = substitute_for(callable.get()))
      return call(trace, trace.world.wrap(substitute), args, count, kwnames);
  if (runs_natively(trace, info)) {
    trace.world.guard_identity_of_function(callable.get());
    if (info.policy.is_torch) {
      PyObject* module = PyDict_GetItemWithError(function->func_globals, names().name);
      const char* place = module ? cpython::utf8_of(module) : "torch";
      const char* name = cpython::utf8_of(function->func_name);
      const bool asks = is_hint_function(place, name) || std::string_view(name) == "graph_break";
      if (info.policy.refused && !asks)
        return trace.refuse(BreakKind::kUntraceableOp,
                            std::string(place) + "." + cpython::utf8_of(function->func_qualname) +
                                "(): " + info.policy.refused);
      return call_torch(trace, callable, place, name, args, count, kwnames);
    }
    if (info.library_break) return refuse_library(trace, info);
    if (!rely_on_signatures(trace, args, count)) return {};
    if (!check_native_arguments(trace, cpython::utf8_of(function->func_qualname), args, count,
                                true))
      return {};
    NativeScope scope(trace, true, callable.get());
    // Finders and loaders are looked at by nobody.
    PyObject* module = PyDict_GetItemWithError(function->func_globals, names().name);
    bool imports = module && PyUnicode_Check(module) &&
                   std::string_view(cpython::utf8_of(module)).starts_with("importlib");
    trace.importing += imports;
    Ref result = call_raw(trace, callable.get(), args, count, kwnames);
    trace.importing -= imports;
    return result_of_library(trace, std::move(result));
  }
  if (info.policy.frame == FramePolicy::kLibrary && is_single_dispatch(function) && count == 1 &&
      !kwnames && PyType_Check(args[0].get()))
    return choose_by_class(trace, callable, args[0]);
  if (info.policy.frame == FramePolicy::kLibrary && is_namedtuple(function))
    return make_named_tuple(trace, callable, args, count, kwnames);
  if (info.policy.frame == FramePolicy::kLibrary && count > 0 &&
      is_log_method(args[0].get(), callable.get()))
    return call_log(trace, args[0], callable.get(), args + 1, count - 1, kwnames);
  bool outside = !trace.world.made_function(callable.get());
  if (outside) trace.world.rely_on(function);
  constexpr int kSuspends = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  if (code->co_flags & kSuspends) {
    // CPython makes the generator; its frame comes to the hook when it is resumed.
    if (!(code->co_flags & CO_GENERATOR)) return trace.refuse(BreakKind::kSuspends, "a coroutine");
    Tracked made = call_native(trace, callable.get(), args, count, kwnames, false);
    if (made) mark_generator(trace, made.get());
    return made;
  }
  size_t keywords = kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0;
  size_t positional = count - keywords;
  auto frame = trace.frames.make(info);
  frame->function = callable.object;
  frame->globals = Ref::borrow(function->func_globals);
  frame->builtins = Ref::borrow(function->func_builtins);
  frame->outside_function = outside;
  auto parameters = static_cast<size_t>(code->co_argcount);
  size_t total = parameters + static_cast<size_t>(code->co_kwonlyargcount);
  for (size_t i = 0; i < positional && i < parameters; ++i) frame->locals[i] = args[i];
  bool varargs = code->co_flags & CO_VARARGS;
  if (varargs) {
    size_t extra = positional > parameters ? positional - parameters : 0;
    Ref rest = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(extra)));
    for (size_t i = 0; i < extra; ++i)
      PyTuple_SET_ITEM(rest.get(), static_cast<Py_ssize_t>(i),
                       Ref(args[parameters + i].object).release());
    frame->locals[total] = Tracked(std::move(rest));
  } else if (positional > parameters) {
    return bind_failure(trace, function, args, count, kwnames);
  }
  PyObject* extra_keywords = nullptr;
  if (code->co_flags & CO_VARKEYWORDS) {
    extra_keywords = PyDict_New();
    trace.world.mark_created(extra_keywords);
    frame->locals[total + varargs] = Tracked::steal(extra_keywords);
  }
  for (size_t i = 0; i < keywords; ++i) {
    PyObject* name = PyTuple_GET_ITEM(kwnames, static_cast<Py_ssize_t>(i));
    Py_ssize_t place = PyUnicode_Check(name) ? find_parameter(code, name) : -1;
    if (place >= 0 && !frame->locals[static_cast<size_t>(place)])
      frame->locals[static_cast<size_t>(place)] = args[positional + i];
    else if (place < 0 && extra_keywords && PyUnicode_Check(name))
      PyDict_SetItem(extra_keywords, name, args[positional + i].get());
    else
      return bind_failure(trace, function, args, count, kwnames);
  }
  if (!bind_defaults(trace, *frame, function))
    return PyErr_Occurred() ? Tracked() : bind_failure(trace, function, args, count, kwnames);
  if (is_checkpointed_call(callable.get()) && at::GradMode::is_enabled())
    return call_checkpointed(trace, std::move(frame));
  return start_frame(trace, std::move(frame));
}

// inspect, importlib and the like hand out objects of the program's structure: they are held.
static Tracked result_of_library(TraceContext& trace, Ref result) {
  if (!result || trace.breaks.under_way()) return {};
  if (Py_REFCNT(result.get()) > 1 && !is_atom(result.get()) && !is_container(result.get()) &&
      !trace.world.source_of(result.get()) && trace.world.is_outside(result.get()))
    return trace.world.read(result.get(), trace.guards.pinned(result.get()));
  return result_of_native(trace, std::move(result));
}

Tracked make_function(TraceContext& trace, Frame& frame, int flags) {
  auto pop = [&] {
    Tracked tracked = std::move(frame.stack.back());
    frame.stack.pop_back();
    return tracked;
  };
  Tracked code = pop();
  Ref made = Ref::steal(PyFunction_New(code.get(), frame.globals.get()));
  if (!made) return {};
  auto* function = reinterpret_cast<PyFunctionObject*>(made.get());
  if (flags & 8) Py_XSETREF(function->func_closure, pop().object.release());
  if (flags & 4) Py_XSETREF(function->func_annotations, pop().object.release());
  if (flags & 2) Py_XSETREF(function->func_kwdefaults, pop().object.release());
  if (flags & 1) Py_XSETREF(function->func_defaults, pop().object.release());
  trace.world.mark_created(made.get());
  trace.guards.globals_base(frame.function_object());
  return Tracked(made);
}

bool set_function_attribute(Frame& frame, int flag) {
  Tracked function = std::move(frame.stack.back());
  frame.stack.pop_back();
  Tracked value = std::move(frame.stack.back());
  auto* f = reinterpret_cast<PyFunctionObject*>(function.get());
  PyObject** field = flag == 8   ? &f->func_closure
                     : flag == 4 ? &f->func_annotations
                     : flag == 2 ? &f->func_kwdefaults
                                 : &f->func_defaults;
  Py_XSETREF(*field, value.object.release());
  frame.stack.back() = std::move(function);
  return true;
}

}  // namespace braze::capture
