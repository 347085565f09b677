// The elements that a function under evaluation is given, as Python objects (trace/elements.h).
#pragma once

#include <Python.h>

#include <memory>
#include <string>
#include <vector>

namespace braze::trace {
class Elements;
}

namespace braze::capture {

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

}  // namespace braze::capture
