#include "capture/objects/items.h"

#include "capture/calls/calls.h"
#include "capture/calls/native.h"
#include "capture/calls/native_scope.h"
#include "capture/calls/torch.h"
#include "capture/calls/torch_failures.h"
#include "capture/calls/torch_record.h"
#include "capture/frames/subject.h"
#include "capture/known.h"
#include "capture/objects/attributes.h"
#include "capture/objects/operators.h"
#include "capture/symbols/integers.h"
#include "capture/symbols/text.h"
#include "capture/trace_context.h"
#include "cpython/watch.h"

namespace braze::capture {

static bool may_index_tensor(TraceContext& trace, PyObject* object);

// `used[key]` of a defaultdict of the trace, or the shadow of one, that lacks the key. Empty, with
// nothing pending, for all others.
static Tracked missing_item(TraceContext& trace, const Tracked& object, PyObject* used,
                            const Tracked& key) {
  if (Py_TYPE(used) != known().defaultdict) return {};
  const int found = PyDict_Contains(used, key.get());
  if (found != 0) return {};
  static PyObject* const name = PyUnicode_InternFromString("default_factory");
  Ref factory = Ref::steal(PyObject_GetAttr(used, name));
  if (!factory || factory.get() == Py_None) return {};
  Tracked made = trace.world.wrap(std::move(factory));
  if (const Source* source = trace.world.source_of(object))
    made = trace.world.read(made.get(), trace.guards.source(SourceKind::kAttribute, source, name));
  if (made) made = call(trace, made, nullptr, 0, nullptr);
  return made && setitem(trace, object, key, made) ? made : Tracked();
}

Tracked getitem(TraceContext& trace, const Tracked& object, const Tracked& given) {
  if (Py_TYPE(object.get()) == known().text)
    return getitem(trace, Tracked(settle_text(trace, object.get())), given);
  const Subject subject(trace, object);
  Tracked key = given;
  if (trace.recording.has_symbols() && !is_tensor(object.get()) &&
      (is_container(object.get()) || is_atom(object.get()) || PyRange_Check(object.get()))) {
    make_concrete(trace, key);
    key = Tracked::borrow(trace.world.real_of(key.get()), key.source);
  }
  PyObject* original = object.get();
  if (PyObject* appended = trace.world.grown.item(original, key.get()))
    return trace.world.wrap(appended);
  PyObject* used = trace.world.effective(original);
  const Source* source = used == original ? trace.world.source_of(object) : nullptr;
  PyTypeObject* type = Py_TYPE(used);
  if (PyDict_Check(used)) make_key(trace, key);
  if (source && (PyList_Check(used) || PyTuple_Check(used)) && PyLong_CheckExact(key.get()) &&
      (!is_heap_type(type) || !PyFunction_Check(_PyType_Lookup(type, names().getitem)))) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(used);
    Py_ssize_t i = PyLong_AsSsize_t(key.get());
    if (i == -1 && PyErr_Occurred()) return {};
    trace.guards.add_length(source, n);
    if (i < 0) i += n;
    if (i >= 0 && i < n) {
      Ref index = Ref::steal(PyLong_FromSsize_t(i));
      return trace.world.read(PySequence_Fast_GET_ITEM(used, i),
                              trace.guards.source(SourceKind::kItem, source, index.get()));
    }
  }
  if (source && PyDict_Check(used) &&
      type->tp_as_mapping->mp_subscript == PyDict_Type.tp_as_mapping->mp_subscript) {
    if (!read_operand(trace, key, "a look-up")) return {};
    if (const Write* write = trace.world.dicts().written_item(original, key.get())) {
      if (write->value) return trace.world.wrap(write->value.get());
      PyErr_SetObject(PyExc_KeyError, key.get());
      return {};
    }
    if (PyObject* value = PyDict_GetItemWithError(used, key.get()))
      return trace.world.read(value, trace.world.item_source(original, source, key.get()));
    if (PyErr_Occurred()) return {};
    trace.guards.add(GuardKind::kAbsent, trace.world.item_source(original, source, key.get()));
    if (!PyDict_CheckExact(used) && _PyType_Lookup(type, names().missing)) {
      used = trace.world.shadow(original);
      if (!used) return {};
    } else {
      PyErr_SetObject(PyExc_KeyError, key.get());
      return {};
    }
  }
  if (!is_tensor(used) && is_heap_type(type)) {
    PyObject* method = trace.world.type_lookup(type, names().getitem);
    if (method && PyFunction_Check(method)) {
      Tracked args[2] = {object, key};
      return call(trace, Tracked::borrow(method), args, 2, nullptr);
    }
  }
  Tracked missing = missing_item(trace, object, used, key);
  if (missing || PyErr_Occurred()) return missing;
  bool torch = is_tensor(used);
  Ref items;  // a slice of a container
  if (source && !torch && !PyType_Check(used)) {
    if (is_container(used)) {
      items = read_items(trace.world, used);
      if (!items) return {};
      used = items.get();
    } else if (!read_operand(trace, object, "an item")) {
      return {};
    }
  }
  if (torch ? !may_index_tensor(trace, key.get()) : !read_operand(trace, key, "an index"))
    return {};
  PyObject* callee = torch ? operator_callable("getitem") : nullptr;
  Ref value;
  {
    NativeScope scope(trace, torch, callee);
    // x[n]: indexing itself would make a number of n.
    value = torch && Py_TYPE(key.get()) == known().sym_int
                ? Ref::steal(PyObject_CallMethod(used, "select", "iO", 0, key.get()))
                : Ref::steal(PyObject_GetItem(used, trace.world.effective(key.get())));
  }
  Tracked args[2] = {object, key};
  if (!value) return torch ? torch_failed(trace, callee, args, 2) : Tracked();
  if (torch) record_torch_call(trace, callee, args, 2, nullptr, value.get());
  return result_of_native(trace, std::move(value));
}

// As key or as what is put there.
static bool may_index_tensor(TraceContext& trace, PyObject* object) {
  if (is_container(object) && !read_deeply(trace, object, Look::kDeep)) return false;
  return may_give_torch(trace, object, "Tensor", "__getitem__");
}

bool setitem(TraceContext& trace, const Tracked& object, const Tracked& given,
             const Tracked& value) {
  const Subject subject(trace, object);
  Tracked key = given;
  if (trace.recording.has_symbols() && is_container(object.get())) {
    make_concrete(trace, key);
    key = Tracked::borrow(trace.world.real_of(key.get()), key.source);
  }
  PyObject* obj = object.get();
  PyTypeObject* type = Py_TYPE(obj);
  if (is_tensor(obj)) {
    if (!may_index_tensor(trace, key.get()) || (value && !may_index_tensor(trace, value.get())))
      return false;
    PyObject* callee = operator_callable("setitem");
    int status;
    {
      NativeScope scope(trace, true, callee);
      status =
          value ? PyObject_SetItem(obj, key.get(), value.get()) : PyObject_DelItem(obj, key.get());
    }
    Tracked args[3] = {object, key, value};
    if (status < 0) return bool(torch_failed(trace, callee, args, value ? 3 : 2));
    record_torch_call(trace, callee, args, 3, nullptr, Py_None);
    return true;
  }
  if (PyDict_Check(obj)) make_key(trace, key);
  if (trace.world.is_outside(obj)) {
    PyObject* name = value ? names().setitem : names().delitem;
    PyObject* method = is_heap_type(type) ? trace.world.type_lookup(type, name) : nullptr;
    if (method && PyFunction_Check(method)) {
      Tracked args[3] = {object, key, value};
      return bool(call(trace, Tracked::borrow(method), args, value ? 3 : 2, nullptr));
    }
    if (PyObject* owner = trace.world.dicts().owner_of_item(obj, key.get());
        owner && value && trace.world.effective(obj) == obj)
      return trace.world.write_attribute(owner, key.get(), value.get());
    if (!PyDict_Check(obj) && !PyList_Check(obj) && !PyByteArray_Check(obj) &&
        !PyObject_TypeCheck(obj, known().deque))
      return trace.breaks.refuse(
          BreakKind::kSideEffect,
          std::string("an item of a '") + type->tp_name + "' object from outside is set");
    obj = trace.world.shadow(obj);
    if (!obj) return false;
  }
  if (!read_operand(trace, key, "an index")) return false;
  if (value && PySlice_Check(key.get()) && !read_by_advancing(trace, value.get())) return false;
  ++trace.container_changes;
  int status =
      value ? PyObject_SetItem(obj, key.get(), value.get()) : PyObject_DelItem(obj, key.get());
  return !trace.breaks.under_way() && status == 0;
}

Tracked call_getter(TraceContext& trace, const Tracked& getter, const Tracked& object, bool& done) {
  std::string_view name = Py_TYPE(getter.get())->tp_name;
  const bool items = name == "operator.itemgetter";
  if (!items && name != "operator.attrgetter") return {};
  done = true;
  Ref reduced = Ref::steal(PyObject_CallMethodNoArgs(getter.get(), names().reduce));
  if (!reduced) return {};
  PyObject* keys = PyTuple_GET_ITEM(reduced.get(), 1);
  const Py_ssize_t n = PyTuple_GET_SIZE(keys);
  Ref values = Ref::steal(PyTuple_New(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys, i);
    Tracked value = object;
    if (items) {
      value = getitem(trace, object, trace.world.wrap(key));
    } else {
      static PyObject* dot = PyUnicode_InternFromString(".");
      Ref path = Ref::steal(PyUnicode_Split(key, dot, -1));
      for (Py_ssize_t k = 0; path && value && k < PyList_GET_SIZE(path.get()); ++k)
        value = getattr(trace, value, PyList_GET_ITEM(path.get(), k));
    }
    if (!value) return {};
    if (n == 1) return value;
    PyTuple_SET_ITEM(values.get(), i, value.object.release());
  }
  return Tracked(values);
}

}  // namespace braze::capture
