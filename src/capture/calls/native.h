// Native code: what it may be given, and what it reads is guarded.
//
// Native code sees neither the log of writes nor the shadows, and takes no guards. So before it
// runs, everything that it can reach in its arguments is guarded, and it is a break if it would
// come upon an object that the trace has changed, or could read or change attributes.
#pragma once

#include "capture/world/tracked.h"

namespace braze::capture {

struct TraceContext;

// What native code does with its arguments: keeps them for later, hashes their items at most and
// keeps those, iterates over them and calls what it is given, gives what containers hold at any
// depth to others, or looks at it itself (comparison, text).
enum class Look : uint8_t { kKeeps, kHoldsItems, kItems, kHandsOn, kDeep };

// Whether the `__self__` of a built-in function is an object that it is a method of.
inline bool is_bound_to_object(PyObject* self) {
  return self && !PyModule_Check(self) && !PyType_Check(self);
}

// `torch`: native code of torch, whose frames are not the user's.
Tracked call_native(TraceContext& trace, PyObject* callable, Tracked* args, size_t count,
                    PyObject* kwnames, bool torch);
// Of torch's, with floats that vary as they are.
Tracked call_as_given(TraceContext& trace, PyObject* callable, Tracked* args, size_t count,
                      PyObject* kwnames, bool torch = true);
// Without a look at the result.
Ref call_raw(TraceContext& trace, PyObject* callable, Tracked* args, size_t count,
             PyObject* kwnames);
// What a native callee gave: checked for a swallowed break and for things from nowhere.
Tracked result_of_native(TraceContext& trace, Ref result);
// `what`: the callee, for messages. A false: a break is pending.
bool check_native_arguments(TraceContext& trace, const char* what, Tracked* args, size_t count,
                            bool read_only, Look look = Look::kDeep);
// Those that are containers.
bool read_arguments(TraceContext& trace, Tracked* args, size_t count, Look look = Look::kDeep);
// Guards everything that native code can reach in a container or an iterator, from outside or
// made by the trace. A break (false) if that has been changed by the trace and `look` is kDeep.
bool read_deeply(TraceContext& trace, PyObject* object, Look look);
// An iterator made by the trace is advanced: map(), filter() and their like call and compare what
// they iterate over.
bool read_by_advancing(TraceContext& trace, PyObject* iterator);

}  // namespace braze::capture
