// What a statement does to buffers and results: asked by all that moves, merges or drops
// statements.
#pragma once

#include <vector>

#include "loop/ir.h"

namespace braze::loop {

struct Effects {
  std::vector<int> loads;    // parameters, ascending, each once
  std::vector<int> results;  // numbers of the reductions and scans that it uses; the same
  int overwrites = -1;       // parameter that it stores to, -1: none
  int accumulates = -1;      // parameter that it reads and writes in place, -1: none
  int defines = -1;          // number of the reduction or scan, -1: it is neither

  int writes() const { return overwrites >= 0 ? overwrites : accumulates; }
};
Effects effects_of(const Statement& statement);

// By parameter: whether some statement accumulates into it.
std::vector<bool> accumulated_params(const Kernel& kernel);
// Whether the order of the inner points decides over results: a scan, the first of several equal
// maxima, sums that are not free to be reordered.
bool keeps_inner_order(const Kernel& kernel);
// Whether walks over the inner points must be complete and visit each point once: what a scan or an
// accumulating store does for a point cannot be repeated, left out or done out of turn.
bool walks_once(const Kernel& kernel);

}  // namespace braze::loop
