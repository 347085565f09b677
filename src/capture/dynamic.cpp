#include "capture/dynamic.h"

#include <algorithm>
#include <string_view>

#include "capture/recording/recording.h"
#include "cpython/exception.h"
#include "cpython/text.h"

namespace braze::capture {

using cpython::Ref;

namespace {

constexpr const char* kDynamic = "_dynamo_dynamic_indices";
constexpr const char* kWeakDynamic = "_dynamo_weak_dynamic_indices";
constexpr const char* kUnbacked = "_dynamo_unbacked_indices";
constexpr const char* kStatic = "_dynamo_static_indices";
constexpr const char* kRange = "_dynamo_dynamic_range";

bool is_mark(PyObject* name) {
  if (!PyUnicode_Check(name)) return false;
  const std::string_view mark = cpython::utf8_of(name);
  return mark.starts_with("_dynamo_") || mark == "_specialize_on" ||
         mark == "_has_dynamo_dim_marking";
}

// The integers in a set of dimensions; nothing for anything else.
std::vector<int> dims_in(PyObject* dict, const char* name) {
  std::vector<int> dims;
  PyObject* set = PyDict_GetItemString(dict, name);
  if (!set || !PyAnySet_Check(set)) return dims;
  Ref items = Ref::steal(PySequence_List(set));
  for (Py_ssize_t i = 0; items && i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(items.get(), i);
    if (PyLong_Check(item)) dims.push_back(static_cast<int>(PyLong_AsLong(item)));
  }
  std::sort(dims.begin(), dims.end());
  return dims;
}

// An attribute that is an int; `otherwise` for None and for what is not there.
int64_t number_of(PyObject* object, const char* name, int64_t otherwise) {
  Ref value = Ref::steal(PyObject_GetAttrString(object, name));
  if (!value || !PyLong_Check(value.get())) {
    PyErr_Clear();
    return otherwise;
  }
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(value.get(), &overflow);
  return overflow ? otherwise : number;
}

// Objects with `dim`, `min` and `max`.
void read_ranges(PyObject* dict, std::vector<DimMark>& marks) {
  PyObject* ranges = PyDict_GetItemString(dict, kRange);
  Ref items = ranges ? Ref::steal(PySequence_List(ranges)) : Ref();
  if (!items) return PyErr_Clear();
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(items.get(), i);
    const int64_t dim = number_of(item, "dim", -1);
    for (DimMark& mark : marks) {
      if (mark.dim != dim) continue;
      mark.range.low = std::max<int64_t>(number_of(item, "min", 2), 2);
      mark.range.high = number_of(item, "max", INT64_MAX);
    }
  }
}

}  // namespace

TensorMarks marks_of(PyObject* tensor) {
  TensorMarks marks;
  PyObject** place = _PyObject_GetDictPtr(tensor);
  PyObject* dict = place ? *place : nullptr;
  if (!dict || PyDict_GET_SIZE(dict) == 0) return marks;
  const cpython::SavedException pending;
  Py_ssize_t position = 0;
  PyObject *name, *value;
  while (PyDict_Next(dict, &position, &name, &value)) marks.has_other_attributes |= !is_mark(name);
  for (int dim : dims_in(dict, kDynamic)) marks.dynamic.push_back({dim, true});
  for (int dim : dims_in(dict, kWeakDynamic)) marks.dynamic.push_back({dim, false});
  marks.fixed = dims_in(dict, kStatic);
  read_ranges(dict, marks.dynamic);
  for (int dim : dims_in(dict, kUnbacked))
    marks.dynamic.push_back({.dim = dim, .range = {0, INT64_MAX}, .unbacked = true});
  return marks;
}

std::vector<DynamicDimension> dynamic_dimensions(const DynamicSizes& sizes, PyObject* tensor,
                                                 const std::string& source) {
  const TensorMarks marks = marks_of(tensor);
  if (marks.has_other_attributes) return {};
  std::map<int, DynamicDimension> dims;
  const std::vector<int64_t> now = sizes_of(tensor);
  const int rank = static_cast<int>(now.size());
  if (rank > 60) return {};
  if (sizes.mode == DynamicSizes::Mode::kAlways)
    for (int dim = 0; dim < rank; ++dim) dims[dim].mark.dim = dim;
  if (sizes.mode != DynamicSizes::Mode::kNever)
    if (auto found = sizes.sizes.find(source); found != sizes.sizes.end())
      for (auto [dim, previous] : found->second)
        if (dim < rank) dims[dim] = {.mark = {.dim = dim}, .previous = previous};
  for (int dim : marks.fixed) dims.erase(dim);
  for (const DimMark& mark : marks.dynamic)
    if (mark.dim >= 0 && mark.dim < rank) dims[mark.dim].mark = mark;
  std::vector<DynamicDimension> result;
  for (auto& [dim, dynamic] : dims) {
    const int64_t size = now[static_cast<size_t>(dim)];
    const bool fits = size >= dynamic.mark.range.low && size <= dynamic.mark.range.high;
    if (fits || dynamic.mark.strict) result.push_back(dynamic);
  }
  return result;
}

}  // namespace braze::capture
