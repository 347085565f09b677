// Which objects have their attributes in which dict. Several may have one dict (`a.__dict__ =
// b.__dict__`), the program may have it as a dict of its own, and a dict may be its own `__dict__`.
// So the log has an attribute by its dict, whoever wrote it, and whoever reads looks there. Guards
// see to it that what shares a dict does so in each call, and nothing else.
#pragma once

#include <vector>

#include "base/identity_map.h"
#include "capture/world/write_log.h"

namespace braze::capture {

class World;

class DictOwners {
 public:
  explicit DictOwners(World& world) : world_(world) {}
  DictOwners(const DictOwners&) = delete;

  // The attributes of `owner`, from outside, lie in `dict`: guarded where the trace has the dict
  // from elsewhere as well. To be called where what is read of the dict was written.
  void note_owner(PyObject* dict, PyObject* owner);
  // The logged write of the item of a dict that may be an object's.
  const Write* written_item(PyObject* dict, PyObject* key);
  // An object from outside whose instance dict this is, if the evaluation knows of one; else null.
  PyObject* owner_of(PyObject* dict) const;
  // The same, where the item `key` is what its attribute is: no descriptor stands in front.
  PyObject* owner_of_item(PyObject* dict, PyObject* key) const;
  // The trace writes to the objects `written`: no other that it reads may come to have the dict of
  // one of them, or to be it.
  void guard_own(const std::vector<PyObject*>& written, std::vector<PyObject*> others);

 private:
  World& world_;
  IdentityMap<PyObject*> owners_;  // by dict; their objects are held
};

}  // namespace braze::capture
