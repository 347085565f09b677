// Branches and loops on data as part of a graph (graph/stages.h has their form).
//
// A region is recorded like everything else, between two marks. It may read what is there already
// and write only to what it has made itself; its results belong to it alone. What it makes is of no
// use behind its end but to the node that runs it.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "trace/tracer.h"

namespace braze::trace {

class TraceState;

class ControlFlow {
 public:
  explicit ControlFlow(TraceState& state) : state_(state) {}

  // Whether the recording may go on with a region; else why not.
  std::string why_not() const;
  int begin();
  // Ends region `number`. Outputs that lie in memory from before are copied. Empty, or why the
  // region cannot be.
  std::string end(int number, std::vector<at::Tensor> outputs);
  // A fake like the tensor that stands for it on every turn of a loop.
  at::Tensor parameter(const at::Tensor& like, int number);

  // What the region gives that `predicate` chooses; nothing, with `why`, if they give different
  // things.
  std::vector<at::Tensor> cond(const at::Tensor& predicate, int yes, int no, std::string* why);
  std::vector<at::Tensor> loop(int condition, int body, const std::vector<at::Tensor>& carried,
                               std::string* why);

  bool is_used() const { return count_ > 0; }
  bool is_open() const { return !open_.empty(); }
  // The memory was there before the innermost region.
  bool is_outer_storage(int storage) const;
  // The value was made in a region that has ended.
  bool is_gone(const graph::Value& value) const;

 private:
  struct Region {
    int first_value = 0, end_value = -1;
    int first_storage = 0;
    bool copies = false;  // some result lies in memory from before
    DataCapture data_capture;
    std::vector<graph::TensorType> types;  // of what it gives
  };
  std::vector<at::Tensor> add(const graph::Op& op, std::vector<graph::Argument> arguments,
                              const std::vector<graph::TensorType>& types);

  TraceState& state_;
  std::vector<int> open_;
  std::map<int, Region> regions_;
  int count_ = 0;
};

}  // namespace braze::trace
