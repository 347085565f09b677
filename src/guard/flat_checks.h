// Inside of guard/: one range of the tree as a flat list of checks, each of which an unchanged
// model passes in a few loads.
//
// A check says that the container of some nodes is as it was: an instance with its class and dict,
// a dict with its version tag, a class with its version, a pointer in a function or cell, a list
// with its items. What a node resolved to is not kept alive as a rule (the user's objects must be
// free to die); its memory may be read because the check of its container was checked before:
// checks stand in *waves*, in each first the dicts, then classes, pointers, lists, each array in
// the tree's preorder, and a check comes later than the one that vouches for its own object.
//
// Equal pointers alone prove nothing where an object may have died and another taken its place.
// Version tags are unique, so an unchanged dict vouches for what it holds. Lists and cells have
// none: what they hold is either kept alive (atoms, classes, code), or has a check of its own, or
// is *volatile*: read again and checked on every call, as are the results of C descriptors.
#pragma once

#include "guard/tree.h"

namespace braze::guard {

struct DictCheck {
  PyObject* object;
  PyTypeObject* type;
  PyObject** slot;  // where `object` keeps the dict; null while building: the dict is `object`
  PyObject* dict;
  uint64_t version;
  int node;
};
struct TypeCheck {
  PyTypeObject* type;
  unsigned version;
  std::vector<int> nodes;  // whose children were found by this class
};
struct PointerCheck {
  PyObject** address;
  cpython::Ref expected;
  int node;
};
struct ListCheck {
  PyObject* list;
  PyTypeObject* type;
  Py_ssize_t length;  // -1: not relied on
  int node;
};

class FlatChecks {
 public:
  FlatChecks(Tree& tree, Range range) : tree_(&tree), range_(range) {}

  const Range& range() const { return range_; }
  bool is_single() const { return range_.end - range_.begin == 1; }

  // Whether the range's guards (tensors apart) hold. The nodes' objects are then up to date.
  bool check(PyObject* function, PyObject* const* args, std::vector<cpython::Ref>& dropped);
  // The same without checks, for a function that may not come again.
  bool check_afresh(PyObject* function, PyObject* const* args, std::vector<cpython::Ref>& dropped) {
    return range_.begin == range_.end || read_again(function, args, false, dropped);
  }

 private:
  enum class Outcome { kHolds, kFails, kReadAgain };
  struct Wave {
    std::vector<DictCheck> dicts;
    std::vector<TypeCheck> types;
    std::vector<PointerCheck> pointers;
    std::vector<ListCheck> lists;
  };
  friend class FlatChecksBuilder;

  bool read_again(PyObject* function, PyObject* const* args, bool build,
                  std::vector<cpython::Ref>& dropped);
  void release(std::vector<cpython::Ref>& dropped);
  Outcome check_waves(std::vector<cpython::Ref>& dropped);
  Outcome check_dicts(std::vector<DictCheck>& checks, std::vector<cpython::Ref>& dropped);
  Outcome check_lists(const std::vector<ListCheck>& checks, std::vector<cpython::Ref>& dropped);
  Outcome check_pointers(std::vector<PointerCheck>& checks, std::vector<cpython::Ref>& dropped);
  Outcome check_types(std::vector<TypeCheck>& checks, std::vector<cpython::Ref>& dropped);
  bool check_volatile(PyObject* function, PyObject* const* args,
                      std::vector<cpython::Ref>& dropped);
  // The container of the node's children has changed: looks at them again.
  Outcome repair(int node, std::vector<cpython::Ref>& dropped);
  Outcome repair_child(int child, PyObject* object, std::vector<cpython::Ref>& dropped);

  Tree* tree_;
  Range range_;
  bool built_ = false;
  bool passed_ = true;        // since it was built, or never built
  PyObject* root_ = nullptr;  // the argument that the checks are about; only to compare with
  std::vector<Wave> waves_;
  std::vector<int> volatile_;       // roots of the subtrees that are read on every call
  std::vector<int> recheck_;        // nodes whose guards are checked on every call
  std::vector<uint8_t> validated_;  // by node: has a check that proves its own object
  std::vector<uint8_t> has_check_;
  std::vector<uint8_t> is_volatile_;  // roots of volatile subtrees
  std::vector<cpython::Ref> fresh_;
};

}  // namespace braze::guard
