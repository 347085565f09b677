// The evaluator's view of PyTorch's tensors and thread state: the only header of the evaluator
// whose source includes PyTorch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "capture/break_reason.h"
#include "capture/slot.h"
#include "graph/graph.h"

namespace braze::trace {
class Tracer;
}

namespace braze::capture {

bool is_tensor(PyObject* object);
// `object` is a tensor without data: a result of the trace.
bool is_fake(PyObject* object);
bool requires_grad(PyObject* tensor);

// The recording of one trace, seen from Python objects.
class Recording {
 public:
  Recording();
  ~Recording();
  Recording(const Recording&) = delete;

  // Begins and ends recording on this thread; `stop` also puts the thread's torch state (grad mode,
  // inference mode, autocast, dispatch keys, modes) back. True if it was as at `start` already.
  void start();
  bool stop();

  void set_origin_provider(graph::Origin (*provider)(void*), void* context);
  // False with `why` set if the tensor cannot be traced.
  bool declare(PyObject* tensor, graph::InputKind kind, std::string name, std::string* why);
  bool needs_autograd() const;

  // If the pending exception is the tracer's: clears it and says what it was about.
  struct OpBreak {
    std::string what;
    BreakKind kind = BreakKind::kUntraceableOp;
  };
  bool take_break(OpBreak& out);

  struct Result {
    graph::Graph graph;
    std::vector<Ref> inputs;  // the real tensors
  };
  Result finish(const std::vector<PyObject*>& outputs);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Runs the graph op by op on real tensors.
std::vector<Ref> replay(const graph::Graph& graph, const std::vector<PyObject*>& inputs);

// The tensors share memory.
bool share_storage(PyObject* a, PyObject* b);

}  // namespace braze::capture
