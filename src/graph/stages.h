// A graph whose sizes or control flow depend on data, cut into graphs that can be compiled.
//
// A symbol that comes from data has no value when the graph is called. A node gives it one:
//
//   braze.item(%5, s1)                                  s1 is the only element of %5
//   %7: i64[s2, 1] = aten.nonzero(%6)                   s2 is a size of the first result that has
//   it
//
// The graph is cut behind each such node. The graphs between (stages) take what they need from
// those before; the nodes themselves are run in between, and are what `Stage::reads` says.
//
// Control flow is written with regions: nodes between two marks, which use values from before and
// give their results to nobody but the node that runs them.
//
//   braze.begin(0)
//   %5: f32[8] = aten.sin(%0)
//   braze.end(0, [%5])
//   braze.begin(1)
//   %6: f32[8] = aten.cos(%0)
//   braze.end(1, [%6])
//   %7: f32[8] = braze.cond(%4, 0, 1)                   region 0 if the only element of %4 is true
//
// A loop's regions take the carried values as parameters. What it gives is memory of its own.
//
//   %5: f32[8] = braze.parameter(0)                     used by regions 0 (bool[]) and 1 (f32[8])
//   %9: f32[8] = braze.while(0, 1, [%0])
//
// A region is a graph of its own, which is cut in turn.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "sym/condition.h"

namespace braze::graph {

// The operators of Braze's own by which a graph says where it is to be cut.
inline constexpr const char* kItem = "braze.item";
inline constexpr const char* kRegionBegin = "braze.begin";
inline constexpr const char* kRegionEnd = "braze.end";
inline constexpr const char* kRegionParameter = "braze.parameter";
inline constexpr const char* kCond = "braze.cond";
inline constexpr const char* kWhile = "braze.while";

// What a graph reads from data.
struct DataSymbols {
  std::vector<int> numbers;                // of the symbols whose values are read
  std::vector<sym::Condition> assertions;  // on them, to be checked as soon as they are known
};

// Nodes of a graph as a graph of their own.
struct Region {
  Graph graph;
  // By input: the register that it is taken from, or -1 - k for parameter k.
  std::vector<int> inputs;
};

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
    std::vector<TensorType> types;         // by result
    struct Size {
      int symbol;
      int result;  // index into `results`, -1: the item
      int dim;
    };
    std::vector<Size> symbols;
  };
  std::optional<Read> read;

  struct Cond {
    int predicate;  // register
    Region yes, no;
    std::vector<int> results;  // registers, by output of both
  };
  std::optional<Cond> cond;

  struct Loop {
    Region condition;  // gives one element of bool
    Region body;       // gives what is carried
    std::vector<int> carried, results;
  };
  std::optional<Loop> loop;
  // At most one of `read`, `cond` and `loop`; none of them behind the last stage.
};

// Whether the graph has control flow.
bool has_control_flow(const Graph& graph);

// Registers hold tensors for the length of a call; their numbers are the ids of the graph's values.
struct Staged {
  int register_count = 0;
  std::vector<int> inputs;  // by input of the graph
  std::vector<int> outputs;
  std::vector<Stage> stages;
};

// Whether a tensor that one stage gives to a later one is memory of its own, from the first byte to
// the last as when it was traced. A view that is given on may lie elsewhere.
bool lies_as_traced(const Value& value);

// `data_symbols`: numbers of the symbols whose values come from data. Internal error for a graph
// that cannot be cut.
Staged split_at_data(const Graph& graph, std::span<const int> data_symbols);

}  // namespace braze::graph
