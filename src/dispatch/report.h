// An entry as a Python dict, for `explain` and tests.
#pragma once

#include <chrono>

#include "cpython/ref.h"
#include "dispatch/entry.h"

namespace braze::dispatch {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Besides what was compiled: where the segment is ("file", "function", "line", "offset": what it
// begins with), how it ends ("exit": return, break, raise, give up) and where ("break_offset").
PyObject* report_of(const Entry& entry);

// What a forward, cut from its backward, keeps for it; the largest first.
std::vector<KeptTensor> kept_by(const graph::Graph& forward);
// The bytes of it by output of the forward; 0: not kept, or it lives anyway.
std::vector<int64_t> kept_bytes(const graph::Graph& forward);
// Counts what the module runs.
void note_steps(const plan::Module& module, Report& report);

}  // namespace braze::dispatch
