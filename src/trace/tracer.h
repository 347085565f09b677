// Tracing: the real PyTorch dispatcher over fake tensors, recorded as a graph.
//
// While a `Tracer::Scope` lives on a thread, every ATen call of that thread that reaches the
// backends lands in one boxed fallback: it works out the metadata of the results, makes fakes for
// them and appends a node. Tensors from outside (arguments, parameters, buffers) stay the real
// objects everywhere in Python; they become graph inputs when an op first touches them. In-place
// ops on them are recorded and return the real object; their data and metadata do not change.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <ATen/core/Tensor.h>
#include <Python.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "graph/graph.h"
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

struct Trace {
  graph::Graph graph;
  std::vector<GraphInput> inputs;  // by graph input
};

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
  };

  // Names an outside tensor before any op touches it. An undeclared real tensor that reaches an op
  // is a constant of the graph (`torch.tensor([1, 2])` in the traced code).
  // False, with `why` set, if such a tensor cannot be traced (sparse, quantised, subclass, other
  // device, ...).
  bool declare(const at::Tensor& real, graph::InputKind kind, std::string name, std::string* why);

  // For dynamic shapes: a graph input whose sizes of 2 and more are symbols. Python code is given
  // the result, a fake, in place of `real`, so that it sees symbolic sizes. `real` is contiguous.
  at::Tensor symbolic_input(const at::Tensor& real, std::string name);

  // Asked once for each recorded node; the GIL may not be held.
  void set_origin_provider(std::function<graph::Origin()> provider);

  // A result of the trace: has no data.
  static bool is_fake(const at::Tensor& tensor);

  // Set by the fallback before it raises `_C.TraceBreak` through the Python bindings; the Python
  // exception type is `trace_break_type()`.
  const std::optional<TraceBreak>& last_break() const;

  // Whether autograd would have recorded something: some op ran in grad mode on a tensor that
  // requires grad.
  bool needs_autograd() const;

  // Ends the trace. `outputs` are fakes of this trace or outside tensors.
  Trace finish(const std::vector<at::Tensor>& outputs);

  sym::ShapeEnv& shapes();

 private:
  friend class Scope;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Registers the fallback and creates the Python exception type; once, at import. Empty on success,
// else why tracing is not possible with this PyTorch.
std::string initialize(PyObject* module);
PyObject* trace_break_type();

// Conversions between PyTorch's and the graph's notions.
graph::DType dtype_of(at::ScalarType type);  // InternalError for unsupported ones
std::optional<graph::DType> try_dtype_of(at::ScalarType type);
at::ScalarType scalar_type_of(graph::DType dtype);
graph::TensorType type_of(const at::Tensor& tensor);
at::Device device_of(graph::Device device);

}  // namespace braze::trace
