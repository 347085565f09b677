// The object behind `braze._C.CompiledFunction`, for the two sources that know its inside:
// function_type.cpp makes the Python type, compiled_function.cpp does what its calls do.
#pragma once

#include <memory>

#include "cpython/ref.h"
#include "dispatch/settings.h"

namespace braze::dispatch {

// Entries, segments and what the calls so far have shown; of compiled_function.cpp alone.
struct FunctionState;

struct CompiledFunction {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* function;  // PyFunctionObject: what is captured
  PyObject* self;      // bound first argument, or null
  PyObject* wrapped;   // what the user gave
  PyObject* dict;
  PyObject* weakrefs;
  FunctionState* state;
};

inline CompiledFunction* cast(PyObject* object) {
  return reinterpret_cast<CompiledFunction*>(object);
}

FunctionState* make_state(Settings settings);
void destroy(FunctionState* state);
// Drops all that is compiled. What it held may run finalisers, which may call the function again.
void drop_entries(FunctionState& state);
// Drops all that is compiled and all that was learnt from calls.
void reset(FunctionState& state);
// A list of one dict for each entry, oldest first; null with an exception set.
PyObject* reports(const FunctionState& state);

// The vectorcall of CompiledFunction.
PyObject* call_compiled(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* kwnames);
// Whether an entry fits these arguments; nothing is compiled or run.
bool has_entry_for(CompiledFunction* self, PyObject* const* args, size_t count, PyObject* kwnames);

// braze.GraphBreakError, borrowed.
PyObject* graph_break_error();

}  // namespace braze::dispatch
