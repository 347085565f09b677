// How a break travels: a pending Python exception that no handler matches, because it has to cross
// native frames, and a value beside it, because native code can swallow exceptions.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "capture/breaks/reason.h"
#include "cpython/ref.h"

namespace braze::capture {

class Breaks {
 public:
  // Fills in where the break is and the object that it is about.
  using Locator = void (*)(void* context, BreakReason& reason);
  Breaks(Locator locate, void* context) : locate_(locate), context_(context) {}

  // Records the first break of a trace and makes it the pending exception. Always null, so that a
  // function which returns a pointer can end with it.
  [[gnu::cold]] std::nullptr_t raise(BreakKind kind, std::string what);
  // The same as a false.
  [[gnu::cold]] bool refuse(BreakKind kind, std::string what) {
    raise(kind, std::move(what));
    return false;
  }
  // A break is under way; if native code has swallowed its exception, it is pending again.
  bool under_way();
  // The same, and the pending exception stays as it is.
  bool begun() const { return reason_.has_value(); }
  const std::optional<BreakReason>& reason() const { return reason_; }

  // A defect found below native frames: kept, and thrown again above them.
  void keep_defect(std::exception_ptr defect);
  void rethrow_defect();

 private:
  Locator locate_;
  void* context_;
  std::optional<BreakReason> reason_;
  std::exception_ptr defect_;
};

// The pending exception, normalised, with its traceback attached; clears it.
cpython::Ref take_exception();
void restore_exception(cpython::Ref exception);
// "ValueError: text"
std::string describe_exception(PyObject* exception);

}  // namespace braze::capture
