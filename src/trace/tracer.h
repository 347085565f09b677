// Tracing: the real PyTorch dispatcher over fake tensors, recorded as a graph.
//
// While a `Tracer::Scope` lives on a thread, every ATen call of that thread that reaches the
// backends lands in one boxed fallback: it works out the metadata of the results, makes fakes for
// them and appends a node. Tensors from outside (arguments, parameters, buffers) stay the real
// objects everywhere in Python; they become graph inputs when an op first touches them. In-place
// ops on them are recorded and return the real object; their data and metadata do not change.
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>
#include <c10/core/SymInt.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/joint.h"
#include "pytorch/convert.h"
#include "sym/shape_env.h"

namespace braze::trace {

// Why an op could not be traced.
enum class NeedsData : uint8_t { kNo, kForAValue, kForASize };
struct TraceBreak {
  std::string op;       // "aten.nonzero"
  std::string what;     // "its result's size depends on data"
  std::string way_out;  // what the user can do
  NeedsData needs_data = NeedsData::kNo;
};

struct GraphInput {
  at::Tensor tensor;  // the real one
  graph::InputKind kind;
};

// A dimension of an input whose size is a symbol.
struct DynamicDim {
  int dim = 0;
  sym::Range range{2, INT64_MAX};
  // Dimensions of one size share a symbol unless they are known to have had different sizes before.
  int64_t previous = -1;
  bool unbacked = false;  // a symbol without a value while tracing
};

// What depends on data and yet becomes part of the graph; else it is a break.
struct DataCapture {
  bool scalars = false;  // integers of `item()` and `tolist()`
  bool sizes = false;    // results of nonzero, masked_select, unique, bincount, ...
};

// An input that has symbols: its sizes and strides as Python code saw them.
struct SymbolicInput {
  at::Tensor tensor;
  sym::Dims sizes, strides;
};

struct Trace {
  graph::Graph graph;
  std::vector<GraphInput> inputs;         // by graph input, less the tangents
  graph::Joint joint;                     // empty without a backward
  std::shared_ptr<sym::ExprArena> arena;  // the graph's; null without symbols
  // Over that arena.
  std::vector<SymbolicInput> symbolic_inputs;
  std::vector<sym::Int> integers;  // by number: what `symbolic_integer` gave
  std::vector<sym::Condition> conditions;
  // Symbols whose values come up as the graph runs: a node `braze.item(value, symbol)` reads it, or
  // it is a size of the first result that has it. What must hold of them is to be asserted.
  std::vector<int> data_symbols;
  std::vector<sym::Condition> assertions;
  // For `sym::replace`: from expressions seen while tracing to the graph's.
  std::vector<sym::Int> values;
};

class ChangedLeaves;
class ControlFlow;
struct BackwardCall;
struct BackwardResult;

class Tracer {
 public:
  Tracer();
  ~Tracer();
  Tracer(const Tracer&) = delete;

  // Switches recording on for the calling thread. Scopes of different tracers do not nest.
  class Scope {
   public:
    explicit Scope(Tracer& tracer);
    ~Scope();
    Scope(const Scope&) = delete;

   private:
    Tracer* previous_;
    const bool observed_;  // a profiler or the like is told of calls
  };

  // While it lives, ATen calls of the thread run for real. They may not be given fakes. Pauses
  // nest.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;

   private:
    bool in_kernel_, included_;
  };

  // Names an outside tensor before any op touches it. An undeclared real tensor that reaches an op
  // is a constant of the graph (`torch.tensor([1, 2])` in the traced code).
  // False, with `why` set, if such a tensor cannot be traced (sparse, quantised, subclass, other
  // device, ...).
  bool declare(const at::Tensor& real, graph::InputKind kind, std::string name, std::string* why);

  // For dynamic shapes: an outside tensor some of whose sizes are symbols (those of 0 and 1 stay
  // numbers). Python code is given the result, a fake, in place of `real`, so that it sees symbolic
  // sizes. Strides follow from the sizes where they can. Where native code meets `real` itself, its
  // symbols become numbers, with a guard. `real` can be traced (see `declare`).
  at::Tensor symbolic_input(const at::Tensor& real, graph::InputKind kind, std::string name,
                            std::span<const DynamicDim> dims, const std::set<int>& strides);
  // A fake that Python code is given in place of `real`, an input without symbols.
  at::Tensor stand_in(const at::Tensor& real, std::string name);
  // A Python integer that varies.
  c10::SymInt symbolic_integer(int64_t value);

  // The constants that the traced code has added to an outside tensor of one float, in order;
  // nothing where it has done anything else to it, or nothing at all with it.
  std::optional<std::vector<double>> added_to(const at::Tensor& real);

  void set_data_capture(DataCapture capture);

  // Asked once for each recorded node, which then has the origin of that number in the graph; the
  // GIL may not be held.
  void set_origin_provider(std::function<graph::OriginId(graph::Graph&)> provider);

  // A result of the trace: has no data.
  static bool is_fake(const at::Tensor& tensor);

  // Set by the fallback before it raises `_C.TraceBreak` through the Python bindings; the Python
  // exception type is `trace_break_type()`.
  const std::optional<TraceBreak>& last_break() const;

  // Whether a fake lies in the memory of a tensor from outside.
  bool is_outside_memory(const at::Tensor& fake) const;

  // Whether autograd would have recorded something: some op ran in grad mode on a tensor that
  // requires grad.
  bool needs_autograd() const;

  // Within its scope: `backward()` and `torch.autograd.grad()` in the traced code
  // (trace/backward.h).
  std::string run_backward(const BackwardCall& call, BackwardResult& result);

  // Before the end of the trace, outside of its scope: records the backward of those of `outputs`
  // that require grad (trace/joint.h). A text that is not empty says what cannot be.
  std::string differentiate(const std::vector<at::Tensor>& outputs);

  // Ends the trace. `outputs` are fakes of this trace or outside tensors.
  Trace finish(const std::vector<at::Tensor>& outputs);

  sym::ShapeEnv& shapes();
  ControlFlow& control_flow();
  ChangedLeaves& changed_leaves();

 private:
  friend class Scope;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Registers the fallback and creates the Python exception type; once, at import. Empty on success,
// else why tracing is not possible with this PyTorch.
std::string initialize(PyObject* module);
PyObject* trace_break_type();

using pytorch::device_of;
using pytorch::dtype_of;
using pytorch::graph_device;
using pytorch::scalar_type_of;
using pytorch::try_dtype_of;
// Of a fake as well.
graph::TensorType type_of(const at::Tensor& tensor);

}  // namespace braze::trace
