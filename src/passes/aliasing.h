// Which values share memory, and what of that the user can see.
//
// In a functionalised graph an output that eager would return as an alias is one: it is an input,
// or a view of an input or of another output. A view of a mutated input is a view of the input
// value itself, because the new data is written into that memory at the end (Graph::mutations).
#pragma once

#include <vector>

#include "graph/graph.h"

namespace braze::passes {

struct OutputAlias {
  enum class Kind : uint8_t {
    kFresh,        // memory of its own
    kInput,        // input `index` itself
    kViewOfInput,  // another tensor in the memory of input `index`
    kSame,         // the same tensor as output `index`, an earlier one
    kShared,       // another tensor in the memory of output `index`, an earlier one
  };
  Kind kind = Kind::kFresh;
  int index = -1;
  // The value that owns the memory: the graph input, or the fresh result at the root of the views.
  const graph::Value* root = nullptr;
};

// By graph output.
std::vector<OutputAlias> output_aliases(const graph::Graph& graph);

// Gives every value the storage number that follows from the ops' effects: results of views that of
// their argument, other results one of their own. Passes call it after they have rewired values.
void recompute_storages(graph::Graph& graph);

// Decides whether one value may stand for another without the user noticing by memory: outputs
// that eager gives memory of their own keep it, mutations do not read what they overwrite.
class Aliasing {
 public:
  explicit Aliasing(const graph::Graph& graph);

  // Whether `to` may take the place of `from`, whose values and type it has, and before whose uses
  // it is defined.
  bool replaceable(const graph::Value* from, const graph::Value* to) const;
  // Whether a graph output lies in the memory of the value.
  bool reaches_output(const graph::Value* value) const;
  // replace_all_uses, and remembers that the two now share memory.
  void replace(graph::Graph& graph, graph::Value* from, graph::Value* to);

 private:
  struct Memory {
    int parent = -1;       // union-find over storages; -1: representative
    bool input = false;    // of a graph input
    bool output = false;   // some graph output lies in it
    bool mutated = false;  // of a mutation's target
    bool source = false;   // of a mutation's source
  };
  int find(int storage) const;
  bool is_output(const graph::Value* value) const;

  std::vector<Memory> memory_;   // by storage
  std::vector<bool> is_output_;  // by value id
  std::vector<bool> is_input_;
};

}  // namespace braze::passes
