// Why a call fits no entry, and what follows for the next capture.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "dispatch/entry.h"

namespace braze::dispatch {

// "x.size(0): 4 -> 8": the guards of the closest entry that fail (of two entries, the one with
// fewer failing guards is closer), at most three of them. `names`: of the bound parameters.
std::string reason_of_miss(std::span<const std::shared_ptr<Entry>> entries, PyObject* const* bound,
                           PyObject* names);

// Finds the newest entry that only sizes, integers and floats keep from fitting this call, and
// makes those symbols from now on.
void learn_what_varies(capture::DynamicSizes& dynamic,
                       std::span<const std::shared_ptr<Entry>> entries, PyObject* const* bound,
                       PyObject* names);

}  // namespace braze::dispatch
