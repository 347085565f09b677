// Memory of tensors from outside of the trace, by address: two storages of PyTorch's over one
// memory (NumPy, DLPack, buffers) have one storage number in the graph.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "pytorch/memory.h"

namespace braze::trace {

class OutsideMemory {
 public:
  // What PyTorch does not know of the memory behind a storage number.
  enum class Sharing : uint8_t {
    kNone,     // one storage, or views of one
    kAligned,  // several storages that begin at one place: types tell what is the same memory
    kMixed,    // storages that begin at different places
  };

  // A storage with that number lies there. Gives the numbers of all that is one memory from now on,
  // this one among them, in order: the first is to stand for them all.
  std::vector<int> add(pytorch::Extent extent, int number);
  Sharing sharing(int number) const;

 private:
  struct Memory {
    uintptr_t end = 0;
    int number = -1;
    Sharing sharing = Sharing::kNone;
  };
  std::map<uintptr_t, Memory> memories_;  // by first address; they do not overlap
};

}  // namespace braze::trace
