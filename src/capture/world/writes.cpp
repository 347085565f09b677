// Writing of the world: what goes to the log, and the shadows that containers from outside get.
#include <algorithm>

#include "capture/known.h"
#include "capture/world/world.h"
#include "cpython/finaliser.h"
#include "cpython/set_layout.h"
#include "cpython/text.h"

namespace braze::capture {

namespace {

// An empty object of the class, made and filled without the class's own methods.
Ref copy_subclass(PyObject* original, PyTypeObject* base) {
  Ref none = Ref::steal(PyTuple_New(0));
  Ref copy = Ref::steal(base->tp_new(Py_TYPE(original), none.get(), nullptr));
  if (!copy) return {};
  if (Py_TYPE(original)->tp_finalize) cpython::skip_finaliser(copy.get());
  if (PyList_Check(original)) {
    Ref items = own_items(original);
    if (!items || PyList_SetSlice(copy.get(), 0, 0, items.get()) < 0) return {};
  } else if (PyAnySet_Check(original)) {
    if (!cpython::copy_set_layout(original, copy.get())) return {};
  } else if (base == known().ordered_dict) {
    Ref items =
        Ref::steal(PyObject_CallMethod(reinterpret_cast<PyObject*>(base), "items", "O", original));
    Ref list = items ? Ref::steal(PySequence_List(items.get())) : Ref();
    if (!list) return {};
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
      PyObject* pair = PyList_GET_ITEM(list.get(), i);
      Ref done = Ref::steal(PyObject_CallMethod(reinterpret_cast<PyObject*>(base), "__setitem__",
                                                "OOO", copy.get(), PyTuple_GET_ITEM(pair, 0),
                                                PyTuple_GET_ITEM(pair, 1)));
      if (!done) return {};
    }
  } else {
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(original, &position, &key, &value))
      if (PyDict_SetItem(copy.get(), key, value) < 0) return {};
  }
  return copy;
}

bool is_output_module(PyObject* name) {
  if (!name || !PyUnicode_Check(name)) return false;
  const std::string_view text = cpython::utf8_of(name);
  return text == "sys" || text == "warnings" || text == "logging" || text == "logging.handlers";
}

// The modules that write warnings, records and printed text, and loggers and what they consist of.
bool steers_output(PyObject* owner) {
  if (PyModule_Check(owner))
    return is_output_module(PyDict_GetItemWithError(PyModule_GetDict(owner), names().name));
  PyObject* mro = Py_TYPE(owner)->tp_mro;
  for (Py_ssize_t i = 0; mro && i < PyTuple_GET_SIZE(mro); ++i) {
    auto* type = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (is_python_class(type) &&
        is_output_module(PyDict_GetItemWithError(type->tp_dict, names().module)))
      return true;
  }
  return false;
}

}  // namespace

Ref copy_container(PyObject* original) {
  const Known& k = known();
  if (PyList_CheckExact(original)) return Ref::steal(PySequence_List(original));
  if (PyDict_CheckExact(original)) return Ref::steal(PyDict_Copy(original));
  if (is_type_of(original, k.ordered_dict) || is_type_of(original, k.deque) ||
      is_type_of(original, k.defaultdict) || is_type_of(original, &PyByteArray_Type))
    return Ref::steal(PyObject_CallMethodNoArgs(original, names().copy));
  if (PyObject_TypeCheck(original, k.ordered_dict)) return copy_subclass(original, k.ordered_dict);
  if (PyObject_TypeCheck(original, k.defaultdict)) return {};
  if (PyDict_Check(original)) return copy_subclass(original, &PyDict_Type);
  if (PyList_Check(original)) return copy_subclass(original, &PyList_Type);
  if (PySet_Check(original)) return copy_subclass(original, &PySet_Type);
  return {};
}

// --- Writing ------------------------------------------------------------------------------------

bool World::write_attribute(PyObject* owner, PyObject* name, PyObject* value, bool is_slot) {
  if (!PyUnicode_CheckExact(name))
    return breaks_.refuse(BreakKind::kSideEffect, "an attribute whose name is not a plain string");
  if (has_output_ && steers_output(owner))
    return breaks_.refuse(BreakKind::kOutput, "what becomes of earlier output is changed");
  ++write_count_;
  if (is_slot) {
    log_.write(Write::Kind::kSlot, owner, owner, name, value);
    return true;
  }
  PyObject* dict = instance_dict(owner);
  if (!dict)
    return breaks_.refuse(BreakKind::kSideEffect, std::string("an attribute of a '") +
                                                      Py_TYPE(owner)->tp_name + "' object is set");
  dicts_.note_owner(dict, owner);
  if (const Ref* shadow = shadows_.find(dict)) {
    if (value) return PyDict_SetItem(shadow->get(), name, value) == 0;
    return PyDict_DelItem(shadow->get(), name) == 0;
  }
  // Set again after its deletion: it goes to the end of the instance dict.
  if (const Write* write = log_.written(dict, name); value && write && !write->value)
    log_.forget(dict, name);
  log_.write(Write::Kind::kAttribute, owner, dict, name, value);
  return true;
}

bool World::write_global(PyFunctionObject* function, PyObject* name, PyObject* value) {
  ++write_count_;
  if (const Ref* shadow = shadows_.find(function->func_globals)) {
    if (value) return PyDict_SetItem(shadow->get(), name, value) == 0;
    return PyDict_DelItem(shadow->get(), name) == 0;
  }
  log_.write(Write::Kind::kGlobal, reinterpret_cast<PyObject*>(function), function->func_globals,
             name, value);
  return true;
}

void World::write_cell(PyObject* cell, PyObject* value) {
  ++write_count_;
  log_.write(Write::Kind::kCell, cell, cell, nullptr, value);
}

PyObject* World::shadow(PyObject* container) {
  ++write_count_;
  if (const Ref* made = shadows_.find(container)) return made->get();
  // What it was before is read now: nothing outside has changed since.
  GrownLists::Taken taken(grown, container);
  if (!source_of(container))
    return breaks_.raise(BreakKind::kSideEffect, std::string("a change of a '") +
                                                     Py_TYPE(container)->tp_name +
                                                     "' object that native code gave");
  if (PyDict_CheckExact(container) && PyDict_GetItemString(container, "__builtins__"))
    return breaks_.raise(BreakKind::kSideEffect, "a module's globals are used as a dict");
  std::vector<std::pair<Ref, Ref>> symbols;
  if (!read_all(container, &symbols)) return nullptr;
  Ref copy = copy_container(container);
  if (!copy) {
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) return nullptr;
    PyErr_Clear();
    return breaks_.raise(
        BreakKind::kSideEffect,
        std::string("a change of a '") + Py_TYPE(container)->tp_name + "' object from outside");
  }
  for (const auto& [key, symbol] : symbols)
    if (PyObject_SetItem(copy.get(), key.get(), symbol.get()) < 0) return nullptr;
  Ref before = symbols.empty() ? Ref::borrow(container) : copy_container(copy.get());
  if (!before) return nullptr;
  if (!log_.move_into(copy.get(), container)) return nullptr;
  PyObject* result = copy.get();
  hold(Ref::borrow(container));
  originals_[result] = container;
  shadow_list_.push_back({Ref::borrow(container), copy, std::move(before)});
  shadows_[container] = std::move(copy);
  return taken.append_to(result) ? result : nullptr;
}

PyObject* shadow_to_read(World& world, PyObject* container) {
  ++world.only_read;
  return world.shadow(container);
}

bool World::has_pending_changes() const {
  auto same_items = [](PyObject* a, PyObject* b) {
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(a);
    if (count != PySequence_Fast_GET_SIZE(b)) return false;
    return std::equal(PySequence_Fast_ITEMS(a), PySequence_Fast_ITEMS(a) + count,
                      PySequence_Fast_ITEMS(b));
  };
  auto same_entries = [](PyObject* a, PyObject* b) {
    if (PyDict_GET_SIZE(a) != PyDict_GET_SIZE(b)) return false;
    Py_ssize_t i = 0, j = 0;
    PyObject *key, *value, *other_key, *other;
    while (PyDict_Next(a, &i, &key, &value) && PyDict_Next(b, &j, &other_key, &other))
      if (key != other_key || value != other) return false;
    return true;
  };
  auto changed = [&](const Shadow& shadow) {
    PyObject *a = shadow.before.get(), *b = shadow.copy.get();
    if (PyList_CheckExact(a) && PyList_CheckExact(b)) return !same_items(a, b);
    if (PyDict_CheckExact(a) && PyDict_CheckExact(b)) return !same_entries(a, b);
    return true;
  };
  return !log_.empty() || grown.any() ||
         std::any_of(shadow_list_.begin(), shadow_list_.end(), changed);
}

}  // namespace braze::capture
