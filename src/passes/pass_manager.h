// Runs passes and distrusts them: checks each claim of "changed" against the graph's text, verifies
// the graph after each change, says which pass an error came from.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace braze::passes {

struct Pass {
  std::string_view name;
  std::function<bool(graph::Graph&)> run;  // whether it changed the graph
  bool functional = true;                  // no node mutates after it
};

struct PassOptions {
  // Called with the graph's text before the first pass (number 0, "input") and after each pass that
  // changed it (the pass's number from 1).
  std::function<void(int number, std::string_view pass, const std::string& text)> dump;
  // Passes to leave out, by name. Leaving functionalise out makes a graph with mutation an error.
  std::vector<std::string> skip;
  // Bisection: only the first `limit` passes run; -1: all.
  int limit = -1;
  // Compare texts and verify after each pass; otherwise only the result is verified.
  bool check_each = true;
};

// Errors of a pass are InternalErrors that begin with its name; Unsupported passes through.
void run_passes(graph::Graph& graph, const std::vector<Pass>& passes, const PassOptions& options);

}  // namespace braze::passes
