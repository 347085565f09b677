// `quantile` and `nanquantile` from PyTorch 2.14 on. Their composite kernel sorted; now, on the
// CPU, it looks for the elements of the asked ranks in memory, which fakes do not have. So the
// operator is recorded as it is. Which of equal elements it finds decides where a gradient flows,
// so that with one it is left to eager.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/version.h>

#include <algorithm>

#include "trace/break.h"
#include "trace/composites.h"
#include "trace/fake_tensor.h"
#include "trace/recorder.h"

namespace braze::trace {
namespace {

constexpr bool kLooksIntoMemory = TORCH_VERSION_MAJOR > 2 ||
                                  (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 14);

// self, q (a tensor or a number), dim, keepdim, interpolation
constexpr int kQuantileArguments = 5;

void quantile(const c10::OperatorHandle& handle, c10::DispatchKeySet, torch::jit::Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard below(kCompositeKey);
  const auto is_on_cpu = [](const c10::IValue& value) {
    return value.isTensor() && value.toTensor().device().is_cpu();
  };
  const auto requires_grad = [](const c10::IValue& value) {
    return value.isTensor() && value.toTensor().requires_grad();
  };
  const auto arguments = stack->end() - kQuantileArguments;
  if (thread_state.in_kernel || !is_on_cpu(*arguments))
    return handle.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  if (at::GradMode::is_enabled() && std::any_of(arguments, stack->end(), requires_grad))
    raise_break({graph_name(handle.operator_name()),
                 "what its gradient flows to depends on the data of a tensor", kMoveOut});
  record_call(operator_info(handle), *stack);
}

}  // namespace

void register_quantiles(torch::Library& operators) {
  if constexpr (kLooksIntoMemory)
    for (const char* name : {"quantile", "quantile.scalar", "nanquantile", "nanquantile.scalar"})
      operators.impl(name, torch::CppFunction::makeFromBoxedFunction<&quantile>());
}

}  // namespace braze::trace
