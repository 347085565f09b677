#include "capture/recording/elements.h"

#include "capture/recording/impl.h"
#include "trace/element_program.h"
#include "trace/elements.h"

namespace braze::capture {

Elements::Elements(const std::vector<PyObject*>& arguments)
    : elements_(std::make_unique<trace::Elements>(unpack(arguments))) {}

Elements::~Elements() = default;

bool Elements::may_hold(PyObject* tensor) const { return elements_->may_hold(tensor_of(tensor)); }

std::string Elements::why_not(PyObject* result) const {
  return elements_->why_not(tensor_of(result));
}

namespace {

std::vector<at::Tensor> tensors_in(PyObject* tuple) {
  std::vector<at::Tensor> tensors;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    tensors.push_back(tensor_of(PyTuple_GET_ITEM(tuple, i)));
  return tensors;
}

}  // namespace

Ref element_program(PyObject* numbers, PyObject* positions, PyObject* outputs) {
  auto made =
      trace::element_program(tensors_in(numbers), tensors_in(positions), tensors_in(outputs));
  if (!made) return Ref::borrow(Py_None);
  const Ref text = Ref::steal(
      PyUnicode_FromStringAndSize(made->text.data(), static_cast<Py_ssize_t>(made->text.size())));
  Ref tables = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(made->tables.size())));
  if (!text || !tables) return {};
  for (size_t i = 0; i < made->tables.size(); ++i) {
    PyObject* table = torch_python::wrap(std::move(made->tables[i]));
    if (!table) return {};
    PyTuple_SET_ITEM(tables.get(), static_cast<Py_ssize_t>(i), table);
  }
  return Ref::steal(PyTuple_Pack(2, text.get(), tables.get()));
}

}  // namespace braze::capture
