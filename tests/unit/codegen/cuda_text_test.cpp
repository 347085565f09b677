#include <set>

#include "codegen/cuda_kernels.h"
#include "toolchain/nvrtc.h"

namespace braze::codegen::cuda {
namespace {

TEST(CudaText, PacksWhereThereIsWorkEnough) {
  EXPECT_EQ(text_of(relu("f32", "100")).find("load_pack"), std::string::npos);
  EXPECT_NE(text_of(relu("f32", "1000000")).find("load_pack<4>"), std::string::npos);
  EXPECT_NE(text_of(relu("f16", "1000000")).find("load_pack<8>"), std::string::npos);
  EXPECT_EQ(text_of(relu("f32", "1000000")).find("if (v >= count)"), std::string::npos);
  EXPECT_NE(text_of(relu("f32", "1000001")).find("if (v >= count)"), std::string::npos);
}

TEST(CudaText, AddressesThatPacksNeed) {
  const auto alignment = [](const std::string& kernel) {
    sym::ExprArena arena;
    loop::ExprPool pool;
    return generate(parse_kernels({kernel}, pool, arena), tested_gpu())[0].alignment;
  };
  EXPECT_EQ(alignment(relu("f32", "1000000")), (std::vector<int32_t>{16, 16}));
  EXPECT_EQ(alignment(relu("f16", "100000")), (std::vector<int32_t>{4, 4}));
  EXPECT_EQ(alignment(relu("f32", "100")), (std::vector<int32_t>{1, 1}));
  EXPECT_EQ(alignment("kernel shifted(b0: f32 in, b1: f32 out) outer(o0 < 4000000) {\n"
                      " store(b1, o0, load(b0, o0 + 1))\n}"),
            (std::vector<int32_t>{1, 16}));
}

TEST(CudaText, ThreadsOfARow) {
  const auto threads = [](const std::string& kernel) {
    sym::ExprArena arena;
    loop::ExprPool pool;
    const KernelCode code = generate(parse_kernels({kernel}, pool, arena), tested_gpu())[0];
    return std::pair(code.threads[0].constant(), code.blocks[0].constant());
  };
  EXPECT_EQ(threads(softmax(100000, 4)), std::pair(int64_t{256}, int64_t{391}));
  EXPECT_EQ(threads(softmax(100000, 128)).first, 256);
  EXPECT_EQ(threads(softmax(8192, 4096)), std::pair(int64_t{256}, int64_t{8192}));
  EXPECT_EQ(threads(softmax(1, 100000)), std::pair(int64_t{512}, int64_t{8}));  // a cluster
  // So that a thread keeps its part of a row in registers; behind that, two blocks of a processor.
  EXPECT_EQ(threads(softmax(8192, 8192)).first, 512);
  EXPECT_EQ(threads(softmax(8192, 16384)), std::pair(int64_t{512}, int64_t{8192}));
}

// Sources of any graphs may stand behind each other in one program.
TEST(CudaText, KernelsThatDifferDifferInName) {
  sym::ExprArena arena;
  loop::ExprPool pool;
  const auto code =
      generate(parse_kernels({relu("f32", "1000"), relu("f32", "1000"), relu("f32", "1001"),
                              relu("f16", "1000"), softmax(100, 64), softmax(100, 65)},
                             pool, arena),
               tested_gpu());
  EXPECT_EQ(code[0].text, code[1].text);
  std::set<std::string> names;
  for (const KernelCode& kernel : code) {
    names.insert(kernel.name);
    EXPECT_NE(kernel.text.find(" " + kernel.name + "("), std::string::npos) << kernel.text;
  }
  EXPECT_EQ(names.size(), 5u);
  const std::string_view shared = prelude();
  EXPECT_EQ(shared.find("#ifndef BRAZE_PRELUDE\n#define BRAZE_PRELUDE\n"), 1u);
  EXPECT_TRUE(shared.ends_with("\n#endif\n"));
}

TEST(CudaText, WhatThereIsNoCodeFor) {
  const auto why = [](const std::string& text) {
    loop::ExprPool pool;
    return why_unsupported(loop::parse_kernel(text, pool));
  };
  EXPECT_EQ(why("kernel scan(b0: f32 in, b1: f32 out) outer(o0 < 5) inner(i0 < 9) {\n"
                " r0 = scan(0:f32, add(r0.before, load(b0, o0*9 + i0))) inner\n"
                " store(b1, o0*9 + i0, r0) inner\n}"),
            "it keeps a running value that has no parts");
  EXPECT_EQ(why("kernel add(b0: i64 in, b1: f32 out) outer(o0 < 5) inner(i0 < 9) {\n"
                " store_add(b1, o0*9 + load(b0, i0), 1:f32) inner\n}"),
            "points combine what they store in an order");
  EXPECT_EQ(why("kernel add(b0: i64 in, b1: f16 out) outer(o0 < 5) {\n"
                " store_add(b1, load(b0, o0), 1:f16) unordered\n}"),
            "several points combine elements of less than 32 bits");
}

TEST(CudaNvrtc, CompilesWhatIsGenerated) {
  if (!toolchain::why_no_nvrtc().empty())
    GTEST_SKIP() << toolchain::why_no_nvrtc() << "; a machine with CUDA lifts it";
  sym::ExprArena arena;
  loop::ExprPool pool;
  const std::vector<std::string> texts = {
      relu("f32", "1000001"),
      relu("f16", "4096"),
      relu("bf16", "{s0}"),
      softmax(100000, 4),
      softmax(4096, 1000),
      softmax(8192, 4096),
      layer_norm("f16", 4096, 768),
      layer_norm("f32", 1, 100000),
      layer_norm("f16", 9000, 1023),
      layer_norm("bf16", 9000, 40001),
      softmax(9000, 4097),
      softmax(9000, 65536),
      "kernel take(b0: i64 in, b1: bf16 in, b2: bf16 out) outer(o0 < 90000, o1 < 16) {\n"
      " store(b2, o0*16 + o1, bf16(add(f32(load(b1, check_index(load(b0, o0), 7)*16 + o1)), "
      "1:f32)))\n}",
      "kernel sums(b0: f16 in, b1: f32 out) outer(o0 < 65536) inner(i0 < 100) {\n"
      " r0 = sum(f32(load(b0, i0*65536 + o0))) inner\n store(b1, o0, r0)\n}",
      "kernel columns(b0: f64 in, b1: f64 out) outer(o0 < 500) inner(i0 < 100) {\n"
      " r0 = welford(load(b0, i0*500 + o0)) inner\n store(b1, o0, r0.1)\n}",
      "kernel arg(b0: f32 in, b1: i64 out) outer(o0 < 500) inner(i0 < 100) {\n"
      " r0 = argmax(load(b0, o0*100 + i0)) inner\n store(b1, o0, r0)\n}",
      "kernel arg(b0: f16 in, b1: i64 out) outer(o0 < 4096) inner(i0 < 32000) {\n"
      " r0 = argmin(f32(load(b0, o0*32000 + i0))) inner\n store(b1, o0, r0)\n}"};
  std::vector<toolchain::CudaSource> sources;
  for (const KernelCode& code : generate(parse_kernels(texts, pool, arena, {64}), tested_gpu()))
    sources.push_back({code.text, compiler_flags(tested_gpu())});
  const std::vector<loop::Kernel> several =
      parse_kernels({relu("f16", "4096"), softmax(3, 50257)}, pool, arena);
  for (const loop::Kernel& kernel : several) {
    const std::vector<int64_t> extents(5, kernel.outer[0].extent.constant());
    const KernelCode code = generate_several(kernel, extents, {false, false}, tested_gpu());
    sources.push_back({code.text, compiler_flags(tested_gpu())});
  }
  toolchain::DiskCache none("", 0);
  const toolchain::Cubins cubins = toolchain::cubins(sources, none);
  EXPECT_EQ(cubins.of_source.size(), sources.size());
  for (const std::string& cubin : cubins.code)
    EXPECT_TRUE(
        cubin.starts_with("\x7f"
                          "ELF"));
}

}  // namespace
}  // namespace braze::codegen::cuda
