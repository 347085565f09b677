// The memory of what PyTorch's operators return to compiled code.
#pragma once

namespace braze::runtime {

// While it lives, large CPU blocks that PyTorch's operators allocate on this thread are taken from
// the pool of compiled code (runtime/memory.h) and go back there, so that what dies in one makes
// room for the other. All else is PyTorch's allocator's, as it is where the user has set one.
class OperatorMemory {
 public:
  OperatorMemory();
  ~OperatorMemory();
  OperatorMemory(const OperatorMemory&) = delete;

 private:
  const bool before_;
};

}  // namespace braze::runtime
