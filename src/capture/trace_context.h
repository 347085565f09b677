// What one trace works on.
//
// The evaluation carries out CPython's instructions over real objects. Tensors from outside stay
// the real ones; results of torch ops are fakes. Every read of something that existed before is
// guarded and every write to it is logged, through `world`. Python code that native code calls back
// into comes to the frame hook. A break is a pending Python exception (`breaks`).
//
// It has no class of its own: its parts are functions over a TraceContext, in the rooms frames/,
// objects/, calls/ and symbols/.
#pragma once

#include <chrono>
#include <set>
#include <utility>
#include <vector>

#include "capture/breaks/breaks.h"
#include "capture/calls/context_variables.h"
#include "capture/calls/late_calls.h"
#include "capture/calls/marks.h"
#include "capture/calls/output.h"
#include "capture/capture.h"
#include "capture/frames/entry_state.h"
#include "capture/frames/frame_stack.h"
#include "capture/frames/origin.h"
#include "capture/frames/root_progress.h"
#include "capture/objects/named_tuples.h"
#include "capture/objects/read_caches.h"
#include "capture/recording/recording.h"
#include "capture/symbols/text.h"
#include "capture/world/world.h"

namespace braze::capture {

// See frames/subject.h.
struct CurrentSubject {
  const Tracked* tracked = nullptr;
  const Frame* frame = nullptr;  // the frame of that instruction
};

// See calls/native_scope.h.
struct NativeCode {
  int depth = 0;                   // of native code of torch
  PyObject* callee = nullptr;      // outermost torch callable under way, for origins
  const Frame* frame = nullptr;    // where it was called
  const Source* module = nullptr;  // the module whose method that is
};

struct TraceContext {
  TraceContext(PyFunctionObject* root, PyObject* parameter_names, const Options& options);
  ~TraceContext();
  TraceContext(const TraceContext&) = delete;

  // The trace is over: generators that it leaves end without their handlers.
  void end();

  [[gnu::cold]] std::nullptr_t raise_break(BreakKind kind, std::string what) {
    return breaks.raise(kind, std::move(what));
  }
  [[gnu::cold]] Tracked refuse(BreakKind kind, std::string what) {
    breaks.raise(kind, std::move(what));
    return {};
  }
  bool captures_data() const { return options.capture_scalars || options.capture_sizes; }
  bool is_state_guard(PyObject* object) const {
    for (const Ref& guard : state_guards)
      if (guard.get() == object) return true;
    return false;
  }

  Breaks breaks;
  Recording recording;
  TraceGuards guards;
  World world;
  const Options options;
  PyFunctionObject* const root;
  Draft::Statistics statistics;
  const std::chrono::steady_clock::time_point started;

  // --- Frames
  FrameStack frames;
  RootProgress progress;
  EntryState entry;
  OriginTracker origins;
  CurrentSubject subject;
  NativeCode native;
  int importing = 0;         // imports under way
  int assertions = 0;        // branches that are (assertions.h)
  bool interrupted = false;  // KeyboardInterrupt or the like is pending: passed through
  bool made_class = false;
  std::vector<NamedTupleClass> named_tuples;
  // Generators that the trace made, by the address of the frame inside. Not held: one that nobody
  // refers to any more is closed at once, as it would be.
  IdentityMap<bool> generators;
  // Functions that native code has called, with the class of their first argument.
  std::set<std::pair<PyFunctionObject*, PyTypeObject*>> hooked;

  // --- Objects
  ReadCaches caches;
  size_t container_changes = 0;
  // Results of id() and hash(). Only id() of what was there before may leave the trace: it is asked
  // for again.
  struct Address {
    Ref value, object;
    bool is_id;
  };
  std::vector<Address> addresses;
  std::vector<VaryingText> texts;
  // Tensors from outside to whose `.grad` the code gave None before all else, so that the gradient
  // can go before the compiled code runs, as it would in eager.
  IdentityMap<bool> gradients_dropped_early;

  // --- Calls
  std::vector<DeferredCall> deferred;
  LateCalls late_calls;  // those of them that change what the traced code could read
  ContextVariables context_variables;
  // Objects of torch made by the traced code that put torch's state back when they end.
  std::vector<Ref> state_guards;
  // Of autocast, from outside, that the trace has entered, and the copies that stand for them.
  std::vector<std::pair<PyObject*, Ref>> entered_contexts;
  // A list, where torch-level calls are recorded (Options::record_torch_calls).
  Ref torch_calls;
  // Those of this capture's traces so far, in the order of their calls; kept by the caller.
  ConstantResults* constants = nullptr;
  size_t constants_used = 0;
};

}  // namespace braze::capture
