// Symbolic integers in the evaluation: torch.SymInt where the program has an int.
//
// What Python does with ints is done on expressions as far as it can be: arithmetic, comparison
// (decided at once, with a guard), truth. Torch's functions take SymInts themselves. Whatever else
// would look into one - formatting, hashing, native code - is given the int, and the symbol becomes
// that number, with a guard. So nothing that the traced code can see tells a SymInt from an int.
#pragma once

#include <optional>

#include "capture/known.h"
#include "capture/world/tracked.h"
#include "cpython/code.h"
#include "sym/int.h"

namespace braze::capture {

struct TraceContext;

// Whether an object, or one in it, to that depth of containers, is `wanted`.
constexpr int kContainerDepth = 4;
bool any_inside(PyObject* object, bool (*wanted)(PyObject*), int depth = kContainerDepth);

// An int, or a symbol in place of one.
inline bool is_integer(PyObject* object) {
  return PyLong_Check(object) || Py_TYPE(object) == known().sym_int;
}

bool has_symbol(TraceContext& trace, const Tracked& tracked);
// Containers from outside hold none; what has been put into one is in its shadow.
bool may_hold_symbol(TraceContext& trace, PyObject* object);
// Puts numbers in place of symbols.
void make_concrete(TraceContext& trace, Tracked& tracked);
// For a key of a dict or an element of a set: hashed as what it stands for, and guarded.
void make_key(TraceContext& trace, Tracked& tracked);
// C code has just been given these arguments and gave `result`: the sets and dicts among them hold,
// as keys, the tensors from outside and not the fakes that stand for them, as make_key() has it.
Ref with_real_keys(TraceContext& trace, PyObject* callable, const Tracked* args, size_t count,
                   Ref result);
// Who catches an exception may print it or hand it on. A generator's return value stands in its
// StopIteration without a call that would have asked for the number.
bool make_arguments_concrete(TraceContext& trace, PyObject* exception);
// The same object with numbers for symbols. Containers are the trace's own: those from outside hold
// no symbols, their shadows are the trace's.
Ref with_numbers(TraceContext& trace, PyObject* object, int depth);
// The number of a Python int or of a symbol; nothing for a large one.
std::optional<sym::Int> integer_in(TraceContext& trace, PyObject* object);
// a OP b where one is a symbol; `done` is false where the operator needs the numbers.
Tracked binary_of_symbols(TraceContext& trace, int op, const Tracked& a, const Tracked& b,
                          bool& done);
Tracked unary_of_symbol(TraceContext& trace, cpython::Opcode op, PyObject* symbol);
// -1: not decided here.
int compare_symbols(TraceContext& trace, const Tracked& a, const Tracked& b, int op);
// `a is b` where one is a symbol. CPython has one object for each small int; of other equal ones
// only the program's own run can tell: -1.
int is_same_integer(TraceContext& trace, PyObject* a, PyObject* b);
int truth_of_symbol(TraceContext& trace, PyObject* symbol);
// A comparison with a number that is read from data, not decided until something asks: a SymBool,
// or empty if it is none.
Tracked undecided_comparison(TraceContext& trace, const Tracked& a, const Tracked& b, int op);
// torch._check of a condition.
Tracked expect_condition(TraceContext& trace, const Tracked& condition);
// int(x), x.tolist() of a tensor of integers, where numbers that are read from data are symbols.
// Empty, without an exception, for anything else.
Tracked number_of_tensor(TraceContext& trace, const Tracked& tensor);
Tracked list_of_tensor(TraceContext& trace, const Tracked& tensor);
// len(x) of a tensor: its first size, which CPython's own len() would make a number.
Ref symbolic_length(TraceContext& trace, PyObject* tensor);

}  // namespace braze::capture
