// Inputs that are to be written in place (in_place.h), as fusion and ordering see them: what they
// become takes no memory, and is not computed before all else that reads them has run and all that
// may fail. So a call that fails has changed no input, as if the writes came at the end.
#pragma once

#include <vector>

#include "loop/program.h"
#include "schedule/aliases.h"
#include "schedule/item_graph.h"

namespace braze::schedule {

class InputWrites {
 public:
  InputWrites() = default;  // none
  // `alone`, by input: whether it may be written in place at all.
  InputWrites(const loop::Program& program, const Aliases& aliases, const std::vector<bool>& alone);

  // What must come before what, of the items of the program in the order that it has.
  ItemGraph::Constraints constraints(const loop::Program& program, const Aliases& aliases) const;
  // By root: the bytes that it takes; 0 for what is not allocated or goes into an input.
  std::vector<int64_t> allocated_bytes(const loop::Program& program) const;

 private:
  struct Pair {
    int input, source;  // buffers, roots both
  };
  std::vector<Pair> pairs_;
};

}  // namespace braze::schedule
