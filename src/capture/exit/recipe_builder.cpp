#include "capture/exit/recipe_builder.h"

#include "capture/known.h"
#include "cpython/set_layout.h"

namespace braze::capture {

using Kind = Recipe::Kind;
using Action = Recipe::Action;

namespace {

bool is_namespace(PyTypeObject* type) {
  return std::string_view(type->tp_name) == "types.SimpleNamespace";
}

// Types made in C whose `__reduce__` tells all that there is of an instance.
bool is_value_type(PyTypeObject* type) {
  std::string_view name = type->tp_name;
  for (const char* known : {"decimal.Decimal", "datetime.date", "datetime.datetime",
                            "datetime.time", "datetime.timedelta", "bytearray"})
    if (name == known) return true;
  return name.starts_with("operator.");
}

}  // namespace

int RecipeBuilder::emit(Action action) {
  recipe.actions.push_back(std::move(action));
  return static_cast<int>(recipe.actions.size()) - 1;
}

int RecipeBuilder::refuse(PyObject* object, const char* why) {
  world_.breaks().raise(BreakKind::kResult, std::string("a '") + Py_TYPE(object)->tp_name +
                                                "' object would have to leave the trace: " + why);
  return -1;
}

int RecipeBuilder::constant(PyObject* object) {
  if (PyLong_CheckExact(object))
    for (const TraceContext::Address& address : trace_.addresses)
      if (PyObject_RichCompareBool(address.value.get(), object, Py_EQ) == 1)
        return this->address(object, address);
  return emit({.kind = Kind::kConstant, .object = Ref::borrow(object)});
}

int RecipeBuilder::address(PyObject* number, const TraceContext::Address& address) {
  if (!address.is_id || !world_.source_of(address.object.get()))
    return refuse(number, "it is the result of id() or hash()");
  static PyObject* const id = [] {
    const Ref builtins = Ref::steal(PyImport_ImportModule("builtins"));
    return PyObject_GetAttrString(builtins.get(), "id");
  }();
  const int function = emit({.kind = Kind::kConstant, .object = Ref::borrow(id)});
  const int of = value(address.object.get());
  if (of < 0) return -1;
  const int packed = emit({.kind = Kind::kTuple, .items = {of}});
  return emit({.kind = Kind::kGeneric, .items = {function, packed}});
}

int RecipeBuilder::outside(PyObject* object, const Source* source) {
  bool fixed = PyFunction_Check(object) || PyType_Check(object) || PyModule_Check(object) ||
               PyCFunction_Check(object);
  fixed = fixed && !trace_.guards.body_source(object);
  if (fixed) return constant(object);
  return emit({.kind = Kind::kOutside, .source = source});
}

int RecipeBuilder::tensor(PyObject* object) {
  if (Py_TYPE(object) != known().tensor) return refuse(object, "a tensor subclass");
  if (trace_.torch_calls && requires_grad(object)) {
    world_.breaks().raise(BreakKind::kAutograd, "a result requires grad");
    return -1;
  }
  outputs.push_back(object);
  const int action = emit({.kind = Kind::kOutput, .index = static_cast<int>(outputs.size()) - 1});
  index_[object] = action + 1;
  if (const Ref gradient = Recording::gradient_of(object)) {
    const int item = value(gradient.get());
    if (item < 0) return -1;
    emit({.kind = Kind::kSetAttr,
          .target = action,
          .object = Ref::borrow(names().grad),
          .items = {item}});
  }
  PyObject** dict = _PyObject_GetDictPtr(object);
  return !dict || !*dict || attribute_dict(action, *dict) ? action : -1;
}

bool RecipeBuilder::values(PyObject* sequence, std::vector<int>& items) {
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i) {
    int item = value(PySequence_Fast_GET_ITEM(sequence, i));
    if (item < 0) return false;
    items.push_back(item);
  }
  return true;
}

int RecipeBuilder::tuple(PyObject* object) {
  std::vector<int> items;
  if (!values(object, items)) return -1;
  bool exact = PyTuple_CheckExact(object);
  if (auto* cls = reinterpret_cast<PyObject*>(Py_TYPE(object)); world_.made_function(cls)) {
    if (!maker_of_class(trace_, cls)) return refuse(object, "its class was made by the trace");
    static PyObject* const make =
        PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyTuple_Type), "__new__");
    const int made = value(cls), function = constant(make);
    if (made < 0) return -1;
    const int packed = emit({.kind = Kind::kTuple, .items = std::move(items)});
    const int arguments = emit({.kind = Kind::kTuple, .items = {made, packed}});
    return emit({.kind = Kind::kGeneric, .items = {function, arguments}});
  }
  bool fixed = exact || Py_TYPE(object) == known().size;
  for (int item : items) fixed = fixed && is_constant(item);
  if (fixed) return emit({.kind = Kind::kConstant, .object = Ref::borrow(object)});
  if (exact) return emit({.kind = Kind::kTuple, .items = std::move(items)});
  int action = emit({.kind = Kind::kNewTuple,
                     .object = Ref::borrow(reinterpret_cast<PyObject*>(Py_TYPE(object))),
                     .items = std::move(items)});
  return attributes(action, object) ? action : -1;
}

int RecipeBuilder::text(PyObject* object) {
  const VaryingText& text = text_behind(trace_, object);
  const int function = constant(text_function(text.function));
  Action args{.kind = Kind::kTuple};
  for (const Tracked& arg : text.args) {
    args.items.push_back(value(arg));
    if (args.items.back() < 0) return -1;
  }
  const int packed = emit(std::move(args));
  return emit({.kind = Kind::kGeneric, .items = {function, packed}});
}

int RecipeBuilder::value(const Tracked& tracked) {
  if (tracked.unread) return emit({.kind = Kind::kOutside, .source = tracked.source});
  return value(tracked.get());
}

int RecipeBuilder::value(PyObject* given) {
  const Tracked tracked = world_.wrap(given);
  PyObject* object = tracked.get();
  const int known_action = index_[object];
  if (known_action > 0) return known_action - 1;
  if (known_action == kUnderWay) return refuse(object, "it holds itself");
  index_[object] = kUnderWay;
  const int action = make(tracked);
  index_[object] = action + 1;
  return action;
}

int RecipeBuilder::make(const Tracked& tracked) {
  PyObject* object = tracked.get();
  PyTypeObject* type = Py_TYPE(object);
  const bool made_here = world_.made_function(object);
  if (is_atom(object)) return constant(object);
  if (type == known().sym_int)
    return emit({.kind = Kind::kNumber, .number = trace_.recording.value_of(object)});
  if (type == known().sym_float) {
    outputs.push_back(world_.floats().of(object).tensor.get());
    return emit({.kind = Kind::kFloat, .index = static_cast<int>(outputs.size()) - 1});
  }
  if (type == known().text) return text(object);
  if (is_symbolic(object)) return refuse(object, "a symbolic bool");
  if (tracked.source) {
    const bool is_cell = PyCell_Check(object);
    if (is_cell && tracked.source->kind == SourceKind::kCell)
      return emit({.kind = Kind::kOutside,
                   .source = trace_.guards.source(SourceKind::kCellObject, tracked.source->base,
                                                  tracked.source->key.get())});
    if (is_cell && tracked.source->kind == SourceKind::kContents)
      return emit({.kind = Kind::kOutside, .source = tracked.source->base});
    return outside(object, tracked.source);
  }
  // What it holds would be there on the next call as well.
  if (is_lru_cache(object) && made_here) return refuse(object, "a cache that the traced code made");
  if (is_tensor(object)) return tensor(object);
  if (PyTuple_Check(object)) return tuple(object);
  if (PyFunction_Check(object) && made_here) return function(object);
  if (PyMethod_Check(object)) {
    const int f = value(PyMethod_GET_FUNCTION(object));
    const int self = f < 0 ? -1 : value(PyMethod_GET_SELF(object));
    return self < 0 ? -1 : emit({.kind = Kind::kMethod, .items = {f, self}});
  }
  if (PySlice_Check(object)) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    const int a = value(slice->start);
    const int b = a < 0 ? -1 : value(slice->stop);
    const int c = b < 0 ? -1 : value(slice->step);
    return c < 0 ? -1 : emit({.kind = Kind::kSlice, .items = {a, b, c}});
  }
  if (PyCell_Check(object)) return cell(object);
  if (PyCFunction_Check(object) && PyCFunction_GET_SELF(object) &&
      !PyModule_Check(PyCFunction_GET_SELF(object)) && !PyType_Check(PyCFunction_GET_SELF(object)))
    return refuse(object, "a bound method made in C");
  if (world_.made_module(object)) return refuse(object, "the traced code made it");
  if (PyType_Check(object) && made_here) {
    if (PyObject* maker = maker_of_class(trace_, object)) {
      const int function = constant(maker);
      return emit({.kind = Kind::kGeneric, .items = {function, emit({.kind = Kind::kTuple})}});
    }
    world_.breaks().raise(BreakKind::kClassStatement,
                          "a class that the traced code made would have to leave it");
    return -1;
  }
  if (world_.made_function(reinterpret_cast<PyObject*>(type)))
    return refuse(object, "its class was made by the trace");
  if (is_immutable(object) && type != &PyFrozenSet_Type && type != &PySuper_Type &&
      type != &PyDictProxy_Type)
    return constant(object);
  return is_plain_iterator(object) ? iterator(object) : instance(object);
}

int RecipeBuilder::cell(PyObject* object) {
  int action = emit({.kind = Kind::kNewCell});
  index_[object] = action + 1;
  if (PyObject* contents = PyCell_GET(object)) {
    int item = value(contents);
    if (item < 0) return -1;
    emit({.kind = Kind::kSetCell, .target = action, .items = {item}});
  }
  return action;
}

int RecipeBuilder::function(PyObject* object) {
  auto* f = reinterpret_cast<PyFunctionObject*>(object);
  std::vector<int> items{emit({.kind = Kind::kConstant, .object = Ref::borrow(f->func_globals)})};
  for (PyObject* part :
       {f->func_closure, f->func_defaults, f->func_kwdefaults, f->func_annotations, f->func_dict}) {
    if (part && !world_.source_of(part)) world_.mark_created(part);  // made with the function
    items.push_back(part && part != Py_None ? value(part) : -1);
    if (part && part != Py_None && items.back() < 0) return -1;
  }
  for (PyObject* part : {f->func_name, f->func_qualname, f->func_doc, f->func_module})
    items.push_back(part && is_atom(part) ? constant(part) : -1);
  return emit(
      {.kind = Kind::kFunction, .object = Ref::borrow(f->func_code), .items = std::move(items)});
}

// New instances of built-in containers and of classes written in Python.
int RecipeBuilder::instance(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyTypeObject* base = cpython::built_in_base(type);
  const Known& k = known();
  if (!world_.is_created(object))
    return refuse(object, "it is from outside and nobody knows where");
  if (PyExceptionInstance_Check(object)) return exception(object);
  if (type->tp_finalize) return refuse(object, "it has a finaliser");
  if (trace_.is_state_guard(object))
    return refuse(object, "it would put torch's state back to that of the capture");
  if (world_.made_function(reinterpret_cast<PyObject*>(type)))
    return refuse(object, "its class was made by the trace");
  auto* type_object = reinterpret_cast<PyObject*>(type);
  int action;
  if (base == k.defaultdict || base == k.deque) {
    if (type != base) return refuse(object, "a subclass");
    Ref argument =
        Ref::steal(PyObject_GetAttrString(object, base == k.deque ? "maxlen" : "default_factory"));
    int made_by = constant(type_object);
    int first = argument ? value(argument.get()) : -1;
    if (first < 0) return -1;
    Ref nothing = Ref::steal(PyTuple_New(0));
    std::vector<int> arguments;
    if (base == k.deque) arguments.push_back(constant(nothing.get()));
    arguments.push_back(first);
    int packed = emit({.kind = Kind::kTuple, .items = std::move(arguments)});
    action = emit({.kind = Kind::kGeneric, .items = {made_by, packed}});
  } else if (type == k.partial) {
    Ref reduced = Ref::steal(PyObject_CallMethodNoArgs(object, names().reduce));
    PyObject* state = reduced && PyTuple_GET_SIZE(reduced.get()) > 2
                          ? PyTuple_GET_ITEM(reduced.get(), 2)
                          : nullptr;
    if (!state || !PyTuple_Check(state) || PyTuple_GET_SIZE(state) < 3) return -1;
    if (PyObject* named = PyTuple_GET_ITEM(state, 2); !world_.source_of(named))
      world_.mark_created(named);
    world_.hold(reduced);
    std::vector<int> items;
    return values(reduced.get(), items) ? emit({.kind = Kind::kIterator, .items = std::move(items)})
                                        : -1;
  } else if (type == base && is_value_type(type)) {
    Ref reduced = Ref::steal(PyObject_CallMethodNoArgs(object, names().reduce));
    if (!reduced || !PyTuple_Check(reduced.get())) return -1;
    world_.hold(reduced);
    Ref two = Ref::steal(PyTuple_GetSlice(reduced.get(), 0, 2));
    std::vector<int> items;
    if (!two || !values(two.get(), items)) return -1;
    return emit({.kind = Kind::kGeneric, .items = std::move(items)});
  } else if (base == &PyFrozenSet_Type && type == base) {
    Ref list = Ref::steal(PySequence_List(object));
    Action fill{.kind = Kind::kSetFill};
    if (!list || !values(list.get(), fill.items) || !keep_layout(fill, object)) return -1;
    if (fill.object) {
      fill.target = emit({.kind = Kind::kNew, .object = Ref::borrow(type_object)});
      emit(std::move(fill));
      return static_cast<int>(recipe.actions.size()) - 2;
    }
    int packed = emit({.kind = Kind::kTuple, .items = std::move(fill.items)});
    int arguments = emit({.kind = Kind::kTuple, .items = {packed}});
    return emit({.kind = Kind::kGeneric, .items = {constant(type_object), arguments}});
  } else if (is_namespace(type)) {
    const int nothing = emit({.kind = Kind::kTuple});
    action = emit({.kind = Kind::kGeneric, .items = {constant(type_object), nothing}});
  } else if (base == &PyBaseObject_Type || base == &PyList_Type || base == &PyDict_Type ||
             base == &PySet_Type || base == k.ordered_dict) {
    action = emit({.kind = Kind::kNew, .object = Ref::borrow(type_object)});
  } else {
    return refuse(object, "its kind cannot be made again");
  }
  index_[object] = action + 1;
  return fill(action, object) && attributes(action, object) ? action : -1;
}

std::optional<std::vector<std::pair<PyObject*, PyObject*>>> dict_entries(PyObject* dict) {
  std::vector<std::pair<PyObject*, PyObject*>> entries;
  if (!PyObject_TypeCheck(dict, known().ordered_dict)) {
    Py_ssize_t position = 0;
    PyObject *key, *item;
    while (PyDict_Next(dict, &position, &key, &item)) entries.emplace_back(key, item);
    return entries;
  }
  const Ref keys = own_items(dict);
  for (Py_ssize_t i = 0; keys && i < PyList_GET_SIZE(keys.get()); ++i) {
    PyObject* key = PyList_GET_ITEM(keys.get(), i);
    PyObject* item = PyDict_GetItemWithError(dict, key);
    if (!item) return std::nullopt;
    entries.emplace_back(key, item);
  }
  if (!keys) return std::nullopt;
  return entries;
}

bool RecipeBuilder::fill(int target, PyObject* container) {
  Action action{.kind = Kind::kListFill, .target = target};
  if (PyList_Check(container)) {
    if (PyList_GET_SIZE(container) == 0) return true;
    if (!values(container, action.items)) return false;
  } else if (PyDict_Check(container)) {
    action.kind = Kind::kDictFill;
    const auto entries = dict_entries(container);
    if (!entries) return refuse(container, "its keys change") >= 0;
    if (entries->empty()) return true;
    for (const auto& [key, item] : *entries) {
      int k = value(key), v = k < 0 ? -1 : value(item);
      if (v < 0) return false;
      action.items.push_back(k);
      action.items.push_back(v);
    }
  } else if (PySet_Check(container) || PyObject_TypeCheck(container, known().deque)) {
    action.kind = PySet_Check(container) ? Kind::kSetFill : Kind::kDequeFill;
    Ref list = own_items(container);
    if (!list || !values(list.get(), action.items)) return false;
    if (action.items.empty()) return true;
    if (PySet_Check(container) && !keep_layout(action, container)) return false;
  } else {
    return true;
  }
  emit(std::move(action));
  return true;
}

// A set of constants is kept as it is: filled anew, it could give them in another order.
bool RecipeBuilder::keep_layout(Action& action, PyObject* set) {
  for (int item : action.items)
    if (!is_constant(item)) return true;
  action.object = Ref::steal(PySet_New(nullptr));
  return action.object && cpython::copy_set_layout(set, action.object.get());
}

bool RecipeBuilder::attribute_dict(int target, PyObject* dict) {
  Py_ssize_t position = 0;
  PyObject *key, *item;
  std::vector<std::pair<Ref, Ref>> entries;
  while (PyDict_Next(dict, &position, &key, &item))
    entries.emplace_back(Ref::borrow(key), Ref::borrow(item));
  for (auto& [name, v] : entries) {
    int action = value(v.get());
    if (action < 0) return false;
    emit({.kind = Kind::kSetAttr, .target = target, .object = name, .items = {action}});
  }
  return true;
}

// It has to be the `__dict__` itself that the object gets, not its items one by one: others have it
// too, or an item has the name of a slot.
bool RecipeBuilder::is_dict_of_its_own(PyObject* dict, PyObject* object) const {
  if (world_.source_of(dict) || dict == object || Py_REFCNT(dict) > 1) return false;
  Py_ssize_t position = 0;
  PyObject *name, *item;
  while (PyDict_Next(dict, &position, &name, &item)) {
    PyObject* found = _PyType_Lookup(Py_TYPE(object), name);
    if (found && Py_TYPE(found)->tp_descr_set) return false;
  }
  return true;
}

// The instance dict, which types made in C may have as well (OrderedDict), and the slots.
bool RecipeBuilder::attributes(int target, PyObject* object) {
  PyObject* dict = instance_dict(object);
  if (dict && !is_dict_of_its_own(dict, object)) {
    const int item = value(dict);
    if (item < 0) return false;
    emit({.kind = Kind::kSetAttr,
          .target = target,
          .object = Ref::borrow(names().dict),
          .items = {item}});
  } else if (dict && !attribute_dict(target, dict)) {
    return false;
  }
  PyObject* mro = Py_TYPE(object)->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    auto* cls = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (!is_python_class(cls) || !cls->tp_members) continue;
    Py_ssize_t position = 0;
    PyObject *name, *member;
    while (PyDict_Next(cls->tp_dict, &position, &name, &member)) {
      if (!Py_IS_TYPE(member, &PyMemberDescr_Type)) continue;
      if (PyUnicode_CompareWithASCIIString(name, "__weakref__") == 0) continue;
      Ref v = Ref::steal(PyObject_GetAttr(object, name));
      if (!v) {
        PyErr_Clear();
        continue;
      }
      int action = value(v.get());
      if (action < 0) return false;
      emit({.kind = Kind::kSetAttr,
            .target = target,
            .object = Ref::borrow(name),
            .items = {action}});
    }
  }
  return true;
}

}  // namespace braze::capture
