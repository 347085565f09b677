// What a pass makes of a graph given as text.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "graph/graph.h"
#include "passes/decompose.h"

namespace braze::passes {

// The pass changes the graph once and finds nothing more to do.
inline std::string rewritten(bool (*pass)(graph::Graph&), std::string_view text) {
  graph::Graph graph = graph::parse(text);
  graph::verify(graph);
  EXPECT_TRUE(pass(graph));
  graph::verify_functional(graph);
  EXPECT_FALSE(pass(graph));
  return graph::canonical(graph);
}

inline std::string decomposed(std::string_view text) { return rewritten(decompose, text); }

inline void expect_unchanged_by(bool (*pass)(graph::Graph&), std::string_view text) {
  graph::Graph graph = graph::parse(text);
  graph::verify(graph);
  EXPECT_FALSE(pass(graph)) << to_string(graph);
}

}  // namespace braze::passes
