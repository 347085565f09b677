// PyTorch registers about 640 Python functions for the Meta key over the C++ kernels that stand
// there already; they cost 20 to 540 us a call where the C++ kernel costs about 1 us. The last
// registration wins in the dispatch table, but the older ones stay listed in the operator's entry.
// That list is a private member. Explicit template instantiation may name private members, which
// is a legal way to a pointer to it; its type is deduced, so that the source does not depend on the
// PyTorch version. The public alternatives are worse: destroying the Python library changes the
// process for everybody, and calling at::meta::* needs one hand-written call per operator.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/dispatch/OperatorEntry.h>

#include "trace/operator.h"

namespace braze::trace {
namespace {

template <class Tag, auto Member>
struct Expose {
  friend constexpr auto member(Tag) { return Member; }
};
struct DefinitionTag {
  friend constexpr auto member(DefinitionTag);
};
struct KernelsTag {
  friend constexpr auto member(KernelsTag);
};
template struct Expose<DefinitionTag, &c10::OperatorHandle::operatorDef_>;
template struct Expose<KernelsTag, &c10::impl::OperatorEntry::kernels_>;

bool is_python(const std::string& debug) { return debug.find(".py") != std::string::npos; }

}  // namespace

// The C++ kernel that a Python one hides, if the Meta key is served by a Python one.
HiddenKernel hidden_kernel(const c10::OperatorHandle& handle) {
  using c10::DispatchKey;
  const auto& entry = (handle.*member(DefinitionTag{}))->op;
  const auto& kernels = entry.*member(KernelsTag{});
  // A composite kernel beside one for the CPU is not what the CPU runs; convolution's picks what to
  // run by the device.
  const bool composite_serves_cpu =
      kernels.find(DispatchKey::CPU) == kernels.end() &&
      !graph::has_call_fact(graph_name(handle.operator_name()), graph::kChoosesByDevice);
  HiddenKernel result;
  for (DispatchKey key : {DispatchKey::CPU, DispatchKey::CompositeExplicitAutograd})
    if (auto found = kernels.find(key); found != kernels.end() && !found->second.empty())
      result.runs_python |= is_python(found->second.front().debug);
  bool first = true;
  for (DispatchKey key : {DispatchKey::Meta, DispatchKey::CompositeExplicitAutogradNonFunctional,
                          DispatchKey::CompositeExplicitAutograd}) {
    auto found = kernels.find(key);
    if (found == kernels.end()) continue;
    for (const auto& registered : found->second) {
      const bool python = is_python(registered.debug);
      if (first && !python) {  // the dispatcher's choice is C++
        result.composite = key != DispatchKey::Meta;
        return result;
      }
      first = false;
      result.only_python |= python;
      if (!python && (key == DispatchKey::Meta || composite_serves_cpu))
        return {&registered.kernel, key != DispatchKey::Meta, false};
    }
  }
  return result;
}

}  // namespace braze::trace
