// The elements that a function under evaluation is given, as Python objects (trace/elements.h).
#pragma once

#include <Python.h>

#include <memory>
#include <string>
#include <vector>

#include "cpython/ref.h"

namespace braze::trace {
class Elements;
}

namespace braze::capture {

using cpython::Ref;

class Elements {
 public:
  explicit Elements(const std::vector<PyObject*>& arguments);
  ~Elements();
  Elements(const Elements&) = delete;

  bool may_hold(PyObject* tensor) const;
  std::string why_not(PyObject* result) const;

 private:
  std::unique_ptr<trace::Elements> elements_;
};

// (text, tables), or None; see trace/element_program.h. Null with an exception set.
Ref element_program(PyObject* numbers, PyObject* positions, PyObject* outputs);

}  // namespace braze::capture
