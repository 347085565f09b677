// Where the trace is: for messages and for the graph's nodes.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "capture/breaks/reason.h"
#include "capture/frames/frame.h"
#include "graph/graph.h"

namespace braze::capture {

struct TraceContext;

// "model.py:12 in forward": where the user's code is.
std::string user_place(TraceContext& trace);
// From the user's innermost frame outwards.
std::vector<StackEntry> user_stack(TraceContext& trace);
// The stack, and the object that the innermost `Subject` of this frame names.
void locate(TraceContext& trace, BreakReason& reason);
// Of the innermost frame of a method of a module; null: there is none.
const Source* module_under_way(TraceContext& trace);
// Gives the graph's nodes their origins.
class OriginTracker {
 public:
  explicit OriginTracker(TraceContext& trace) : trace_(trace) {}
  OriginTracker(const OriginTracker&) = delete;

  // Of a node that is being recorded; the GIL may not be held.
  graph::OriginId origin(graph::Graph& graph);
  int64_t recorded_nodes() const { return recorded_nodes_; }

  // While it lives, what is recorded is part of a checkpointed call: of the outermost one.
  class Checkpointed {
   public:
    explicit Checkpointed(OriginTracker& origins)
        : origins_(origins), before_(origins.checkpoint_) {
      if (before_ == 0) origins.checkpoint_ = ++origins.checkpoints_;
    }
    ~Checkpointed() { origins_.checkpoint_ = before_; }
    Checkpointed(const Checkpointed&) = delete;

   private:
    OriginTracker& origins_;
    const int before_;
  };

  // While it lives, what is recorded makes `Tensor.data`.
  class Data {
   public:
    explicit Data(OriginTracker& origins) : origins_(origins) { origins.is_data_ = true; }
    ~Data() { origins_.is_data_ = false; }
    Data(const Data&) = delete;

   private:
    OriginTracker& origins_;
  };

 private:
  // What the origin of a node is made of.
  struct Key {
    const CodeInfo* code;
    int at;  // the instruction
    const Source* module;
    const void* callee;
    int checkpoint;
    bool is_data;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  const SharedText& callee_name(const void* key);
  const SharedText& module_path(const Source* module);
  std::string make_module_path(const Source* module);

  TraceContext& trace_;
  std::unordered_map<Key, graph::OriginId, KeyHash> origins_;
  std::unordered_map<const Source*, SharedText> module_paths_;
  std::unordered_map<const void*, SharedText> callee_names_;
  int64_t recorded_nodes_ = 0;
  int checkpoint_ = 0, checkpoints_ = 0;  // the one under way, those so far
  bool is_data_ = false;
};

}  // namespace braze::capture
