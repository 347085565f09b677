// Builtins that the evaluation carries out itself.
#pragma once

#include "capture/policy/policy.h"
#include "capture/world/tracked.h"

namespace braze::capture {

struct TraceContext;

// isinstance(object, ...): what it says follows from the class.
void rely_on_type(TraceContext& trace, const Tracked& object);

// A callable with a rule (policy/policy.h). `done` is false where it is called like any other.
Tracked call_listed(TraceContext& trace, const CalleeRule& rule, const Tracked& callable,
                    Tracked* args, size_t count, PyObject* kwnames, bool& done);
// A break that the program asks for. The first argument, if any, is the user's message.
Tracked asked_break(TraceContext& trace, const char* function, const Tracked* args, size_t count);
// What isinstance() and issubclass() say of an abstract class: what is registered is counted by the
// module abc, for all of them together.
bool rely_on_registrations(TraceContext& trace, PyObject* classes);

}  // namespace braze::capture
