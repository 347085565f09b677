// Random graphs, with mutation and views, through the whole compiler.
#include "passes/fuzz.h"

#include <gtest/gtest.h>

#include "compile/function_runner.h"
#include "exhaustive.h"

namespace braze::compile {
namespace {

bool interprets(const graph::Graph& graph, uint32_t seed) {
  try {
    graph::interpret(graph, random_inputs(graph, seed));
    return true;
  } catch (const InternalError&) {
    return false;  // an index out of range
  }
}

void fuzz(Backend backend, unsigned first, unsigned count) {
  unsigned compared = 0;
  for (unsigned seed = first; seed < first + count; ++seed) {
    graph::Graph graph = passes::fuzz::random_graph(seed, 5 + static_cast<int>(seed % 20), true);
    if (!interprets(graph, seed)) continue;
    SCOPED_TRACE("seed " + std::to_string(seed));
    compile_and_compare(graph, {.backend = backend, .target = target::Cpu{target::host_isa()}},
                        seed);
    if (testing::Test::HasFailure()) return;
    ++compared;
  }
  EXPECT_GT(compared, count / 2);
}

TEST(CompileFuzz, Kernels) { fuzz(Backend::kKernels, 0, exhaustive() ? 40 : 8); }
TEST(CompileFuzz, Aten) { fuzz(Backend::kAten, 0, 300); }
TEST(CompileFuzz, Eager) { fuzz(Backend::kEager, 0, 300); }

// Run by tests/fuzz.py.
TEST(CompileFuzz, DISABLED_ManyKernels) {
  fuzz(Backend::kKernels, number_given("BRAZE_FUZZ_SEED", 1000),
       number_given("BRAZE_FUZZ_COUNT", 1000));
}

}  // namespace
}  // namespace braze::compile
