#include "capture/calls/output.h"

#include <algorithm>

#include "capture/calls/native.h"
#include "capture/known.h"
#include "capture/objects/attributes.h"
#include "capture/objects/operators.h"
#include "capture/symbols/integers.h"
#include "capture/symbols/text.h"
#include "capture/trace_context.h"
#include "cpython/text.h"

namespace braze::capture {

namespace {

// The stream's write() is not Python code, which the traced code could look at afterwards.
bool writes_in_c(PyObject* stream) {
  static PyObject* write_name = PyUnicode_InternFromString("write");
  PyObject* write = _PyType_Lookup(Py_TYPE(stream), write_name);
  return write && Py_IS_TYPE(write, &PyMethodDescr_Type);
}

PyObject* sys_dict() {
  static PyObject* module = PyImport_ImportModule("sys");
  return PyModule_GetDict(module);
}

// Carries out a warning that was given at this line of this function.
PyObject* warn_at(PyObject*, PyObject* args) {
  PyObject *message, *category, *file, *line, *function;
  if (!PyArg_ParseTuple(args, "OOOOO!", &message, &category, &file, &line, &PyFunction_Type,
                        &function))
    return nullptr;
  static PyObject* warn_explicit = [] {
    Ref module = Ref::steal(PyImport_ImportModule("warnings"));
    return PyObject_GetAttrString(module.get(), "warn_explicit");
  }();
  static PyObject* registry_name = PyUnicode_InternFromString("__warningregistry__");
  PyObject* globals = reinterpret_cast<PyFunctionObject*>(function)->func_globals;
  PyObject* module = PyDict_GetItemWithError(globals, names().name);
  Ref registry = Ref::borrow(PyDict_GetItemWithError(globals, registry_name));
  if (!registry) {
    registry = Ref::steal(PyDict_New());
    if (!registry || PyDict_SetItem(globals, registry_name, registry.get()) < 0) return nullptr;
  }
  Ref unnamed = Ref::steal(PyUnicode_FromString("<string>"));
  return PyObject_CallFunctionObjArgs(warn_explicit, message, category, file, line,
                                      module ? module : unnamed.get(), registry.get(), nullptr);
}

PyMethodDef g_warn_at = {"warn_at", warn_at, METH_VARARGS, nullptr};

// Carries out what was logged at this line of this function.
PyObject* log_at(PyObject*, PyObject* args) {
  PyObject *logger, *level, *message, *values, *file, *line, *function;
  if (!PyArg_ParseTuple(args, "OOOOOOO", &logger, &level, &message, &values, &file, &line,
                        &function))
    return nullptr;
  const Ref enabled = Ref::steal(PyObject_CallMethod(logger, "isEnabledFor", "O", level));
  if (!enabled) return nullptr;
  if (enabled.get() != Py_True) Py_RETURN_NONE;
  const Ref name = Ref::steal(PyObject_GetAttr(logger, names().name_plain));
  const Ref record =
      name ? Ref::steal(PyObject_CallMethod(logger, "makeRecord", "OOOOOOOO", name.get(), level,
                                            file, line, message, values, Py_None, function))
           : Ref();
  return record ? PyObject_CallMethod(logger, "handle", "O", record.get()) : nullptr;
}

PyMethodDef g_log_at = {"log_at", log_at, METH_VARARGS, nullptr};

// By method of a logger; null where the message is not all that is logged.
PyObject* level_of(std::string_view method) {
  static const std::pair<std::string_view, PyObject*> kLevels[] = {
      {"debug", PyLong_FromLong(10)},    {"info", PyLong_FromLong(20)},
      {"warning", PyLong_FromLong(30)},  {"error", PyLong_FromLong(40)},
      {"critical", PyLong_FromLong(50)}, {"fatal", PyLong_FromLong(50)},
  };
  for (const auto& [name, level] : kLevels)
    if (name == method) return level;
  return nullptr;
}

bool is_logging(PyObject* module_name) {
  return module_name && PyUnicode_Check(module_name) &&
         PyUnicode_CompareWithASCIIString(module_name, "logging") == 0;
}

// The same when the compiled code has run as where it is logged.
bool is_lasting(PyObject* value) {
  if (is_symbolic(value) || is_atom(value) || PyType_CheckExact(value)) return true;
  if (!PyTuple_CheckExact(value) && Py_TYPE(value) != known().size) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
    if (!is_lasting(PyTuple_GET_ITEM(value, i))) return false;
  return true;
}

bool raises_some_warning() {
  Ref module = Ref::steal(PyImport_ImportModule("warnings"));
  Ref filters = module ? Ref::steal(PyObject_GetAttrString(module.get(), "filters")) : Ref();
  if (!filters || !PyList_Check(filters.get())) return PyErr_Clear(), true;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(filters.get()); ++i) {
    PyObject* filter = PyList_GET_ITEM(filters.get(), i);
    if (!PyTuple_Check(filter) || PyTuple_GET_SIZE(filter) < 1) return true;
    PyObject* action = PyTuple_GET_ITEM(filter, 0);
    if (!PyUnicode_Check(action) || PyUnicode_CompareWithASCIIString(action, "error") == 0)
      return true;
  }
  return false;
}

PyObject* warnings_raise(PyObject*, PyObject*) { return PyBool_FromLong(raises_some_warning()); }

PyMethodDef g_warnings_raise = {"a warning raises", warnings_raise, METH_NOARGS, nullptr};

}  // namespace

static void put_off(TraceContext& trace, DeferredCall call) {
  trace.deferred.push_back(std::move(call));
  trace.world.note_output();
}

bool some_warning_raises(TraceContext& trace) {
  static PyObject* asks = PyCFunction_NewEx(&g_warnings_raise, nullptr, nullptr);
  Ref answer = Ref::steal(PyObject_CallNoArgs(asks));
  return !answer ||
         !trace.world.read(answer.get(), trace.guards.source(SourceKind::kNative, nullptr, asks)) ||
         answer.get() == Py_True;
}

Tracked call_print(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
                   PyObject* kwnames) {
  size_t keywords = kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0;
  for (size_t i = count - keywords; i < count; ++i) make_concrete(trace, args[i]);
  PyObject* stream = PySys_GetObject("stdout");
  static PyObject* stdout_name = PyUnicode_InternFromString("stdout");
  bool standard = true, names_file = false;
  for (size_t i = count - keywords; i < count; ++i) {
    PyObject* name = PyTuple_GET_ITEM(kwnames, static_cast<Py_ssize_t>(i - (count - keywords)));
    bool is_file = PyUnicode_CompareWithASCIIString(name, "file") == 0;
    names_file |= is_file;
    if (is_file && args[i].get() != Py_None) {
      stream = args[i].get();
      standard = false;
    } else if (!is_atom(args[i].get())) {
      return trace.refuse(BreakKind::kOutput, "print() with a separator that is no text");
    }
  }
  if (standard)
    if (const Write* write = trace.world.log().written(sys_dict(), stdout_name))
      stream = write->value.get();
  // What is written to a stream that the trace made is the trace's own.
  const bool own = stream && !trace.world.source_of(stream) && trace.world.is_created(stream);
  const bool redirected = standard && own;
  standard = standard && !own;
  if (!stream || !writes_in_c(stream) || (redirected && names_file) ||
      (!standard && !own && !trace.world.source_of(stream)))
    return trace.refuse(BreakKind::kOutput, "print() to a stream that is written in Python");
  if (standard) {
    if (stream != PySys_GetObject("stdout"))
      return trace.refuse(BreakKind::kOutput, "print() to a stream that the traced code has set");
    Ref module = Ref::steal(PyImport_ImportModule("sys"));
    if (!trace.world.read(
            stream, trace.guards.source(SourceKind::kAttribute, trace.guards.pinned(module.get()),
                                        stdout_name)))
      return {};
  }
  std::vector<Tracked> texts;
  for (size_t i = 0; i < count; ++i) {
    if (own) make_concrete(trace, args[i]);
    if (i >= count - keywords || is_atom(args[i].get())) {
      texts.push_back(args[i]);
      continue;
    }
    if (Tracked text = varying_text(trace, TextFunction::kStr, {args[i]})) {
      texts.push_back(std::move(text));
      continue;
    }
    Tracked text = format_value(trace, args[i], Tracked(), 1);
    if (!text) return {};
    texts.push_back(std::move(text));
  }
  if (redirected) {
    static PyObject* file = PyUnicode_InternFromString("file");
    Ref last = Ref::steal(PyTuple_Pack(1, file));
    Ref names =
        kwnames && last ? Ref::steal(PySequence_Concat(kwnames, last.get())) : std::move(last);
    if (!names) return {};
    texts.push_back(Tracked::borrow(stream));
    return call_native(trace, callable.get(), texts.data(), count + 1, names.get(), false);
  }
  if (own) return call_native(trace, callable.get(), texts.data(), count, kwnames, false);
  put_off(trace, {callable, std::move(texts), Ref::borrow(kwnames)});
  return Tracked::borrow(Py_None);
}

bool handles_warnings(TraceContext& trace) {
  if (!trace.world.has_writes()) return false;
  static PyObject* dict = PyModule_GetDict(PyImport_ImportModule("warnings"));
  static PyObject* const keys[] = {PyUnicode_InternFromString("filters"),
                                   PyUnicode_InternFromString("showwarning"),
                                   PyUnicode_InternFromString("_showwarnmsg_impl")};
  for (PyObject* key : keys) {
    const Write* write = trace.world.log().written(dict, key);
    if (write && write->value.get() != PyDict_GetItemWithError(dict, key)) return true;
  }
  return false;
}

Tracked call_warn(TraceContext& trace, Tracked* args, size_t count, PyObject* kwnames) {
  for (size_t i = 0; i < count; ++i) make_concrete(trace, args[i]);
  const size_t positional = count - (kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0);
  Tracked message, category, level;
  Tracked* places[] = {&message, &category, &level};
  for (size_t i = 0; i < count; ++i) {
    if (i < positional) {
      if (i >= 3) return trace.refuse(BreakKind::kOutput, "warnings.warn() with a source");
      *places[i] = args[i];
      continue;
    }
    PyObject* name = PyTuple_GET_ITEM(kwnames, static_cast<Py_ssize_t>(i - positional));
    Tracked* place = PyUnicode_CompareWithASCIIString(name, "message") == 0      ? &message
                     : PyUnicode_CompareWithASCIIString(name, "category") == 0   ? &category
                     : PyUnicode_CompareWithASCIIString(name, "stacklevel") == 0 ? &level
                                                                                 : nullptr;
    if (!place) return trace.refuse(BreakKind::kOutput, "warnings.warn() with a source");
    *place = args[i];
  }
  if (!category || category.get() == Py_None) category = Tracked::borrow(PyExc_UserWarning);
  bool plain = message && PyUnicode_CheckExact(message.get()) && PyType_Check(category.get()) &&
               PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(category.get()),
                                reinterpret_cast<PyTypeObject*>(PyExc_Warning)) &&
               !trace.world.made_function(category.get()) &&
               (!level || PyLong_CheckExact(level.get()));
  if (handles_warnings(trace))
    return trace.refuse(BreakKind::kOutput,
                        "warnings.warn() where the traced code handles warnings");
  if (!plain || trace.native.depth > 0 || some_warning_raises(trace))
    return trace.refuse(BreakKind::kOutput,
                        "warnings.warn(): a warning that may raise or is no text");
  long up = level ? PyLong_AsLong(level.get()) : 1;
  Frame* frame = trace.frames.top();
  while (--up > 0 && frame) frame = frame->back;
  if (!frame) return trace.refuse(BreakKind::kOutput, "warnings.warn() about the caller");
  static PyObject* callable = PyCFunction_NewEx(&g_warn_at, nullptr, nullptr);
  Tracked line = Tracked::steal(PyLong_FromLong(frame->line()));
  Tracked file = Tracked::borrow(frame->code()->co_filename);
  put_off(trace, {Tracked::borrow(callable),
                  {message, category, file, line, Tracked(frame->function)},
                  Ref()});
  return Tracked::borrow(Py_None);
}

Tracked call_log(TraceContext& trace, const Tracked& logger, PyObject* method, Tracked* args,
                 size_t count, PyObject* kwnames) {
  std::string_view name = cpython::utf8_of(reinterpret_cast<PyFunctionObject*>(method)->func_name);
  for (size_t i = 0; i < count; ++i)
    if (!may_be_in_text(args[i])) make_concrete(trace, args[i]);
  PyObject* known_level = level_of(name);
  Tracked level = known_level ? Tracked::borrow(known_level) : Tracked();
  if (name == "log" && count > 0 && PyLong_CheckExact(args[0].get())) {
    level = args[0];
    ++args, --count;
  }
  if (!level || count == 0 || kwnames || !trace.world.source_of(logger) ||
      !is_logging(module_of(Py_TYPE(logger.get()))))
    return trace.refuse(BreakKind::kLogging,
                        "a log message with more than its values, or of a logger of another class");
  Ref values = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(count - 1)));
  for (size_t i = 0; i < count; ++i) {
    if (!is_lasting(args[i].get()))
      return trace.refuse(BreakKind::kLogging, "a log message about an object that may change");
    if (i > 0)
      PyTuple_SET_ITEM(values.get(), static_cast<Py_ssize_t>(i - 1), Ref(args[i].object).release());
  }
  const Frame* frame = trace.frames.top();
  const auto is_of_logging = [](const Frame* f) {
    return is_logging(PyDict_GetItemWithError(f->globals.get(), names().name));
  };
  while (frame && is_of_logging(frame)) frame = frame->back;
  if (!frame) return trace.refuse(BreakKind::kLogging, "a log message about the caller");
  static PyObject* callable = PyCFunction_NewEx(&g_log_at, nullptr, nullptr);
  PyCodeObject* code = frame->code();
  put_off(trace,
          {Tracked::borrow(callable),
           {logger, level, args[0], Tracked(std::move(values)), Tracked::borrow(code->co_filename),
            Tracked::steal(PyLong_FromLong(frame->line())), Tracked::borrow(code->co_name)},
           Ref()});
  return Tracked::borrow(Py_None);
}

Tracked defer_call(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
                   PyObject* kwnames) {
  const bool warned =
      std::any_of(trace.deferred.begin(), trace.deferred.end(), [](const DeferredCall& call) {
        return PyCFunction_Check(call.callable.get()) &&
               PyCFunction_GET_FUNCTION(call.callable.get()) == warn_at;
      });
  if (warned && count == 0)  // warnings._filters_mutated()
    return trace.refuse(BreakKind::kOutput, "filters of warnings are changed behind a warning");
  for (size_t i = 0; i < count; ++i) make_concrete(trace, args[i]);
  for (size_t i = 0; i < count; ++i) {
    PyObject* arg = args[i].get();
    if (!is_atom(arg) && !(trace.world.source_of(args[i]) && !is_tensor(arg)) && !PyType_Check(arg))
      return trace.refuse(BreakKind::kLogging,
                          "a call that is put off is given objects of the trace");
  }
  trace.deferred.push_back(
      {callable, std::vector<Tracked>(args, args + count), Ref::borrow(kwnames)});
  return Tracked::borrow(Py_None);
}

}  // namespace braze::capture
