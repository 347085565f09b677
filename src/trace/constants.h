// The part of a trace that depends on nothing outside: literals, factories, and what is computed
// from them. It is evaluated for real when a data-dependent op asks (`mask.any()`, `int(n)`).
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace braze::trace {

// A tensor operand of a call: argument, element of a list argument (-1: the argument itself).
struct Operand {
  int argument;
  int element;
  graph::Value* value;
};

class Constants {
 public:
  bool contains(const graph::Value* value) const {
    return value->id() < static_cast<int>(known_.size()) && known_[value->id()] != State::kNo;
  }
  void add_literal(const graph::Value* value, at::Tensor real);
  // `arguments` as the op was called, with anything in place of the tensor operands.
  void add_call(const c10::OperatorHandle& handle, std::vector<c10::IValue> arguments,
                std::vector<Operand> operands, std::vector<const graph::Value*> results);
  // Memory with that storage number was written with data from outside.
  void invalidate(int storage);
  // The value as it is at this point of the trace.
  at::Tensor evaluate(const graph::Value* value);

 private:
  enum class State : uint8_t { kNo, kYes };
  struct Call {
    c10::OperatorHandle handle;
    std::vector<c10::IValue> arguments;
    std::vector<Operand> operands;
    std::vector<const graph::Value*> results;
  };
  void mark(const graph::Value* value);
  void run(const Call& call);

  std::vector<State> known_;  // by value id
  std::vector<const graph::Value*> values_;
  std::vector<at::Tensor> real_;  // by value id, once evaluated
  std::vector<Call> calls_;
  size_t evaluated_ = 0;  // calls_[0 .. evaluated_) have run
};

// The bytes of a tensor that the trace has made, to stand in the graph. Null for a large one, which
// is cheaper to keep than to copy, and for one that is not alone in its memory.
std::shared_ptr<const std::string> contents_of(const at::Tensor& real);

// Puts `tensor` into the operand's place.
void put_operand(c10::IValue& argument, int element, const at::Tensor& tensor);
// A copy whose lists are not shared with the original.
c10::IValue copy_lists(const c10::IValue& value);

// Real calls from within a trace: no autograd, no fallback, no meta.
class RealCallScope {
 public:
  RealCallScope();
  ~RealCallScope();
  RealCallScope(const RealCallScope&) = delete;

 private:
  c10::impl::ForceDispatchKeyGuard guard_;
  const bool in_kernel_;
};

}  // namespace braze::trace
