// Runs one function of control steps: calls of other functions, branches, loops, and numbers that
// are read from data.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "plan/binder.h"
#include "plan/function.h"
#include "runtime/extern_call.h"

namespace braze::runtime {

class ControlRunner {
 public:
  using Tensors = std::vector<at::Tensor>;
  // Runs another function of the module, by number. As Executable::run.
  using Call = std::function<void(int32_t function, std::span<c10::TensorImpl* const> inputs,
                                  Tensors& outputs, std::span<int64_t> symbols)>;

  // `constants`: by input, undefined where it is not one. `poll` is called once in each round of a
  // loop and may throw.
  ControlRunner(plan::Function function, std::vector<at::Tensor> constants, Call call,
                std::function<void()> poll);

  // As Executable::run. What it calls is given numbers as tensors.
  void run(std::span<c10::TensorImpl* const> inputs, Tensors& outputs, std::span<int64_t> symbols,
           std::span<const double> numbers) const;

  const plan::Function& function() const { return function_; }

 private:
  class Run;

  const plan::Function function_;
  const plan::Binder binder_;
  const std::vector<at::Tensor> constants_;
  std::vector<std::unique_ptr<ExternCall>> externs_;  // by step; null for other steps
  Call call_;
  std::function<void()> poll_;
};

}  // namespace braze::runtime
