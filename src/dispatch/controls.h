// What the user says about compiling while the program runs: stances, breaks asked for.
#pragma once

#include <cstdint>

#include "cpython/ref.h"

namespace braze::dispatch {

// id, name
#define BRAZE_STANCES(X)                                                                        \
  X(Default, "default")                     /* compile on a miss */                             \
  X(ForceEager, "force_eager")              /* no compiled code runs */                         \
  X(EagerOnRecompile, "eager_on_recompile") /* compiled code that fits runs, a miss is eager */ \
  X(FailOnRecompile, "fail_on_recompile")   /* compiled code that fits runs, a miss raises */

enum class Stance : uint8_t {
#define X(id, name) k##id,
  BRAZE_STANCES(X)
#undef X
};

// The stance of this thread: its own if it has one, else the process's.
Stance stance();

// Adds `stances`, `set_process_stance`, `set_thread_stance`, `is_compiling` and `graph_break`.
bool initialize_controls(PyObject* module);

}  // namespace braze::dispatch
