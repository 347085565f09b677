// Lowering of graph ops to kernels, by operator family.
//
// A value is known in one of three ways: by a buffer that holds it, as a view of another value, or
// only by a function from index to element expression. Handlers (one per op) define results from
// operands. A handler that returns false has defined nothing, and neither has one that needs a
// number where the graph has a symbol (sym::NotConstant): the node becomes an extern call, which is
// always right.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/arguments.h"
#include "graph/infer/promotion.h"
#include "loop/program.h"
#include "sym/facts.h"
#include "target/costs.h"

namespace braze::loop::lowering {

using graph::compute_dtype;
using graph::Node;
using graph::Value;
using Index = std::vector<ExprRef>;  // one i64 expression per dim
using IndexView = std::span<const ExprRef>;
using ElementFunction = std::function<ExprRef(IndexView)>;  // gives the value's dtype

// What inlining an element expression costs and does.
struct Traits {
  int size = 0;          // upper bound of its nodes
  bool math = false;     // more than loads, casts and constants
  bool loads = false;    // reads memory: else it depends on the index alone
  bool heavy = false;    // has transcendental functions
  bool checked = false;  // has a kCheckIndex: every element must be evaluated
  std::string label;     // ops inlined so far, for the kernel's name
};

class Lowering {
 public:
  Lowering(const graph::Graph& graph, const target::Target& target, bool deterministic);
  Program run();
  // See loop::lower_elements.
  std::optional<Program> run_as_elements();

  ExprPool& pool() { return program_.pool; }
  Program& program() { return program_; }
  const target::Costs& costs() const { return costs_; }
  bool on_gpu() const { return device_ == graph::Device::Type::kCUDA; }

  // The element at an index, an expression of the value's dtype.
  ExprRef element(Value* value, IndexView index);
  // The element at an index that is known to lie in [0, extents) wherever the element is needed, as
  // under a mask, though its own range may be wider.
  ExprRef element_within(Value* value, IndexView index, std::span<const sym::Int> extents);
  // The index, checked where its range does not tell that it lies in [0, size). A kernel makes the
  // checks of all elements that were asked for while it was put together, also where they do not
  // depend on the index in the end (one row, a row repeated, a constant).
  ExprRef checked(ExprRef index, sym::Int size);
  // The element at an index of a shape that the value broadcasts to.
  ExprRef broadcast_element(Value* value, IndexView index);
  Traits traits(Value* value) const;

  // Defines a result by its elements; realised at once where it must be.
  void define(const Node& node, int result, Traits traits, ElementFunction at);
  // Traits of a pointwise result over these operands.
  Traits traits_over(const Node& node, std::span<Value* const> operands, int size,
                     bool heavy = false) const;
  // Defines a result as a view: strides are those of its type, `offset` is added to the base's.
  void define_view(const Node& node, int result, Value* base, sym::Int offset, ElementFunction at);

  int add_buffer(Buffer buffer);
  // A buffer with just the value's sizes and strides.
  int buffer_of(Value* value);
  // Realises a value whose elements take more than a load.
  void realise_math(Value* value);
  // Realises a value with index checks, before an op that may leave some of its elements unread:
  // the checks must be made all the same.
  void realise_checked(Value* value);
  // Realises a value that is expensive to compute, before an op that evaluates elements several
  // times.
  void realise_heavy(Value* value);

  int uses(const Value* value) const { return uses_[value->id()]; }

 private:
  friend class KernelBuilder;

  struct Known {
    int buffer = -1;
    ElementFunction at;
    Traits traits;
    Value* base = nullptr;  // of a view
    sym::Int view_offset = 0;
    const Node* node = nullptr;
    Index last_index;  // the elements asked for last: x * x asks twice
    ExprRef last = nullptr;
    std::vector<ExprRef> last_checks;  // the checks that `last` needs
    bool evaluated = false;            // some kernel has asked for all elements
    bool on_host = false;              // is_host_number
  };

  void count_uses();
  bool takes_by_value(const graph::Input& input) const;
  bool is_host_number(const Value* value) const;
  bool is_host_arithmetic(const Node& node) const;
  void define_on_host(const Node& node, Known& known);
  void add_inputs();
  void lower(const Node& node);
  void call_extern(const Node& node);
  int view_buffer(Value* value);
  void realise(Value* value);
  bool is_supported(const Node& node) const;
  void finish_outputs();
  int mutation_source(Value* source, Value* target);
  bool has_checks(const Value* value) const;
  void realise_unread(const Node& node);
  ExprRef keep_checks(ExprRef value, size_t first);

  const graph::Graph& graph_;
  const graph::Device::Type device_;  // of kernels
  const bool deterministic_;          // see loop::lower
  bool inlines_ = false;              // no value is stored before another is computed
  const target::Costs costs_;
  Program program_;
  std::vector<Known> known_;      // by value id
  std::vector<int> uses_;         // by value id, counted through views and copies
  int placeholders_ = 0;          // in use by element_within
  std::vector<ExprRef> checks_;   // of the elements asked for, but for checks under a mask
  std::vector<Value*> refusing_;  // results of nodes that may refuse data, known by their elements
};

// Puts one kernel together. Expressions name buffers of the program until `finish`.
class KernelBuilder {
 public:
  KernelBuilder(Lowering& lowering, graph::OriginId origin, std::string name,
                std::span<const sym::Int> outer, std::span<const sym::Int> inner = {});

  IndexView outer() const { return std::span(axes_).first(outer_); }
  IndexView inner() const { return std::span(axes_).subspan(outer_); }

  // The value is cast to what `op` accumulates in; the result is component 0.
  ExprRef reduce(ReduceOp op, ExprRef value);
  ExprRef component(ExprRef reduced, int number);
  // A running value over the inner points: it begins with `initial`, a constant, and at each point
  // becomes what `next` makes of the value before. The result is its value at the point.
  ExprRef scan(ExprRef initial, const std::function<ExprRef(ExprRef before)>& next);
  // The running combination of the values of the inner points by an associative operation.
  ExprRef scan(ScanOp op, ExprRef value);
  // Stores the elements of a result, which is then realised. `value` is cast to its dtype.
  void store(Value* result, IndexView index, ExprRef value, bool inner = false);
  // The same into a buffer of the program with these strides.
  void store(int buffer, std::span<const sym::Int> strides, IndexView index, ExprRef value,
             bool inner = false);
  // Accumulates into the elements of a result that an earlier kernel has stored; at inner points,
  // unless there are none.
  void accumulate(StoreOp op, Value* result, IndexView index, ExprRef value);
  // The same into a buffer of the program with these strides.
  void accumulate(StoreOp op, int buffer, std::span<const sym::Int> strides, IndexView index,
                  ExprRef value);
  void finish();

 private:
  void keep_checks();
  int results() const;  // reductions and scans so far

  Lowering& lowering_;
  graph::OriginId origin_;
  Kernel kernel_;
  size_t outer_;
  size_t first_check_;  // in Lowering::checks_
  Index axes_;
};

sym::Dims sizes_of(const Value* value);
sym::Dims strides_of(const Value* value);
sym::Int count_of(std::span<const sym::Int> sizes);
// Whether there is an element for all values of the symbols.
bool never_empty(std::span<const sym::Int> sizes);
// Whether its elements may name places.
bool is_index(const Value* value);
// A count as a number of a float dtype.
ExprRef number_of(ExprPool& pool, sym::Int count, DType dtype);
// sum of index * stride
ExprRef dot(ExprPool& pool, IndexView index, std::span<const sym::Int> strides);
// Where a slice begins, as Python counts it: from the end where it is negative, inside of the dim.
// Nothing where the sign is not known.
std::optional<sym::Int> slice_start(sym::Int start, sym::Int size);
// "add" for "aten.add.Tensor"
std::string short_name(const graph::Op& op);

using Handler = bool (*)(Lowering& lowering, const Node& node);
// Null where the family has no such op.
Handler unary_handler(graph::OpKind kind);
Handler arithmetic_handler(graph::OpKind kind);
Handler comparison_handler(graph::OpKind kind);
Handler factory_handler(graph::OpKind kind);
Handler random_handler(graph::OpKind kind);
Handler view_handler(graph::OpKind kind);
Handler indexing_handler(graph::OpKind kind);
Handler concatenation_handler(graph::OpKind kind);
Handler reduction_handler(graph::OpKind kind);
Handler scan_handler(graph::OpKind kind);
Handler scatter_handler(graph::OpKind kind);
Handler normalization_handler(graph::OpKind kind);
Handler loss_handler(graph::OpKind kind);
Handler pooling_handler(graph::OpKind kind);
Handler resampling_handler(graph::OpKind kind);

}  // namespace braze::loop::lowering
