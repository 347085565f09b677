// Calls that are given torch.SymInts: what may see them, what is done here, what gets the numbers.
#pragma once

#include "capture/world/tracked.h"

namespace braze::capture {

struct TraceContext;

// A call of something made in C with symbols among its arguments. True with `result` if the call is
// done; else its arguments are such that it may be made.
bool call_with_symbols(TraceContext& trace, const Tracked& callable, Tracked* args, size_t count,
                       PyObject* kwnames, Tracked& result);
// Torch's functions only read the lists that they are given: those from outside are handed over as
// copies that hold the fakes, so that sizes stay symbols.
void use_stand_ins(TraceContext& trace, Tracked* args, size_t count);
// The arguments of torch.tensor: a number or a list of them with symbols among them, and at most a
// dtype and a device.
bool is_data_of_symbols(TraceContext& trace, Tracked* args, size_t count, PyObject* kwnames);

}  // namespace braze::capture
