#include "capture/frames/hook.h"

#include "capture/calls/functions.h"
#include "capture/calls/native_scope.h"
#include "capture/calls/output.h"
#include "capture/frames/evaluate.h"
#include "capture/frames/generators.h"
#include "capture/known.h"
#include "capture/objects/variables.h"
#include "capture/trace_context.h"
#include "cpython/text.h"

namespace braze::capture {

using cpython::FrameView;

static PyObject* evaluate_hooked(TraceContext& trace, PyThreadState* thread, FrameView view);
static bool rely_on_hooked(TraceContext& trace, Frame& frame, bool may_vary = true);
static bool rely_on_generator_function(TraceContext& trace, FrameView view);
static bool is_module_body(FrameView view);
static PyObject* run_module_body(TraceContext& trace, PyThreadState* thread, FrameView view);
static bool read_bound_defaults(TraceContext& trace, Frame& frame, bool may_vary);

PyObject* frame_hook(void* context, PyThreadState* thread, FrameView view, bool throwing) {
  TraceContext& trace = *static_cast<TraceContext*>(context);
  try {
    const CodeInfo& info = code_info(view.code(), view.globals());
    constexpr int kFunction = CO_OPTIMIZED | CO_NEWLOCALS;
    bool is_function = (view.code()->co_flags & kFunction) == kFunction;
    if (trace.progress.stopped && throwing && trace.generators.contains(view.raw()))
      return end_generator(thread, view);
    if (!is_function && is_module_body(view)) return run_module_body(trace, thread, view);
    if (trace.importing || trace.progress.stopped)
      return cpython::evaluate_natively(thread, view, throwing);
    if (!is_function && view.names() && trace.world.made_function(view.function()))
      return evaluate_hooked(trace, thread, view);  // the body of a class of the traced code
    if (!is_function) {
      // The body of a class reads what nobody guards.
      if (trace.native.depth) return cpython::evaluate_natively(thread, view, throwing);
      ++trace.importing;
      PyObject* result = cpython::evaluate_natively(thread, view, throwing);
      --trace.importing;
      return result;
    }
    if (runs_natively(trace, info)) {
      if (asks_for_caller(view.code()))
        return trace.raise_break(
            BreakKind::kIntrospection,
            std::string(cpython::utf8_of(view.code()->co_qualname)) + "(): it asks who calls it");
      if (!info.policy.is_torch && handles_warnings(trace))
        return trace.raise_break(BreakKind::kOutput,
                                 "a library that may warn is called where the traced code handles "
                                 "warnings");
      if (info.policy.refused && (trace.native.depth == 0 || info.policy.is_random))
        return refuse_code(trace, info, BreakKind::kUntraceableOp, info.policy.refused), nullptr;
      if (info.library_break && trace.native.depth == 0)
        return refuse_library(trace, info), nullptr;
      const bool asks_compiling = view.function() == known().is_compiling;
      NativeScope scope(trace, true, view.function());
      PyObject* result = cpython::evaluate_natively(thread, view, throwing);
      if (result && asks_compiling) Py_SETREF(result, Py_NewRef(Py_True));
      return result;
    }
    if (trace.native.depth && info.policy.frame == FramePolicy::kLibrary)
      return cpython::evaluate_natively(thread, view, throwing);
    int outer_native = std::exchange(trace.native.depth, 0);
    PyObject* result = view.is_generator() ? resume_generator(trace, thread, view, throwing)
                                           : evaluate_hooked(trace, thread, view);
    trace.native.depth = outer_native;
    return result;
  } catch (...) {
    trace.breaks.keep_defect(std::current_exception());
    return nullptr;
  }
}

// The code of a module that an import is loading, rather than of exec().
static bool is_module_body(FrameView view) {
  static PyObject* const spec_name = PyUnicode_InternFromString("__spec__");
  static PyObject* const initializing = PyUnicode_InternFromString("_initializing");
  if (view.names() != view.globals() || !PyDict_Check(view.globals())) return false;
  PyObject* spec = PyDict_GetItemWithError(view.globals(), spec_name);
  if (!spec || spec == Py_None) return PyErr_Clear(), false;
  Ref loading = Ref::steal(PyObject_GetAttr(spec, initializing));
  if (!loading) PyErr_Clear();
  return loading.get() == Py_True;
}

// It runs once in the life of the process, whatever becomes of the trace: as in eager, with tensors
// that have data, and with nothing of what it calls evaluated.
static PyObject* run_module_body(TraceContext& trace, PyThreadState* thread, FrameView view) {
  Recording::Pause pause;
  ++trace.importing;
  PyObject* result = cpython::evaluate_natively(thread, view, false);
  --trace.importing;
  return result;
}

// Whether a class of the MRO declares __slots__. copyreg._slotnames() writes its answer, an empty
// list without them, into the class.
static bool has_slots(PyObject* cls) {
  static PyObject* slots = PyUnicode_InternFromString("__slots__");
  if (!cls || !PyType_Check(cls)) return true;
  PyObject* mro = reinterpret_cast<PyTypeObject*>(cls)->tp_mro;
  if (!mro) return true;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    PyObject* dict = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i))->tp_dict;
    if (dict && PyDict_Contains(dict, slots) != 0) return true;
  }
  return false;
}

// A finaliser or a callback of a weak reference: all that CPython does with an exception of theirs
// is to print it.
static bool is_unheard(const Frame& frame) {
  static PyObject* const finaliser = PyUnicode_InternFromString("__del__");
  if (frame.code()->co_argcount == 0) return false;
  if (frame.code()->co_name == finaliser) return true;
  PyObject* first = frame.locals[0].get();
  return first && PyWeakref_CheckRef(first) && PyWeakref_GET_OBJECT(first) == Py_None;
}

// What native code calls to find a key.
static bool is_comparison(const Frame& frame) {
  static PyObject* const hash = PyUnicode_InternFromString("__hash__");
  static PyObject* const equal = PyUnicode_InternFromString("__eq__");
  return frame.code()->co_name == hash || frame.code()->co_name == equal;
}

size_t effects_so_far(TraceContext& trace) {
  return trace.world.write_count() + trace.container_changes + trace.deferred.size();
}

static PyObject* evaluate_hooked(TraceContext& trace, PyThreadState* thread, FrameView view) {
  PyCodeObject* code = view.code();
  if (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) {
    if (!rely_on_generator_function(trace, view)) return nullptr;
    PyObject* made = cpython::evaluate_natively(thread, view, false);
    if (made) mark_generator(trace, made);
    return made;
  }
  if (reinterpret_cast<PyObject*>(code) == known().slotnames_code)
    if (PyObject* cls = view.locals()[0]; !has_slots(cls)) return PyList_New(0);
  auto frame = trace.frames.make(code_info(code, view.globals()));
  fill_frame(trace, *frame, view);
  frame->names = Ref::borrow(code->co_flags & CO_NEWLOCALS ? nullptr : view.names());
  if (!rely_on_hooked(trace, *frame)) return nullptr;
  const bool unheard = is_unheard(*frame), compares = is_comparison(*frame);
  const size_t before = effects_so_far(trace);
  Tracked result = start_frame(trace, std::move(frame));
  // Containers are copied and filled again behind the program's back.
  if (result && compares && effects_so_far(trace) != before)
    return trace.breaks.raise(BreakKind::kSideEffect,
                              "__hash__ or __eq__ of a key has side effects");
  // The break is found by the loop of the frame that dropped the object.
  if (!result && unheard && trace.breaks.begun()) {
    PyErr_Clear();
    return Py_NewRef(Py_None);
  }
  return result.object.release();
}

void fill_frame(TraceContext& trace, Frame& frame, FrameView view) {
  frame.function = Ref::borrow(view.function());
  frame.globals = Ref::borrow(view.globals());
  frame.builtins = Ref::borrow(view.builtins());
  frame.outside_function = !trace.world.made_function(view.function());
  auto locals = view.locals();
  for (size_t i = 0; i < locals.size() && i < frame.locals.size(); ++i)
    if (locals[i]) frame.locals[i] = trace.world.wrap(locals[i]);
}

// The names under which a class has the function, as a method or a part of a property.
static std::vector<PyObject*> names_in_class(PyTypeObject* type, PyObject* function) {
  auto holds = [&](PyObject* value) {
    if (value == function) return true;
    if (!Py_IS_TYPE(value, &PyProperty_Type)) return false;
    for (PyObject* part : {names().fget, names().fset, names().fdel})
      if (Ref::steal(PyObject_GetAttr(value, part)).get() == function) return true;
    return false;
  };
  std::vector<PyObject*> found;
  if (!type->tp_mro) return found;  // its mro() is under way
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (!is_python_class(base)) continue;
    Py_ssize_t position = 0;
    PyObject *name, *value;
    while (PyDict_Next(base->tp_dict, &position, &name, &value))
      if (holds(value) && _PyType_Lookup(type, name) == value) found.push_back(name);
  }
  return found;
}

// Native code found this function by itself, so nothing guards where it was found: if it is a
// method of its first argument's class, that look-up is relied on.
static bool rely_on_hooked(TraceContext& trace, Frame& frame, bool may_vary) {
  auto* function = frame.function_object();
  if (!frame.outside_function) return true;
  if (frame.code()->co_argcount > 0 && frame.locals[0]) {
    PyObject* self = frame.locals[0].get();
    auto* type = PyType_Check(self) ? reinterpret_cast<PyTypeObject*>(self) : Py_TYPE(self);
    if (trace.hooked.emplace(function, type).second)
      for (PyObject* name : names_in_class(type, frame.function.get()))
        trace.world.type_lookup(type, name);
  }
  if (!trace.world.source_of(frame.function.get())) trace.world.rely_on(function);
  return read_bound_defaults(trace, frame, may_vary);
}

// Its frame comes back when it is resumed, with the defaults and the cells of the closure in it.
static bool rely_on_generator_function(TraceContext& trace, FrameView view) {
  auto frame = trace.frames.make(code_info(view.code(), view.globals()));
  fill_frame(trace, *frame, view);
  const bool known = rely_on_hooked(trace, *frame, false);
  if (known && frame->outside_function) read_closure(trace, frame->function_object());
  trace.frames.recycle(std::move(frame));
  return known;
}

// CPython has filled in the defaults of arguments that were not given: those locals come from the
// function. `may_vary`: a number among them may become a symbol.
static bool read_bound_defaults(TraceContext& trace, Frame& frame, bool may_vary) {
  auto* function = frame.function_object();
  PyCodeObject* code = frame.code();
  PyObject* defaults = function->func_defaults;
  const Source* base = trace.guards.function_base(function);
  const Py_ssize_t given = defaults ? PyTuple_GET_SIZE(defaults) : 0;
  const Py_ssize_t total = code->co_argcount + code->co_kwonlyargcount;
  for (Py_ssize_t i = code->co_argcount - given; i < total; ++i) {
    Tracked& local = frame.locals[static_cast<size_t>(i)];
    const bool by_position = i < code->co_argcount;
    Ref key = by_position ? Ref::steal(PyLong_FromSsize_t(i + given - code->co_argcount))
                          : Ref::borrow(PyTuple_GET_ITEM(code->co_localsplusnames, i));
    PyObject* value = by_position ? PyTuple_GET_ITEM(defaults, i + given - code->co_argcount)
                      : function->func_kwdefaults
                          ? PyDict_GetItemWithError(function->func_kwdefaults, key.get())
                          : nullptr;
    if (!value || value != local.get()) continue;
    local = trace.world.read(
        value,
        trace.guards.source(by_position ? SourceKind::kDefault : SourceKind::kKwDefault, base,
                            key.get()),
        may_vary);
    if (!local) return false;
  }
  return true;
}

}  // namespace braze::capture
