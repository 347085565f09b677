#include "runtime/constants.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/copy_ops.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstring>

#include "base/error.h"
#include "pytorch/convert.h"
#include "runtime/memory.h"

namespace braze::runtime {
namespace {

at::Tensor empty(const plan::Constant& constant, c10::Device device) {
  return allocate_tensor_on(
      device, sym::constants(constant.type.sizes), sym::constants(constant.type.strides),
      pytorch::scalar_type_of(constant.type.dtype), static_cast<int64_t>(constant.bytes.size()));
}

// An ordinary tensor, whatever the mode of the call that loads the module.
at::Tensor make(const plan::Constant& constant) {
  const c10::InferenceMode ordinary(false);
  at::Tensor tensor = empty(constant, at::kCPU);
  if (!constant.bytes.empty())
    std::memcpy(tensor.mutable_data_ptr(), constant.bytes.data(), constant.bytes.size());
  const c10::Device device = pytorch::device_of(constant.type.device);
  if (device.is_cpu()) return tensor;
  const c10::DeviceGuard current(device);
  const c10::impl::ExcludeDispatchKeyGuard below(
      c10::autograd_dispatch_keyset_with_ADInplaceOrView |
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}));
  at::Tensor there = empty(constant, device);
  at::_ops::copy_::call(there, tensor, /*non_blocking=*/false);
  return there;
}

// A function's kernels take it as its slot says.
void check(const at::Tensor& tensor, const graph::TensorType& type, size_t input) {
  BRAZE_CHECK(tensor.defined(), "no tensor for constant input ", input);
  BRAZE_CHECK(tensor.scalar_type() == pytorch::scalar_type_of(type.dtype) &&
                  tensor.device().type() == pytorch::device_of(type.device).type() &&
                  tensor.sizes().equals(sym::constants(type.sizes)) &&
                  tensor.strides().equals(sym::constants(type.strides)),
              "constant input ", input, " is to be ", graph::to_string(type));
}

}  // namespace

std::vector<at::Tensor> all_constants(const plan::Module& module, std::vector<at::Tensor> bound) {
  bound.resize(module.inputs.size());
  for (size_t i = 0; i < module.inputs.size(); ++i) {
    const plan::Input& input = module.inputs[i];
    if (input.kind != graph::InputKind::kConstant)
      bound[i] = at::Tensor();
    else if (input.constant >= 0)
      bound[i] = make(module.constants[input.constant]);
    else
      check(bound[i], module.functions[0].slots[i].type, i);
  }
  return bound;
}

}  // namespace braze::runtime
