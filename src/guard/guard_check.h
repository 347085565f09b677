// Inside of guard/: one guard about one object (kinds without `other`; tensors have TensorSpec).
#pragma once

#include <string>

#include "guard/guard.h"
#include "guard/tensor_spec.h"

namespace braze::guard {

// `object`: what the source resolves to, null if absent. Runs no user code. kTensor and the kinds
// about two sources hold here.
bool holds(const Guard& guard, PyObject* object);

// Both resolved; null if absent.
bool pair_holds(const Guard& guard, PyObject* object, PyObject* other);

// Something else refers to its `__dict__`, or could have it as one.
bool may_share_dict(PyObject* object);
// The first pair of which one is among the first `written` and the other has its `__dict__` too, or
// is it.
std::optional<std::pair<size_t, size_t>> shared_dict(std::span<PyObject* const> objects,
                                                     size_t written);
// The places of two that are the same object, one of them among the first `written`; absent ones
// (null) are no object. Takes linear time.
std::optional<std::pair<size_t, size_t>> same_member(std::span<PyObject* const> objects,
                                                     size_t written);

// Items of a container without calling its `__len__`; -1 for objects of other types.
Py_ssize_t length_of(PyObject* object);

// The guard as text, `source` and `other` being the sources' texts: "self.training == False". Of a
// tensor guard, the tensor as it was captured is described by `spec`; null for other kinds.
std::string guard_text(const Guard& guard, const std::string& source, const std::string& other,
                       const TensorSpec* spec);
// Why it does not hold: "self.training: expected False, is True".
std::string failure_text(const Guard& guard, const std::string& source, const std::string& other,
                         const TensorSpec* spec, PyObject* object);

}  // namespace braze::guard
