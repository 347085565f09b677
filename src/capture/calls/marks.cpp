// Functions that the user has marked: those that stay in eager, those whose result is a constant,
// those that are one node of the graph that a backend of the user's is given.
#include "capture/evaluator.h"
#include "capture/known.h"

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

// The attribute that says that the function stays in eager; null without one.
PyObject* Evaluator::disable_mark(PyFunctionObject* function) {
  if (!function->func_dict || PyDict_GET_SIZE(function->func_dict) == 0) return nullptr;
  for (PyObject* mark : {names().disable_mark, names().torch_disable_mark})
    if (PyDict_GetItemWithError(function->func_dict, mark) == Py_True) return mark;
  return nullptr;
}

Slot Evaluator::call_marked(const Slot& callable, Slot* args, size_t count, PyObject* kwnames,
                            bool& done) {
  if (has_mark(callable.get(), {names().constant_mark, names().torch_constant_mark})) {
    Slot result = constant_result(callable, args, count, kwnames, done);
    if (done) return result;
  }
  done = torch_calls_ &&
         (has_mark(callable.get(), {names().one_step_mark}) || is_allowed_by_torch(callable.get()));
  return done ? call_as_one_step(callable, args, count, kwnames) : Slot();
}

// What the function does is evaluated like everything else, so that it is guarded and what it
// cannot do is a break; in the place of the calls it made stands the call of itself. Where the
// backend's code, which makes that call, would not see what the trace has seen, or would repeat an
// effect, the calls stay.
Slot Evaluator::call_as_one_step(const Slot& callable, Slot* args, size_t count,
                                 PyObject* kwnames) {
  bool separate = native_depth_ == 0 && !world_.made_function(callable.get()) &&
                  !world_.has_writes() && deferred_.empty() && context_writes_.empty();
  std::vector<Slot> given(args, args + count);
  for (size_t i = 0; i < count; ++i)
    separate = separate && is_plain_data(args[i].get(), /*lists=*/false);
  const Py_ssize_t before = PyList_GET_SIZE(torch_calls_.get());
  Slot result = call_unmarked(callable, args, count, kwnames);
  if (!result || !separate || world_.has_writes() || !deferred_.empty() ||
      !context_writes_.empty() || !holds_tensor(result.get()) ||
      !is_plain_data(result.get(), /*lists=*/true))
    return result;
  if (PyList_SetSlice(torch_calls_.get(), before, PyList_GET_SIZE(torch_calls_.get()), nullptr) < 0)
    return {};
  record_torch_call(callable.get(), given.data(), count, kwnames, result.get());
  return result;
}

// The function is called for real; if it is given what differs from call to call, or could not see
// what the trace has changed, it is evaluated like any other.
Slot Evaluator::constant_result(const Slot& callable, Slot* args, size_t count, PyObject* kwnames,
                                bool& done) {
  PyObject* function = callable.get();
  if (!constants_ || world_.made_function(function) || world_.has_pending_changes() ||
      !context_writes_.empty())
    return {};
  for (size_t i = 0; i < count; ++i) {
    make_concrete(args[i]);
    if (!rely_on_constant(args[i])) return {};
  }
  done = true;
  world_.rely_on(reinterpret_cast<PyFunctionObject*>(function));
  const size_t number = constants_used_++;
  if (number >= constants_->size() || (*constants_)[number].function.get() != function) {
    std::vector<PyObject*> raw;
    for (size_t i = 0; i < count; ++i) raw.push_back(args[i].get());
    const size_t keywords = kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0;
    Recording::Pause pause;
    Ref result =
        Ref::steal(cpython::call_unhooked(function, raw.data(), count - keywords, kwnames));
    if (!result) return {};
    constants_->resize(number);
    constants_->push_back({callable.object, std::move(result)});
  }
  PyObject* result = (*constants_)[number].result.get();
  return is_atom(result) ? world_.wrap(result) : world_.read(result, world_.pinned(result));
}

// Whether the argument is the same on every call that the guards let through.
bool Evaluator::rely_on_constant(const Slot& argument) {
  PyObject* object = argument.get();
  if (is_atom(object)) return true;
  if (PyTuple_CheckExact(object)) {
    if (world_.source_of(argument) && !world_.read_all(object)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      if (!rely_on_constant(world_.wrap(PyTuple_GET_ITEM(object, i)))) return false;
    return true;
  }
  const Source* source = world_.source_of(argument);
  if (!source || is_tensor(object) || is_container(object)) return false;
  world_.guard(GuardKind::kIdentity, source, object);
  return true;
}

}  // namespace braze::capture
