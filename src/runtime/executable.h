// Loads and runs modules: kernels of a shared library, ATen calls without Python, memory.
//
// An executable may run on several threads at once: what changes during a run (arena, prepared
// tensors and argument lists) is a context taken from a free list for the length of the run.
//
// A symbolic function is bound to the sizes that a call comes with; the last 32 lists of sizes are
// kept. Its kernels are loaded once, and its runs share arenas (function_runner.h). A function of
// control steps is interpreted (control_runner.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plan/module.h"

namespace braze::runtime {

// A kernel met an index out of range, or sizes are outside of what the code is for: nothing that
// the user sees has been changed; run the call in eager, which raises the user's exception.
class NeedsEager : public std::exception {};

class Executable {
 public:
  // `bound`: the constants that the module does not hold itself, by input; others are not looked
  // at. Makes those that it holds, and builds or loads its kernels. `poll` is called in each round
  // of a loop on data, which it may end with an exception. `cuda_graphs`: calls are recorded and
  // launched as a whole where that can be (graphed_function.h). InternalError where a tensor to be
  // bound is missing or of another type.
  Executable(plan::Module module, std::vector<at::Tensor> bound, std::function<void()> poll = {},
             bool cuda_graphs = false);
  ~Executable();
  Executable(const Executable&) = delete;

  // inputs[i]: the tensor of input i (ignored where it is a constant). outputs: appended, in
  // the function's order; an output that is an input is that very tensor, a view of one is a fresh
  // view. symbols[i]: the value of the module's symbol i in this call, which is written where it is
  // read from data; one without symbols does not look at them. numbers[i]: float i of the call,
  // whose input is null. handed_over[i]: the tensor of input i if the caller does not need it any
  // more, else undefined (none at all where it is empty); it is dropped when the last step that
  // needs it has run, and cannot be had back where the run fails. Runs below autograd with the GIL
  // held or not. Throws NeedsEager, c10::Error, InternalError, and what `poll` throws.
  void run(std::span<c10::TensorImpl* const> inputs, std::vector<at::Tensor>& outputs,
           std::span<int64_t> symbols = {}, std::span<const double> numbers = {},
           std::span<at::Tensor> handed_over = {});

  // Whether a step before the closing copies may change an input: after such a step has run, a
  // failing call cannot be run again in eager.
  bool writes_inputs_early() const;

  // For people, of CUDA graphs: how many there are, or why there are none. Empty: none are wanted.
  std::string graphs() const;

  // Whether a call may take other ways than the one before it, by its data.
  bool has_control() const;
  const plan::Function& function() const;                 // the first one
  const std::vector<graph::OutputRole>& outputs() const;  // its outputs

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace braze::runtime
