// Reading of the world: attributes of classes, along their order of resolution.
#include "capture/known.h"
#include "capture/world/world.h"
#include "cpython/lookup.h"
#include "cpython/watch.h"

namespace braze::capture {

void World::rely_on_specials(PyTypeObject* type) {
  if (!cpython::is_changeable_class(type) || specials_.contains(type)) return;
  if (PyType_IsSubtype(type, known().tensor)) return;  // tensors are looked at by PyTorch alone
  specials_[type] = true;
  rely_on_specials(Py_TYPE(type));
  if (!created_.contains(type)) {
    const Source* s = guards_.source(SourceKind::kSpecialMethods, guards_.pinned(as_object(type)));
    guards_.add(GuardKind::kValue, s, cpython::special_methods(type).get());
    return;
  }
  for (Py_ssize_t i = 1; type->tp_mro && i < PyTuple_GET_SIZE(type->tp_mro); ++i)
    rely_on_specials(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i)));
}

PyObject* World::type_lookup(PyTypeObject* type, PyObject* name, const Source** found_at) {
  const size_t hash =
      (reinterpret_cast<size_t>(type) >> 4) * 31 + (reinterpret_cast<size_t>(name) >> 4);
  KnownLookup& known = lookups_[hash % kLookups];
  if (known.type == type && known.name == name &&
      known.version == cpython::current_type_version(type) && known.version != 0) {
    if (found_at) *found_at = known.found ? known.source : nullptr;
    return known.found;
  }
  if (found_at) *found_at = nullptr;
  if (!cpython::is_changeable_class(type)) return _PyType_Lookup(type, name);
  rely_on_specials(type);
  if (created_.contains(type)) return lookup_in_made(type, name, found_at);
  PyObject* found = _PyType_Lookup(type, name);
  const Source* s =
      guards_.source(SourceKind::kTypeAttribute, guards_.pinned(as_object(type)), name);
  if (s->key.get() == name) known = {type, name, cpython::current_type_version(type), found, s};
  guard_lookup(s, found);
  if (found_at && found) *found_at = s;
  return found;
}

// What the MRO has in front of a class, or has not, is the class's own business; from the first
// class from outside on, each says what it finds.
PyObject* World::lookup_in_made(PyTypeObject* type, PyObject* name, const Source** found_at) {
  PyObject* found = _PyType_Lookup(type, name);
  for (Py_ssize_t i = 0; type->tp_mro && i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    PyObject* own = base->tp_dict ? PyDict_GetItemWithError(base->tp_dict, name) : nullptr;
    if (cpython::is_changeable_class(base) && !created_.contains(base)) {
      const Source* s =
          guards_.source(SourceKind::kTypeAttribute, guards_.pinned(as_object(base)), name);
      guard_lookup(s, _PyType_Lookup(base, name));
      if (found_at && own) *found_at = s;
    }
    if (own) break;
  }
  return found;
}

void World::guard_lookup(const Source* source, PyObject* found) {
  if (!found) return guards_.add(GuardKind::kAbsent, source);
  guards_.add(GuardKind::kIdentity, source, found);
  // What it does as a descriptor.
  if (is_python_class(Py_TYPE(found))) rely_on_specials(Py_TYPE(found));
  if (PyFunction_Check(found) && !origin_.contains(found)) {
    origin_[found] = source;
    rely_on(reinterpret_cast<PyFunctionObject*>(found));
  }
}

}  // namespace braze::capture
