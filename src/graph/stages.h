// A graph whose sizes depend on data, cut into graphs that can be compiled.
//
// A symbol that comes from data has no value when the graph is called. A node gives it one:
//
//   braze.item(%5, s1)                                  s1 is the only element of %5
//   %7: i64[s2, 1] = aten.nonzero(%6)                   s2 is a size of the first result that has
//   it
//
// The graph is cut behind each such node. The graphs between (stages) take what they need from
// those before; the nodes themselves are run in between, and are what `Stage::reads` says.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace braze::graph {

struct Stage {
  Graph graph;               // every symbol is a scalar: number i of the call is symbol i
  std::vector<int> inputs;   // by input of `graph`: the register that it is taken from
  std::vector<int> outputs;  // by output
  bool empty() const { return graph.nodes().empty(); }

  // What comes behind: an operator, or the item of operand 0.
  struct Read {
    std::string op;                        // "braze.item", "aten.nonzero"
    std::vector<BasicArgument<int>> args;  // tensors as registers, integers are numbers
    std::vector<int> results;              // registers; -1: undefined
    struct Size {
      int symbol;
      int result;  // index into `results`, -1: the item
      int dim;
    };
    std::vector<Size> symbols;
  };
  std::optional<Read> read;  // none behind the last stage
};

// Registers hold tensors for the length of a call; their numbers are the ids of the graph's values.
struct Staged {
  int register_count = 0;
  std::vector<int> inputs;  // by input of the graph
  std::vector<int> outputs;
  std::vector<Stage> stages;
};

// `data_symbols`: numbers of the symbols whose values come from data. Internal error for a graph
// that cannot be cut.
Staged split_at_data(const Graph& graph, std::span<const int> data_symbols);

}  // namespace braze::graph
