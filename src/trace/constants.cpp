#include "trace/constants.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include "trace/fake_tensor.h"

namespace braze::trace {

namespace {

c10::impl::LocalDispatchKeySet keys_for_real_calls() {
  auto keys = c10::impl::tls_local_dispatch_key_set();
  keys.included_ = c10::default_included_set;
  keys.excluded_ = keys.excluded_ | c10::autograd_dispatch_keyset_with_ADInplaceOrView |
                   c10::autocast_dispatch_keyset | c10::DispatchKeySet(kFakeKey);
  return keys;
}

}  // namespace

RealCallScope::RealCallScope() : guard_(keys_for_real_calls()), in_kernel_(thread_state.in_kernel) {
  thread_state.in_kernel = false;
}
RealCallScope::~RealCallScope() { thread_state.in_kernel = in_kernel_; }

c10::IValue copy_lists(const c10::IValue& value) {
  if (value.isTensorList()) return value.toTensorList().copy();
  if (value.isList()) return value.toList().copy();
  return value;
}

void put_operand(c10::IValue& argument, int element, const at::Tensor& tensor) {
  if (element < 0) {
    argument = tensor;
  } else if (argument.isTensorList()) {
    argument.toTensorList().set(element, tensor);
  } else {
    argument.toList().set(element, tensor);
  }
}

void Constants::mark(const graph::Value* value) {
  const size_t size = value->id() + 1;
  if (known_.size() < size) {
    known_.resize(size, State::kNo);
    real_.resize(size);
  }
  if (known_[value->id()] == State::kNo) values_.push_back(value);
  known_[value->id()] = State::kYes;
}

void Constants::add_literal(const graph::Value* value, at::Tensor real) {
  mark(value);
  real_[value->id()] = std::move(real);
}

void Constants::add_call(const c10::OperatorHandle& handle, std::vector<c10::IValue> arguments,
                         std::vector<Operand> operands, std::vector<const graph::Value*> results) {
  for (const graph::Value* result : results)
    if (result) mark(result);
  calls_.push_back({handle, std::move(arguments), std::move(operands), std::move(results)});
}

void Constants::invalidate(int storage) {
  for (const graph::Value* value : values_)
    if (value->storage() == storage) known_[value->id()] = State::kNo;
}

void Constants::run(const Call& call) {
  torch::jit::Stack stack;
  stack.reserve(call.arguments.size());
  for (const c10::IValue& argument : call.arguments) stack.push_back(copy_lists(argument));
  for (const Operand& operand : call.operands)
    put_operand(stack[operand.argument], operand.element, real_[operand.value->id()]);
  call.handle.callBoxed(stack);
  size_t next = 0;
  auto take = [&](const at::Tensor& tensor) {
    const graph::Value* value = call.results.at(next++);
    if (value) real_[value->id()] = tensor;
  };
  for (const c10::IValue& result : stack) {
    if (result.isTensor()) take(result.toTensor());
    if (result.isTensorList())
      for (const at::Tensor& tensor : result.toTensorVector()) take(tensor);
  }
}

std::shared_ptr<const std::string> contents_of(const at::Tensor& real) {
  constexpr size_t kMostBytes = 1 << 16;
  if (real.storage_offset() != 0 || !real.is_non_overlapping_and_dense() ||
      real.nbytes() > kMostBytes || real.is_conj() || real.is_neg())
    return nullptr;
  if (real.numel() == 0) return std::make_shared<std::string>();
  RealCallScope scope;
  const at::Tensor here = real.is_cpu() ? real : real.cpu();
  return std::make_shared<std::string>(static_cast<const char*>(here.const_data_ptr()),
                                       here.nbytes());
}

at::Tensor Constants::evaluate(const graph::Value* value) {
  BRAZE_CHECK(contains(value), "not a constant: %", value->id());
  RealCallScope scope;
  for (; evaluated_ < calls_.size(); ++evaluated_) run(calls_[evaluated_]);
  return real_[value->id()];
}

}  // namespace braze::trace
