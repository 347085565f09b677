// What the trace made, and finalisers of it.
#include "capture/known.h"
#include "capture/world/world.h"
#include "cpython/finaliser.h"
#include "cpython/watch.h"

namespace braze::capture {

bool World::is_created(PyObject* object) {
  if (created_.contains(object) || is_immutable(object) || is_fake(object)) return true;
  if (originals_.contains(object)) return true;
  if (!PyObject_IS_GC(object) || !PyObject_GC_IsTracked(object)) return false;
  // The collector is off during a trace, so its youngest generation is what the trace made.
  Ref kwargs = Ref::steal(PyDict_New());
  Ref zero = Ref::steal(PyLong_FromLong(0));
  Ref none = Ref::steal(PyTuple_New(0));
  if (!kwargs || PyDict_SetItemString(kwargs.get(), "generation", zero.get()) < 0) return false;
  Ref young = Ref::steal(PyObject_Call(known().gc_get_objects, none.get(), kwargs.get()));
  if (!young) {
    PyErr_Clear();
    return false;
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(young.get()); ++i) {
    PyObject* made = PyList_GET_ITEM(young.get(), i);
    if (!origin_.contains(made)) created_[made] = true;
  }
  return created_.contains(object);
}

bool World::made_module(PyObject* module) const {
  if (!PyModule_Check(module) || !created_.contains(module)) return false;
  PyObject* dict = PyModule_GetDict(module);  // null before its __init__
  PyObject* name = dict ? PyDict_GetItem(dict, names().name) : nullptr;
  return !name || PyDict_GetItem(known().sys_modules, name) != module;
}

bool World::is_outside(PyObject* object) {
  if (is_atom(object)) return false;
  if (origin_.contains(object)) return !is_immutable(object) || PyTuple_Check(object);
  return !is_created(object);
}

// --- Finalisers ---------------------------------------------------------------------------------

void World::watch_finaliser(PyObject* object) {
  Ref reference = Ref::steal(PyWeakref_NewRef(object, nullptr));
  if (reference) {
    created_[reference.get()] = true;
    finalisers_.push_back(std::move(reference));
  } else {
    PyErr_Clear();
    unwatched_finaliser_ = true;
  }
}

bool World::silence_finalisers() {
  bool alive = unwatched_finaliser_;
  for (const Ref& reference : finalisers_) {
    Ref object = Ref::borrow(PyWeakref_GET_OBJECT(reference.get()));
    if (object.get() == Py_None) continue;
    bool finished = PyGen_CheckExact(object.get()) && cpython::is_finished(object.get());
    if (!finished) alive = true;
    cpython::skip_finaliser(object.get());
  }
  return alive;
}

}  // namespace braze::capture
