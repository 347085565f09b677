// Operators, truth, comparison, membership, length, formatting.
#pragma once

#include "capture/calls/native.h"
#include "capture/world/tracked.h"
#include "cpython/code.h"

namespace braze::capture {

struct TraceContext;

Tracked binary_operation(TraceContext& trace, int op, Tracked a, Tracked b);
Tracked unary_operation(TraceContext& trace, cpython::Opcode op, const Tracked& a);
Tracked compare(TraceContext& trace, const Tracked& a, const Tracked& b, int op, bool to_bool);
// -1: an exception is pending.
int truth(TraceContext& trace, const Tracked& value);
Tracked is_same(TraceContext& trace, const Tracked& a, const Tracked& b, bool negate);
// -1: an exception is pending.
int contains(TraceContext& trace, const Tracked& container, const Tracked& value);
Tracked length_of(TraceContext& trace, const Tracked& object);
Tracked format_value(TraceContext& trace, const Tracked& value, const Tracked& spec,
                     int conversion);
// An operand from outside that is not a tensor or atom: its contents are read; an instance of a
// class made in C that nobody knows is refused.
bool read_operand(TraceContext& trace, const Tracked& operand, const char* what,
                  Look look = Look::kDeep);
// From the module `operator`. Borrowed.
PyObject* operator_callable(const char* name);
bool holds_tensor(PyObject* container, int depth = 0);
// Whether repr() of the object is the default one.
bool names_its_address(PyObject* object);

}  // namespace braze::capture
