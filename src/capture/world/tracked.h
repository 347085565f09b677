// What the evaluation has of an object of the traced code: the real object and, if it is known, the
// source that it was read from. Frames hold these in their locals and on their value stacks.
#pragma once

#include "cpython/ref.h"
#include "guard/source.h"

namespace braze::capture {

using cpython::Ref;
using guard::Source;
using guard::SourceKind;

struct Tracked {
  Ref object;
  const Source* source = nullptr;
  // A value of the segment's entry state that nothing has looked at yet, so that nothing guards it;
  // it may be NULL. It can be moved about and handed on as `source`; see frames/entry_state.h.
  bool unread = false;

  Tracked() = default;
  explicit Tracked(Ref o, const Source* s = nullptr) : object(std::move(o)), source(s) {}
  static Tracked steal(PyObject* o, const Source* s = nullptr) { return Tracked(Ref::steal(o), s); }
  static Tracked borrow(PyObject* o, const Source* s = nullptr) {
    return Tracked(Ref::borrow(o), s);
  }
  PyObject* get() const { return object.get(); }
  explicit operator bool() const { return bool(object); }
};

}  // namespace braze::capture
