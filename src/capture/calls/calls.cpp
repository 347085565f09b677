#include "capture/calls/calls.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "base/is_one_of.h"
#include "capture/calls/builtins.h"
#include "capture/calls/functions.h"
#include "capture/calls/instances.h"
#include "capture/calls/methods.h"
#include "capture/calls/native.h"
#include "capture/calls/numpy.h"
#include "capture/calls/output.h"
#include "capture/calls/torch.h"
#include "capture/frames/subject.h"
#include "capture/known.h"
#include "capture/objects/attributes.h"
#include "capture/objects/class_statements.h"
#include "capture/objects/displays.h"
#include "capture/objects/items.h"
#include "capture/objects/iteration.h"
#include "capture/symbols/calls.h"
#include "capture/trace_context.h"
#include "cpython/code.h"
#include "cpython/frame.h"
#include "cpython/text.h"

namespace braze::capture {

namespace {

// The module of a C function as text; empty if it says none.
const char* module_text(PyObject* module) {
  return module && PyUnicode_Check(module) ? cpython::utf8_of(module) : "";
}

// Of an installed package, which caches what does not change while a program runs.
bool is_of_library(PyObject* function) {
  if (!PyFunction_Check(function)) return false;
  PyObject* globals = reinterpret_cast<PyFunctionObject*>(function)->func_globals;
  PyObject* file = PyDict_GetItemWithError(globals, names().file);
  const std::string_view path = module_text(file);
  return path.find("site-packages") != path.npos || path.find("/lib/python3.") != path.npos;
}

// torch.tensor, torch.as_tensor
bool makes_tensors(std::string_view name) { return name == "tensor" || name == "as_tensor"; }

// The Python function that torch.jit.script was given; null for what torch.jit.trace made, which
// holds the decisions of one call.
Ref source_of_script(PyObject* script) {
  Ref source = Ref::steal(PyObject_GetAttr(script, names().script_source));
  Ref made = source && known().scripted
                 ? Ref::steal(PyObject_CallOneArg(known().scripted, source.get()))
                 : Ref();
  if (made && made.get() != Py_None && PyFunction_Check(source.get())) {
    Ref name = Ref::steal(PyObject_GetAttr(script, names().qualified_name));
    Ref made_name = Ref::steal(PyObject_GetAttr(made.get(), names().qualified_name));
    if (name && made_name && PyUnicode_Compare(name.get(), made_name.get()) == 0) return source;
  }
  PyErr_Clear();
  return {};
}

}  // namespace

static Tracked wrapped_function(TraceContext& trace, const Tracked& wrapper);
static Tracked call_cached(TraceContext& trace, const Tracked& callable, Tracked* args,
                           size_t count, PyObject* kwnames);
static bool is_compiled_function(PyTypeObject* type);
static bool is_logging_function(PyObject* function);
static Tracked call_instance(TraceContext& trace, const Tracked& callable, Tracked* args,
                             size_t count, PyObject* kwnames);
static Tracked call_partial(TraceContext& trace, const Tracked& callable, Tracked* args,
                            size_t count, PyObject* kwnames);
static Tracked call_builtin(TraceContext& trace, const Tracked& callable, Tracked* args,
                            size_t count, PyObject* kwnames);

Tracked call(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
             PyObject* kwnames) {
  PyObject* f = callable.get();
  PyTypeObject* type = Py_TYPE(f);
  const Subject subject(trace, callable);
  if (PyFunction_Check(f)) return call_function(trace, callable, args, count, kwnames);
  if (PyMethod_Check(f)) {
    const Source* source = trace.world.source_of(callable);
    auto part = [&](PyObject* value, PyObject* name) {
      if (!source || trace.world.source_of(value)) return trace.world.wrap(value);
      return trace.world.read(value, trace.guards.source(SourceKind::kAttribute, source, name));
    };
    Tracked self = part(PyMethod_GET_SELF(f), names().self);
    Tracked function = part(PyMethod_GET_FUNCTION(f), names().func);
    if (!self || !function) return {};
    if (is_log_method(self.get(), function.get()))
      return call_log(trace, self, function.get(), args, count, kwnames);
    std::vector<Tracked> all;
    all.reserve(count + 1);
    all.push_back(std::move(self));
    all.insert(all.end(), args, args + count);
    return call(trace, function, all.data(), count + 1, kwnames);
  }
  if (trace.recording.has_symbols())
    if (Tracked done; call_with_symbols(trace, callable, args, count, kwnames, done)) return done;
  if (PyType_Check(f)) return call_type(trace, callable, args, count, kwnames);
  if (PyObject* cls = whose_subclasses(f, args, count)) return subclasses(trace, cls);
  if (PyCFunction_Check(f)) return call_builtin(trace, callable, args, count, kwnames);
  size_t positional = count - (kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0);
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type) {
    if (positional >= 1)
      return call_method_of(trace, f, cpython::utf8_of(reinterpret_cast<PyDescrObject*>(f)->d_name),
                            args[0], args + 1, count - 1, kwnames, true);
    return call_native(trace, f, args, count, kwnames, false);
  }
  if (type == known().method_wrapper) {
    Ref self = Ref::steal(PyObject_GetAttr(f, names().self));
    Ref name = Ref::steal(PyObject_GetAttr(f, names().name));
    if (!self || !name) return {};
    return call_method_of(trace, f, cpython::utf8_of(name.get()), trace.world.wrap(self), args,
                          count, kwnames, false);
  }
  if (type == known().partial) return call_partial(trace, callable, args, count, kwnames);
  if (is_lru_cache(f)) return call_cached(trace, callable, args, count, kwnames);
  if (is_compiled_function(type)) {
    Tracked inner = wrapped_function(trace, callable);
    return inner ? call(trace, inner, args, count, kwnames) : Tracked();
  }
  // Whether it still has one is read, and guarded by nothing but the object's own source.
  if (PyWeakref_CheckRef(f) && trace.world.is_outside(f) &&
      !trace.world.source_of(PyWeakref_GET_OBJECT(f)))
    return trace.refuse(BreakKind::kNativeObject,
                        "a weak reference from outside is asked for its object");
  return call_instance(trace, callable, args, count, kwnames);
}

// What a wrapper from outside wraps, as `__wrapped__`.
static Tracked wrapped_function(TraceContext& trace, const Tracked& wrapper) {
  Ref wrapped = Ref::steal(PyObject_GetAttr(wrapper.get(), names().wrapped));
  if (!wrapped) return {};
  Tracked inner = trace.world.wrap(wrapped);
  if (const Source* source = trace.world.source_of(wrapper);
      source && !trace.world.source_of(inner)) {
    trace.guards.add(GuardKind::kIdentity, source, wrapper.get());
    inner = trace.world.read(wrapped.get(), trace.guards.pinned(wrapped.get()));
  }
  return inner;
}

// A Python function none of whose returns gives anything: what it was called with tells nothing.
static bool gives_only_none(PyObject* function) {
  if (!PyFunction_Check(function)) return false;
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  const auto& instructions = cpython::decode(code).instructions;
  for (size_t i = 0; i < instructions.size(); ++i) {
    const auto goes_here = [i](const cpython::Instruction& jump) {
      return jump.target == static_cast<int32_t>(i);
    };
    if (instructions[i].op != cpython::Opcode::kReturnValue) continue;
    const bool none = i > 0 && instructions[i - 1].op == cpython::Opcode::kLoadConst &&
                      PyTuple_GET_ITEM(code->co_consts, instructions[i - 1].arg) == Py_None;
    if (!none || std::ranges::any_of(instructions, goes_here)) return false;
  }
  return true;
}

// An lru_cache from outside is left as it is. What the call would give is worked out by its
// function, if that writes nothing and gives a value whose identity nobody can tell; the call
// itself is made when the compiled code runs, so that the cache then holds what it would, and what
// is to be said once is said once.
static Tracked call_cached(TraceContext& trace, const Tracked& callable, Tracked* args,
                           size_t count, PyObject* kwnames) {
  if (trace.world.made_function(callable.get())) {
    if (!check_native_arguments(trace, "a cached function", args, count, true, Look::kKeeps))
      return {};
    return call_native(trace, callable.get(), args, count, kwnames, false);
  }
  Tracked inner = wrapped_function(trace, callable);
  if (!inner) return {};
  if (is_logging_function(inner.get())) return defer_call(trace, callable, args, count, kwnames);
  if (PyFunction_Check(inner.get())) {
    auto* function = reinterpret_cast<PyFunctionObject*>(inner.get());
    if (gives_what_is_only_read(function->func_globals, cpython::utf8_of(function->func_name)))
      return call(trace, inner, args, count, kwnames);
  }
  // What the cache holds was computed when it was called first, perhaps from other data.
  const bool is_installed = is_of_library(inner.get());
  if (!is_installed && trace.world.has_pending_changes())
    return trace.refuse(BreakKind::kPendingChange, "a cached function (lru_cache) behind changes");
  const size_t writes = change_count(trace.world), deferred = trace.deferred.size();
  const size_t guards = trace.guards.count();
  Tracked result = call(trace, inner, args, count, kwnames);
  if (!result) return {};
  const auto reads_data = [](const guard::Guard& guard) {
    return guard.kind == GuardKind::kValue && guard.source->kind != SourceKind::kArgument;
  };
  const auto first = trace.guards.all().begin() + static_cast<std::ptrdiff_t>(guards);
  if (!is_installed && !gives_only_none(inner.get()) &&
      std::any_of(first, trace.guards.all().end(), reads_data))
    return trace.refuse(BreakKind::kNativeObject,
                        "a cached function (lru_cache) reads what may change");
  // What it calls, prints or logs it does again, if need be, when it is replayed.
  trace.deferred.resize(deferred);
  if (change_count(trace.world) != writes)
    return trace.refuse(BreakKind::kSideEffect, "a cached function (lru_cache) has side effects");
  if (!is_immutable(result.get()) && !is_atom(result.get()))
    return trace.refuse(BreakKind::kNativeCall,
                        std::string("a cached function (lru_cache) gives a '") +
                            Py_TYPE(result.get())->tp_name + "' object, the same one at each call");
  return defer_call(trace, callable, args, count, kwnames) ? std::move(result) : Tracked();
}

static bool is_compiled_function(PyTypeObject* type) {
  return std::string_view(type->tp_name) == "braze._C.CompiledFunction";
}

static bool is_logging_function(PyObject* function) {
  if (!PyFunction_Check(function)) return false;
  PyObject* globals = reinterpret_cast<PyFunctionObject*>(function)->func_globals;
  PyObject* module = PyDict_GetItemWithError(globals, names().name);
  std::string_view text = module_text(module);
  return text == "logging" || text.ends_with(".logging");
}

bool is_log_method(PyObject* self, PyObject* function) {
  if (!PyObject_TypeCheck(self, known().logger) || !PyFunction_Check(function)) return false;
  PyObject* globals = reinterpret_cast<PyFunctionObject*>(function)->func_globals;
  PyObject* module = PyDict_GetItemWithError(globals, names().name);
  if (std::string_view(module_text(module)) != "logging") return false;
  std::string_view name =
      cpython::utf8_of(reinterpret_cast<PyFunctionObject*>(function)->func_name);
  for (const char* method :
       {"debug", "info", "warning", "warn", "error", "critical", "fatal", "exception", "log"})
    if (name == method) return true;
  return false;
}

// An object with __call__.
static Tracked call_instance(TraceContext& trace, const Tracked& callable, Tracked* args,
                             size_t count, PyObject* kwnames) {
  PyObject* f = callable.get();
  PyTypeObject* type = Py_TYPE(f);
  PyObject* method = trace.world.source_of(callable) ? trace.world.type_lookup(type, names().call)
                                                     : _PyType_Lookup(type, names().call);
  if (method && PyFunction_Check(method)) {
    std::vector<Tracked> all;
    all.reserve(count + 1);
    all.push_back(callable);
    all.insert(all.end(), args, args + count);
    return call(trace, trace.world.wrap(method), all.data(), count + 1, kwnames);
  }
  if (type == known().script_function)
    if (Ref source = source_of_script(f))
      return call(trace, trace.world.wrap(std::move(source)), args, count, kwnames);
  const char* module = module_text(module_of(type));
  if (is_torch_module_name(module_of(type))) {
    const bool scripted = std::string_view(type->tp_name).find("Script") != std::string_view::npos;
    if (scripted && at::GradMode::is_enabled())
      return trace.refuse(BreakKind::kNativeCall,
                          "what torch.jit has compiled, where gradients may be asked for");
    Ref name = Ref::steal(PyObject_GetAttr(f, names().name));
    if (!name) PyErr_Clear();
    return call_torch(trace, callable, module,
                      name && PyUnicode_Check(name.get()) ? cpython::utf8_of(name.get()) : "", args,
                      count, kwnames);
  }
  if (type == &_PyWeakref_RefType && count == 0) {
    Ref referent = Ref::steal(PyObject_CallNoArgs(f));
    if (!trace.world.source_of(callable) || referent.get() == Py_None ||
        trace.world.source_of(referent.get()))
      return trace.world.wrap(std::move(referent));
    return trace.world.read(referent.get(), trace.guards.source(SourceKind::kNative, nullptr, f));
  }
  if (type == &PyStaticMethod_Type) {
    Ref function = Ref::steal(PyObject_GetAttr(f, names().func));
    return function ? call(trace, trace.world.wrap(function), args, count, kwnames) : Tracked();
  }
  if (!type->tp_call) {
    PyErr_Format(PyExc_TypeError, "'%.200s' object is not callable", type->tp_name);
    return {};
  }
  if (std::string_view(type->tp_name).starts_with("operator.") && count == 1 && !kwnames) {
    bool done = false;
    Tracked value = call_getter(trace, callable, args[0], done);
    if (done) return value;
  }
  if (!kwnames && is_numpy_arithmetic(f)) return call_numpy(trace, callable, args, count, kwnames);
  if (trace.world.is_outside(f) && !is_immutable(f) && !is_pure_c_module(module))
    return trace.refuse(
        is_numpy_module_name(module_of(type)) ? BreakKind::kNumpy : BreakKind::kNativeCall,
        std::string("a call of a '") + type->tp_name + "' object");
  if (!check_native_arguments(trace, type->tp_name, args, count, false)) return {};
  return call_native(trace, f, args, count, kwnames, false);
}

static Tracked call_partial(TraceContext& trace, const Tracked& callable, Tracked* args,
                            size_t count, PyObject* kwnames) {
  PyObject* f = callable.get();
  const Source* source = trace.world.source_of(callable);
  auto part = [&](PyObject* name) -> Tracked {
    Ref value = Ref::steal(PyObject_GetAttr(f, name));
    if (!value) return {};
    if (!source) return trace.world.wrap(std::move(value));
    return trace.world.read(value.get(), trace.guards.source(SourceKind::kAttribute, source, name));
  };
  Tracked function = part(names().partial_func), first = part(names().partial_args),
          keywords = part(names().partial_keywords);
  if (!function || !first || !keywords) return {};
  if (source && (!trace.world.read_all(first.get()) || !trace.world.read_all(keywords.get())))
    return {};
  size_t positional = count - (kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0);
  Ref merged = Ref::steal(PyDict_Copy(keywords.get()));
  Ref rest = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(positional)));
  for (size_t i = 0; i < positional; ++i)
    PyTuple_SET_ITEM(rest.get(), static_cast<Py_ssize_t>(i), Ref(args[i].object).release());
  for (size_t i = positional; i < count; ++i)
    PyDict_SetItem(merged.get(), PyTuple_GET_ITEM(kwnames, static_cast<Py_ssize_t>(i - positional)),
                   args[i].get());
  Ref all = Ref::steal(PySequence_Concat(first.get(), rest.get()));
  if (!all) return {};
  return call_ex(trace, function, all.get(), merged.get());
}

Tracked call_ex(TraceContext& trace, const Tracked& callable, PyObject* args, PyObject* kwargs) {
  std::vector<Tracked> all;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i)
    all.push_back(trace.world.wrap(PyTuple_GET_ITEM(args, i)));
  Ref kwnames;
  if (kwargs && PyDict_GET_SIZE(kwargs) > 0) {
    kwnames = Ref::steal(PyTuple_New(PyDict_GET_SIZE(kwargs)));
    Py_ssize_t position = 0, i = 0;
    PyObject *key, *value;
    while (PyDict_Next(kwargs, &position, &key, &value)) {
      if (!PyUnicode_Check(key)) {
        PyErr_SetString(PyExc_TypeError, "keywords must be strings");
        return {};
      }
      all.push_back(trace.world.wrap(value));
      Py_INCREF(key);
      PyTuple_SET_ITEM(kwnames.get(), i++, key);
    }
  }
  return call(trace, callable, all.data(), all.size(), kwnames.get());
}

Tracked call_unpacked(TraceContext& trace, const Tracked& callable, const Tracked& args,
                      const Tracked& kwargs) {
  Ref positional;
  if (PyTuple_CheckExact(args.get())) {
    positional = read_items(trace.world, args.get());
    if (!positional) return {};
  } else {
    Ref list = to_list(trace, args);
    if (!list) {
      if (PyErr_ExceptionMatches(PyExc_TypeError) && !Py_TYPE(args.get())->tp_iter)
        raise_about_call(trace, callable.get(),
                         "argument after * must be an iterable, not " +
                             std::string(Py_TYPE(args.get())->tp_name));
      return {};
    }
    positional = Ref::steal(PyList_AsTuple(list.get()));
  }
  Ref keywords;
  if (kwargs) {
    if (!PyDict_Check(kwargs.get()))
      return trace.refuse(BreakKind::kMapping, "** of a mapping that is not a dict");
    keywords = read_items(trace.world, kwargs.get());
    if (!keywords) return {};
  }
  return call_ex(trace, callable, positional.get(), keywords.get());
}

// --- Functions and methods of C
// -------------------------------------------------------------------

// What a function of C is bound to, read through the function. Empty with a break or an exception.
static Tracked owner_of(TraceContext& trace, const Tracked& callable) {
  PyObject* self = reinterpret_cast<PyCFunctionObject*>(callable.get())->m_self;
  Tracked owner = trace.world.wrap(self);
  const Source* source = trace.world.source_of(callable);
  if (owner.source || !source || !trace.world.is_outside(self)) return owner;
  return trace.world.read(self, trace.guards.source(SourceKind::kAttribute, source, names().self));
}

// `C.apply` of an autograd.Function, where that is a method of C bound to the class (from PyTorch
// 2.14 on; before, a function of Python that is given the class).
static bool is_apply(const PyCFunctionObject* f) {
  PyObject* apply = known().function_apply;
  return apply && f->m_self && PyType_Check(f->m_self) &&
         reinterpret_cast<PyMethodDescrObject*>(apply)->d_method == f->m_ml;
}

static Tracked call_apply(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
                          PyObject* kwnames) {
  std::vector<Tracked> all = {owner_of(trace, callable)};
  if (!all[0]) return {};
  all.insert(all.end(), args, args + count);
  return call_torch(trace, trace.world.wrap(known().function_apply), "torch.autograd.function",
                    "apply", all.data(), all.size(), kwnames);
}

// What isinstance() asks a class whose metaclass says nothing else.
static bool is_instance_check(const PyCFunctionObject* f) {
  static PyMethodDef* const check = [] {
    const Ref method = Ref::steal(
        PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyType_Type), "__instancecheck__"));
    return method && Py_IS_TYPE(method.get(), &PyMethodDescr_Type)
               ? reinterpret_cast<PyMethodDescrObject*>(method.get())->d_method
               : nullptr;
  }();
  return check && f->m_ml == check && f->m_self && PyType_Check(f->m_self);
}

static Tracked call_builtin(TraceContext& trace, const Tracked& callable, Tracked* args,
                            size_t count, PyObject* kwnames) {
  auto* f = reinterpret_cast<PyCFunctionObject*>(callable.get());
  if (is_apply(f)) return call_apply(trace, callable, args, count, kwnames);
  const char* name = f->m_ml->ml_name;
  PyObject* self = f->m_self;
  if (is_instance_check(f) && count == 1 && !kwnames && !is_tensor(args[0].get())) {
    rely_on_type(trace, args[0]);
    return call_native(trace, callable.get(), args, count, kwnames, false);
  }
  if (PyObject* substitute = substitute_for(callable.get()))
    if (!makes_tensors(name) || is_data_of_symbols(trace, args, count, kwnames))
      return call(trace, trace.world.wrap(substitute), args, count, kwnames);
  if (const CalleeRule* rule = callee_rule(callable.get())) {
    bool done = false;
    Tracked result = call_listed(trace, *rule, callable, args, count, kwnames, done);
    if (done) return result;
  }
  PyObject* module = f->m_module;
  if (is_bound_to_object(self) && is_torch_module_name(module_of(Py_TYPE(self))) &&
      !is_tensor(self)) {
    if (PyTuple_Check(self) && !read_deeply(trace, self, Look::kDeep)) return {};  // a torch.Size
    return call_torch(trace, callable, module_text(module_of(Py_TYPE(self))), name, args, count,
                      kwnames);
  }
  if (is_bound_to_object(self) && !(module && PyUnicode_Check(module))) {
    const Tracked owner = owner_of(trace, callable);
    if (!owner) return {};
    return call_method_of(trace, callable.get(), name, owner, args, count, kwnames, false);
  }
  std::string_view module_name = module_text(module);
  if (self && PyType_Check(self)) {
    auto* type = reinterpret_cast<PyTypeObject*>(self);
    if (std::string_view(name) == "__init_subclass__")  // object's: takes nothing, does nothing
      return call_native(trace, callable.get(), args, count, kwnames, false);
    if (std::string_view(name) == "__new__") return call_new(trace, callable, args, count, kwnames);
    if (module_name.empty()) module_name = module_text(module_of(type));
    if (is_torch_module_name(module_of(type)))
      return call_torch(trace, callable, module_name.data(), name, args, count, kwnames);
    if (is_class_method_of_builtin(type, name)) {
      if (!check_native_arguments(trace, name, args, count, true)) return {};
      return call_native(trace, callable.get(), args, count, kwnames, false);
    }
  }
  if (module_name.starts_with("torch"))
    return call_torch(trace, callable, module_name.data(), name, args, count, kwnames);
  if (is_numpy_module_name(module)) return call_numpy(trace, callable, args, count, kwnames);
  if (is_pure_c_module(std::string(module_name).c_str())) {
    if (!check_native_arguments(trace, name, args, count, true)) return {};
    return call_native(trace, callable.get(), args, count, kwnames, false);
  }
  if (module_name == "_heapq" || module_name == "_bisect") {
    if (!check_native_arguments(trace, name, args, count, true)) return {};
    return call_native(trace, callable.get(), args, count, kwnames, false);
  }
  return trace.refuse(BreakKind::kNativeCall,
                      std::string(module_name) + (module_name.empty() ? "" : ".") + name +
                          "(): native code that is not known to be safe to trace");
}

}  // namespace braze::capture
