// Calls of Python code that works on Python's own objects, such as the step of a scheduler of
// learning rates. They are made when the compiled code has run, so that the counters and rates
// which they work on are neither guarded nor compiled into it, and may look at its tensors.
//
// From there on the traced code may neither read what such a call changes nor change what it reads.
// The first instruction that would is a break, behind which the call has been made.
#pragma once

#include <vector>

#include "base/identity_map.h"
#include "capture/frames/frame.h"

namespace braze::capture {

struct TraceContext;

class LateCalls {
 public:
  bool any() const { return !reached_.empty(); }
  // `names`: a tuple of the keys or attributes in question, None for all. `changed`: not only read.
  void add(PyObject* object, PyObject* names, bool changed);
  // Objects that the calls change.
  const std::vector<Ref>& changed() const { return changed_; }

  bool may_read(PyObject* object, PyObject* name = nullptr) const;
  bool may_write(PyObject* object, PyObject* name = nullptr) const;

 private:
  struct Reached {
    Ref names;  // a tuple; None: all
    bool changed = false;
  };
  bool meets(PyObject* object, PyObject* name, bool changed_only) const;

  IdentityMap<std::vector<Reached>> reached_;
  std::vector<Ref> changed_, held_;
};

// Whether the instruction may be evaluated behind the calls that are put off; else a break is
// pending.
bool may_come_before_late_calls(TraceContext& trace, const Frame& frame,
                                const cpython::Instruction& in);

// braze._C.call_later(look, function, arguments): puts off `function(*arguments)`. `look`, given
// the first argument, tells what that is about: see `_look_at` in python/braze/_schedulers.py.
Tracked call_later(TraceContext& trace, Tracked* args, size_t count);

}  // namespace braze::capture
