// The backward of compiled code: one graph, compiled when gradients are first asked for, once for
// each way in which tangents come (which of them there are, in what layout).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/fork_mutex.h"
#include "dispatch/specializations.h"
#include "passes/partition.h"
#include "passes/stages.h"

namespace braze::dispatch {

// By gradient: whether somebody asks for it. Empty: all are asked for.
using Wanted = std::vector<bool>;

class Backward {
 public:
  using BackwardInput = passes::Partition::BackwardInput;

  // `inputs`: what the graph's inputs are. `constants`: by input of the forward.
  Backward(graph::Graph graph, std::vector<BackwardInput> inputs, const Settings& settings,
           const std::vector<at::Tensor>& constants, std::string name);

  // What is kept from the forward, by number in kept().
  struct Saved {
    std::function<at::Tensor(size_t)> unpack;
    // Asked when all is unpacked: whether nobody else needs what was kept, and whoever kept it has
    // let go of it. Then its memory is free for gradients as soon as no later step reads it.
    std::function<bool()> let_go;
  };

  // The gradients, by output of the graph. `saved` is unpacked where these tangents need it: of
  // that alone, as in eager, it matters whether it was changed. An undefined tangent counts as
  // zeros, and a gradient that depends on nothing but such is undefined, as an optimizer tells a
  // parameter without a gradient from one whose gradient is zero. One that is not `wanted` is not
  // computed, or in vain. With the GIL or without. Throws c10::Error, InternalError, and what
  // unpacking throws.
  std::vector<at::Tensor> run(const Saved& saved, std::vector<at::Tensor> tangents,
                              std::span<const int64_t> symbols, std::span<const double> numbers,
                              const Wanted& wanted = {});

  // See Training::backward_peak. With the GIL.
  int64_t planned_peak(const std::vector<int64_t>& kept_bytes) const;

  // See runtime::Executable::graphs; of all ways in which tangents have come. With the GIL.
  std::string cuda_graphs();

  // By gradient: whether it depends on this tangent, or on none.
  std::vector<bool> reached_by(size_t tangent) const;
  // Whether what is made of this tangent takes something that is kept from the forward.
  bool takes_kept(size_t tangent) const;

  // One of its stages, whose graph is taken. `kept`: set to the number in kept() of each that the
  // stage takes.
  std::unique_ptr<Backward> stage(passes::BackwardStage& stage, std::vector<size_t>& kept) const;

  const graph::Graph& graph() const { return graph_; }
  const std::vector<BackwardInput>& inputs() const { return inputs_; }  // of the graph
  // Of the inputs that are kept from the forward, in order.
  const std::vector<BackwardInput>& kept() const { return kept_; }
  // Which floats of the call the backward takes, in the order of its inputs.
  const std::vector<int>& numbers() const { return numbers_; }

 private:
  // One way in which tangents come: by tangent -1 where there is none, 0 where it lies as traced,
  // else 1 and its strides.
  using Form = std::vector<int64_t>;
  struct Variant {
    Form form;
    Wanted wanted;
    std::vector<bool> absent;  // by gradient: whether it is undefined
    std::vector<bool> takes;   // by number in kept_: whether it is an input
    // The same: whether it is unpacked. Eager looks at all that the operators of the way to what is
    // wanted have kept.
    std::vector<bool> unpacks;
    std::unique_ptr<Specializations> specializations;
    std::unique_ptr<Specializations> aten;  // run where the compiled code fails
    ForkMutex mutex;                        // guards what follows
    std::vector<std::pair<std::vector<int64_t>, std::shared_ptr<Specialization>>> by_symbols;
  };

  Form form_of(std::vector<at::Tensor>& tangents, std::span<const int64_t> symbols);
  Variant& variant_for(const Form& form, const Wanted& wanted);
  struct Flow;
  std::unique_ptr<Variant> make_variant(const Form& form, const Wanted& wanted) const;
  std::shared_ptr<Specialization> specialization_for(Variant& variant,
                                                     std::span<const int64_t> symbols);
  const graph::TensorType& tangent_type(size_t tangent) const;

  const graph::Graph graph_;
  const std::vector<BackwardInput> inputs_;
  const Settings settings_;
  const std::vector<at::Tensor> constants_;  // by input of the forward
  const std::string name_;
  std::vector<BackwardInput> kept_;
  std::vector<int> numbers_;
  std::vector<int> tangents_;  // by tangent: which input it is
  std::vector<bool> flows_;    // by tangent: see passes::BackwardStage::Source
  ForkMutex mutex_;
  std::vector<std::unique_ptr<Variant>> variants_;
};

}  // namespace braze::dispatch
