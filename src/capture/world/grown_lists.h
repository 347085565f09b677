// Plain lists and deques from outside that the traced code has appended to and of which it has read
// nothing, or of lists what it has appended: how long they are does not matter. Once something else
// is read, they get a shadow like others.
#pragma once

#include <vector>

#include "cpython/ref.h"

namespace braze::capture {

class World;

class GrownLists {
 public:
  struct Grown {
    cpython::Ref list;
    std::vector<cpython::Ref> items;  // what was appended, in order
  };
  const std::vector<Grown>& all() const { return grown_; }
  bool any() const { return !grown_.empty(); }
  bool contain(PyObject* list) const;
  // What a list of these has at that index, a negative one; null where it may not be among what was
  // appended. A deque may have let go of it.
  PyObject* item(PyObject* list, PyObject* index) const;
  // So far, whatever has become of the lists.
  size_t appended() const { return appended_; }
  // False: it has a shadow, came without a source, or is none of these.
  bool append(const World& world, PyObject* list, PyObject* item);
  // Makes the shadow of one of them; else a break, which the evaluation meets behind this
  // instruction.
  void read(World& world, PyObject* list) const;

  // For as long as the list gets its shadow it is as it was before; so it stays if that got the
  // items, else they are put back.
  class Taken {
   public:
    Taken(GrownLists& from, PyObject* list);
    ~Taken();
    Taken(const Taken&) = delete;
    // Appends the items to the shadow; false with an exception.
    bool append_to(PyObject* shadow);

   private:
    GrownLists& from_;
    Grown grown_;
  };

 private:
  std::vector<Grown> grown_;
  size_t appended_ = 0;
};

}  // namespace braze::capture
