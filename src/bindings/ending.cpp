// The end of the interpreter while daemon threads are in our code.
//
// Before 3.14, CPython ends a thread that asks for the GIL after the interpreter has begun to end
// by pthread_exit(), which unwinds the thread's C++ frames: destructors would drop references
// without the GIL while the interpreter is taken apart, and one that may not throw, as that of a
// released GIL is, ends the process by std::terminate. As from 3.14 on, such a thread stays where
// it is instead; the process ends without it.
// * Our own frames: unwinding asks each frame's personality routine what is to be done there. It is
//   wrapped when the module is linked (cmake/Braze.cmake), and does not come back.
// * PyTorch's bindings release the GIL too, and their frames may come first: std::terminate, of the
//   libstdc++ that PyTorch has loaded, also where this module is linked with one of its own. Not
//   of threads that neither Python nor we are in, such as gloo's: they end the process as without
//   us, as one that stayed may hold what the main thread is going to wait for.
// * Objects with static storage are not destroyed at exit (same place), as a thread without the
//   GIL may be compiling or running a kernel still. The module is never unloaded before.
#include <Python.h>
#include <dlfcn.h>
#include <unistd.h>
#include <unwind.h>

#include <cstdlib>
#include <exception>

namespace {

bool is_ending() {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

bool is_main_thread() { return ::gettid() == ::getpid(); }

[[noreturn]] void stay() {
  for (;;) ::pause();
}

// What is asked of the libstdc++ that is loaded; of the linked one where none is.
std::terminate_handler (*g_set_terminate)(std::terminate_handler) noexcept = std::set_terminate;
std::exception_ptr (*g_current_exception)() noexcept = std::current_exception;
std::terminate_handler g_outer_handler = nullptr;

const void* library_of(const void* address) {
  Dl_info info;
  return ::dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

// The frames from the handler outwards.
struct Walk {
  const void* module;
  const void* python;
  enum { kHandler, kGilAsked, kCallers } stage = kHandler;
  bool found = false;
};

// Whether Python, or this module, has called what has asked for the GIL.
bool is_called_by_python_or_us() {
  Walk walk{library_of(reinterpret_cast<const void*>(&is_ending)),
            library_of(reinterpret_cast<const void*>(&PyEval_RestoreThread))};
  ::_Unwind_Backtrace(
      [](_Unwind_Context* context, void* data) {
        Walk& walk = *static_cast<Walk*>(data);
        const void* library = library_of(reinterpret_cast<const void*>(::_Unwind_GetIP(context)));
        const bool python = library == walk.python;
        if (walk.stage == Walk::kHandler && python) walk.stage = Walk::kGilAsked;
        if (walk.stage == Walk::kGilAsked && !python) walk.stage = Walk::kCallers;
        walk.found = walk.stage == Walk::kCallers && (python || library == walk.module);
        return walk.found ? _URC_END_OF_STACK : _URC_NO_REASON;
      },
      &walk);
  return walk.found;
}

[[noreturn]] void stay_or_terminate() {
  // Without an exception: unwinding by pthread_exit() has come to a frame that forbids it.
  if (!g_current_exception() && !is_main_thread() && is_ending() && is_called_by_python_or_us())
    stay();
  if (g_outer_handler) g_outer_handler();
  std::abort();
}

template <typename Function>
void find(void* library, const char* mangled, Function& function) {
  if (void* found = ::dlsym(library, mangled)) function = reinterpret_cast<Function>(found);
}

const bool g_installed = [] {
  if (void* library = ::dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD)) {
    find(library, "_ZSt13set_terminatePFvvE", g_set_terminate);
    find(library, "_ZSt17current_exceptionv", g_current_exception);
  }
  g_outer_handler = g_set_terminate(stay_or_terminate);
  return true;
}();

}  // namespace

extern "C" {

_Unwind_Reason_Code __real___gxx_personality_v0(int version, _Unwind_Action actions,
                                                _Unwind_Exception_Class exception_class,
                                                _Unwind_Exception* exception,
                                                _Unwind_Context* context);

_Unwind_Reason_Code __wrap___gxx_personality_v0(int version, _Unwind_Action actions,
                                                _Unwind_Exception_Class exception_class,
                                                _Unwind_Exception* exception,
                                                _Unwind_Context* context) {
  if ((actions & _UA_FORCE_UNWIND) != 0 && !is_main_thread() && is_ending()) stay();
  return __real___gxx_personality_v0(version, actions, exception_class, exception, context);
}

int __wrap___cxa_atexit(void (*)(void*), void*, void*) { return 0; }

}  // extern "C"
