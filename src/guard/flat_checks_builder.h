// Inside of guard/: makes the checks of a `FlatChecks` from what its nodes have just resolved to.
#pragma once

#include <array>
#include <unordered_map>

#include "guard/flat_checks.h"

namespace braze::guard {

class FlatChecksBuilder {
 public:
  explicit FlatChecksBuilder(FlatChecks& checks);

  // False: the identity of the root proves nothing, so there is nothing to build. What need not be
  // held any more goes to `dropped`.
  bool run(std::vector<cpython::Ref>& dropped);

 private:
  // Kinds of checks in the order in which a wave checks them.
  enum Kind : int { kNone = -1, kDict, kType, kPointer, kList };
  // When an object is vouched for: after the checks of that kind in that wave.
  struct Place {
    int wave = 0;
    int kind = kNone;
  };

  bool root_is_trusted();
  void add_checks(int index);
  void add_function(int index, PyFunctionObject* function);
  void add_instance(int index);
  void add_class(int index);
  void add_container(int index);
  Place add_dict(int index, PyObject* object, PyObject** slot, PyObject* dict);
  Place add_type(int index, Place after, PyTypeObject* type);
  Place add_pointer(int index, PyObject** address);
  void add_list(int index);
  void add_recheck(int index);

  // Where the children of a node stand, or that they are volatile.
  void place_children(int index);
  bool is_volatile(int parent, int child);
  bool proves_itself(const Node& child) const;
  bool needs_type_check(int index) const;

  Place after(Place place, Kind kind);
  void finish(std::vector<cpython::Ref>& dropped);

  Tree& tree() const { return *checks_.tree_; }
  Node& node(int index) const { return checks_.tree_->nodes[index]; }
  size_t local(int index) const { return static_cast<size_t>(index - checks_.range_.begin); }

  FlatChecks& checks_;
  std::vector<Place> places_;  // of each node's object
  // What the checks of the current node vouch for, by the kind of the child's source.
  std::array<Place, 32> provided_;
  struct TypePlace {
    Place place;
    size_t index;
  };
  std::unordered_map<PyTypeObject*, TypePlace> types_;
  PyObject* never_changed_;  // the dict of checks that are about a class alone
};

// Whether a reference may be kept to an object that the program itself (not a caller's argument)
// or CPython keeps: atoms, classes, modules, functions without closure, code.
bool may_hold(PyObject* object, bool is_static);

}  // namespace braze::guard
