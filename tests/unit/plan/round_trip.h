// A module as it comes back from a cache.
#pragma once

#include "plan/module.h"

namespace braze::plan {

inline Module round_trip(const Module& module) {
  return deserialize(serialize(module), module.target);
}

}  // namespace braze::plan
