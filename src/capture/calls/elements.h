// Functions of single numbers, evaluated over tensors of them: braze._C.elementwise.
//
// What would show that a number is a tensor of several is a break: its shape, and operators that
// do not compute each by itself.
#pragma once

#include <string_view>

#include "capture/world/tracked.h"

namespace braze::capture {

struct TraceContext;

// What `function` gives for `arguments`, a tuple of tensors of four dimensions that broadcast.
Tracked call_elementwise(TraceContext& trace, const Tracked& function, const Tracked& arguments);

// Of tuples of tensors (numbers, positions, outputs): a tuple of the text of the program between
// them and of its tables, or None (trace/element_program.h).
Tracked call_element_program(TraceContext& trace, const Tracked* arguments);

// A break if such a function asks for the sizes of its numbers: `name` is that of an attribute, a
// method or a function of torch.
bool may_show_sizes(TraceContext& trace, PyObject* tensor, std::string_view name);

}  // namespace braze::capture
