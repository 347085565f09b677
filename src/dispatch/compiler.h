// What happens on a miss: capture, compile, and an entry that can be published.
#pragma once

#include <memory>

#include "dispatch/entry.h"
#include "dispatch/settings.h"

namespace braze::dispatch {

// Captures and compiles `function` for these bound parameters. Always gives an entry that is safe
// to use (in the worst case one that runs eagerly and says why); null with a Python exception
// pending for KeyboardInterrupt and its like, or for an internal error under BRAZE_STRICT=1.
// Sizes are symbols where `dynamic` (may be null: nowhere) says that they vary; integers that turn
// out to be no symbols are taken out of it. `segment`: where it begins, and whether it must have
// tensor operations; then `bound` is the frame's locals and value stack.
std::shared_ptr<Entry> compile_entry(PyFunctionObject* function, PyObject* const* bound,
                                     const Settings& settings, const capture::Options& segment = {},
                                     capture::DynamicSizes* dynamic = nullptr);

// Set while this thread captures: compiled functions that are called then run their original.
bool capturing();

// What messages call a function: "forward (model.py:12)".
std::string describe(PyFunctionObject* function);

// Tells of a defect of Braze, on stderr: what it means for `function`, and what went wrong.
void report_defect(PyFunctionObject* function, const char* consequence, const std::string& why);
// Reports a defect in what `entry` has compiled, and makes it an eager entry.
void retire(Entry& entry, PyFunctionObject* function, const std::string& why);
// Reports guards that do not hold right after their capture; not if there are other threads, which
// may have changed what was read.
void report_unheld_guards(PyFunctionObject* function, const std::string& why);

}  // namespace braze::dispatch
