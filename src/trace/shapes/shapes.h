// Own shape functions: metadata of results, for operators whose PyTorch kernel for metadata is a
// slow Python function or does not take symbolic sizes. Each gives exactly eager's sizes, strides
// and dtype on the CPU; what it is not sure of it leaves to PyTorch's kernel by returning false.
//
// Written on SymInt, which is a plain number when concrete: one function for both. Questions about
// symbols are answered by guards.
#pragma once

#include <ATen/core/stack.h>

#include <string>

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

struct ShapeEntry {
  ShapeFunction function;
  // PyTorch's C++ kernel serves concrete sizes.
  bool for_symbols_only;
};
// By "aten::name" or "aten::name.overload".
const ShapeEntry* find_shape_function(const std::string& name);

}  // namespace braze::trace
