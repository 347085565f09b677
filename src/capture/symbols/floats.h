// Floats that vary, in the evaluation: torch.SymFloat where the program has a float.
//
// Beside a tensor such a float is an operand, cast as PyTorch casts a Python number; with numbers
// it is computed in double precision, as Python computes; compared with a number it is guarded.
// Everything else is given the number, with a guard.
#pragma once

#include <string_view>

#include "capture/world/slot.h"
#include "cpython/code.h"

namespace braze::capture {

struct TraceContext;

// Functions and methods of torch whose two operands may each be a number or a tensor.
bool is_plain_operator(std::string_view name);

Slot binary_of_floats(TraceContext& trace, int op, const Slot& a, const Slot& b, bool& done);
Slot unary_of_float(TraceContext& trace, cpython::Opcode op, const Slot& a);
Slot compare_floats(TraceContext& trace, const Slot& a, const Slot& b, int op, bool& done);
// braze._C.operand(value, tensor): see policy.h.
Slot operand_of_float(TraceContext& trace, const Slot& value, const Slot& tensor);
// A function of numbers.
Slot number_of_floats(TraceContext& trace, PyObject* function, const Slot* args, size_t count,
                      bool& done);
// A function that does the same with tensors of one element in the place of the numbers.
Slot call_for_floats(TraceContext& trace, PyObject* function, Slot* args, size_t count,
                     PyObject* kwnames, bool& done);
PyObject* names_in_tensor(const char* name);
// The arguments of a function of torch: operands are tensors, all else gets the numbers.
void settle_floats(TraceContext& trace, PyObject* callable, Slot* args, size_t count,
                   PyObject* kwnames);

}  // namespace braze::capture
