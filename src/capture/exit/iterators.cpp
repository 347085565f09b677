// The actions that make the built-in iterators of a trace again.
#include "capture/exit/recipe_builder.h"
#include "capture/known.h"

namespace braze::capture {

using Kind = Recipe::Kind;

namespace {

bool is_dict_iterator(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == &PyDictIterKey_Type || type == &PyDictIterValue_Type ||
         type == &PyDictIterItem_Type;
}

// Its __reduce__ has a third part, the place, unless it has come to the end.
bool says_its_place(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == &PyListIter_Type || type == &PyTupleIter_Type || type == &PyUnicodeIter_Type ||
         type == &PyListRevIter_Type || type == &PyReversed_Type;
}

// What an iterator over a dict goes over; null: it has come to the end.
PyObject* dict_behind(PyObject* iterator) {
  if (!is_dict_iterator(iterator)) return nullptr;
  PyObject* dict = nullptr;
  const visitproc visit = [](PyObject* object, void* found) {
    if (PyDict_Check(object)) *static_cast<PyObject**>(found) = object;
    return 0;
  };
  Py_TYPE(iterator)->tp_traverse(iterator, visit, &dict);
  return dict;
}

}  // namespace

bool RecipeBuilder::is_plain_iterator(PyObject* object) {
  static PyTypeObject* const types[] = {
      &PyListIter_Type,      &PyTupleIter_Type,    &PyRangeIter_Type, &PyDictIterKey_Type,
      &PyDictIterValue_Type, &PyDictIterItem_Type, &PyEnum_Type,      &PyZip_Type,
      &PyReversed_Type,      &PyUnicodeIter_Type,  &PyMap_Type,       &PyFilter_Type,
      &PyListRevIter_Type};
  for (PyTypeObject* known : types)
    if (Py_IS_TYPE(object, known)) return true;
  return false;
}

int RecipeBuilder::iterator(PyObject* object) {
  Ref reduced = Ref::steal(PyObject_CallMethodNoArgs(object, names().reduce));
  if (!reduced || !PyTuple_Check(reduced.get()) || PyTuple_GET_SIZE(reduced.get()) < 2) {
    PyErr_Clear();
    return refuse(object, "an iterator that cannot be copied");
  }
  // What __reduce__ made lives only as long as `reduced`; the index must not outlive it.
  world_.hold(reduced);
  PyObject* arguments = PyTuple_GET_ITEM(reduced.get(), 1);
  PyObject* dict = dict_behind(object);
  if (dict && !is_resized(dict)) {
    PyObject* remaining = PyTuple_GET_ITEM(arguments, 0);
    return dict_iterator(object, dict, PyDict_GET_SIZE(dict) - PyObject_Size(remaining));
  }
  if ((is_dict_iterator(object) && !dict) ||
      (says_its_place(object) && PyTuple_GET_SIZE(reduced.get()) == 2))
    return exhausted_iterator(object, reduced.get());
  std::vector<int> items;
  if (!values(reduced.get(), items)) return -1;
  const bool sized = Py_IS_TYPE(object, &PyListIter_Type) ||
                     Py_IS_TYPE(object, &PyListRevIter_Type) ||
                     Py_IS_TYPE(object, &PyReversed_Type);
  if (items.size() < 3 || !sized) return emit({.kind = Kind::kIterator, .items = std::move(items)});
  const int state = items[2];
  const int action = emit({.kind = Kind::kGeneric, .items = {items[0], items[1]}});
  places_.push_back({.kind = Kind::kSetState, .target = action, .items = {state}});
  return action;
}

// One that has let go of what it went over. __reduce__ gives a fresh one over nothing in its place,
// at times of another type.
int RecipeBuilder::exhausted_iterator(PyObject* object, PyObject* reduced) {
  if (is_dict_iterator(object)) {
    Ref dict = Ref::steal(PyDict_New());
    if (!dict) return -1;
    world_.hold(dict);
    return dict_iterator(object, dict.get(), 1);
  }
  std::vector<int> items;
  if (!values(reduced, items)) return -1;
  if (Py_IS_TYPE(object, &PyListRevIter_Type))
    items[0] = constant(reinterpret_cast<PyObject*>(&PyReversed_Type));
  const int action = emit({.kind = Kind::kGeneric, .items = {items[0], items[1]}});
  places_.push_back({.kind = Kind::kAdvance, .index = 1, .target = action});
  return action;
}

// Over the dict itself, whose changes it is to notice, `given` times advanced.
int RecipeBuilder::dict_iterator(PyObject* object, PyObject* dict, Py_ssize_t given) {
  static PyObject* const iterate = PyDict_GetItemString(PyEval_GetBuiltins(), "iter");
  auto* type = reinterpret_cast<PyObject*>(&PyDict_Type);
  const char* view = Py_IS_TYPE(object, &PyDictIterKey_Type)     ? "keys"
                     : Py_IS_TYPE(object, &PyDictIterValue_Type) ? "values"
                                                                 : "items";
  const Ref method = Ref::steal(PyObject_GetAttrString(type, view));
  int over = value(dict);
  if (!method || over < 0) return -1;
  for (PyObject* callable : {method.get(), iterate}) {
    const int packed = emit({.kind = Kind::kTuple, .items = {over}});
    over = emit({.kind = Kind::kGeneric, .items = {constant(callable), packed}});
  }
  places_.push_back({.kind = Kind::kAdvance, .index = static_cast<int>(given), .target = over});
  return over;
}

}  // namespace braze::capture
