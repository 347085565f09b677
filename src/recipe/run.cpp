// Running a recipe: on every call of compiled code, so without detours for the usual results.
#include "cpython/lookup.h"
#include "cpython/set_layout.h"
#include "recipe/recipe.h"
#include "sym/expr.h"

namespace braze::recipe {

using cpython::Ref;
using Kind = Recipe::Kind;
using Action = Recipe::Action;

namespace {

class Runner {
 public:
  Runner(const Recipe& recipe, PyObject* function, PyObject* const* args,
         std::span<PyObject* const> outputs, std::span<const int64_t> symbols,
         std::vector<Ref>& values)
      : recipe_(recipe),
        function_(function),
        args_(args),
        outputs_(outputs),
        symbols_(symbols),
        values_(values) {}

  bool run() {
    values_.clear();
    values_.resize(recipe_.actions.size());
    for (size_t i = 0; i < recipe_.actions.size(); ++i)
      if (!carry_out(recipe_.actions[i], values_[i])) return false;
    return true;
  }

 private:
  PyObject* at(int i) const { return values_[static_cast<size_t>(i)].get(); }

  Ref pack(const std::vector<int>& items) const {
    Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
    for (size_t i = 0; tuple && i < items.size(); ++i)
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                       Ref::borrow(at(items[i])).release());
    return tuple;
  }

  bool carry_out(const Action& action, Ref& value);
  Ref make_new(PyTypeObject* type) const;
  Ref make_tuple(PyTypeObject* type, const std::vector<int>& items) const;
  Ref make_function(const Action& action) const;
  Ref make_iterator(const Action& action) const;
  bool fill_list(PyObject* target, const std::vector<int>& items) const;
  bool fill_dict(PyObject* target, const std::vector<int>& items) const;
  bool fill_set(PyObject* target, const Action& action) const;
  bool fill_deque(PyObject* target, const std::vector<int>& items) const;
  bool set_attribute(PyObject* target, PyObject* name, PyObject* value) const;

  const Recipe& recipe_;
  PyObject* function_;
  PyObject* const* args_;
  std::span<PyObject* const> outputs_;
  std::span<const int64_t> symbols_;
  std::vector<Ref>& values_;
};

PyObject* torch_size() {
  static PyObject* const type = [] {
    const Ref torch = Ref::steal(PyImport_ImportModule("torch"));
    return torch ? PyObject_GetAttrString(torch.get(), "Size") : nullptr;
  }();
  return type;
}

bool set_state(PyObject* iterator, PyObject* state) {
  static PyObject* const name = PyUnicode_InternFromString("__setstate__");
  return bool(Ref::steal(PyObject_CallMethodOneArg(iterator, name, state)));
}

PyObject* empty_tuple() {
  static PyObject* tuple = PyTuple_New(0);
  return tuple;
}

Ref Runner::make_new(PyTypeObject* type) const {
  if (type == &PyList_Type) return Ref::steal(PyList_New(0));
  if (type == &PyDict_Type) return Ref::steal(PyDict_New());
  return Ref::steal(cpython::built_in_base(type)->tp_new(type, empty_tuple(), nullptr));
}

Ref Runner::make_tuple(PyTypeObject* type, const std::vector<int>& items) const {
  Ref packed = pack(items);
  if (!packed) return {};
  if (auto* object = reinterpret_cast<PyObject*>(type); object == torch_size())
    return Ref::steal(PyObject_CallOneArg(object, packed.get()));
  Ref arguments = Ref::steal(PyTuple_Pack(1, packed.get()));
  return arguments ? Ref::steal(PyTuple_Type.tp_new(type, arguments.get(), nullptr)) : Ref();
}

Ref Runner::make_function(const Action& action) const {
  Ref made = Ref::steal(PyFunction_New(action.object.get(), at(action.items[0])));
  if (!made) return {};
  auto* f = reinterpret_cast<PyFunctionObject*>(made.get());
  PyObject** fields[] = {&f->func_closure,     &f->func_defaults, &f->func_kwdefaults,
                         &f->func_annotations, &f->func_dict,     &f->func_name,
                         &f->func_qualname,    &f->func_doc,      &f->func_module};
  for (int i = 0; i < 9; ++i)
    if (int item = action.items[static_cast<size_t>(i) + 1]; item >= 0)
      Py_XSETREF(*fields[i], Ref::borrow(at(item)).release());
  return made;
}

Ref Runner::make_iterator(const Action& action) const {
  Ref made = Ref::steal(PyObject_CallObject(at(action.items[0]), at(action.items[1])));
  // Python 3.12's range iterators reduce with None for "no state".
  if (!made || action.items.size() < 3 || at(action.items[2]) == Py_None) return made;
  return set_state(made.get(), at(action.items[2])) ? made : Ref();
}

bool Runner::fill_list(PyObject* target, const std::vector<int>& items) const {
  Ref list = Ref::steal(PyList_New(static_cast<Py_ssize_t>(items.size())));
  if (!list) return false;
  for (size_t i = 0; i < items.size(); ++i)
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), Ref::borrow(at(items[i])).release());
  return PyList_SetSlice(target, 0, PyList_GET_SIZE(target), list.get()) == 0;
}

bool Runner::fill_dict(PyObject* target, const std::vector<int>& items) const {
  bool ordered = PyObject_TypeCheck(target, &PyODict_Type);
  if (PyDict_GET_SIZE(target)) {
    if (ordered) {
      Ref done = Ref::steal(
          PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyODict_Type), "clear", "O", target));
      if (!done) return false;
    } else {
      PyDict_Clear(target);
    }
  }
  for (size_t i = 0; i < items.size(); i += 2) {
    PyObject *key = at(items[i]), *value = at(items[i + 1]);
    if ((ordered ? PyODict_SetItem(target, key, value) : PyDict_SetItem(target, key, value)) < 0)
      return false;
  }
  return true;
}

bool Runner::fill_set(PyObject* target, const Action& action) const {
  if (PySet_Check(target) && PySet_Clear(target) < 0) return false;
  if (action.object) return cpython::copy_set_layout(action.object.get(), target);
  for (int item : action.items)
    if (PySet_Add(target, at(item)) < 0) return false;
  return true;
}

bool Runner::fill_deque(PyObject* target, const std::vector<int>& items) const {
  Ref packed = pack(items);
  Ref cleared = Ref::steal(PyObject_CallMethod(target, "clear", nullptr));
  if (!packed || !cleared) return false;
  static PyObject* extend = PyUnicode_InternFromString("extend");
  return bool(Ref::steal(PyObject_CallMethodOneArg(target, extend, packed.get())));
}

// Into the instance dict, a slot or an attribute of C (Tensor.grad), past properties and
// __setattr__ of the class. Null: deleted.
bool Runner::set_attribute(PyObject* target, PyObject* name, PyObject* value) const {
  PyObject* descriptor = PyModule_Check(target) ? nullptr : _PyType_Lookup(Py_TYPE(target), name);
  bool bypass = descriptor && Py_TYPE(descriptor)->tp_descr_set &&
                !Py_IS_TYPE(descriptor, &PyMemberDescr_Type) &&
                !Py_IS_TYPE(descriptor, &PyGetSetDescr_Type);
  if (!bypass) return PyObject_GenericSetAttr(target, name, value) == 0;
  Ref dict = Ref::steal(PyObject_GenericGetDict(target, nullptr));
  if (!dict) return false;
  return (value ? PyDict_SetItem(dict.get(), name, value) : PyDict_DelItem(dict.get(), name)) == 0;
}

bool Runner::carry_out(const Action& action, Ref& value) {
  switch (action.kind) {
    case Kind::kOutput:
      value = Ref::borrow(outputs_[static_cast<size_t>(action.index)]);
      return true;
    case Kind::kConstant:
      value = action.object;
      return true;
    case Kind::kFloat:
      value = Ref::steal(PyNumber_Float(outputs_[static_cast<size_t>(action.index)]));
      return bool(value);
    case Kind::kNumber:
      value = Ref::steal(PyLong_FromLongLong(sym::evaluate(action.number, symbols_)));
      return bool(value);
    case Kind::kOutside:
      value = guard::resolve(action.source, function_, args_);
      // A NULL on the stack that nothing has looked at is handed on.
      if (!value && action.source->kind == guard::SourceKind::kArgument && !PyErr_Occurred())
        return true;
      if (!value)
        PyErr_Format(PyExc_RuntimeError, "braze: %s is gone",
                     guard::to_string(action.source).c_str());
      return bool(value);
    case Kind::kTuple:
      value = pack(action.items);
      return bool(value);
    case Kind::kNewTuple:
      value = make_tuple(reinterpret_cast<PyTypeObject*>(action.object.get()), action.items);
      return bool(value);
    case Kind::kNew:
      value = make_new(reinterpret_cast<PyTypeObject*>(action.object.get()));
      return bool(value);
    case Kind::kListFill:
      return fill_list(at(action.target), action.items);
    case Kind::kDictFill:
      return fill_dict(at(action.target), action.items);
    case Kind::kSetFill:
      return fill_set(at(action.target), action);
    case Kind::kDequeFill:
      return fill_deque(at(action.target), action.items);
    case Kind::kSetAttr:
      return set_attribute(at(action.target), action.object.get(), at(action.items[0]));
    case Kind::kDelAttr:
      if (set_attribute(at(action.target), action.object.get(), nullptr)) return true;
      // It was set and deleted again.
      if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return false;
      PyErr_Clear();
      return true;
    case Kind::kSetGlobal:
      if (action.items.empty()) {
        PyObject* globals = PyFunction_GET_GLOBALS(at(action.target));
        // It may have been set and deleted again.
        const int there = PyDict_Contains(globals, action.object.get());
        return there < 0 ? false : !there || PyDict_DelItem(globals, action.object.get()) == 0;
      }
      return PyDict_SetItem(PyFunction_GET_GLOBALS(at(action.target)), action.object.get(),
                            at(action.items[0])) == 0;
    case Kind::kSetCell:
      return PyCell_Set(at(action.target), action.items.empty() ? nullptr : at(action.items[0])) ==
             0;
    case Kind::kNewCell:
      value = Ref::steal(PyCell_New(action.items.empty() ? nullptr : at(action.items[0])));
      return bool(value);
    case Kind::kFunction:
      value = make_function(action);
      return bool(value);
    case Kind::kMethod:
      value = Ref::steal(PyMethod_New(at(action.items[0]), at(action.items[1])));
      return bool(value);
    case Kind::kSlice:
      value =
          Ref::steal(PySlice_New(at(action.items[0]), at(action.items[1]), at(action.items[2])));
      return bool(value);
    case Kind::kIterator:
      value = make_iterator(action);
      return bool(value);
    case Kind::kSetState:
      return set_state(at(action.target), at(action.items[0]));
    case Kind::kAdvance:
      for (int i = 0; i < action.index; ++i)
        if (!Ref::steal(PyIter_Next(at(action.target)))) return PyErr_Occurred() == nullptr;
      return true;
    case Kind::kCall: {
      Ref done =
          Ref::steal(PyObject_Call(at(action.items[0]), at(action.items[1]), at(action.items[2])));
      return bool(done);
    }
    case Kind::kGeneric:
      value = Ref::steal(PyObject_CallObject(at(action.items[0]), at(action.items[1])));
      return bool(value);
  }
  return false;
}

}  // namespace

bool Recipe::run(PyObject* function, PyObject* const* args, std::span<PyObject* const> outputs,
                 std::span<const int64_t> symbols, std::vector<Ref>& values) const {
  if (Runner(*this, function, args, outputs, symbols, values).run()) return true;
  values.clear();
  return false;
}

}  // namespace braze::recipe
