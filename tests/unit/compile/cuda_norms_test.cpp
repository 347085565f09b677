// Rows and columns of large matrices on a GPU: gradients of norms.
#include <gtest/gtest.h>

#include "compile/cuda_modules.h"

namespace braze::compile {
namespace {

// Backwards of layer norms of this many rows.
std::string layer_norm_backwards(int64_t rows, int count = 1) {
  const std::string n = std::to_string(rows), matrix = "f16[" + n + ", 4096]@cuda:0";
  const std::string column = "f32[" + n + ", 1]@cuda:0", weight = "f16[4096]@cuda:0";
  std::string inputs, nodes, results;
  int value = 6 * count;
  for (int i = 0; i < count; ++i) {
    std::string arguments[6];
    for (int a = 0; a < 6; ++a) {
      arguments[a] = "%" + std::to_string(6 * i + a);
      inputs += (inputs.empty() ? "" : ", ") + arguments[a] + ": " +
                (a < 2   ? matrix
                 : a < 4 ? column
                         : weight);
    }
    const std::string types[] = {matrix, weight, weight};
    nodes += "  ";
    for (int r = 0; r < 3; ++r) {
      const std::string result = "%" + std::to_string(value++);
      nodes += (r ? ", " : "") + result + ": " + types[r];
      results += (results.empty() ? "" : ", ") + result;
    }
    nodes += " = aten.native_layer_norm_backward(" + arguments[0] + ", " + arguments[1] +
             ", [4096], " + arguments[2] + ", " + arguments[3] + ", " + arguments[4] + ", " +
             arguments[5] + ", [true, true, true])\n";
  }
  return "graph(" + inputs + ") {\n" + nodes + "  return " + results + "\n}\n";
}

TEST(CompileForGpu, RowsOfLargeMatricesSumTheirColumns) {
  const auto kernels_of = [](int64_t rows) {
    const std::string n = std::to_string(rows), matrix = "f16[" + n + ", 4096]@cuda:0";
    const Compiled compiled = compile_for_gpu(
        "graph(%0: " + matrix + ", %1: " + matrix + ", %2: f32[" + n +
        ", 1]@cuda:0, %3: f16[4096]@cuda:0) {\n  %4: " + matrix +
        ", %5: f16[4096]@cuda:0 = aten._fused_rms_norm_backward(%0, %1, [4096], %2, %3, [true, "
        "true])\n  return %4, %5\n}\n");
    EXPECT_EQ(compiled.unsupported, "");
    EXPECT_TRUE(steps<plan::ExternStep>(compiled.function()).empty());
    std::vector<size_t> arguments;
    for (const plan::KernelStep* step : steps<plan::KernelStep>(compiled.function()))
      arguments.push_back(step->args.size());
    return arguments;
  };
  // And one for the sums of the parts.
  EXPECT_EQ(kernels_of(16384), (std::vector<size_t>{6, 2}));
  // Of fewer rows as many parts as keep a device busy are too much: a launch of rows and columns.
  EXPECT_EQ(kernels_of(1100), (std::vector<size_t>{9, 2}));
}

TEST(CompileForGpu, RowsAndColumnsOfLargeMatricesShareALaunch) {
  const Compiled large = compile_for_gpu(layer_norm_backwards(16384));
  EXPECT_EQ(large.unsupported, "");
  const auto kernels = steps<plan::KernelStep>(large.function());
  ASSERT_EQ(kernels.size(), 2u);  // and one for the sums of the parts
  EXPECT_EQ(kernels[0]->args.size(), 12u);
  EXPECT_EQ(large.function().kernels[kernels[0]->kernel].written.size(), 12u);
  // A cache holds small ones from one launch to the next.
  EXPECT_EQ(steps<plan::KernelStep>(compile_for_gpu(layer_norm_backwards(512)).function()).size(),
            3u);
}

TEST(CompileForGpu, EqualPairsOfRowsAndColumnsAreGeneratedOnce) {
  const Compiled twice = compile_for_gpu(layer_norm_backwards(16384, 2));
  // The last additions of both come at the end, in one launch.
  EXPECT_EQ(steps<plan::KernelStep>(twice.function()).size(), 3u);
  EXPECT_EQ(twice.function().kernels.size(), 2u);
}

}  // namespace
}  // namespace braze::compile
