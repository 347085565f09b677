// Which device the results of a call are on, and which operands may stand beside others.
#include "graph/devices.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

#include "trace/break.h"
#include "trace/recorder.h"

namespace braze::trace {
namespace {

bool is_on_cpu(const Operand& operand) {
  return operand.value->type().device.type == graph::Device::Type::kCPU;
}

// Of a device named without a number, the current one.
c10::Device numbered(c10::Device device) {
  if (!device.is_cuda() || device.has_index()) return device;
  return c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice();
}

}  // namespace

graph::Argument Recorder::take_device(int i) {
  c10::IValue& value = argument(i);
  value = numbered(value.toDevice());
  const c10::Device device = value.toDevice();
  if (device.is_cpu()) return graph::Device{};
  if (!device.is_cuda()) fail("device " + device.str() + " is not supported", kMoveOut);
  return graph_device(device);
}

void Recorder::take_devices() {
  device_ = device_of_operands();
  for (int i : info_.device_arguments) {
    c10::IValue& value = argument(i);
    if (value.isDevice()) device_ = value.toDevice();
    // None follows the tensor operands, which are on meta; without any it is the default device.
    if (value.isDevice() || operands_.empty()) value = c10::Device(c10::kMeta);
  }
}

// Elementwise operators take numbers from the CPU, indexing takes its indices from there, and the
// backward of attention the seed that its forward has left there.
bool Recorder::may_come_from_cpu(const Operand& operand) const {
  const bool elementwise = info_.op->pointwise || info_.in_place_elementwise;
  if (elementwise && operand.value->type().rank() == 0) return true;
  if (operand.argument > 0 && info_.has(graph::kTakesCpuIndices)) return true;
  return info_.handle.schema().arguments()[operand.argument].name().starts_with("philox_");
}

c10::Device Recorder::device_of_operands() const {
  if (operands_.empty()) return c10::kCPU;
  const auto other = std::ranges::find_if_not(operands_, is_on_cpu);
  if (other == operands_.end()) return c10::kCPU;
  if (info_.has(graph::kMovesBetweenDevices)) return device_of(operands_[0].value->type().device);
  const graph::Device device = other->value->type().device;
  for (const Operand& operand : operands_)
    if (!graph::same_device(operand.value->type().device, device) &&
        !(is_on_cpu(operand) && may_come_from_cpu(operand)))
      fail("its operands are on different devices", "move them to one device before");
  return device_of(device);
}

}  // namespace braze::trace
