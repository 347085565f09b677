// Metadata of results of the few operators of which PyTorch itself has to be asked: all others have
// their rule in graph/infer/. What such a function is not sure of it leaves to PyTorch's kernel for
// metadata by returning false. Questions about symbols are answered by guards.
#pragma once

#include <ATen/core/stack.h>

#include "trace/operator.h"

namespace braze::trace {

// A call with fakes for arguments on the stack.
struct ShapeCall {
  const OperatorInfo& info;
  torch::jit::Stack& stack;
  size_t begin;

  const c10::IValue& operator[](int i) const { return stack[begin + i]; }
  int count() const { return static_cast<int>(info.arguments.size()); }
  at::Tensor tensor(int i) const;  // undefined for None
  bool is_number(int i) const;     // a Python number in a tensor's place
  // Replaces the arguments.
  template <class... Results>
  bool give(Results&&... results) const {
    stack.resize(begin);
    (stack.emplace_back(std::forward<Results>(results)), ...);
    return true;
  }
};

}  // namespace braze::trace
