// The log of writes to attributes, globals and cells of objects that existed before the trace.
// Reads look there before they look at the object.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "base/identity_map.h"
#include "cpython/ref.h"

namespace braze::capture {

using cpython::Ref;

// A logged write to an object from outside. An empty value: deleted.
struct Write {
  enum class Kind : uint8_t { kAttribute, kSlot, kGlobal, kCell } kind;
  Ref owner;  // object, function whose globals are meant, cell
  Ref name;
  Ref value;
  Ref home;  // what it lies in: the dict of attributes and globals; the owner of slots and cells
};

class WriteLog {
 public:
  const std::vector<Write>& writes() const { return log_; }
  bool empty() const { return log_.empty(); }
  // Grows whenever a write is logged.
  size_t count() const { return count_; }
  // Nothing of it is in the log, and nothing was.
  bool is_unwritten(PyObject* home) const { return !written_homes_.contains(home); }
  // The logged write of an attribute or global (home: the dict that it lies in) or cell (name:
  // null).
  const Write* written(PyObject* home, PyObject* name) const {
    return is_unwritten(home) ? nullptr : find({home, name, false});
  }
  const Write* written_slot(PyObject* owner, PyObject* name) const {
    return has_slots_ ? find({owner, name, true}) : nullptr;
  }

  // An empty value: deleted.
  void write(Write::Kind kind, PyObject* owner, PyObject* home, PyObject* name, PyObject* value);
  // The next write of it goes behind the others.
  void forget(PyObject* home, PyObject* name);
  // Moves what lies in `dict` into its copy; the dict counts as written from then on.
  bool move_into(PyObject* dict_copy, PyObject* dict);

 private:
  // An object with slots may be a dict that attributes lie in.
  struct Place {
    PyObject *home, *name;
    bool is_slot;
    friend bool operator==(const Place&, const Place&) = default;
  };
  struct PlaceHash {
    size_t operator()(const Place& p) const {
      return (reinterpret_cast<size_t>(p.home) >> 4) * 1000003u ^
             (reinterpret_cast<size_t>(p.name) >> 4);
    }
  };
  const Write* find(Place place) const;
  void note(PyObject* home);

  std::unordered_map<Place, size_t, PlaceHash> index_;
  std::vector<Write> log_;
  IdentityMap<bool> written_homes_;  // of entries of the log, now or before, held
  bool has_slots_ = false;
  std::vector<Ref> held_;
  size_t count_ = 0;
};

}  // namespace braze::capture
