// Which convolutions of a graph compute with channels innermost (passes/channels_last.h).
#pragma once

#include "dispatch/settings.h"
#include "graph/graph.h"

namespace braze::dispatch {

// As the user says, else as it pays on the device: on GPUs. On a CPU (Xeon with AVX-512), where
// oneDNN has blocked layouts of its own, ResNet-50 and ConvNeXt were as fast without.
passes::ChannelsLast channels_last_for(const Settings& settings, const graph::Graph& graph);

// For the parts of a joint graph, whose layouts are chosen before it is cut.
Settings with_layouts_as_they_are(Settings settings);

}  // namespace braze::dispatch
