// Random bits drawn into a tensor that is dense but not contiguous: dropout of a transposed
// activation. In which order the numbers go into it is the affair of PyTorch's kernel, which on
// processors of one maker goes by the indices and on others by the places in memory. A trial on a
// small tensor tells; either way the draw then is one into a contiguous tensor, which a graph can
// have.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>

#include "trace/composites.h"
#include "trace/constants.h"
#include "trace/fake_tensor.h"

namespace braze::trace {
namespace {

using at::Tensor;

// Without the default generator: a trace draws nothing from it.
bool try_order_of_draws() {
  RealCallScope real;
  at::NoGradGuard no_grad;
  static constexpr uint64_t kSeed = 1;
  constexpr int64_t kRows = 4, kColumns = 32;
  const auto draw = [](const Tensor& into) {
    into.bernoulli_(0.5, at::make_generator<at::CPUGeneratorImpl>(kSeed));
  };
  const Tensor transposed = at::empty({kRows, kColumns}), contiguous = at::empty({kRows, kColumns});
  draw(transposed.t());
  draw(contiguous);
  return transposed.equal(contiguous);
}

bool draws_in_order_of_memory() {
  static const bool answer = try_order_of_draws();
  return answer;
}

// The tensor with its dimensions as they lie in memory, the outermost first.
Tensor in_order_of_memory(const Tensor& tensor) {
  const auto strides = tensor.sym_strides();
  std::vector<int64_t> order(strides.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  return tensor.permute(order);
}

Tensor& bernoulli_float(Tensor& self, double p, std::optional<at::Generator> generator) {
  c10::impl::ExcludeDispatchKeyGuard below(kCompositeKey);
  if (!as_fake(self) || !self.device().is_cpu() || self.is_contiguous())
    return self.bernoulli_(p, std::move(generator));
  Tensor ordered = in_order_of_memory(self);
  if (!ordered.is_contiguous()) return self.bernoulli_(p, std::move(generator));
  if (draws_in_order_of_memory()) {
    ordered.bernoulli_(p, std::move(generator));
    return self;
  }
  Tensor drawn = at::empty_symint(self.sym_sizes(), self.options());
  return self.copy_(drawn.bernoulli_(p, std::move(generator)));
}

}  // namespace

void register_draws(torch::Library& operators) {
  operators.impl("bernoulli_.float", bernoulli_float);
}

}  // namespace braze::trace
