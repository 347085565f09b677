// Why a call fits nothing that is compiled, in one line.
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

// What keeps the newest entry that differs in nothing else from fitting this call will be symbols
// from now on.
void learn_what_varies(capture::DynamicSizes& dynamic,
                       std::span<const std::shared_ptr<Entry>> entries, PyObject* const* bound,
                       PyObject* names);

}  // namespace braze::dispatch
