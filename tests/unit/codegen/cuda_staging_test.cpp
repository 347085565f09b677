// Rows that a block copies to its shared memory, as several walks load them.
#include "codegen/cuda/kernel_writer.h"
#include "codegen/cuda_kernels.h"
#include "toolchain/nvrtc.h"

namespace braze::codegen::cuda {
namespace {

bool copies_ahead(const std::string& text) { return text.find("copy_ahead(") != std::string::npos; }

// exp(x - max) * y over a row of two axes, where x is a sum of two loads, and y one of the columns.
std::string two_loads(const std::string& type, int64_t rows, int64_t high, int64_t wide) {
  const std::string n = number(high * wide);
  const std::string at = "o0*" + n + " + i0*" + number(wide) + " + i1";
  const auto widened = [&](const std::string& load) {
    return type == "f16" ? "f32(" + load + ")" : load;
  };
  const std::string x =
      "add(" + widened("load(b0, " + at + ")") + ", " + widened("load(b1, " + at + ")") + ")";
  return "kernel two_loads(b0: " + type + " in, b1: " + type + " in, b2: f32 in, b3: f32 out) " +
         "outer(o0 < " + number(rows) + ") inner(i0 < " + number(high) + ", i1 < " + number(wide) +
         ") {\n r0 = max(" + x + ") inner\n store(b3, " + at + ", mul(exp(sub(" + x +
         ", r0)), load(b2, i1))) inner\n}";
}

TEST(CudaStaging, LongRows) {
  const std::vector<std::string> texts = {
      softmax(2, 16384),            // a block a row
      softmax(3, 65536),            // four
      layer_norm("f16", 2, 20000),  // its last packs are those of some threads
      softmax(3, 16129),            // it begins between packs
      layer_norm("f16", 3, 20001),
      layer_norm("f32", 3, 16129),    // by elements
      two_loads("f16", 2, 8, 4200),   // two loads
      two_loads("f32", 3, 64, 400)};  // the same of two blocks
  for (const std::string& text : texts) EXPECT_TRUE(copies_ahead(text_of(text))) << text;
  check_emulated(texts, {.elements = 1 << 18, .tolerance = 1e-4, .magnitude = 1});
}

// What registers keep stays there, and what cannot be copied as it lies is loaded by each walk.
TEST(CudaStaging, NotThese) {
  EXPECT_FALSE(copies_ahead(text_of(softmax(4, 8192))));
  EXPECT_FALSE(copies_ahead(text_of(layer_norm("f16", 4, 16384))));
  EXPECT_FALSE(copies_ahead(text_of(softmax(1, 1 << 20))));  // more than blocks have room
  const std::string once =
      "kernel once(b0: f32 in, b1: f32 out) outer(o0 < 4) inner(i0 < 65536) {\n"
      " r0 = max(load(b0, o0*65536 + i0)) inner\n store(b1, o0, r0)\n}";
  EXPECT_FALSE(copies_ahead(text_of(once)));
  const std::string masked =
      "kernel masked(b0: f32 in, b1: f32 out) outer(o0 < 2) inner(i0 < 16384) {\n"
      " t0 = masked(lt(i0, 10000), load(b0, o0*10000 + i0), 0:f32)\n r0 = max(t0) inner\n"
      " store(b1, o0*16384 + i0, sub(t0, r0)) inner\n}";
  EXPECT_FALSE(copies_ahead(text_of(masked)));
  const std::string columns =
      "kernel columns(b0: f32 in, b1: f32 out) outer(o0 < 2) inner(i0 < 16384) {\n"
      " r0 = max(load(b0, i0)) inner\n"
      " store(b1, o0*16384 + i0, sub(load(b0, i0), r0)) inner\n}";
  EXPECT_FALSE(copies_ahead(text_of(columns)));
  check_emulated({masked, columns}, {.elements = 1 << 16});
  EXPECT_FALSE(copies_ahead(text_of(softmax(4, 16384), target::cuda(75, 40, 300000))));
  EXPECT_TRUE(copies_ahead(text_of(softmax(4, 16384), target::cuda(80, 108, 1500000))));
  EXPECT_FALSE(copies_ahead(text_of(softmax(4, 65536), target::cuda(80, 108, 1500000))));
}

// A sum of exponentials whose logarithm is wanted: in one walk with its maximum, also where that is
// infinite.
TEST(CudaRows, SumsWholeRows) {
  std::vector<std::string> texts;
  for (const std::string type : {"f32", "f16"})
    for (const int64_t n : {64, 1001, 20000}) {
      const std::string load = "load(b0, o0*" + number(n) + " + i0)";
      const std::string x = type == "f16" ? "f32(" + load + ")" : load;
      texts.push_back("kernel whole(b0: " + type + " in, b1: f32 out) outer(o0 < 7) inner(i0 < " +
                      number(n) + ") {\n r0 = max(" + x +
                      ") inner\n t0 = where(isinf(r0), 0:f32, r0)\n r1 = sum(exp(sub(" + x +
                      ", t0))) inner\n store(b1, o0, add(log(r1), t0))\n}");
      if (n == 20000)
        EXPECT_NE(text_of(texts.back()).find("true> a0 = SoftSum"), std::string::npos);
    }
  check_emulated(texts, {.elements = 1 << 18, .tolerance = 1e-4});
  check_emulated(texts, {.elements = 1 << 18, .tolerance = 1e-4, .special = true});
}

// Near exponentials are small ones: others may be as small as what they are divided by.
TEST(CudaRows, NearExponentials) {
  const auto softmax_of_halves = [](const std::string& top) {
    const std::string x = "f32(load(b0, o0*256 + i0))";
    return "kernel weights(b0: f16 in, b1: f16 out) outer(o0 < 64) inner(i0 < 256) {\n r0 = " +
           top + "(" + x + ") inner\n t0 = exp(sub(" + x + ", r0))\n r1 = sum(t0) inner\n" +
           " store(b1, o0*256 + i0, f16(div(t0, r1))) inner\n}";
  };
  EXPECT_NE(text_of(softmax_of_halves("max")).find("exp_near("), std::string::npos);
  EXPECT_EQ(text_of(softmax_of_halves("min")).find("exp_near("), std::string::npos);
}

// Shared memory of the launch: what the threads' packs take, for two blocks of a processor.
TEST(CudaStaging, Launch) {
  sym::ExprArena arena;
  loop::ExprPool pool;
  const std::vector<KernelCode> code = generate(
      parse_kernels({softmax(900, 16384), softmax(900, 65536), softmax(900, 8192)}, pool, arena),
      tested_gpu());
  EXPECT_EQ(code[0].shared_bytes, sym::Int(65536));
  EXPECT_EQ(code[0].cluster, 1);
  EXPECT_EQ(code[1].shared_bytes, sym::Int(65536));
  EXPECT_EQ(code[1].cluster, 4);
  EXPECT_EQ(code[2].shared_bytes, sym::Int(0));
}

TEST(CudaStaging, IsCode) {
  if (!toolchain::why_no_nvrtc().empty())
    GTEST_SKIP() << toolchain::why_no_nvrtc() << "; a machine with CUDA lifts it";
  sym::ExprArena arena;
  loop::ExprPool pool;
  for (const int sm : {80, 90}) {
    const target::Cuda gpu = target::cuda(sm, 108, 1500000);
    std::vector<toolchain::CudaSource> sources;
    for (const KernelCode& code : generate(
             parse_kernels(
                 {softmax(9, 16384), layer_norm("f32", 3, 16129), two_loads("f16", 2, 8, 4200)},
                 pool, arena),
             gpu))
      sources.push_back({code.text, compiler_flags(gpu)});
    toolchain::DiskCache none("", 0);
    EXPECT_EQ(toolchain::cubins(sources, none).of_source.size(), sources.size());
  }
}

}  // namespace
}  // namespace braze::codegen::cuda
