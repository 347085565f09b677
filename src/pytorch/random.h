// PyTorch's default random generator of the CPU.
#pragma once

#include <memory>

namespace braze::pytorch {

// The generator's state as it was when this was made, to go back to: what runs again, or has run
// for its error alone, draws nothing.
class GeneratorState {
 public:
  GeneratorState();
  ~GeneratorState();
  GeneratorState(const GeneratorState&) = delete;
  void restore() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace braze::pytorch
