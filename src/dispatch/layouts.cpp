#include "dispatch/layouts.h"

#include <ATen/Context.h>

#include "graph/devices.h"

namespace braze::dispatch {

using passes::ChannelsLast;

ChannelsLast channels_last_for(const Settings& settings, const graph::Graph& graph) {
  if (settings.channels_last)
    return *settings.channels_last ? ChannelsLast::kAll : ChannelsLast::kNone;
  const at::Context& context = at::globalContext();
  // Other backends than cuDNN's work row by row.
  if (settings.backend != compile::Backend::kKernels || graph::accelerators(graph).empty() ||
      !context.userEnabledCuDNN() || !at::Context::hasCuDNN())
    return ChannelsLast::kNone;
  // For float32 cuDNN would take TF32's tensor cores, which PyTorch allows unasked, where for rows
  // it computes in float32: three digits of eager's results would go.
  return ChannelsLast::kHalves;
}

Settings with_layouts_as_they_are(Settings settings) {
  settings.channels_last = false;
  return settings;
}

}  // namespace braze::dispatch
