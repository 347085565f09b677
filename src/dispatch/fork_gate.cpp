#include "dispatch/fork_gate.h"

#include <chrono>
#include <thread>

#include "cpython/ref.h"

namespace braze::dispatch {
namespace {

using cpython::Ref;
using Clock = std::chrono::steady_clock;

// All with the GIL.
PyThreadState* g_capturing = nullptr;  // at most one thread is (dispatch/compile_mutex.h)
PyThreadState* g_forking = nullptr;    // from before the fork to its end, in parent and child

bool by_another(const PyThreadState* thread) { return thread && thread != PyThreadState_Get(); }

// Lets other threads run until none is in `stretch` any more. The code that is captured may wait
// for what the thread that forks would do next, and handlers of a fork for a lock that whoever
// captures holds: neither is waited for in vain.
void wait_for(PyThreadState* const& stretch) {
  const auto end = Clock::now() + std::chrono::seconds(1);
  while (by_another(stretch) && Clock::now() < end) {
    Py_BEGIN_ALLOW_THREADS  //
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    Py_END_ALLOW_THREADS
  }
}

PyObject* before_fork(PyObject*, PyObject*) {
  wait_for(g_forking);
  g_forking = PyThreadState_Get();
  wait_for(g_capturing);
  Py_RETURN_NONE;
}

PyObject* in_parent(PyObject*, PyObject*) {
  g_forking = nullptr;
  Py_RETURN_NONE;
}

// Its only thread is the one that forked.
PyObject* in_child(PyObject*, PyObject*) {
  g_forking = nullptr;
  if (by_another(g_capturing)) g_capturing = nullptr;
  Py_RETURN_NONE;
}

PyMethodDef g_handlers[] = {{"before", before_fork, METH_NOARGS, nullptr},
                            {"after_in_parent", in_parent, METH_NOARGS, nullptr},
                            {"after_in_child", in_child, METH_NOARGS, nullptr}};

}  // namespace

CaptureStretch::CaptureStretch() {
  wait_for(g_forking);
  g_capturing = PyThreadState_Get();
}

CaptureStretch::~CaptureStretch() { g_capturing = nullptr; }

bool initialize_fork_gate() {
  Ref os = Ref::steal(PyImport_ImportModule("os"));
  if (!os) return false;
  Ref to_register = Ref::steal(PyObject_GetAttrString(os.get(), "register_at_fork"));
  Ref handlers = Ref::steal(PyDict_New()), none = Ref::steal(PyTuple_New(0));
  if (!to_register || !handlers || !none) return false;
  for (PyMethodDef& handler : g_handlers) {
    Ref function = Ref::steal(PyCFunction_New(&handler, nullptr));
    if (!function || PyDict_SetItemString(handlers.get(), handler.ml_name, function.get()))
      return false;
  }
  return bool(Ref::steal(PyObject_Call(to_register.get(), none.get(), handlers.get())));
}

}  // namespace braze::dispatch
