// The gradients of a forward as compiled code whose results have a history: what a backward with
// `create_graph=True` runs.
//
// The forward is replayed and differentiated once under a tracer (trace/gradient_trace.h); the
// joint graph that comes of it is cut and compiled like that of any code (training.h), so its
// gradients are compiled when they are asked for, and theirs. It takes what the first call has kept
// for its own backward, and does not compute that again.
//
// There is one function for each way in which a call comes: the layout of its tangents, its sizes,
// what requires grad. What cannot be traced, and what comes in too many ways, is left to PyTorch's
// operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fork_mutex.h"
#include "dispatch/settings.h"
#include "graph/graph.h"
#include "pytorch/random.h"

namespace braze::dispatch {

class GradientFunctions {
 public:
  // What is differentiated. Its first outputs are those with a tangent.
  struct Forward {
    graph::Graph graph;
    std::vector<int> leaves;            // inputs whose gradients are asked for
    std::vector<at::Tensor> constants;  // by input, as far as there are some
    // Values that the call has kept: result `of` of the graph is tensor `number`.
    struct Kept {
      graph::Value* of = nullptr;
      size_t number = 0;
    };
    std::vector<Kept> kept;
    // Results of the call that the graph computes: which of its outputs they are. Some stand behind
    // those with a tangent.
    struct Result {
      int output = 0;
      size_t number = 0;  // by which a call has them
    };
    std::vector<Result> results;
  };
  GradientFunctions(Forward forward, Settings settings, std::string name);
  ~GradientFunctions();

  const Forward& forward() const { return forward_; }

  struct Call {
    std::vector<at::Tensor> inputs;    // by input; undefined where it is a number, or not used
    std::vector<at::Tensor> tangents;  // of the first outputs
    std::span<const int64_t> symbols;
    std::span<const double> numbers;  // all floats
    std::function<at::Tensor(size_t)> unpack_kept;
    // The state of the random generator before the forward ran; null where it draws nothing.
    std::shared_ptr<const pytorch::GeneratorState> drawn_from;
    std::function<at::Tensor(size_t)> unpack_result;  // undefined if it is not kept
  };
  // The gradients, by leaf. Nothing where PyTorch's operators are to give them. With the GIL or
  // without. Throws InternalError where options().strict is set, and what `unpack_kept` and
  // `unpack_result` throw.
  std::optional<std::vector<at::Tensor>> run(const Call& call);

 private:
  class Function;
  using Signature = std::vector<int64_t>;
  struct Variant {
    Signature signature;
    std::shared_ptr<Function> function;  // null: refused
  };

  static Signature signature_of(const Call& call);
  std::optional<std::shared_ptr<Function>> find(const Signature& signature);
  std::shared_ptr<Function> make(const Call& call, const Signature& signature);
  void refuse(const Signature& signature);
  bool is_full();
  void tell(const std::string& why) const;

  const Forward forward_;
  const Settings settings_;
  const std::string name_;
  ForkMutex mutex_;  // guards what follows
  std::vector<Variant> variants_;
};

}  // namespace braze::dispatch
