// One place of a frame's stack or locals: a real object and, if known, where it was read from.
#pragma once

#include "cpython/ref.h"
#include "guard/source.h"

namespace braze::capture {

using cpython::Ref;
using guard::Source;
using guard::SourceKind;

struct Slot {
  Ref object;
  const Source* source = nullptr;
  // A value of the segment's entry state that nothing has looked at yet, so that nothing guards it;
  // it may be NULL. It can be moved about and handed on as `source`; see frames/entry_state.h.
  bool unread = false;

  Slot() = default;
  explicit Slot(Ref o, const Source* s = nullptr) : object(std::move(o)), source(s) {}
  static Slot steal(PyObject* o, const Source* s = nullptr) { return Slot(Ref::steal(o), s); }
  static Slot borrow(PyObject* o, const Source* s = nullptr) { return Slot(Ref::borrow(o), s); }
  PyObject* get() const { return object.get(); }
  explicit operator bool() const { return bool(object); }
};

}  // namespace braze::capture
