// Log output on stderr by component: BRAZE_LOG=graph,guards,...
#pragma once

#include <string_view>

namespace braze::log {

// component, name
#define BRAZE_LOG_COMPONENTS(X) \
  X(Graph, "graph")             \
  X(Guards, "guards")           \
  X(Breaks, "breaks")           \
  X(Recompiles, "recompiles")   \
  X(Code, "code")               \
  X(Timing, "timing")           \
  X(Schedule, "schedule")

enum class Component {
#define X(id, name) k##id,
  BRAZE_LOG_COMPONENTS(X)
#undef X
};

bool enabled(Component component);
// One write per message: "[braze:graph] text\n", each line of a longer text prefixed.
void write(Component component, std::string_view text);

}  // namespace braze::log
