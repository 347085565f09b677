// Running a graph in which numbers are read from data or that has control flow: its stages one
// after the other, and what reads, decides or loops in between.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dispatch/programs.h"
#include "graph/stages.h"
#include "plan/binder.h"
#include "sym/condition.h"

namespace braze::runtime {
class ExternCall;
}

namespace braze::dispatch {

// A Python exception is pending: a signal came while a loop ran.
struct Interrupted {};

class Stages {
 public:
  // `constants`: tensors of the graph's constant inputs, by graph input. `assertions`: on the
  // symbols, checked as soon as all of a condition's symbols have their values.
  Stages(const graph::Graph& graph, std::span<const int> data_symbols,
         std::vector<sym::Condition> assertions, const Settings& settings,
         std::vector<at::Tensor> constants, std::string name);
  ~Stages();

  // Compiles all stages. InternalError if one cannot be.
  void build(std::span<const int64_t> symbols, Report* report);

  // As Executable::run, with the GIL held. symbols[i]: the value of symbol i; those that come from
  // data are filled in. Throws NeedsEager (also where an assertion fails), c10::Error,
  // InternalError; of the last stage only what `writes_inputs_early` says may have happened then.
  void run(std::span<c10::TensorImpl* const> inputs, std::vector<at::Tensor>& outputs,
           std::span<int64_t> symbols);

  // Of the last stage; those before write to no input.
  bool writes_inputs_early() const { return writes_inputs_early_; }
  size_t output_count() const { return staged_.outputs.size(); }

 private:
  struct Reader {
    plan::Function function;               // one step, its slots are registers
    std::unique_ptr<plan::Binder> binder;  // with `numbers`: of one that has none
    plan::Numbers numbers;
    std::unique_ptr<runtime::ExternCall> call;
    std::vector<size_t> assertions;  // to be checked behind it
  };
  // A region: inputs from registers or, -1 - k, parameters.
  struct Inner {
    std::unique_ptr<Stages> stages;
    std::vector<int> inputs;
    std::vector<at::Tensor> run(std::span<const at::Tensor> registers,
                                std::span<const at::Tensor> parameters,
                                std::span<int64_t> symbols) const;
  };
  struct Control {
    std::optional<Inner> first, second;  // of a cond: yes and no; of a loop: condition and body
  };
  void run_stage(size_t number, std::vector<at::Tensor>& registers,
                 std::span<const int64_t> symbols);
  void read(size_t number, std::vector<at::Tensor>& registers, std::span<int64_t> symbols);
  void decide(size_t number, std::vector<at::Tensor>& registers, std::span<int64_t> symbols);
  void loop(size_t number, std::vector<at::Tensor>& registers, std::span<int64_t> symbols);
  void add_reader(const graph::Stage::Read& read, std::vector<bool>& known);
  static Inner inner(graph::Region region, const Settings& settings, const std::string& name);

  graph::Staged staged_;
  std::vector<std::unique_ptr<Programs>> programs_;  // by stage; null where it is empty
  std::vector<Reader> readers_;                      // by stage; of what reads
  std::vector<Control> controls_;                    // by stage; of what decides or loops
  std::vector<sym::Condition> assertions_;
  std::vector<sym::Range> ranges_;  // by symbol
  std::vector<at::Tensor> constants_;
  bool writes_inputs_early_ = false;
};

}  // namespace braze::dispatch
