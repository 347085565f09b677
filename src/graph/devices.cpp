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

std::vector<Device> accelerators(const Graph& graph) {
  std::vector<Device> found;
  const auto add = [&](const Value* value) {
    if (!value || value->type().device.type == Device::Type::kCPU) return;
    const Device device = value->type().device;
    if (std::ranges::find(found, device) == found.end()) found.push_back(device);
  };
  for (const Input& input : graph.inputs()) add(input.value);
  for (const auto& node : graph.nodes())
    for (const Value* result : node->results()) add(result);
  return found;
}

}  // namespace braze::graph
