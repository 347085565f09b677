// Exception objects that the trace made and that nobody has raised yet.
#include "capture/exit/recipe_builder.h"
#include "capture/known.h"

namespace braze::capture {

using Kind = Recipe::Kind;

namespace {

PyTypeObject* plain_type() { return reinterpret_cast<PyTypeObject*>(PyExc_BaseException); }

// All of an instance is its arguments and its __dict__.
bool is_plain_exception(PyTypeObject* type) {
  return cpython::built_in_base(type)->tp_basicsize == plain_type()->tp_basicsize;
}

}  // namespace

int RecipeBuilder::exception(PyObject* object) {
  const auto* state = reinterpret_cast<PyBaseExceptionObject*>(object);
  PyTypeObject* type = Py_TYPE(object);
  if (state->traceback || state->cause || state->context || state->suppress_context)
    return refuse(object, "an exception that was raised");
  if (type->tp_new != plain_type()->tp_new || !is_plain_exception(type))
    return built_in_exception(object);
  static PyObject* make = PyObject_GetAttr(PyExc_BaseException, names().new_);
  // What __new__ gets it keeps as the arguments, whatever __init__ was given.
  std::vector<int> items{constant(reinterpret_cast<PyObject*>(type))};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(state->args); ++i) {
    items.push_back(value(PyTuple_GET_ITEM(state->args, i)));
    if (items.back() < 0) return -1;
  }
  const int packed = emit({.kind = Kind::kTuple, .items = std::move(items)});
  const int action = emit({.kind = Kind::kGeneric, .items = {constant(make), packed}});
  index_[object] = action + 1;
  return attributes(action, object) ? action : -1;
}

// One made in C that keeps more than its arguments, but has got it all from them.
int RecipeBuilder::built_in_exception(PyObject* object) {
  static PyObject* group = PyDict_GetItemString(PyEval_GetBuiltins(), "ExceptionGroup");
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  const bool made_in_c = !is_python_class(Py_TYPE(object)) || type == group;
  Ref name = Ref::steal(PyObject_GetAttr(object, names().name_plain));
  if (!name) PyErr_Clear();
  Ref reduced = !made_in_c || (name && name.get() != Py_None)
                    ? Ref()
                    : Ref::steal(PyObject_CallMethodNoArgs(object, names().reduce));
  if (!reduced || !PyTuple_Check(reduced.get()) || PyTuple_GET_SIZE(reduced.get()) != 2) {
    PyErr_Clear();
    return refuse(object, "an exception that keeps more than its arguments");
  }
  world_.hold(reduced);
  std::vector<int> items;
  if (!values(reduced.get(), items)) return -1;
  return emit({.kind = Kind::kGeneric, .items = std::move(items)});
}

}  // namespace braze::capture
