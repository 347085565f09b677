// The pending Python exception, put aside while other C API calls are made.
#pragma once

#include "cpython/ref.h"

namespace braze::cpython {

// Takes the pending exception (if any) and puts it back when it goes, in place of any newer one.
class SavedException {
 public:
  SavedException() {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    type_ = Ref::steal(type);
    value_ = Ref::steal(value);
    traceback_ = Ref::steal(traceback);
  }
  ~SavedException() { restore(); }
  SavedException(const SavedException&) = delete;

  explicit operator bool() const { return static_cast<bool>(type_); }
  // Puts it back now. What has become pending meanwhile is dropped.
  void restore() {
    if (std::exchange(restored_, true)) return;
    PyErr_Restore(type_.release(), value_.release(), traceback_.release());
  }
  // Leaves what has become pending meanwhile.
  void drop() { restored_ = true; }

 private:
  Ref type_, value_, traceback_;
  bool restored_ = false;
};

}  // namespace braze::cpython
