// Runs one function of straight-line steps, for any values of its symbols and on any number of
// threads.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/fork_mutex.h"
#include "runtime/bound_function.h"
#include "runtime/graphed_function.h"

namespace braze::runtime {

// A static function is bound once; a symbolic one for each list of values of its symbols, of which
// those used last are kept.
class FunctionRunner {
 public:
  // As PreparedFunction. graph_inputs: as of GraphedFunction; nothing: no CUDA graphs.
  FunctionRunner(plan::Function function, std::vector<at::Tensor> constants,
                 const std::vector<LoadedKernel>& kernels,
                 std::optional<std::vector<InputPlace>> graph_inputs = std::nullopt);
  ~FunctionRunner();

  // As Executable::run.
  void run(std::span<c10::TensorImpl* const> inputs, std::vector<at::Tensor>& outputs,
           std::span<const int64_t> symbols, std::span<const double> numbers,
           std::span<at::Tensor> handed_over);

  const PreparedFunction& prepared() const { return *prepared_; }
  const GraphedFunction* graphs() const { return graphs_.get(); }  // null: none are wanted

 private:
  struct Binding {
    std::vector<int64_t> values;
    std::shared_ptr<BoundFunction> bound;
  };
  std::shared_ptr<BoundFunction> bound_to(std::span<const int64_t> values);
  std::shared_ptr<BoundFunction> find(std::span<const int64_t> values);
  std::unique_ptr<RunContext> take_context(const BoundFunction& bound);
  void return_context(std::unique_ptr<RunContext> context);
  void run_bound(BoundFunction& bound, std::span<c10::TensorImpl* const> inputs,
                 std::span<const double> numbers, std::span<at::Tensor> handed_over,
                 std::vector<at::Tensor>& outputs);

  // In a context of its own.
  std::unique_ptr<RunContext> run_apart(BoundFunction& bound,
                                        std::span<c10::TensorImpl* const> inputs,
                                        std::span<const double> numbers,
                                        std::vector<RecordedLaunch>* launches,
                                        std::vector<at::Tensor>& outputs) const;

  std::unique_ptr<PreparedFunction> prepared_;
  std::unique_ptr<GraphedFunction> graphs_;
  ArenaPool arenas_;
  std::shared_ptr<BoundFunction> fixed_;  // of a static function
  ForkMutex mutex_;
  // Those with this layout, which has room for all sizes so far; the one used last first.
  std::list<Binding> recent_;
  std::shared_ptr<const plan::Layout> layout_;
  // Contexts of no call: the one used last by itself, as one thread at a time needs no lock for it.
  std::atomic<RunContext*> spare_ = nullptr;
  std::vector<std::unique_ptr<RunContext>> idle_;
};

}  // namespace braze::runtime
