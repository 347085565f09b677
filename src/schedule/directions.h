// Along which axes of a kernel with reductions its elements lie side by side in memory.
#pragma once

#include "loop/ir.h"

namespace braze::schedule {

// Of elements that are loaded or stored: what neighbours along both axes read alike is no matter.
struct Directions {
  bool rows = false;     // neighbours along the last inner axis
  bool columns = false;  // neighbours along the last outer axis
  bool both() const { return rows && columns; }
};
Directions directions_of(const loop::Kernel& kernel);

}  // namespace braze::schedule
