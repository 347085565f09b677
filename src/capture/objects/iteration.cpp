#include "capture/objects/iteration.h"

#include "capture/calls/native.h"
#include "capture/calls/native_scope.h"
#include "capture/calls/torch_failures.h"
#include "capture/frames/subject.h"
#include "capture/known.h"
#include "capture/objects/operators.h"
#include "capture/symbols/integers.h"
#include "capture/trace_context.h"

namespace braze::capture {

namespace {

bool is_library_container(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == known().ordered_dict || type == known().deque || type == known().defaultdict;
}

}  // namespace

static Ref take_from(TraceContext& trace, const Tracked& iterable, int limit);

Tracked get_iter(TraceContext& trace, const Tracked& iterable) {
  PyObject* object = iterable.get();
  if (is_symbolic(object)) {
    Tracked number = iterable;
    make_concrete(trace, number);
    return get_iter(trace, number);
  }
  Ref items;  // in the place of a tuple
  if (trace.world.is_outside(object) && !is_tensor(object) && !PyTuple_Check(object)) {
    if (is_container(object)) {
      bool copied =
          !PyFrozenSet_Check(object) && (!PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_HEAPTYPE) ||
                                         is_library_container(object));
      if (!copied) {
        if (!trace.world.read_all(object)) return {};
      } else if (!shadow_to_read(trace.world, object)) {
        // A copy is iterated, so that changes made meanwhile are seen as they would be.
        return {};
      }
    } else if (is_foreign_iterator(trace, object)) {
      return trace.refuse(BreakKind::kOutsideIterator, "iteration over an iterator from outside");
    } else if (is_python_class(Py_TYPE(object)) && !exports_memory(object)) {
      if (!trace.world.type_lookup(Py_TYPE(object), names().iter))
        trace.world.type_lookup(Py_TYPE(object), names().getitem);
    } else if (!read_operand(trace, iterable, "iteration")) {
      return {};
    }
  } else if (PyTuple_CheckExact(object)) {
    items = read_items(trace.world, object);
    if (!items) return {};
  } else if ((PyTuple_Check(object) || PyFrozenSet_Check(object)) &&
             trace.world.source_of(iterable) && !trace.world.read_all(object)) {
    return {};
  }
  bool torch = is_tensor(object);
  Ref iterator;
  {
    NativeScope scope(trace, torch, nullptr);
    iterator = Ref::steal(PyObject_GetIter(items ? items.get() : trace.world.effective(object)));
  }
  if (!iterator) return torch ? torch_failed(trace) : Tracked();
  if (iterator.get() == object) return iterable;
  return result_of_native(trace, std::move(iterator));
}

bool is_foreign_iterator(TraceContext& trace, PyObject* object) {
  if (!PyIter_Check(object) || !trace.world.is_outside(object)) return false;
  PyObject* next = is_python_class(Py_TYPE(object))
                       ? trace.world.type_lookup(Py_TYPE(object), names().next)
                       : nullptr;
  return !next || !PyFunction_Check(next);
}

Tracked next_item(TraceContext& trace, const Tracked& iterator, bool& exhausted, bool keep_stop) {
  const Subject subject(trace, iterator);
  PyObject* object = iterator.get();
  exhausted = false;
  if (Py_TYPE(object)->tp_iternext == nullptr) {
    PyErr_Format(PyExc_TypeError, "'%.200s' object is not an iterator", Py_TYPE(object)->tp_name);
    return {};
  }
  if (trace.world.source_of(iterator) && is_foreign_iterator(trace, object))
    return trace.refuse(BreakKind::kOutsideIterator, "an iterator from outside is advanced");
  if (!read_by_advancing(trace, object)) return {};
  Ref value = Ref::steal(Py_TYPE(object)->tp_iternext(object));
  if (trace.breaks.under_way()) return {};
  if (value) return trace.world.wrap(std::move(value));
  if (PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return {};
    if (!keep_stop) PyErr_Clear();
  }
  exhausted = true;
  return {};
}

Ref to_list(TraceContext& trace, const Tracked& iterable) {
  PyObject* object = iterable.get();
  if (PyList_CheckExact(object) || PyTuple_CheckExact(object)) {
    const Ref items = read_items(trace.world, object);
    return items ? Ref::steal(PySequence_List(items.get())) : Ref();
  }
  Tracked iterator = get_iter(trace, iterable);
  if (!iterator) return {};
  Ref list = Ref::steal(PyList_New(0));
  for (;;) {
    bool exhausted;
    Tracked value = next_item(trace, iterator, exhausted);
    if (!value) return exhausted ? list : Ref();
    if (PyList_Append(list.get(), value.get()) < 0) return {};
  }
}

bool unpack(TraceContext& trace, Frame& frame, int before, int after, bool starred) {
  Tracked iterable = std::move(frame.stack.back());
  frame.stack.pop_back();
  PyTypeObject* type = Py_TYPE(iterable.get());
  if (!type->tp_iter && !PySequence_Check(iterable.get())) {
    PyErr_Format(PyExc_TypeError, "cannot unpack non-iterable %.200s object", type->tp_name);
    return false;
  }
  if (const Source* source = trace.world.source_of(iterable);
      source && !starred && PyTuple_CheckExact(iterable.get()) &&
      PyTuple_GET_SIZE(iterable.get()) == before) {
    // One by one, as by index: numbers may vary.
    trace.guards.add_length(source, before);
    for (Py_ssize_t i = before; i--;) {
      const Ref index = Ref::steal(PyLong_FromSsize_t(i));
      if (!frame.push(
              trace.world.read(PyTuple_GET_ITEM(iterable.get(), i),
                               trace.guards.source(SourceKind::kItem, source, index.get()))))
        return false;
    }
    return true;
  }
  Ref list;
  if (starred || PyList_CheckExact(iterable.get()) || PyTuple_CheckExact(iterable.get())) {
    list = to_list(trace, iterable);
  } else {
    list = take_from(trace, iterable, before + 1);
  }
  if (!list) return false;
  Py_ssize_t n = PyList_GET_SIZE(list.get());
  if (!starred && n > before) {
    PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %d)", before);
    return false;
  }
  if (n < before + after) {
    if (starred)
      PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %zd)",
                   before + after, n);
    else
      PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected %d, got %zd)", before,
                   n);
    return false;
  }
  auto push_item = [&](Py_ssize_t i) {
    frame.stack.push_back(trace.world.wrap(PyList_GET_ITEM(list.get(), i)));
  };
  for (Py_ssize_t i = n; i-- > n - after;) push_item(i);
  if (starred) {
    Ref rest = Ref::steal(PyList_GetSlice(list.get(), before, n - after));
    trace.world.mark_created(rest.get());
    frame.stack.push_back(Tracked(rest));
  }
  for (Py_ssize_t i = before; i--;) push_item(i);
  return true;
}

// At most `limit` items: an unpacking stops at the first one too many.
static Ref take_from(TraceContext& trace, const Tracked& iterable, int limit) {
  Tracked iterator = get_iter(trace, iterable);
  if (!iterator) return {};
  Ref list = Ref::steal(PyList_New(0));
  while (PyList_GET_SIZE(list.get()) < limit) {
    bool exhausted;
    Tracked value = next_item(trace, iterator, exhausted);
    if (!value) return exhausted ? list : Ref();
    if (PyList_Append(list.get(), value.get()) < 0) return {};
  }
  return list;
}

}  // namespace braze::capture
