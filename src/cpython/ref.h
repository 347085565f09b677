// Owning and borrowed references to Python objects. The GIL is held wherever these are used.
#pragma once

#include <Python.h>

#include <utility>

// What leads to these is kept out of the way of what is run: a capture is bound by how much code it
// goes through once.
extern "C" {
[[gnu::cold]] PyObject* PyErr_Format(PyObject* exception, const char* format, ...);
[[gnu::cold]] void PyErr_SetString(PyObject* exception, const char* text);
[[gnu::cold]] void PyErr_SetObject(PyObject* exception, PyObject* value);
}

namespace braze::cpython {

class Ref {
 public:
  Ref() = default;
  static Ref steal(PyObject* object) {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  static Ref borrow(PyObject* object) {
    Py_XINCREF(object);
    return steal(object);
  }
  Ref(const Ref& other) : object_(other.object_) { Py_XINCREF(object_); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  // Swap first, decref last: a finaliser that comes back sees the new value.
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) { return a.object_ == b.object_; }

 private:
  PyObject* object_ = nullptr;
};

}  // namespace braze::cpython
