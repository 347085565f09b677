#include "cpython/frame.h"

#include <pthread.h>

#include "base/error.h"
#include "cpython/exception.h"
#include "cpython/frame_layout.h"
#include "cpython/live_frame.h"

namespace braze::cpython {

namespace internal {

namespace {

// Somebody who waits for one frame.
struct OneShot {
  PyThreadState* thread;
  PyCodeObject* code;
  Driver driver;
  void* context;
  OneShot* outer = nullptr;
};

// What a call_from does with its frame.
struct Start {
  FrameState state;
  SavedException* exception;  // what the frame is to raise
};

// A frame that a hook is looking at, to tell whether CPython got to evaluate it.
struct Visit {
  _PyInterpreterFrame* frame;
  bool evaluated;
  Visit* outer;
};
thread_local Visit* t_visits = nullptr;

// The frame that was last handed to a foreign evaluator: should that one hand it back (it may have
// ours as its predecessor), CPython takes it.
thread_local _PyInterpreterFrame* t_passed_on = nullptr;

}  // namespace

// Decides what is installed as the interpreter's evaluator. One evaluator of ours serves scopes and
// one-shots; it is installed only while there is one. All fields are guarded by the GIL. Scopes of
// several threads may end in any order.
struct Evaluator {
  static inline HookScope* scopes = nullptr;
  static inline OneShot* one_shots = nullptr;
  static inline _PyFrameEvalFunction foreign = nullptr;    // what we replaced
  static inline _PyFrameEvalFunction installed = nullptr;  // what we put there; null: nothing

  static PyObject* evaluate(PyThreadState* thread, _PyInterpreterFrame* frame, int throwing) {
    if (one_shots != nullptr) [[unlikely]] {
      if (OneShot* shot = take_one_shot(thread, FrameView(frame).code(), throwing))
        return shot->driver(shot->context, thread, FrameView(frame));
    }
    HookScope* scope = scope_of(thread);
    if (scope == nullptr) return pass_on(thread, frame, throwing);
    if (scope->hook_ == nullptr) return _PyEval_EvalFrameDefault(thread, frame, throwing);
    return ask_hook(*scope, thread, frame, throwing != 0);
  }

  static PyObject* ask_hook(HookScope& scope, PyThreadState* thread, _PyInterpreterFrame* frame,
                            bool throwing) {
    Visit visit{frame, false, t_visits};
    t_visits = &visit;
    PyObject* result = scope.hook_(scope.context_, thread, FrameView(frame), throwing);
    t_visits = visit.outer;
    if (!visit.evaluated) {
      const SavedException pending;  // clearing runs finalisers
      discard(thread, frame);
    }
    return result;
  }

  static void mark_evaluated(_PyInterpreterFrame* frame) {
    for (Visit* visit = t_visits; visit != nullptr; visit = visit->outer) {
      if (visit->frame != frame) continue;
      visit->evaluated = true;
      return;
    }
  }

  static HookScope* scope_of(PyThreadState* thread) {
    HookScope* scope = scopes;
    while (scope != nullptr && scope->thread_ != thread) scope = scope->outer_;
    return scope;
  }

  static OneShot* take_one_shot(PyThreadState* thread, PyCodeObject* code, int throwing) {
    for (OneShot** link = &one_shots; *link != nullptr; link = &(*link)->outer) {
      OneShot* shot = *link;
      if (shot->thread != thread || shot->code != code || throwing != 0) continue;
      *link = shot->outer;
      synchronise();
      return shot;
    }
    return nullptr;
  }

  static PyObject* start(PyThreadState* thread, _PyInterpreterFrame* frame, FrameState&& state,
                         SavedException* exception) {
    const bool raise = state.raise;
    set_state(frame, std::move(state)).clear();
    if (raise) exception->restore();
    return _PyEval_EvalFrameDefault(thread, frame, raise ? 1 : 0);
  }

  static PyObject* pass_on(PyThreadState* thread, _PyInterpreterFrame* frame, int throwing) {
    if (foreign == nullptr || foreign == _PyEval_EvalFrameDefault || t_passed_on == frame)
      return _PyEval_EvalFrameDefault(thread, frame, throwing);
    _PyInterpreterFrame* outer = std::exchange(t_passed_on, frame);
    PyObject* result = foreign(thread, frame, throwing);
    t_passed_on = outer;
    return result;
  }

  template <class Entry>
  static void unlink(Entry** link, Entry* entry, Entry* Entry::*next) {
    for (; *link != nullptr; link = &((*link)->*next)) {
      if (*link != entry) continue;
      *link = entry->*next;
      return;
    }
  }

  template <class Entry>
  static void keep_own(Entry** link, PyThreadState* Entry::*thread, Entry* Entry::*next,
                       PyThreadState* self) {
    while (*link != nullptr) {
      if ((*link)->*thread == self)
        link = &((*link)->*next);
      else
        *link = (*link)->*next;
    }
  }

  // The evaluator that the scopes ask for; null: whatever was there.
  static _PyFrameEvalFunction wanted() {
    if (one_shots != nullptr) return evaluate;
    if (scopes == nullptr) return nullptr;
    // A thread is hooked unless its innermost scope is a bypass.
    for (HookScope* scope = scopes; scope != nullptr; scope = scope->outer_)
      if (scope->hook_ != nullptr && scope_of(scope->thread_)->hook_ != nullptr) return evaluate;
    return _PyEval_EvalFrameDefault;
  }

  // Of the threads, the child of a fork() has the one that called it; the others' scopes, which
  // stand on their stacks, are not left any more.
  static void forget_other_threads() {
    if (!PyGILState_Check()) return;
    PyThreadState* self = PyThreadState_Get();
    keep_own(&scopes, &HookScope::thread_, &HookScope::outer_, self);
    keep_own(&one_shots, &OneShot::thread, &OneShot::outer, self);
    synchronise();
  }

  static void synchronise() {
    PyInterpreterState* interpreter = PyInterpreterState_Get();
    const _PyFrameEvalFunction target = wanted();
    if (target == installed) return;
    const _PyFrameEvalFunction now = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    if (installed == nullptr) {
      foreign = now == evaluate ? foreign : now;
    } else if (now != installed) {
      // Somebody put theirs over ours; they may call ours, which passes frames on by itself.
      if (target == nullptr) installed = nullptr;
      return;
    }
    installed = target;
    _PyInterpreterState_SetEvalFrameFunc(interpreter, target ? target : foreign);
  }

  static void watch_forks() {
    static const int watched = ::pthread_atfork(nullptr, nullptr, forget_other_threads);
    (void)watched;
  }

  static void add(HookScope* scope) {
    watch_forks();
    scope->outer_ = scopes;
    scopes = scope;
    synchronise();
  }
  static void remove(HookScope* scope) {
    unlink(&scopes, scope, &HookScope::outer_);
    synchronise();
  }
  static void add(OneShot* shot) {
    watch_forks();
    shot->outer = one_shots;
    one_shots = shot;
    synchronise();
  }
  static void remove(OneShot* shot) {
    unlink(&one_shots, shot, &OneShot::outer);
    synchronise();
  }
};

namespace {

PyFunctionObject* function_of(PyObject* callable) {
  if (PyMethod_Check(callable)) callable = PyMethod_GET_FUNCTION(callable);
  BRAZE_CHECK(PyFunction_Check(callable), "not a Python function: ", Py_TYPE(callable)->tp_name);
  return reinterpret_cast<PyFunctionObject*>(callable);
}

// What every new function starts with (not exported by 3.13).
vectorcallfunc plain_vectorcall(PyFunctionObject* like) {
  static const vectorcallfunc plain = [&] {
    const SavedException pending;
    const Ref fresh = Ref::steal(PyFunction_New(like->func_code, like->func_globals));
    BRAZE_CHECK(fresh, "out of memory");
    return reinterpret_cast<PyFunctionObject*>(fresh.get())->vectorcall;
  }();
  return plain;
}

void check_state(const PyCodeObject* code, const FrameState& state) {
  BRAZE_CHECK(static_cast<int>(state.locals.size()) == code->co_nlocalsplus, state.locals.size(),
              " locals for ", code->co_nlocalsplus, " slots");
  BRAZE_CHECK(static_cast<int>(state.stack.size()) <= code->co_stacksize, "value stack of ",
              state.stack.size(), ", room for ", code->co_stacksize);
  BRAZE_CHECK(state.offset >= 0 && state.offset < Py_SIZE(code), "offset ", state.offset);
  BRAZE_CHECK(state.raise == (PyErr_Occurred() != nullptr),
              "an exception is pending just when it is to be raised");
}

constexpr int kGenerators = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;

PyCodeObject* code_of(PyObject* function) {
  return reinterpret_cast<PyCodeObject*>(function_of(function)->func_code);
}

PyObject* call_caught(PyObject* function, PyObject* const* args, size_t nargsf, PyObject* kwnames,
                      Driver driver, void* context) {
  PyFunctionObject* target = function_of(function);
  PyCodeObject* code = code_of(function);
  BRAZE_CHECK((code->co_flags & kGenerators) == 0, "a generator's frame starts with its object");
  // Another call protocol would run the function from its beginning.
  BRAZE_CHECK(target->vectorcall == plain_vectorcall(target), "the function's call is replaced");
  OneShot shot{PyThreadState_Get(), code, driver, context};
  Evaluator::add(&shot);
  PyObject* result = PyObject_Vectorcall(function, args, nargsf, kwnames);
  Evaluator::remove(&shot);  // still there if the arguments did not bind
  return result;
}

}  // namespace

}  // namespace internal

using internal::Evaluator;

HookScope::HookScope(Hook hook, void* context)
    : hook_(hook), context_(context), thread_(PyThreadState_Get()), outer_(nullptr) {
  Evaluator::add(this);
}

HookScope::~HookScope() { Evaluator::remove(this); }

PyObject* evaluate_natively(PyThreadState* thread, FrameView frame, bool throwing) {
  Evaluator::mark_evaluated(frame.raw());
  return _PyEval_EvalFrameDefault(thread, frame.raw(), throwing ? 1 : 0);
}

PyObject* evaluate_from(PyThreadState* thread, FrameView frame, FrameState state) {
  internal::check_state(frame.code(), state);
  Evaluator::mark_evaluated(frame.raw());
  SavedException exception;
  PyObject* result = Evaluator::start(thread, frame.raw(), std::move(state), &exception);
  exception.drop();
  return result;
}

PyObject* call_from(PyObject* function, PyObject* const* args, size_t nargsf, PyObject* kwnames,
                    FrameState state) {
  internal::check_state(internal::code_of(function), state);
  SavedException exception;
  internal::Start start{std::move(state), &exception};
  PyObject* result = internal::call_caught(
      function, args, nargsf, kwnames,
      [](void* context, PyThreadState* thread, FrameView view) {
        auto* start = static_cast<internal::Start*>(context);
        return Evaluator::start(thread, view.raw(), std::move(start->state), start->exception);
      },
      &start);
  exception.drop();
  return result;
}

PyObject* call_driven(PyObject* function, PyObject* const* args, size_t nargsf, PyObject* kwnames,
                      Driver driver, void* context) {
  return internal::call_caught(function, args, nargsf, kwnames, driver, context);
}

bool can_be_driven(PyObject* callable) {
  if (PyMethod_Check(callable)) callable = PyMethod_GET_FUNCTION(callable);
  if (!PyFunction_Check(callable)) return false;
  auto function = reinterpret_cast<PyFunctionObject*>(callable);
  auto code = reinterpret_cast<PyCodeObject*>(function->func_code);
  return (code->co_flags & internal::kGenerators) == 0 &&
         function->vectorcall == internal::plain_vectorcall(function);
}

struct Resumption::Shot : internal::OneShot {};

Resumption::Resumption(PyCodeObject* code, Driver driver, void* context)
    : shot_(new Shot{{PyThreadState_Get(), code, driver, context}}) {
  Evaluator::add(shot_);
}

Resumption::~Resumption() {
  Evaluator::remove(shot_);
  delete shot_;
}

PyObject* call_unhooked(PyObject* function, PyObject* const* args, size_t nargsf,
                        PyObject* kwnames) {
  const HookScope bypass(nullptr, nullptr);
  return PyObject_Vectorcall(function, args, nargsf, kwnames);
}

}  // namespace braze::cpython
