#include "capture/world/dict_owners.h"

#include <algorithm>

#include "capture/recording/recording.h"
#include "capture/world/world.h"
#include "cpython/lookup.h"

namespace braze::capture {

PyObject* DictOwners::owner_of(PyObject* dict) const {
  PyObject* const* owner = owners_.find(dict);
  return owner ? *owner : nullptr;
}

PyObject* DictOwners::owner_of_item(PyObject* dict, PyObject* key) const {
  PyObject* owner = owner_of(dict);
  if (!owner || !PyUnicode_CheckExact(key)) return nullptr;
  PyObject* descriptor = _PyType_Lookup(Py_TYPE(owner), key);
  return descriptor && Py_TYPE(descriptor)->tp_descr_set ? nullptr : owner;
}

void DictOwners::note_owner(PyObject* dict, PyObject* owner) {
  if (world_.made_module(owner)) return;
  const Source* source =
      PyModule_Check(owner) ? world_.guards().pinned(owner) : world_.source_of(owner);
  if (!source) return;
  PyObject*& first = owners_[dict];
  const bool is_first = !first;
  if (is_first) first = owner;
  const Source* at = world_.guards().source(SourceKind::kInstanceDict, source);
  if (world_.source_of(dict)) {
    world_.read(dict, at);
  } else if (first != owner) {
    const Source* other =
        PyModule_Check(first) ? world_.guards().pinned(first) : world_.source_of(first);
    world_.read(dict, world_.guards().source(SourceKind::kInstanceDict, other));
    world_.read(dict, at);
  } else if (is_first && !world_.log().is_unwritten(dict)) {
    world_.guards().add(GuardKind::kIdentity, at, dict);  // the globals of a function
  }
}

void DictOwners::guard_own(const std::vector<PyObject*>& written, std::vector<PyObject*> others) {
  std::vector<const Source*> group;
  IdentityMap<PyObject*> seen;  // dict -> the first that has it
  const auto add = [&](PyObject* object) {
    const Source* source = world_.source_of(object);
    if (!source || is_immutable(object) || PyCell_Check(object) || is_tensor(object)) return;
    PyObject* dict = cpython::existing_dict(object);
    PyObject* itself = PyDict_Check(object) ? object : nullptr;
    if (!dict) dict = itself;
    if (!dict) return;
    if (PyObject* const* other = seen.find(dict)) {
      if (*other != object) note_owner(dict, dict != object ? object : *other);
      return;
    }
    if (itself && dict != itself &&
        std::find(written.begin(), written.end(), object) != written.end())
      world_.guards().add(GuardKind::kNotSameObject,
                          world_.guards().source(SourceKind::kInstanceDict, source), nullptr,
                          source);
    seen[dict] = object;
    if (itself) seen[itself] = object;
    group.push_back(source);
  };
  for (PyObject* object : written) add(object);
  const size_t count = group.size();
  if (count == 0) return;
  for (PyObject* object : others) add(object);
  if (group.size() < 2) return;
  world_.guards().add({.kind = GuardKind::kOwnDict,
                       .source = group.front(),
                       .expected = Ref(),
                       .details = std::make_unique<guard::GuardDetails>(
                           guard::GuardDetails{.group = std::move(group), .written = count})});
}

const Write* DictOwners::written_item(PyObject* dict, PyObject* key) {
  if (world_.log().is_unwritten(dict)) return nullptr;
  if (PyObject* owner = owner_of(dict)) note_owner(dict, owner);
  return world_.log().written(dict, key);
}

}  // namespace braze::capture
