// Scatters on a GPU, and kernels that write to what they read: their modules, without running them.
#include "compile/cuda_modules.h"

namespace braze::compile {
namespace {

// How many kernels and how many calls of operators a function has.
using Counts = std::pair<size_t, size_t>;
Counts counts(const Compiled& compiled) {
  EXPECT_EQ(compiled.unsupported, "");
  return {steps<plan::KernelStep>(compiled.function()).size(),
          steps<plan::ExternStep>(compiled.function()).size()};
}

// What is there at first, and what is computed and added: as many launches, in that order.
TEST(CompileForGpu, ScattersAreKernelsWithWhatTheyAdd) {
  const std::string text =
      "graph(%0 w: f32[50, 64]@cuda:0, %1 i: i64[7000]@cuda:0, %2 x: f32[7000, 64]@cuda:0) {\n"
      "  %3: f32[7000, 64]@cuda:0 = aten.mul.Tensor(%2, 2)\n"
      "  %4: f32[7000, 64]@cuda:0 = aten.exp(%3)\n"
      "  %5: f32[50, 64]@cuda:0 = aten.index_add(%0, 0, %1, %4, 1)\n"
      "  return %5\n}\n";
  const Compiled compiled = compile_for_gpu(text);
  EXPECT_EQ(counts(compiled), Counts(2, 0));
  const auto adds_packs = [&](size_t kernel) {
    const std::string& text = compiled.module.code.at(kernel).text;
    return text.find("add_pack", text.find("__global__")) != std::string::npos;
  };
  EXPECT_FALSE(adds_packs(0));
  EXPECT_TRUE(adds_packs(1));
  const Compiled ordered =
      compile_for_gpu(text, passes::ChannelsLast::kNone, /*deterministic=*/true);
  EXPECT_EQ(counts(ordered), Counts(1, 1));
  EXPECT_NE(cache_key(graph::parse(text), {.deterministic = true}),
            cache_key(graph::parse(text), {}));
}

TEST(CompileForGpu, ScattersOfEachKind) {
  const auto scatter = [](const std::string& dtype, const std::string& call) {
    const std::string y = dtype + "[50, 64]@cuda:0", x = dtype + "[700, 64]@cuda:0";
    return counts(compile_for_gpu("graph(%0 y: " + y + ", %1 i: i64[700, 64]@cuda:0, %2 x: " + x +
                                  ", %3 j: i64[700]@cuda:0) {\n  %4: " + y + " = " + call +
                                  "\n  return %4\n}\n"));
  };
  for (const std::string dtype : {"f32", "f64", "i32", "i64"}) {
    EXPECT_EQ(scatter(dtype, "aten.scatter_add(%0, 0, %1, %2)"), Counts(2, 0)) << dtype;
    EXPECT_EQ(scatter(dtype, "aten.scatter.src(%0, 0, %1, %2)"), Counts(2, 0)) << dtype;
    for (const std::string op : {"sum", "prod", "amax", "amin"})
      EXPECT_EQ(scatter(dtype, "aten.scatter_reduce.two(%0, 0, %1, %2, \"" + op + "\", true)"),
                Counts(2, 0))
          << dtype << op;
  }
  // In single precision, or in words, and rounded at the end.
  for (const std::string dtype : {"f16", "bf16", "u8", "i16"})
    EXPECT_EQ(scatter(dtype, "aten.scatter_add(%0, 0, %1, %2)"), Counts(3, 0)) << dtype;
  for (const std::string op : {"sum", "prod", "mean", "amax", "amin"})
    EXPECT_EQ(
        scatter("f32", "aten.scatter_reduce.two(%0, 0, %1, %2, \"" + op + "\", false)").second, 0u)
        << op;
  // Floats are added up in a fixed order; whole numbers are the same in any.
  EXPECT_EQ(scatter("f32", "aten.index_put(%0, [%3], %2, true)"), Counts(1, 1));
  EXPECT_EQ(scatter("i64", "aten.index_put(%0, [%3], %2, true)"), Counts(2, 0));
  EXPECT_EQ(scatter("f16", "aten.index_put(%0, [%3], %2, false)"), Counts(2, 0));
}

TEST(CompileForGpu, HistogramsAreCountedByBlocks) {
  const auto histogram = [](const std::string& dtype, const std::string& limits) {
    return compile_for_gpu("graph(%0 x: " + dtype + "[100000, 640]@cuda:0) {\n  %1: " + dtype +
                           "[256]@cuda:0 = aten.histc(%0, 256" + limits + ")\n  return %1\n}\n");
  };
  const Compiled counted = histogram("f32", ", -4.0, 4.0");
  EXPECT_EQ(counts(counted), Counts(3, 0));
  EXPECT_NE(counted.module.code.at(1).text.find("__shared__ u32 part"), std::string::npos);
  EXPECT_EQ(counts(histogram("f32", "")), Counts(0, 1));
  EXPECT_EQ(counts(histogram("f16", ", -4.0, 4.0")), Counts(0, 1));
}

// As of loss scaling: the parts of a tensor, and what is left of it, are written where they are.
TEST(CompileForGpu, InputsAreWrittenInPlaceBesideReductions) {
  for (const std::string size : {"100", "65536", "670761", "3000000"}) {
    const std::string x = "f16[" + size + "]@cuda:0";
    const Compiled compiled = compile_for_gpu(
        "graph(%0 x: " + x + ") {\n  %1: " + x + " = aten.mul_.Tensor(%0, 0.0078125)\n  %2: bool[" +
        size +
        "]@cuda:0 = aten.isfinite(%0)\n  %3: bool[]@cuda:0 = aten.all(%2)\n  return %3\n}\n");
    EXPECT_EQ(compiled.unsupported, "");
    EXPECT_EQ(steps<plan::CopyStep>(compiled.function()).size(), 0u) << size;
    EXPECT_EQ(steps<plan::ExternStep>(compiled.function()).size(), 0u) << size;
  }
}

}  // namespace
}  // namespace braze::compile
