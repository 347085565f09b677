// Own decompositions of composite operators for symbolic sizes.
#pragma once

#include <c10/core/DispatchKey.h>

#include <string>

namespace braze::trace {

// Included in the thread's keys while a trace is under way.
inline constexpr c10::DispatchKey kCompositeKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

// Once per process; empty, or why it failed.
std::string register_composites();

}  // namespace braze::trace
