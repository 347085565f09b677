// What is in force while a kernel for metadata runs on fakes.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "trace/fake_tensor.h"
#include "trace/operator.h"

namespace braze::trace {

inline const c10::DispatchKeySet kAboveFake =
    c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}) |
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;

// Everything above the fake key is off, tensors made are on meta, and fakes say that they are. The
// fake key stays on: what the kernel calls comes back to the fallback, which then only works out
// metadata.
//
// ForceDispatchKeyGuard and not IncludeDispatchKeyGuard: in torch 2.11 the latter's destructor
// leaves the Meta backend bit in the thread's included set.
class KernelScope {
 public:
  KernelScope() { thread_state.in_kernel = true; }
  ~KernelScope() { thread_state.in_kernel = previous_; }
  KernelScope(const KernelScope&) = delete;

 private:
  static c10::impl::LocalDispatchKeySet keys() {
    auto keys = c10::impl::tls_local_dispatch_key_set();
    keys.included_ = keys.included_ | c10::DispatchKeySet(c10::DispatchKey::Meta);
    keys.excluded_ = keys.excluded_ | kAboveFake;
    return keys;
  }
  c10::impl::ForceDispatchKeyGuard guard_{keys()};
  bool previous_ = thread_state.in_kernel;
};

// Works out the results' metadata: from the arguments on the stack to fakes or meta tensors.
void compute_results(const OperatorInfo& info, torch::jit::Stack& stack);

// A twin of a fake with the hints for sizes, strides and offset, after guarding every symbol to its
// hint; the tensor itself when it has no symbols.
at::Tensor specialised(const at::Tensor& tensor);

}  // namespace braze::trace
