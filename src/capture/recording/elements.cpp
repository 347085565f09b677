#include "capture/recording/elements.h"

#include "capture/recording/impl.h"
#include "trace/elements.h"

namespace braze::capture {

Elements::Elements(const std::vector<PyObject*>& arguments)
    : elements_(std::make_unique<trace::Elements>(unpack(arguments))) {}

Elements::~Elements() = default;

bool Elements::may_hold(PyObject* tensor) const { return elements_->may_hold(tensor_of(tensor)); }

std::string Elements::why_not(PyObject* result) const {
  return elements_->why_not(tensor_of(result));
}

}  // namespace braze::capture
