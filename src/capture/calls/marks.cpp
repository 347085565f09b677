#include "capture/calls/marks.h"

#include "capture/calls/functions.h"
#include "capture/calls/torch_record.h"
#include "capture/known.h"
#include "capture/objects/operators.h"
#include "capture/symbols/integers.h"
#include "capture/trace_context.h"
#include "cpython/frame.h"
#include "cpython/text.h"

namespace braze::capture {

namespace {

bool has_mark(PyObject* function, std::initializer_list<PyObject*> marks) {
  PyObject* dict = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
  if (!dict) return false;
  for (PyObject* mark : marks)
    if (PyDict_GetItemWithError(dict, mark) == Py_True) return true;
  return false;
}

// torch.compiler.allow_in_graph keeps the ids of the functions it was given.
bool is_allowed_by_torch(PyObject* function) {
  Ref name = Ref::steal(PyUnicode_FromString("torch._dynamo.trace_rules"));
  Ref rules = Ref::steal(PyImport_GetModule(name.get()));
  Ref allowed =
      rules ? Ref::steal(PyObject_GetAttrString(rules.get(), "_allowed_callable_ids")) : Ref();
  Ref ids = allowed ? Ref::steal(PyObject_GetAttrString(allowed.get(), "function_ids")) : Ref();
  Ref id = Ref::steal(PyLong_FromVoidPtr(function));
  const bool found = ids && PyAnySet_Check(ids.get()) && PySet_Contains(ids.get(), id.get()) == 1;
  PyErr_Clear();
  return found;
}

// Tensors and constants, and tuples of them: nothing that both sides of a call could change.
bool is_plain_data(PyObject* object, bool lists, int depth = 4) {
  if (is_tensor(object) || is_atom(object)) return true;
  if (depth == 0 || !(PyTuple_CheckExact(object) || (lists && PyList_CheckExact(object))))
    return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
    if (!is_plain_data(PySequence_Fast_GET_ITEM(object, i), lists, depth - 1)) return false;
  return true;
}

}  // namespace

static Tracked call_as_one_step(TraceContext& trace, const Tracked& callable, Tracked* args,
                                size_t count, PyObject* kwnames);
static Tracked constant_result(TraceContext& trace, const Tracked& callable, Tracked* args,
                               size_t count, PyObject* kwnames, bool& done);
static bool rely_on_constant(TraceContext& trace, const Tracked& argument);

PyObject* disable_mark(PyFunctionObject* function) {
  if (!function->func_dict || PyDict_GET_SIZE(function->func_dict) == 0) return nullptr;
  for (PyObject* mark : {names().disable_mark, names().torch_disable_mark})
    if (PyDict_GetItemWithError(function->func_dict, mark) == Py_True) return mark;
  return nullptr;
}

PyObject* own_function_that_torch_disables(PyFunctionObject* function) {
  if (disable_mark(function) != names().torch_disable_mark) return nullptr;
  static PyObject* const key = PyUnicode_InternFromString("_torchdynamo_orig_callable");
  PyObject* original = PyDict_GetItemWithError(function->func_dict, key);
  if (!original || !PyFunction_Check(original)) return nullptr;
  PyObject* globals = reinterpret_cast<PyFunctionObject*>(original)->func_globals;
  PyObject* module = PyDict_GetItemWithError(globals, names().name);
  return module && PyUnicode_Check(module) &&
                 std::string_view(cpython::utf8_of(module)).starts_with("torch.optim.")
             ? original
             : nullptr;
}

Tracked call_marked(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
                    PyObject* kwnames, bool& done) {
  if (trace.torch_calls) trace.world.guard_identity_of_function(callable.get());
  if (has_mark(callable.get(), {names().constant_mark, names().torch_constant_mark})) {
    Tracked result = constant_result(trace, callable, args, count, kwnames, done);
    if (done) return result;
  }
  done = trace.torch_calls &&
         (has_mark(callable.get(), {names().one_step_mark}) || is_allowed_by_torch(callable.get()));
  return done ? call_as_one_step(trace, callable, args, count, kwnames) : Tracked();
}

// What the function does is evaluated like everything else, so that it is guarded and what it
// cannot do is a break; in the place of the calls it made stands the call of itself. Where the
// backend's code, which makes that call, would not see what the trace has seen, or would repeat an
// effect, the calls stay.
static Tracked call_as_one_step(TraceContext& trace, const Tracked& callable, Tracked* args,
                                size_t count, PyObject* kwnames) {
  bool separate = trace.native.depth == 0 && !trace.world.made_function(callable.get()) &&
                  !trace.world.has_writes() && trace.deferred.empty() &&
                  trace.context_variables.writes.empty();
  std::vector<Tracked> given(args, args + count);
  for (size_t i = 0; i < count; ++i)
    separate = separate && is_plain_data(args[i].get(), /*lists=*/false);
  const Py_ssize_t before = PyList_GET_SIZE(trace.torch_calls.get());
  Tracked result = call_unmarked(trace, callable, args, count, kwnames);
  if (!result || !separate || trace.world.has_writes() || !trace.deferred.empty() ||
      !trace.context_variables.writes.empty() || !holds_tensor(result.get()) ||
      !is_plain_data(result.get(), /*lists=*/true))
    return result;
  if (PyList_SetSlice(trace.torch_calls.get(), before, PyList_GET_SIZE(trace.torch_calls.get()),
                      nullptr) < 0)
    return {};
  record_torch_call(trace, callable.get(), given.data(), count, kwnames, result.get());
  return result;
}

// The function is called for real; if it is given what differs from call to call, or could not see
// what the trace has changed, it is evaluated like any other.
static Tracked constant_result(TraceContext& trace, const Tracked& callable, Tracked* args,
                               size_t count, PyObject* kwnames, bool& done) {
  PyObject* function = callable.get();
  if (!trace.constants || trace.world.made_function(function) ||
      trace.world.has_pending_changes() || !trace.context_variables.writes.empty())
    return {};
  for (size_t i = 0; i < count; ++i) {
    make_concrete(trace, args[i]);
    if (!rely_on_constant(trace, args[i])) return {};
  }
  done = true;
  trace.world.rely_on(reinterpret_cast<PyFunctionObject*>(function));
  const size_t number = trace.constants_used++;
  if (number >= trace.constants->size() || (*trace.constants)[number].function.get() != function) {
    std::vector<PyObject*> raw;
    for (size_t i = 0; i < count; ++i) raw.push_back(args[i].get());
    const size_t keywords = kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0;
    Recording::Pause pause;
    Ref result =
        Ref::steal(cpython::call_unhooked(function, raw.data(), count - keywords, kwnames));
    if (!result) return {};
    trace.constants->resize(number);
    trace.constants->push_back({callable.object, std::move(result)});
  }
  PyObject* result = (*trace.constants)[number].result.get();
  return is_atom(result) ? trace.world.wrap(result)
                         : trace.world.read(result, trace.guards.pinned(result));
}

// Whether the argument is the same on every call that the guards let through.
static bool rely_on_constant(TraceContext& trace, const Tracked& argument) {
  PyObject* object = argument.get();
  if (is_atom(object)) return true;
  if (PyTuple_CheckExact(object)) {
    if (trace.world.source_of(argument) && !trace.world.read_all(object)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      if (!rely_on_constant(trace, trace.world.wrap(PyTuple_GET_ITEM(object, i)))) return false;
    return true;
  }
  const Source* source = trace.world.source_of(argument);
  if (!source || is_tensor(object) || is_container(object)) return false;
  trace.guards.add(GuardKind::kIdentity, source, object);
  return true;
}

}  // namespace braze::capture
