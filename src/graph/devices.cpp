#include "graph/devices.h"

#include <algorithm>

#include "base/error.h"

namespace braze::graph {

bool same_device(Device a, Device b) {
  return a.type == b.type && (a.type == Device::Type::kCPU || a.index == b.index);
}

Device common_device(std::span<const TensorType* const> operands) {
  auto on_cpu = [](const TensorType* type) { return type->device.type == Device::Type::kCPU; };
  const auto other = std::ranges::find_if_not(operands, on_cpu);
  if (other == operands.end()) return {};
  for (const TensorType* type : operands)
    BRAZE_CHECK(same_device(type->device, (*other)->device) || (on_cpu(type) && type->rank() == 0),
                to_string(*type), " beside ", to_string(**other));
  return (*other)->device;
}

}  // namespace braze::graph
