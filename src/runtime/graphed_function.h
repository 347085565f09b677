// Runs of a function as CUDA graphs, by mode="reduce-overhead".
//
// A graph reads and writes at fixed addresses. Inputs that come at the same place again
// (parameters, what another graph has kept for a backward, buffers that are written to) are read
// where they are; the caller's other tensors are copied to a place of the graph's own before each
// launch. Results are the graph's memory, each launch under a storage of its own, by which the
// graph knows whether somebody still has them: nothing that is in use is ever written over. Where
// no graph fits, another one is recorded, as long as that pays, and where none can be, the function
// runs step by step, which is always right.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/bound_function.h"
#include "runtime/cuda/recording.h"

namespace braze::runtime {

enum class InputPlace : uint8_t {
  kStays,   // as parameters do: it is never copied
  kVaries,  // the caller's: it is copied once it has moved
  kKept,  // for a backward: what a graph has made comes at that graph's places, of which there are
          // few. It is copied if it never comes at one place twice, as an input of the forward may
};

class GraphedFunction {
 public:
  // Runs the steps on the thread's current stream in a context that nobody else has.
  using Steps = std::function<std::unique_ptr<RunContext>(
      BoundFunction&, std::span<c10::TensorImpl* const> inputs, std::span<const double> numbers,
      std::vector<RecordedLaunch>* launches, std::vector<at::Tensor>& outputs)>;

  // inputs[i]: where input i comes from.
  GraphedFunction(const PreparedFunction& prepared, std::vector<InputPlace> inputs, Steps steps);
  ~GraphedFunction();
  GraphedFunction(const GraphedFunction&) = delete;

  // As Executable::run. False, and nothing has been done: the call is to be run step by step.
  bool run(const std::shared_ptr<BoundFunction>& bound, std::span<c10::TensorImpl* const> inputs,
           std::span<const double> numbers, std::span<at::Tensor> handed_over,
           std::vector<at::Tensor>& outputs);

  // Why there is none and will be none; empty: there may be.
  std::string why_not() const;
  int64_t recorded() const { return recorded_; }  // graphs, so far
  int64_t launched() const { return launched_; }

 private:
  struct Graph;
  struct Seen;  // where the inputs of a call lay that was run step by step
  struct Call {
    std::shared_ptr<BoundFunction> bound;
    std::span<c10::TensorImpl* const> inputs;
    std::span<const double> numbers;
    void* stream;
  };

  void sort_inputs(std::vector<InputPlace> inputs);
  bool may_copy(plan::SlotId input) const;
  bool is_of(const Graph& graph, const Call& call) const;
  std::shared_ptr<Graph> find(const Call& call);
  enum class Fit : uint8_t { kNone, kOther, kEnough };
  Fit note_moves(const Call& call);
  bool has_come_before(const Call& call);
  bool repeats(const Seen& seen, const std::vector<const void*>& places) const;
  void note_wanderers(const Call& call);
  bool may_record(const Call& call) const;
  std::shared_ptr<Graph> record(const Call& call);
  void record_steps(const std::shared_ptr<Graph>& graph, const Call& call);
  void take_results(Graph& graph) const;
  void copy_inputs(const Graph& graph, const Call& call) const;
  void repeat(Graph& graph) const;
  void refuse(std::string why);
  void launch(const std::shared_ptr<Graph>& graph, const Call& call,
              std::vector<at::Tensor>& outputs);
  at::Tensor result(const std::shared_ptr<Graph>& graph, plan::SlotId root) const;

  const PreparedFunction& prepared_;
  const Steps steps_;
  std::vector<plan::SlotId> read_;   // inputs that are tensors of the call
  std::vector<plan::SlotId> roots_;  // whose memory results are: inputs, and slots of the function
  std::vector<plan::SlotId> result_views_;  // results that are views, after what they are views of
  std::vector<InputPlace> places_;          // by input
  std::vector<uint8_t> moves_;              // by input: it is copied
  std::atomic<bool> busy_ = false;          // by a thread, which may wait for the GIL
  std::list<std::shared_ptr<Graph>> graphs_;  // the one used last first
  std::list<Seen> seen_;                      // the newest first
  std::atomic<int64_t> recorded_ = 0, launched_ = 0;
  std::atomic<bool> refused_ = false;
  mutable ForkMutex mutex_;  // of what follows
  std::string why_not_;
};

}  // namespace braze::runtime
