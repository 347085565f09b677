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
  enum class Kind : uint8_t { kAttribute, kGlobal, kCell } kind;
  Ref owner;  // object, function whose globals are meant, cell
  Ref name;
  Ref value;
};

class WriteLog {
 public:
  const std::vector<Write>& writes() const { return log_; }
  bool empty() const { return log_.empty(); }
  // Grows whenever a write is logged.
  size_t count() const { return count_; }
  // Nothing of it is in the log.
  bool is_unwritten(PyObject* owner) const { return !written_owners_.contains(owner); }
  // The logged write of an attribute, global (owner: the globals dict) or cell (name: null).
  const Write* written(PyObject* owner, PyObject* name) const;
  bool has_attributes_of(PyObject* owner) const;

  // `key_owner`: what `written` knows it by. An empty value: deleted.
  void write(Write::Kind kind, PyObject* owner, PyObject* key_owner, PyObject* name,
             PyObject* value);
  // The next write of it goes behind the others.
  void forget(PyObject* key_owner, PyObject* name);
  // Moves the attributes of `owner` into the copy of its instance dict.
  bool move_into(PyObject* dict_copy, PyObject* owner);

 private:
  struct PairHash {
    size_t operator()(const std::pair<PyObject*, PyObject*>& p) const {
      return (reinterpret_cast<size_t>(p.first) >> 4) * 1000003u ^
             (reinterpret_cast<size_t>(p.second) >> 4);
    }
  };
  std::unordered_map<std::pair<PyObject*, PyObject*>, size_t, PairHash> index_;
  std::vector<Write> log_;
  IdentityMap<bool> written_owners_;  // of entries of the log, now or before
  std::vector<Ref> held_;
  size_t count_ = 0;
};

}  // namespace braze::capture
