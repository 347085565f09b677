#include "guard/guard_check.h"

#include <bit>

#include "cpython/exception.h"
#include "cpython/lookup.h"
#include "cpython/text.h"
#include "guard/resolve.h"
#include "guard/value.h"

namespace braze::guard {

using cpython::Ref;

namespace {

// In the order that iteration gives, which an OrderedDict keeps beside the dict's own.
bool same_keys(PyObject* dict, PyObject* expected) {
  if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(expected)) return false;
  Py_ssize_t index = 0;
  if (!PyODict_Check(dict)) {
    Py_ssize_t position = 0;
    PyObject* key;
    while (PyDict_Next(dict, &position, &key, nullptr))
      if (!same_value(key, PyTuple_GET_ITEM(expected, index++))) return false;
    return true;
  }
  const cpython::SavedException pending;
  const Ref iterator = Ref::steal(PyODict_Type.tp_iter(dict));
  if (!iterator) return false;
  while (const Ref key = Ref::steal(PyIter_Next(iterator.get()))) {
    if (index >= PyTuple_GET_SIZE(expected)) return false;
    if (!same_value(key.get(), PyTuple_GET_ITEM(expected, index++))) return false;
  }
  return index == PyTuple_GET_SIZE(expected);
}

// In the order that iteration gives, which equal sets may differ in.
bool same_members(PyObject* set, PyObject* expected) {
  if (!PyAnySet_Check(set) || PySet_GET_SIZE(set) != PyTuple_GET_SIZE(expected)) return false;
  const cpython::SavedException pending;
  const Ref iterator = Ref::steal(PySet_Type.tp_iter(set));
  if (!iterator) return false;
  Py_ssize_t index = 0;
  while (const Ref member = Ref::steal(PyIter_Next(iterator.get())))
    if (!same_value(member.get(), PyTuple_GET_ITEM(expected, index++))) return false;
  return true;
}

std::string changed(const std::string& what, const std::string& was, const std::string& is) {
  return what + ": " + was + " -> " + (is == was ? "another object" : is);
}

std::string type_text(PyObject* object) {
  return object != nullptr ? value_text(reinterpret_cast<PyObject*>(Py_TYPE(object))) : "absent";
}

bool compares(PyObject* number, PyObject* expected) {
  const cpython::SavedException pending;
  const int op = static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(expected, 0)));
  const int outcome = PyObject_RichCompareBool(number, PyTuple_GET_ITEM(expected, 1), op);
  return outcome == (PyTuple_GET_ITEM(expected, 2) == Py_True);
}

// "scale > 0.5", "not scale > 0.5"
std::string comparison_text(const std::string& source, PyObject* expected) {
  static const char* const operators[] = {"<", "<=", "==", "!=", ">", ">="};
  const long op = PyLong_AsLong(PyTuple_GET_ITEM(expected, 0));
  return (PyTuple_GET_ITEM(expected, 2) == Py_True ? "" : "not ") + source + " " + operators[op] +
         " " + value_text(PyTuple_GET_ITEM(expected, 1));
}

std::string keys_text(PyObject* object) {
  if (object == nullptr || !PyDict_Check(object)) return value_text(object);
  const Ref keys = Ref::steal(PyDict_Keys(object));
  return value_text(keys.get());
}

std::string body_text(PyObject* body) {
  auto* code = reinterpret_cast<PyCodeObject*>(PyTuple_GET_ITEM(body, 0));
  return cpython::utf8_of(code->co_qualname);
}

// Names that stand with another value, or at all, in only one of two (name, value ...).
std::string difference_of_specials(PyObject* expected, PyObject* object) {
  std::string text;
  const auto add_missing = [&](PyObject* from, PyObject* in) {
    const Py_ssize_t count = from != nullptr ? PyTuple_GET_SIZE(from) : 0;
    for (Py_ssize_t i = 0; i < count; i += 2) {
      bool found = false;
      for (Py_ssize_t j = 0; in != nullptr && j < PyTuple_GET_SIZE(in) && !found; j += 2)
        found = PyTuple_GET_ITEM(from, i) == PyTuple_GET_ITEM(in, j) &&
                PyTuple_GET_ITEM(from, i + 1) == PyTuple_GET_ITEM(in, j + 1);
      const std::string name = value_text(PyTuple_GET_ITEM(from, i));
      if (!found && text.find(name) == text.npos) text += (text.empty() ? "" : ", ") + name;
    }
  };
  add_missing(expected, object);
  add_missing(object, expected);
  return text.empty() ? "another order" : text + " added, replaced or deleted";
}

}  // namespace

Py_ssize_t length_of(PyObject* object) {
  if (object == nullptr) return -1;
  if (PyDict_Check(object)) return PyDict_GET_SIZE(object);
  if (PyList_Check(object) || PyTuple_Check(object) || is_deque(object)) return Py_SIZE(object);
  if (PyAnySet_Check(object)) return PySet_GET_SIZE(object);
  if (PyUnicode_Check(object)) return PyUnicode_GET_LENGTH(object);
  if (PyBytes_Check(object)) return PyBytes_GET_SIZE(object);
  if (PyRange_Check(object)) {
    const cpython::SavedException pending;
    return PyObject_Size(object);
  }
  return -1;
}

bool holds(const Guard& guard, PyObject* object) {
  PyObject* expected = guard.expected.get();
  switch (guard.kind) {
    case GuardKind::kValue:
      return same_value(object, expected);
    case GuardKind::kIdentity:
      return object == expected;
    case GuardKind::kType:
      return object != nullptr && reinterpret_cast<PyObject*>(Py_TYPE(object)) == expected;
    case GuardKind::kBody:
      return cpython::has_function_body(object, expected);
    case GuardKind::kLength:
      return length_of(object) == PyLong_AsSsize_t(expected);
    case GuardKind::kKeys:
      return object != nullptr && same_keys(object, expected);
    case GuardKind::kPresent:
      return object != nullptr;
    case GuardKind::kAbsent:
      return object == nullptr;
    case GuardKind::kFloatCompare:
      return object != nullptr && PyFloat_CheckExact(object) && compares(object, expected);
    case GuardKind::kSetValue:
      return object != nullptr && same_members(object, expected);
    case GuardKind::kTensor:
    case GuardKind::kSameObject:
    case GuardKind::kNotSameObject:
    case GuardKind::kDistinct:
    case GuardKind::kOwnDict:
    case GuardKind::kDisjointMemory:
    case GuardKind::kSharedMemory:
      return true;
  }
  return false;
}

std::optional<std::pair<size_t, size_t>> same_member(std::span<PyObject* const> objects,
                                                     size_t written) {
  // Open addressing; at most half of the places are taken.
  thread_local std::vector<uint32_t> places;  // by hash: place in `objects` + 1, 0: free
  const size_t size = std::bit_ceil(2 * written + 2);
  places.assign(size, 0);
  for (size_t i = 0; i < objects.size(); ++i) {
    if (objects[i] == nullptr) continue;
    size_t at = (reinterpret_cast<size_t>(objects[i]) >> 4) * 0x9E3779B97F4A7C15u >> 32;
    at &= size - 1;
    for (; places[at] != 0; at = (at + 1) & (size - 1))
      if (objects[places[at] - 1] == objects[i])
        return std::pair<size_t, size_t>{places[at] - 1, i};
    if (i < written) places[at] = static_cast<uint32_t>(i + 1);
  }
  return std::nullopt;
}

bool may_share_dict(PyObject* object) {
  if (object == nullptr) return false;
  if (PyDict_Check(object)) return true;
  PyObject* dict = cpython::existing_dict(object);
  return dict != nullptr && Py_REFCNT(dict) > 1;
}

std::optional<std::pair<size_t, size_t>> shared_dict(std::span<PyObject* const> objects,
                                                     size_t written) {
  thread_local std::vector<PyObject*> dicts;
  thread_local std::vector<size_t> owners;
  dicts.clear();
  owners.clear();
  const auto add = [](PyObject* dict, size_t owner) {
    dicts.push_back(dict);
    owners.push_back(owner);
  };
  size_t written_dicts = 0;
  for (size_t i = 0; i < objects.size(); ++i) {
    PyObject* object = objects[i];
    PyObject* dict = object != nullptr ? cpython::existing_dict(object) : nullptr;
    if (dict != nullptr) add(dict, i);
    if (object != nullptr && object != dict && PyDict_Check(object)) add(object, i);
    if (i < written) written_dicts = dicts.size();
  }
  const auto same = same_member(dicts, written_dicts);
  if (!same) return std::nullopt;
  return std::pair{owners[same->first], owners[same->second]};
}

bool pair_holds(const Guard& guard, PyObject* object, PyObject* other) {
  switch (guard.kind) {
    case GuardKind::kSameObject:
      return object == other && object != nullptr;
    case GuardKind::kNotSameObject:
      return object != other;
    case GuardKind::kSharedMemory:
      return lie_apart(other, object, PyLong_AsLongLong(PyTuple_GET_ITEM(guard.expected.get(), 0)),
                       PyTuple_GET_ITEM(guard.expected.get(), 1) == Py_True);
    default:
      return true;
  }
}

std::string guard_text(const Guard& guard, const std::string& source, const std::string& other,
                       const TensorSpec* spec) {
  PyObject* expected = guard.expected.get();
  if (guard.source->kind == SourceKind::kSpecialMethods)
    return source + " are those captured, in that order";
  switch (guard.kind) {
    case GuardKind::kValue:
      return source + " == " + value_text(expected);
    case GuardKind::kIdentity:
      return source + " is " + value_text(expected);
    case GuardKind::kType:
      return "type(" + source + ") is " + value_text(expected);
    case GuardKind::kBody:
      return source + " is a function like " + body_text(expected);
    case GuardKind::kLength:
      return "len(" + source + ") == " + value_text(expected);
    case GuardKind::kKeys:
      return "keys of " + source + " == " + value_text(expected);
    case GuardKind::kPresent:
      return source + " exists";
    case GuardKind::kAbsent:
      return source + " does not exist";
    case GuardKind::kFloatCompare:
      return comparison_text(source, expected);
    case GuardKind::kSetValue:
      return "members of " + source + " are those captured";
    case GuardKind::kTensor:
      return source + " is like " + spec->text();
    case GuardKind::kSameObject:
      return source + " is " + other;
    case GuardKind::kNotSameObject:
      return source + " is not " + other;
    case GuardKind::kDistinct:
      return source + " is distinct";
    case GuardKind::kOwnDict:
      return source + " has a dict of its own";
    case GuardKind::kDisjointMemory:
      return source + " shares no memory";
    case GuardKind::kSharedMemory:
      return source + " shares memory with " + other;
  }
  return "?";
}

std::string failure_text(const Guard& guard, const std::string& source, const std::string& other,
                         const TensorSpec* spec, PyObject* object) {
  PyObject* expected = guard.expected.get();
  if (guard.source->kind == SourceKind::kSpecialMethods)
    return source + ": " + difference_of_specials(expected, object);
  switch (guard.kind) {
    case GuardKind::kValue:
    case GuardKind::kIdentity:
      return changed(source, value_text(expected), value_text(object));
    case GuardKind::kType:
      return changed("type(" + source + ")", value_text(expected), type_text(object));
    case GuardKind::kBody:
      return changed(source, "a function like " + body_text(expected), value_text(object));
    case GuardKind::kLength: {
      const Py_ssize_t length = length_of(object);
      return changed("len(" + source + ")", value_text(expected),
                     length < 0 ? value_text(object) : std::to_string(length));
    }
    case GuardKind::kKeys:
      return changed("keys of " + source, value_text(expected), keys_text(object));
    case GuardKind::kPresent:
      return changed(source, "present", "absent");
    case GuardKind::kAbsent:
      return changed(source, "absent", value_text(object));
    case GuardKind::kFloatCompare:
      return source + ": expected " + comparison_text(source, expected) + ", it is " +
             value_text(object);
    case GuardKind::kSetValue:
      return source + ": its members or their order have changed";
    case GuardKind::kTensor:
      return spec->difference(source, object);
    case GuardKind::kSameObject:
      return source + ": expected the same object as " + other;
    case GuardKind::kNotSameObject:
      return source + ": expected another object than " + other;
    case GuardKind::kDistinct:
      return source + ": expected another object";
    case GuardKind::kOwnDict:
      return source + ": expected a dict of its own";
    case GuardKind::kDisjointMemory:
      return source + ": expected to share no memory";
    case GuardKind::kSharedMemory:
      return source + ": expected to share memory, at the same place, with " + other;
  }
  return "?";
}

}  // namespace braze::guard
