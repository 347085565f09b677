// Which buffers of a program share memory, and what each item reads and writes.
#pragma once

#include <cstdint>
#include <vector>

#include "loop/program.h"

namespace braze::schedule {

// Buffers fall into classes by the memory they live in. The root of a class owns the memory: a view
// is followed to its base, an extern result that is a view of an argument to that argument.
class Aliases {
 public:
  explicit Aliases(const loop::Program& program);
  int root(int buffer) const { return root_[buffer]; }
  // A further buffer, with memory of its own.
  void add() { root_.push_back(static_cast<int>(root_.size())); }

 private:
  std::vector<int> root_;
};

// Roots that an item reads and writes: sorted, each once. A kernel that loads back what it stored
// does not read it; one that accumulates into a buffer reads and writes it.
struct Access {
  std::vector<int> reads;
  std::vector<int> writes;
  // Draws random numbers, has an unknown effect or writes to an operand: keeps its order among
  // such.
  bool ordered = false;
};
Access access_of(const loop::Item& item, const Aliases& aliases);
Access access_of(const loop::Kernel& kernel, const Aliases& aliases);

bool contains(const std::vector<int>& sorted, int value);

// Roots whose contents are needed after the last item: graph outputs and sources of mutations.
std::vector<bool> needed_at_end(const loop::Program& program, const Aliases& aliases);

// The memory that the buffer spans from its element 0; 0 when it is empty. Symbolic sizes count as
// they were when traced.
int64_t bytes_of(const loop::Buffer& buffer);
// The same for all sizes, but that an empty tensor may count as if it were not. Not negative.
sym::Int size_in_bytes(const graph::TensorType& type);

}  // namespace braze::schedule
