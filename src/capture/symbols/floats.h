// Floats that vary, in the evaluation: torch.SymFloat where the program has a float.
//
// Beside a tensor such a float is an operand, cast as PyTorch casts a Python number; with numbers
// it is computed in double precision, as Python computes; compared with a number it is guarded.
// Everything else is given the number, with a guard.
#pragma once

#include <string_view>

#include "capture/world/tracked.h"
#include "cpython/code.h"

namespace braze::capture {

struct TraceContext;

// Functions and methods of torch whose two operands may each be a number or a tensor.
bool is_plain_operator(std::string_view name);

Tracked binary_of_floats(TraceContext& trace, int op, const Tracked& a, const Tracked& b,
                         bool& done);
// The float that Python makes of an integer that varies and a number, or of two such integers:
// beta ** step, step / 10.
Tracked float_of_integers(TraceContext& trace, int op, const Tracked& a, const Tracked& b,
                          bool& done);
Tracked unary_of_float(TraceContext& trace, cpython::Opcode op, const Tracked& a);
Tracked compare_floats(TraceContext& trace, const Tracked& a, const Tracked& b, int op, bool& done);
// braze._C.operand(value, tensor): see policy.h.
Tracked operand_of_float(TraceContext& trace, const Tracked& value, const Tracked& tensor);
// `tensor.item()` of a tensor from outside that counts the calls, as optimizers have them: it is
// read by the guards of each call. Empty, with nothing pending, for all others.
Tracked item_of_counter(TraceContext& trace, const Tracked& tensor);
// A function of numbers.
Tracked number_of_floats(TraceContext& trace, PyObject* function, const Tracked* args, size_t count,
                         bool& done);
// A function that does the same with tensors of one element in the place of the numbers.
Tracked call_for_floats(TraceContext& trace, PyObject* function, Tracked* args, size_t count,
                        PyObject* kwnames, bool& done);
PyObject* names_in_tensor(const char* name);
// The arguments of a function of torch: operands are tensors, all else gets the numbers.
void settle_floats(TraceContext& trace, PyObject* callable, Tracked* args, size_t count,
                   PyObject* kwnames);

}  // namespace braze::capture
