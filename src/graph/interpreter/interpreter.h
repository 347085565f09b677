// Reference interpreter of the graph IR: what each op means, element by element, written for
// clarity. Fuzz tests of passes compare graphs by it.
//
// It knows the ops that passes make and most that they read: pointwise, views, factories,
// reductions, indexing, matrix products, softmax, layer norm, and the in-place forms of these.
// Float arithmetic is done in double and rounded to the dtype at each op. While it runs it checks
// metadata: a view's declared type must be the inferred one.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/interpreter/tensor.h"

namespace braze::graph {

// The graph's outputs. Mutating nodes write to the inputs' memory, Graph::mutations are carried out
// at the end; outputs share memory as the graph says. InternalError for an op that it does not know
// and for an index out of range.
std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs);

// The value of an argument: a tensor, or what was no tensor.
using TensorArgument = BasicArgument<Tensor>;

namespace interpreter {

// A call of one op; `results` are filled, their types are set by the caller.
struct Call {
  OpKind kind;
  std::vector<TensorArgument> args;
  std::vector<Tensor> results;

  const TensorArgument& arg(int i) const;  // None past the end
  const Tensor& tensor(int i) const;
  bool is_none(int i) const { return std::holds_alternative<None>(arg(i)); }
  int64_t integer(int i, int64_t otherwise) const;
  double number(int i, double otherwise) const;
  bool boolean(int i, bool otherwise) const;
  std::vector<int64_t> integers(int i) const;
};

// By family; false for an op that is not the family's own.
bool run_pointwise(Call& call);
bool run_factory(Call& call);
bool run_reduction(Call& call);
bool run_indexing(Call& call);
bool run_matmul(Call& call);

}  // namespace interpreter
}  // namespace braze::graph
