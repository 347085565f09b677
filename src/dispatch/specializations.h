// The compiled forms of one graph. There is one for all sizes; where the compiler refuses a
// symbolic graph, there is one for each set of sizes, compiled from the graph with numbers in place
// of symbols.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dispatch/report_data.h"
#include "dispatch/settings.h"
#include "graph/stages.h"
#include "runtime/executable.h"

namespace braze::dispatch {

// A Python exception is pending: a signal came while a loop ran.
struct Interrupted {};

// One compiled form of a graph.
struct Specialization {
  std::unique_ptr<runtime::Executable> executable;
  bool writes_inputs_early = false;  // inputs may have changed by the time a step fails
  bool releases_gil = false;         // there is enough to do
};

class Specializations {
 public:
  // `constants`: tensors of the graph's constant inputs whose contents it does not hold, by graph
  // input.
  Specializations(graph::Graph graph, graph::DataSymbols data, const Settings& settings,
                  std::vector<at::Tensor> constants, std::string name);

  // The specialization for these values of the graph's symbols; null if there is none yet. With the
  // GIL.
  std::shared_ptr<Specialization> find(std::span<const int64_t> symbols) const;
  // Compiles it, and gives back the GIL for as long as that takes. `report` (may be null) is
  // filled. Without a symbolic module the first few sets of sizes get kernels of their own; later
  // ones run through ATen, which needs no compiler. Throws InternalError if it cannot be made.
  std::shared_ptr<Specialization> add(std::span<const int64_t> symbols, Report* report);
  // See runtime::Executable::graphs; of all that there are. With the GIL.
  std::string cuda_graphs() const;
  // What would be run, but that nothing is built.
  plan::Module plan() const;

 private:
  std::shared_ptr<Specialization> build(const graph::Graph& graph, bool kernels,
                                        Report& report) const;
  // Whether there can only be one for all sizes: the graph reads some of them from data.
  bool only_symbolic() const { return !data_.numbers.empty(); }
  std::shared_ptr<Specialization> build_symbolic(Report& report);

  graph::Graph graph_;
  graph::DataSymbols data_;
  Settings settings_;
  std::vector<at::Tensor> constants_;
  std::string name_;
  std::shared_ptr<Specialization> only_;  // of the graph as it is
  bool refused_ = false;                  // there is no symbolic module
  std::map<std::vector<int64_t>, std::shared_ptr<Specialization>> by_symbols_;
};

}  // namespace braze::dispatch
