// Ways to spread a kernel over a GPU: all give what the interpreter does.
#include <algorithm>
#include <set>

#include "codegen/cuda_kernels.h"

namespace braze::codegen::cuda {
namespace {

std::string column_sums(int64_t rows, int64_t columns) {
  return "kernel sums(b0: f32 in, b1: f32 out) outer(o0 < " + number(columns) + ") inner(i0 < " +
         number(rows) + ") {\n r0 = sum(load(b0, i0*" + number(columns) +
         " + o0)) inner\n store(b1, o0, r0)\n}";
}

// How many there are.
size_t check_candidates(const std::string& text, const target::Cuda& gpu, int64_t elements) {
  sym::ExprArena arena;
  loop::ExprPool pool;
  const std::vector<loop::Kernel> kernels = parse_kernels({text}, pool, arena);
  const std::vector<KernelCode> ways = candidates(kernels[0], gpu);
  EXPECT_EQ(ways[0].text, generate(kernels[0], gpu).text);
  std::set<std::string> texts;
  for (const KernelCode& way : ways) {
    EXPECT_TRUE(texts.insert(way.text).second);
    check_launch(
        kernels[0], way,
        [&](Buffers& want) { ASSERT_TRUE(loop::interpret(kernels[0], cpp::addresses(want))); },
        elements);
  }
  return ways.size();
}

TEST(CudaCandidates, PointsInPacksAndAlone) {
  EXPECT_GE(check_candidates(relu("f16", "4096"), small_gpu(), 4096), 3u);
}

TEST(CudaCandidates, RowsOfMoreAndFewerThreads) {
  EXPECT_GE(check_candidates(softmax(6, 1024), tested_gpu(), 6 * 1024), 3u);
  EXPECT_GE(check_candidates(layer_norm("f16", 5, 768), small_gpu(), 5 * 768), 3u);
}

TEST(CudaCandidates, Columns) {
  EXPECT_GE(check_candidates(column_sums(200, 64), tested_gpu(), 200 * 64), 2u);
}

}  // namespace
}  // namespace braze::codegen::cuda
