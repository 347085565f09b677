#include "passes/pipeline.h"

#include <gtest/gtest.h>

#include <chrono>

#include "passes/cse.h"
#include "passes/dce.h"
#include "passes/decompose.h"
#include "passes/fold.h"
#include "passes/functionalise.h"
#include "passes/fuzz.h"

namespace braze::passes {
namespace {

using graph::Graph;

constexpr unsigned kSeeds = 1000;

bool whole_pipeline(Graph& graph) {
  const std::string before = to_string(graph, false);
  run_inference_pipeline(graph, {});
  return to_string(graph, false) != before;
}

void fuzz_pass(fuzz::PassFunction pass, bool functional, bool idempotent = true) {
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    Graph graph = fuzz::random_graph(seed, 5 + seed % 20, true);
    if (functional) {
      try {
        functionalise(graph);
      } catch (const Unsupported&) {
        continue;
      }
    }
    const std::string wrong = fuzz::check_pass(std::move(graph), pass, seed, idempotent);
    ASSERT_EQ(wrong, "");
  }
}

TEST(Fuzz, Functionalise) { fuzz_pass(functionalise, false); }
TEST(Fuzz, Decompose) { fuzz_pass(decompose, true); }
TEST(Fuzz, Fold) { fuzz_pass(fold, true); }
TEST(Fuzz, Cse) { fuzz_pass(eliminate_common_subexpressions, true); }
TEST(Fuzz, Dce) { fuzz_pass(eliminate_dead_code, true); }
TEST(Fuzz, Pipeline) { fuzz_pass(whole_pipeline, false, false); }

}  // namespace
}  // namespace braze::passes
