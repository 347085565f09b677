#include "guard/flat_checks_builder.h"

#include <structmember.h>

#include "cpython/lookup.h"
#include "cpython/watch.h"
#include "guard/resolve.h"
#include "guard/value.h"

namespace braze::guard {

using cpython::is_heap_type;
using cpython::Ref;

namespace {

// A field of a C struct that Python code cannot set (`__func__` of a staticmethod).
bool is_constant_member(PyObject* descriptor) {
  if (Py_TYPE(descriptor) != &PyMemberDescr_Type) return false;
  auto member = reinterpret_cast<PyMemberDescrObject*>(descriptor);
  return (member->d_member->flags & READONLY) != 0 && !is_heap_type(PyDescr_TYPE(descriptor));
}

bool is_c_descriptor(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type ||
         type == &PyGetSetDescr_Type || type == &PyMemberDescr_Type ||
         type == &PyClassMethodDescr_Type;
}

PyObject* unchanging_dict() {
  static PyObject* const dict = PyDict_New();
  return dict;
}

PyTypeObject* as_type(PyObject* object) { return reinterpret_cast<PyTypeObject*>(object); }

bool has_no_version(const PyTypeObject* type) { return cpython::current_type_version(type) == 0; }

// What the class has for `name`, if it goes before the instance dict. Borrowed.
PyObject* data_descriptor(PyObject* object, PyObject* name) {
  PyObject* found = cpython::type_lookup(Py_TYPE(object), name);
  return found != nullptr && Py_TYPE(found)->tp_descr_set != nullptr ? found : nullptr;
}

size_t kind_index(SourceKind kind) { return static_cast<size_t>(kind); }

}  // namespace

bool may_hold(PyObject* object, bool is_static) {
  if (is_atom(object) || PyType_Check(object) || PyModule_Check(object) || PyCode_Check(object) ||
      is_c_descriptor(object))
    return true;
  if (PyCFunction_Check(object)) {
    PyObject* self = PyCFunction_GET_SELF(object);
    return self == nullptr || PyModule_Check(self) || PyType_Check(self);
  }
  if (PyFunctionObject* function = cpython::as_function(object))
    return is_static || function->func_closure == nullptr;
  return is_static &&
         (Py_TYPE(object) == &PyStaticMethod_Type || Py_TYPE(object) == &PyClassMethod_Type ||
          Py_TYPE(object) == &PyProperty_Type);
}

FlatChecksBuilder::FlatChecksBuilder(FlatChecks& checks)
    : checks_(checks), never_changed_(unchanging_dict()) {}

bool FlatChecksBuilder::run(std::vector<Ref>& dropped) {
  const Range& range = checks_.range_;
  const auto count = static_cast<size_t>(range.end - range.begin);
  checks_.waves_.clear();
  checks_.volatile_.clear();
  checks_.recheck_.clear();
  checks_.validated_.assign(count, 0);
  checks_.has_check_.assign(count, 0);
  checks_.is_volatile_.assign(count, 0);
  places_.assign(count, {});
  if (range.argument >= 0 && !root_is_trusted()) return false;
  for (int index = range.begin; index < range.end;) {
    if (checks_.is_volatile_[local(index)] || node(index).source->kind == SourceKind::kNative) {
      checks_.is_volatile_[local(index)] = 1;
      checks_.volatile_.push_back(index);
      index = node(index).end;
      continue;
    }
    if (node(index).object != nullptr) {
      provided_.fill(places_[local(index)]);
      add_checks(index);
      place_children(index);
    }
    ++index;
  }
  finish(dropped);
  return true;
}

// The checks of an argument are of use for the next call only if they can tell it from another
// object at the same address: by the unique version of its dict. Those of a function would keep
// what it closes over alive.
bool FlatChecksBuilder::root_is_trusted() {
  PyObject* root = node(checks_.range_.begin).object;
  if (root == nullptr || PyFunction_Check(root)) return false;
  if (PyDict_Check(root)) {
    add_dict(checks_.range_.begin, root, nullptr, root);
    return true;
  }
  PyObject** slot = cpython::observable_dict_slot(root);
  if (slot == nullptr) return false;
  add_dict(checks_.range_.begin, root, slot, *slot);
  return true;
}

void FlatChecksBuilder::add_checks(int index) {
  const Node& n = node(index);
  PyObject* object = n.object;
  if (PyFunctionObject* function = cpython::as_function(object)) add_function(index, function);
  if (PyType_Check(object))
    add_class(index);
  else if (n.has_child(SourceKind::kAttribute) || n.has_child(SourceKind::kInstanceDict))
    add_instance(index);
  else if (n.has_child(SourceKind::kType) || needs_type_check(index))
    provided_[kind_index(SourceKind::kType)] = add_dict(index, object, nullptr, never_changed_);
  add_container(index);
  add_recheck(index);
}

void FlatChecksBuilder::add_function(int index, PyFunctionObject* function) {
  const Node& n = node(index);
  const auto provide = [&](SourceKind kind, Place place) { provided_[kind_index(kind)] = place; };
  if (n.has_child(SourceKind::kGlobal))
    provide(SourceKind::kGlobal,
            add_dict(index, n.object, &function->func_globals, function->func_globals));
  if (n.has_child(SourceKind::kBuiltin))
    provide(SourceKind::kBuiltin,
            add_dict(index, n.object, &function->func_builtins, function->func_builtins));
  if (n.has_child(SourceKind::kDefault))
    provide(SourceKind::kDefault, add_pointer(index, &function->func_defaults));
  if (n.has_child(SourceKind::kCode))
    provide(SourceKind::kCode, add_pointer(index, &function->func_code));
  if (n.has_child(SourceKind::kKwDefault)) {
    PyObject* dict = function->func_kwdefaults;
    provide(SourceKind::kKwDefault,
            dict != nullptr ? add_dict(index, n.object, &function->func_kwdefaults, dict)
                            : add_pointer(index, &function->func_kwdefaults));
  }
  for (int child : tree().children_of(index)) {
    if (node(child).source->kind != SourceKind::kCell) continue;
    PyObject* cell =
        cpython::closure_cell(function, PyLong_AsSsize_t(node(child).source->key.get()));
    if (cell != nullptr)
      provide(SourceKind::kCell,
              add_pointer(index, &reinterpret_cast<PyCellObject*>(cell)->ob_ref));
  }
}

void FlatChecksBuilder::add_class(int index) {
  const Node& n = node(index);
  const Place place = places_[local(index)];
  auto type = reinterpret_cast<PyTypeObject*>(n.object);
  if (n.has_child(SourceKind::kTypeAttribute) || n.has_child(SourceKind::kSpecialMethods) ||
      n.has_child(SourceKind::kAttribute)) {
    const Place found = add_type(index, place, type);
    provided_[kind_index(SourceKind::kSpecialMethods)] = found;
    provided_[kind_index(SourceKind::kTypeAttribute)] = found;
    provided_[kind_index(SourceKind::kAttribute)] = found;
  }
  if (n.has_child(SourceKind::kType) || n.has_child(SourceKind::kAttribute) ||
      needs_type_check(index)) {
    const Place metaclass = add_dict(index, n.object, nullptr, never_changed_);
    provided_[kind_index(SourceKind::kType)] = metaclass;
    if (n.has_child(SourceKind::kAttribute)) add_type(index, metaclass, Py_TYPE(n.object));
  }
}

void FlatChecksBuilder::add_instance(int index) {
  const Node& n = node(index);
  PyObject** slot = cpython::observable_dict_slot(n.object);
  const Place place = slot != nullptr ? add_dict(index, n.object, slot, *slot)
                                      : add_dict(index, n.object, nullptr, never_changed_);
  provided_[kind_index(SourceKind::kInstanceDict)] = place;
  provided_[kind_index(SourceKind::kType)] = place;
  provided_[kind_index(SourceKind::kAttribute)] = place;
  // The class says whether a name is an attribute of the instance at all.
  if (n.has_child(SourceKind::kAttribute)) add_type(index, place, Py_TYPE(n.object));
}

void FlatChecksBuilder::add_container(int index) {
  const Node& n = node(index);
  const bool items = n.has_child(SourceKind::kItem), length = n.has_guard(GuardKind::kLength);
  if (PyDict_Check(n.object) && (items || length || n.has_guard(GuardKind::kKeys)))
    provided_[kind_index(SourceKind::kItem)] = add_dict(index, n.object, nullptr, n.object);
  else if (PyList_Check(n.object) && (items || length))
    add_list(index);
}

FlatChecksBuilder::Place FlatChecksBuilder::after(Place place, Kind kind) {
  const Place result{place.wave + (kind < place.kind ? 1 : 0), kind};
  if (static_cast<size_t>(result.wave) >= checks_.waves_.size())
    checks_.waves_.resize(result.wave + 1);
  return result;
}

FlatChecksBuilder::Place FlatChecksBuilder::add_dict(int index, PyObject* object, PyObject** slot,
                                                     PyObject* dict) {
  const Place place = after(places_[local(index)], kDict);
  checks_.waves_[place.wave].dicts.push_back(
      {object, Py_TYPE(object), slot, dict, cpython::dict_version(dict), index});
  checks_.has_check_[local(index)] = 1;
  if (dict != never_changed_ && !PyFunction_Check(object)) checks_.validated_[local(index)] = 1;
  return place;
}

FlatChecksBuilder::Place FlatChecksBuilder::add_type(int index, Place base, PyTypeObject* type) {
  checks_.has_check_[local(index)] = 1;
  if (auto known = types_.find(type); known != types_.end()) {
    const TypePlace& entry = known->second;
    checks_.waves_[entry.place.wave].types[entry.index].nodes.push_back(index);
    return entry.place;
  }
  const Place place = after(base, kType);
  auto& checks = checks_.waves_[place.wave].types;
  types_.emplace(type, TypePlace{place, checks.size()});
  checks.push_back({type, cpython::type_version(type), {index}});
  return place;
}

FlatChecksBuilder::Place FlatChecksBuilder::add_pointer(int index, PyObject** address) {
  const Place place = after(places_[local(index)], kPointer);
  checks_.waves_[place.wave].pointers.push_back({address, Ref::borrow(*address), index});
  checks_.has_check_[local(index)] = 1;
  return place;
}

void FlatChecksBuilder::add_list(int index) {
  const Node& n = node(index);
  const Place place = after(places_[local(index)], kList);
  const Py_ssize_t length =
      n.has_guard(GuardKind::kLength) ? PyList_GET_SIZE(n.object) : Py_ssize_t{-1};
  checks_.waves_[place.wave].lists.push_back({n.object, Py_TYPE(n.object), length, index});
  checks_.has_check_[local(index)] = 1;
  checks_.validated_[local(index)] = 1;
  provided_[kind_index(SourceKind::kItem)] = place;
}

void FlatChecksBuilder::add_recheck(int index) {
  const Node& n = node(index);
  const bool length = n.has_guard(GuardKind::kLength);
  const bool unversioned = length && (PyAnySet_Check(n.object) || is_deque(n.object));
  // An OrderedDict keeps its order beside the dict.
  const bool order = n.has_guard(GuardKind::kKeys) && PyODict_Check(n.object);
  if (n.has_guard(GuardKind::kSetValue) || unversioned || order) checks_.recheck_.push_back(index);
}

// An object's class can be assigned where it is a class statement's, or a module's. What a list or
// cell holds may be another object at the same address.
bool FlatChecksBuilder::needs_type_check(int index) const {
  const Node& n = node(index);
  if (!n.has_guard(GuardKind::kType)) return false;
  const PyTypeObject* type = Py_TYPE(n.object);
  return is_heap_type(type) || PyModule_Check(n.object) || places_[local(index)].kind >= kPointer;
}

void FlatChecksBuilder::place_children(int index) {
  for (int child : tree().children_of(index)) {
    places_[local(child)] = provided_[kind_index(node(child).source->kind)];
    if (is_volatile(index, child)) checks_.is_volatile_[local(child)] = 1;
  }
}

bool FlatChecksBuilder::is_volatile(int parent, int index) {
  const Node& child = node(index);
  PyObject* container = node(parent).object;
  if (child.has_child(SourceKind::kComputed)) return true;  // a number that varies
  switch (child.source->kind) {
    case SourceKind::kAttribute:
      if (cpython::is_partial(container)) return true;  // __setstate__ may give it other parts
      if (has_no_version(Py_TYPE(container))) return true;
      if (PyType_Check(container) && has_no_version(as_type(container))) return true;
      if (PyObject* descriptor = data_descriptor(container, child.source->key.get())) {
        if (!is_constant_member(descriptor)) return true;
        places_[local(index)] = places_[local(parent)];
      }
      break;
    case SourceKind::kTypeAttribute:
    case SourceKind::kSpecialMethods:
      if (PyType_Check(container) && has_no_version(as_type(container))) return true;
      break;
    case SourceKind::kInstanceDict:
      if (cpython::is_partial(container)) return true;
      break;
    case SourceKind::kItem:
      if (is_deque(container)) return true;
      break;
    case SourceKind::kComputed:
      return true;
    default:
      break;
  }
  if (child.object == nullptr || child.is_leaf()) return false;
  const bool held = may_hold(child.object, checks_.range_.argument < 0);
  // The checks of a function keep what it refers to.
  if (PyFunction_Check(child.object)) return !held;
  // Without a unique check to vouch for it, an object must be held or prove itself.
  return places_[local(index)].kind >= kPointer && !held && !proves_itself(child);
}

bool FlatChecksBuilder::proves_itself(const Node& child) const {
  if (PyDict_Check(child.object) || PyList_Check(child.object))
    return child.has_child(SourceKind::kItem);
  if (PyType_Check(child.object) || PyFunction_Check(child.object)) return false;
  return (child.has_child(SourceKind::kAttribute) || child.has_child(SourceKind::kInstanceDict)) &&
         cpython::observable_dict_slot(child.object) != nullptr;
}

void FlatChecksBuilder::finish(std::vector<Ref>& dropped) {
  for (auto& wave : checks_.waves_)
    for (DictCheck& check : wave.dicts)
      if (check.slot == nullptr) check.slot = &check.dict;
  const Range& range = checks_.range_;
  for (int index = range.begin; index < range.end;) {
    if (checks_.is_volatile_[local(index)]) {
      index = node(index).end;
      continue;
    }
    Node& n = node(index++);
    if (n.held && !may_hold(n.held.get(), range.argument < 0)) dropped.push_back(std::move(n.held));
  }
}

}  // namespace braze::guard
