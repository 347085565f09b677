// Operators, truth, comparison, membership, length, formatting.
#pragma once

#include "capture/calls/native.h"
#include "capture/world/slot.h"
#include "cpython/code.h"

namespace braze::capture {

struct TraceContext;

Slot binary_operation(TraceContext& trace, int op, Slot a, Slot b);
Slot unary_operation(TraceContext& trace, cpython::Opcode op, const Slot& a);
Slot compare(TraceContext& trace, const Slot& a, const Slot& b, int op, bool to_bool);
// -1: an exception is pending.
int truth(TraceContext& trace, const Slot& value);
Slot is_same(TraceContext& trace, const Slot& a, const Slot& b, bool negate);
// -1: an exception is pending.
int contains(TraceContext& trace, const Slot& container, const Slot& value);
Slot length_of(TraceContext& trace, const Slot& object);
Slot format_value(TraceContext& trace, const Slot& value, const Slot& spec, int conversion);
// An operand from outside that is not a tensor or atom: its contents are read; an instance of a
// class made in C that nobody knows is refused.
bool read_operand(TraceContext& trace, const Slot& operand, const char* what,
                  Look look = Look::kDeep);
// From the module `operator`. Borrowed.
PyObject* operator_callable(const char* name);
bool holds_tensor(PyObject* container, int depth = 0);
// Whether repr() of the object is the default one.
bool names_its_address(PyObject* object);

}  // namespace braze::capture
