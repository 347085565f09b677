// PyTorch's default random generators of the CPU and of a GPU.
#pragma once

#include <memory>

namespace braze::pytorch {

// Their states as they were when this was made, to go back to: what runs again, or has run for its
// error alone, draws nothing. That of a GPU is left out while a graph is recorded, whose replays
// draw anew.
class GeneratorState {
 public:
  explicit GeneratorState(int gpu = -1);  // the number of one that is in use; -1: none
  ~GeneratorState();
  GeneratorState(const GeneratorState&) = delete;
  void restore() const;
  int gpu() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace braze::pytorch
