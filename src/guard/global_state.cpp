#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <bit>

#include "guard/guard.h"
#include "pytorch/aten.h"

namespace braze::guard {

namespace {

constexpr c10::DispatchKeySet kAutocastKeys({c10::DispatchKey::AutocastCPU,
                                             c10::DispatchKey::AutocastCUDA});

// Which function modes are on (torch.set_default_device is one), by identity.
int32_t function_modes(int64_t count) {
  uint64_t mixed = 0;
  for (int64_t i = 0; i < count; ++i) {
    PyObject* mode =
        at::impl::PythonTorchFunctionTLS::get_stack_at(i)->ptr(c10::impl::getGlobalPyInterpreter());
    mixed = std::rotl(mixed, 7) ^ (reinterpret_cast<uintptr_t>(mode) >> 4);
  }
  return static_cast<int32_t>(mixed ^ (mixed >> 32));
}

std::string on_off(const char* name, bool was, bool is) {
  return std::string(name) + ": " + (was ? "on" : "off") + " -> " + (is ? "on" : "off");
}

std::string changed(const char* name, int64_t was, int64_t is) {
  return std::string(name) + ": " + std::to_string(was) + " -> " + std::to_string(is);
}

std::string dtype_name(uint8_t dtype) { return c10::toString(static_cast<c10::ScalarType>(dtype)); }

}  // namespace

GlobalState GlobalState::current() {
  GlobalState state;
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  state.included = keys.included_.raw_repr();
  state.excluded = keys.excluded_.raw_repr();
  const c10::AutogradState& autograd = c10::AutogradState::get_tls_state();
  state.grad_mode = autograd.get_grad_mode();
  state.inference_mode = autograd.get_inference_mode();
  static const at::Context& context = at::globalContext();  // spares its check for initialisation
  state.deterministic = context.deterministicAlgorithms();
  state.deterministic_warn = state.deterministic && context.deterministicAlgorithmsWarnOnly();
  state.default_dtype = static_cast<uint8_t>(c10::get_default_dtype_as_scalartype());
  // Autocast is on where its key is not excluded.
  const c10::DispatchKeySet autocast = kAutocastKeys - keys.excluded_;
  if (!autocast.empty()) {
    const bool cuda = autocast.has(c10::DispatchKey::AutocastCUDA);
    state.autocast_enabled = autocast == kAutocastKeys ? 3 : cuda ? 2 : 1;
    state.autocast_dtype =
        static_cast<uint8_t>(pytorch::autocast_dtype(cuda ? at::kCUDA : at::kCPU));
  }
  state.torch_function =
      static_cast<uint8_t>(at::impl::PythonTorchFunctionTLS::get_disabled_state());
  const int64_t modes = at::impl::PythonTorchFunctionTLS::stack_len();
  if (modes != 0) [[unlikely]] {
    state.torch_function_modes = static_cast<int32_t>(modes);
    state.default_device = function_modes(modes);
  }
  // A dispatch mode includes the Python key as long as it is on.
  if (keys.included_.has(c10::DispatchKey::Python)) [[unlikely]]
    state.torch_dispatch_modes = static_cast<int32_t>(c10::impl::TorchDispatchModeTLS::stack_len());
  if (state.grad_mode != 0)
    state.saved_tensor_hooks =
        static_cast<int32_t>(at::SavedTensorDefaultHooks::get_tls_state().stack.size());
  state.threads = at::get_num_threads();
  state.attention_kernels = context.userEnabledFlashSDP() | context.userEnabledMathSDP() << 1 |
                            context.userEnabledMemEfficientSDP() << 2 |
                            context.userEnabledCuDNNSDP() << 3;
  return state;
}

std::string GlobalState::difference(const GlobalState& now) const {
  if (grad_mode != now.grad_mode) return on_off("grad mode", grad_mode, now.grad_mode);
  if (inference_mode != now.inference_mode)
    return on_off("inference mode", inference_mode, now.inference_mode);
  if (autocast_enabled != now.autocast_enabled)
    return on_off("autocast", autocast_enabled, now.autocast_enabled);
  if (autocast_dtype != now.autocast_dtype)
    return "autocast dtype: " + dtype_name(autocast_dtype) + " -> " +
           dtype_name(now.autocast_dtype);
  if (default_dtype != now.default_dtype)
    return "default dtype: " + dtype_name(default_dtype) + " -> " + dtype_name(now.default_dtype);
  if (deterministic != now.deterministic)
    return on_off("deterministic algorithms", deterministic, now.deterministic);
  if (deterministic_warn != now.deterministic_warn)
    return on_off("deterministic algorithms' warn_only", deterministic_warn,
                  now.deterministic_warn);
  if (torch_function_modes != now.torch_function_modes)
    return changed("number of torch function modes", torch_function_modes,
                   now.torch_function_modes);
  if (default_device != now.default_device)
    return "the torch function modes (torch.set_default_device is one) are others";
  if (torch_function != now.torch_function) return "__torch_function__ was enabled differently";
  if (saved_tensor_hooks != now.saved_tensor_hooks)
    return changed("number of hooks for saved tensors", saved_tensor_hooks, now.saved_tensor_hooks);
  if (torch_dispatch_modes != now.torch_dispatch_modes)
    return changed("number of torch dispatch modes", torch_dispatch_modes,
                   now.torch_dispatch_modes);
  if (threads != now.threads) return changed("torch.get_num_threads()", threads, now.threads);
  if (attention_kernels != now.attention_kernels)
    return "other kernels of scaled_dot_product_attention are allowed (torch.nn.attention)";
  if (included != now.included || excluded != now.excluded)
    return "the thread's dispatch keys have changed";
  return "";
}

}  // namespace braze::guard
