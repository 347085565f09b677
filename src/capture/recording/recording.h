// What the evaluation sees of PyTorch's tensors and thread state, without PyTorch's headers.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "capture/breaks/reason.h"
#include "capture/dynamic.h"
#include "capture/world/tracked.h"
#include "graph/graph.h"
#include "graph/joint.h"
#include "sym/shape_env.h"

namespace braze::trace {
class Tracer;
}

namespace braze::capture {

bool is_tensor_type(PyTypeObject* type);
inline bool is_tensor(PyObject* object) { return is_tensor_type(Py_TYPE(object)); }
// `object` is a tensor without data: a result of the trace.
bool is_fake(PyObject* object);
// A result of the trace on the CPU that is true or false, and whose truth means nothing else: no
// subclass, no mode.
bool is_condition(PyObject* object);
bool requires_grad(PyObject* tensor);
bool is_leaf(PyObject* tensor);
bool is_view(PyObject* tensor);
// A leaf of which it can be said whether it requires grad: no view, of floating point or complex.
bool may_require_grad(PyObject* tensor);
// Of the same sizes, dtype and device.
bool may_be_gradient(PyObject* tensor, PyObject* gradient);
bool holds_integers(PyObject* tensor);
std::vector<int64_t> sizes_of(PyObject* tensor);
// May stand in a trace with symbolic sizes: a plain dense torch.Tensor, no part of autograd.
bool may_be_symbolic(PyObject* tensor);
// A torch.SymInt, SymBool or SymFloat.
bool is_symbolic(PyObject* object);
// An object that tells as much as Python's own number of that type would.
Ref plain_like(PyObject* symbol);

// The recording of one trace, seen from Python objects.
class Recording {
 public:
  Recording();
  ~Recording();
  Recording(const Recording&) = delete;

  // Begins and ends recording on this thread; `stop` also puts the thread's torch state (grad mode,
  // inference mode, autocast, dispatch keys, modes) back. True if it was as at `start` already, but
  // for the grad mode.
  void start();
  // `guards`: objects of torch that would put the state back when they end; they end now.
  bool stop(std::vector<Ref> guards = {});
  // What the grad mode was at `stop`, if not what it was at `start`.
  std::optional<bool> left_grad_mode() const { return left_grad_mode_; }
  // What autocast was at `start`: its dtype, borrowed, whether it keeps casts. Whether a context is
  // open that was not then.
  PyObject* autocast_dtype_before(bool cuda) const;
  bool autocast_cache_before() const;
  bool is_within_autocast() const;

  // While it lives, torch calls run for real and nothing is recorded.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;

   private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
  };

  // While it lives, PyTorch's bindings do not look for `__torch_function__` in their arguments, of
  // which none has it: in a torch.SymInt that takes longer than most of the rest.
  class PlainTorch {
   public:
    PlainTorch();
    ~PlainTorch();
    PlainTorch(const PlainTorch&) = delete;

   private:
    bool enabled_;
  };

  // Gives the origin of a node that is being recorded, in its graph; the GIL may not be held.
  void set_origin_provider(graph::OriginId (*provider)(void*, graph::Graph&), void* context);
  // False with `why` set if the tensor cannot be traced.
  bool declare(PyObject* tensor, graph::InputKind kind, std::string name, std::string* why);
  // The fake that Python code sees in place of `tensor`, which can be traced.
  struct StandIn {
    Ref tensor;
    uint64_t free_sizes = 0, free_strides = 0;  // by bit: those that are symbols
  };
  // `strides`: dimensions whose stride becomes a symbol where no product of sizes is the same.
  StandIn symbolic_input(PyObject* tensor, graph::InputKind kind, std::string name,
                         const std::vector<DynamicDimension>& dims, const std::set<int>& strides);
  Ref symbolic_integer(int64_t value);
  // A Python float that varies: the fake of f64[] that has it, in the place of a real tensor.
  struct SymbolicFloat {
    Ref fake, real;
  };
  SymbolicFloat symbolic_float(double value, std::string name);
  bool has_floats() const { return has_floats_; }
  // A tensor from outside, of one float on the CPU, that counts: the traced code has but added
  // constants to it, in this order.
  struct Counter {
    double value = 0;  // before the call
    std::vector<double> added;
    bool single = true;  // precision
  };
  std::optional<Counter> counter(PyObject* tensor);
  // What is done with a float beside a tensor.
  enum class FloatUse { kFactor, kTerm, kOther };
  // Such a fake as an operand beside `tensor`, cast to what a Python float is computed in there;
  // empty where that is not known. Halves are multiplied by a float in single precision; it is
  // rounded to one of them, on the CPU, where it is added.
  Ref float_operand(PyObject* fake, PyObject* tensor, FloatUse use);
  // Whether there are objects in this trace at all that stand for numbers or for text.
  bool has_symbols() const { return has_symbols_ || has_text_; }
  bool has_numbers_as_symbols() const { return has_symbols_; }
  void note_text() { has_text_ = true; }
  // Numbers that are read from data become symbols too (see Options).
  void capture_data(bool scalars, bool sizes);
  Ref comparison(sym::Relation relation, sym::Int a, sym::Int b);
  // Makes sure that a SymBool holds, by a guard or an assertion. False: it does not.
  bool expect(PyObject* sym_bool);
  sym::ShapeEnv& shapes();
  sym::Int value_of(PyObject* sym_int);
  static sym::Int size_of(PyObject* fake, int dim);
  bool guard_bool(PyObject* sym_bool);
  // A Python int for a constant. A new object each time, as large ints are.
  Ref object_of(sym::Int value);
  // `tensor.shape` and `tensor.shape[dim]` of a result of the trace; empty, with nothing pending,
  // where PyTorch has to be asked.
  Ref shape_of(PyObject* tensor);
  Ref size_of(PyObject* tensor, PyObject* dim);

  bool needs_autograd() const;
  // `backward()` and `torch.autograd.grad()` in the traced code: trace/backward.h. None for a
  // gradient that there is not.
  struct BackwardCall {
    std::vector<PyObject*> roots, tangents;  // None for a tangent: a root that needs none
    std::vector<PyObject*> inputs;
    bool keeps_graph = false, creates_graph = false, accumulates = false;
  };
  // The leaves; without `accumulates` the gradients.
  std::vector<Ref> run_backward(const BackwardCall& call, std::string* why);
  // Once for each of these leaves: what its `.grad` becomes that is `before`, a tensor or None.
  // Empty: no gradient has come.
  Ref accumulated(size_t leaf, PyObject* before, bool creates_graph, std::string* why);
  // Until the end of the trace; of what `may_require_grad`.
  void set_requires_grad(PyObject* leaf, bool value);
  // `detach_()` of a result of the trace that is no view; with `why` not empty it has raised.
  void detach_in_place(PyObject* tensor, std::string* why);
  // Gives a result of the trace a counter of versions of its own.
  static void count_apart(PyObject* tensor);
  // Its `.grad`, if it has one.
  static Ref gradient_of(PyObject* tensor);
  // The backward of those of the outputs that require grad becomes a part of the graph. A text that
  // is not empty says what cannot be.
  std::string differentiate(const std::vector<PyObject*>& outputs);

  // Regions of control flow (trace/control_flow.h). A text that is not empty says what cannot be.
  std::string begin_region(int* number);
  std::string end_region(int number, const std::vector<PyObject*>& outputs);
  Ref loop_parameter(PyObject* like, int number);
  // What a branch that is taken, and a loop, give; with `why` not empty nothing.
  std::vector<Ref> cond(PyObject* predicate, int yes, int no, std::string* why);
  std::vector<Ref> loop(int condition, int body, const std::vector<PyObject*>& carried,
                        std::string* why);

  // If the pending exception is the tracer's: clears it and says what it was about.
  struct OpBreak {
    std::string what;
    BreakKind kind = BreakKind::kUntraceableOp;
  };
  bool take_break(OpBreak& out);

  struct Result {
    graph::Graph graph;
    graph::Joint joint;
    std::vector<Ref> inputs;  // the real tensors, by graph input; none of tangents
    // By order of `symbolic_input` and `symbolic_integer`, over the graph's arena.
    struct Shape {
      sym::Dims sizes, strides;
    };
    std::shared_ptr<sym::ExprArena> arena;
    std::vector<Shape> shapes;
    std::vector<sym::Int> integers;
    std::vector<sym::Condition> conditions;
    std::vector<int> data_symbols;
    std::vector<sym::Condition> assertions;
    std::vector<sym::Int> values;  // for sym::replace: from the trace's symbols to the graph's
  };
  Result finish(const std::vector<PyObject*>& outputs);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  bool has_symbols_ = false, has_floats_ = false, has_text_ = false;
  std::optional<bool> left_grad_mode_;
};

// Real tensors of zeros that look like others: sizes, strides, dtype, and sharing of memory.
class Zeros {
 public:
  Zeros();
  ~Zeros();
  Zeros(const Zeros&) = delete;
  // Empty, with nothing pending, for tensors that are not plain ones on the CPU.
  Ref like(PyObject* tensor);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// From the first element of `a` to that of `b`, and whether both have one storage: what a guard of
// kSharedMemory expects.
Ref memory_between(PyObject* a, PyObject* b);

}  // namespace braze::capture
