#include "cpython/finaliser.h"

namespace braze::cpython {

namespace {

// What lies before an object that the collector knows: Internal/pycore_gc.h.
struct CollectorHead {
  uintptr_t next, previous;
};
constexpr uintptr_t kFinalised = 1;  // a bit of `previous`
constexpr int kCompleted = 1;        // of `enum _framestate`; all later ones are ends too

}  // namespace

void skip_finaliser(PyObject* object) {
  if (PyObject_IS_GC(object))
    (reinterpret_cast<CollectorHead*>(object) - 1)->previous |= kFinalised;
}

bool is_finished(PyObject* generator) {
  return reinterpret_cast<PyGenObject*>(generator)->gi_frame_state >= kCompleted;
}

}  // namespace braze::cpython
