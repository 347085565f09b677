// Log output on stderr by component: BRAZE_LOG=graph,guards,... or BRAZE_LOG=all.
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
  X(Schedule, "schedule")       \
  X(Graphs, "cuda_graphs")

enum class Component {
#define X(id, name) k##id,
  BRAZE_LOG_COMPONENTS(X)
#undef X
};

// A few loads; an unknown name in BRAZE_LOG is named once, with the list of those there are.
bool enabled(Component component);

// One write() per message, so that threads and processes do not mix their lines: "[braze:graph]
// text\n", each line of a longer text prefixed. Writes whether enabled or not: ask first, and build
// the text only then.
void write(Component component, std::string_view text);

// "[braze] warning: text\n", always.
void warning(std::string_view text);

}  // namespace braze::log
