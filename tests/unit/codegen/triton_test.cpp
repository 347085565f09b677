// Sources in Triton. That they compute the right numbers, the tests of CUDA C++ see to, which run
// the same kernels in Triton's interpreter (cuda_emulator.h).
#include <set>

#include "codegen/cuda_kernels.h"
#include "codegen/random_kernels.h"
#include "codegen/triton/tile.h"

namespace braze::codegen::triton {
namespace {

using cuda::layer_norm;
using cuda::number;
using cuda::parse_kernels;
using cuda::relu;
using cuda::softmax;
using cuda::tested_gpu;

KernelCode code_of(const std::string& text, const target::Cuda& gpu = tested_gpu()) {
  sym::ExprArena arena;
  loop::ExprPool pool;
  return generate(parse_kernels({text}, pool, arena, {4096, 1000})[0], gpu);
}

// From the line of its definition on.
std::string body_of(const std::string& text, const target::Cuda& gpu = tested_gpu()) {
  const KernelCode code = code_of(text, gpu);
  return code.text.substr(code.text.find("def " + code.name) + code.name.size() + 4);
}

std::string flag_of(const KernelCode& code, const std::string& name) {
  for (const std::string& flag : code.flags)
    if (flag.starts_with(name + "=")) return flag.substr(name.size() + 1);
  return "";
}

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(Triton, InterpretsWhatTestsOfCudaRun) {
  if (!has_triton()) GTEST_SKIP() << "kernels are not run in its interpreter: " << kLiftsSkips;
}

TEST(TritonText, Points) {
  EXPECT_EQ(body_of(relu("f16", "1048576")),
            "(p0, p1):\n"
            "    BLOCK: tl.constexpr = 2048\n"
            "    point = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
            "    t0 = tl.load(p0 + point)\n"
            "    t1 = t0.to(tl.float32)\n"
            "    t2 = t1 + 1.0\n"
            "    t3 = maximum(t2, 0.0)\n"
            "    t4 = t3 * 2.0\n"
            "    t5 = t4.to(tl.float16)\n"
            "    tl.store(p1 + point, t5)\n");
}

// Triton's own constants of bfloat16 have six decimals.
TEST(TritonText, SmallNumbersOfBfloat16) {
  expect_in(body_of("kernel k(b0: bf16 in, b1: bf16 out) outer(o0 < 64) {\n"
                    "  store(b1, o0, bf16(add(f32(load(b0, o0)), f32(1.00117177e-08:bf16))))\n}"),
            "tl.full([], 1.00117177e-08, tl.float32).to(tl.bfloat16).to(tl.float32)");
}

// A block that has all its points loads packs.
TEST(TritonText, PointsOfNoWholePacks) {
  const std::string text = body_of(relu("f32", "1000001"));
  expect_in(text,
            "    if tl.program_id(0) * BLOCK + BLOCK <= 1000001:\n"
            "        t0 = tl.load(p0 + point)\n");
  expect_in(text,
            "    else:\n        inside = point < 1000001\n"
            "        t4 = tl.load(p0 + point, mask=inside)\n");
}

TEST(TritonText, ARowInRegisters) {
  const std::string text = body_of(softmax(8192, 1000));
  expect_in(text,
            "    COLUMNS: tl.constexpr = 1024\n"
            "    row = tl.program_id(0)\n"
            "    column = tl.arange(0, COLUMNS)\n"
            "    in_columns = column < 1000\n"
            "    t0 = tl.load(p0 + row * 1000 + column, mask=in_columns)\n"
            "    r0 = tl.reduce(tl.where(in_columns, t0, float(\"-inf\")), 0, maximum)\n"
            "    t1 = t0 - r0\n"
            "    t2 = libdevice.exp(t1)\n"
            "    r1 = tl.sum(tl.where(in_columns, t2, 0.0), 0)\n"
            "    t3 = tl.div_rn(t2, r1)\n"
            "    tl.store(p1 + row * 1000 + column, t3, mask=in_columns)\n");
}

TEST(TritonText, SeveralShortRows) {
  const std::string text = body_of(softmax(8192, 32));
  expect_in(text, "row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]");
  expect_in(text, "r1 = tl.sum(t2, 1, keep_dims=True)");
}

// Of a maximum and the sum of exponentials in one walk, and the walk that stores.
TEST(TritonText, LongRows) {
  const std::string text = body_of(softmax(8192, 65536));
  expect_in(text, "for start in range(0, 65536, COLUMNS):");
  expect_in(text, "a0, a0_sum = add_to_exponentials(a0, a0_sum, ");
  EXPECT_EQ(text.find("for start", text.find("for start", text.find("for start") + 1) + 1),
            std::string::npos);
}

TEST(TritonText, Columns) {
  const std::string text = body_of(
      "kernel sums(b0: f16 in, b1: f32 out) outer(o0 < 65536) inner(i0 < 1000) {\n"
      " r0 = sum(f32(load(b0, i0*65536 + o0))) inner\n store(b1, o0, r0)\n}");
  expect_in(text, "column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]");
  expect_in(text, "a0 += ");
  expect_in(text, "r0 = tl.sum(a0, 0, keep_dims=True)");
}

TEST(TritonText, WhatTheCompilerIsTold) {
  const KernelCode even = code_of(relu("f32", "1048576"));
  EXPECT_EQ(even.flags,
            (std::vector<std::string>{"sm=90", "warps=8", "signature=*fp32:16,*fp32:16"}));
  EXPECT_EQ(even.alignment, (std::vector<int32_t>{16, 16}));
  EXPECT_EQ(even.threads[0], sym::Int(256));
  EXPECT_EQ(even.blocks[0], sym::Int(1024));
  const KernelCode few = code_of(relu("f32", "100"));
  EXPECT_EQ(flag_of(few, "signature"), "*fp32,*fp32");
  EXPECT_EQ(few.alignment, (std::vector<int32_t>{1, 1}));
  EXPECT_EQ(flag_of(code_of(relu("bf16", "{64*s0}")), "signature"), "*bf16:16,*bf16:16,i64:16");
  const std::string take =
      "kernel take(b0: i64 in, b1: f16 in, b2: f64 value, b3: f16 out) outer(o0 < 100) {\n"
      " store(b3, o0, f16(mul(f32(load(b1, check_index(load(b0, o0), 7))), f32(load(b2, 0)))))\n}";
  EXPECT_EQ(flag_of(code_of(take), "signature"), "*i64,*fp16,fp64,*fp16");
  EXPECT_EQ(flag_of(code_of(take), "asserts"), "1");
  expect_in(body_of(take),
            "tl.device_assert((t0 >= 0) & (t0 < 7), \"index out of range\", mask=inside)");
}

TEST(TritonText, KernelsThatDifferDifferInName) {
  std::set<std::string> names;
  for (const std::string& text : {relu("f32", "1000"), relu("f32", "1001"), relu("f16", "1000"),
                                  softmax(100, 64), softmax(100, 65)})
    names.insert(code_of(text).name);
  EXPECT_EQ(names.size(), 5u);
  EXPECT_EQ(code_of(relu("f32", "1000")).name, code_of(relu("f32", "1000")).name);
}

TEST(TritonText, IndicesOf64BitsWhereThereAreSoMany) {
  const std::string text = body_of(relu("f32", "3000000000"));
  expect_in(text, "point = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)");
}

TEST(TritonText, WhatIsCudaAnyway) {
  const auto why = [](const std::string& text) {
    loop::ExprPool pool;
    return why_unsupported(loop::parse_kernel(text, pool), tested_gpu());
  };
  EXPECT_EQ(why(softmax(8192, 1000)), "");
  EXPECT_EQ(why(softmax(3, 50257)), "blocks of a cluster share its rows");
  EXPECT_EQ(why("kernel scan(b0: f32 in, b1: f32 out) outer(o0 < 5) inner(i0 < 9) {\n"
                " r0 = scan_sum(load(b0, o0*9 + i0)) inner\n store(b1, o0*9 + i0, r0) inner\n}"),
            "it keeps running values");
  EXPECT_EQ(why("kernel words(b0: i64 in, b1: i32 out) outer(o0 < 9) {\n"
                " store(b1, o0, random(load(b0, 0), load(b0, 1), o0, 0))\n}"),
            "it draws random numbers");
}

// Against the interpreter of loops. A failure prints the kernel and its seed.
void fuzz(const std::vector<int64_t>& hints, const cpp::Values& values, int kernels) {
  const char* wanted = std::getenv("BRAZE_FUZZ_SEED");
  const char* rounds = std::getenv("BRAZE_FUZZ_ROUNDS");
  const unsigned first = wanted ? std::strtoul(wanted, nullptr, 10) : 1;
  const unsigned last = first + (rounds ? std::strtoul(rounds, nullptr, 10) : 1);
  for (unsigned seed = first; seed < last; ++seed) {
    SCOPED_TRACE("BRAZE_FUZZ_SEED=" + std::to_string(seed));
    cpp::RandomKernels generator(seed, values);
    std::vector<std::string> texts;
    for (int i = 0; i < kernels; ++i) {
      std::string text = generator.kernel();
      if (text.find("random(") == std::string::npos && text.find("store_") == std::string::npos &&
          text.find("scan(") == std::string::npos)
        texts.push_back(std::move(text));
    }
    sym::ExprArena arena;
    loop::ExprPool pool;
    const std::vector<loop::Kernel> parsed = parse_kernels(texts, pool, arena, hints);
    Interpreter interpreted;
    RunOptions options{.elements = 1 << 14, .tolerance = 1e-3, .magnitude = 100, .seed = seed};
    for (const loop::Kernel& kernel : parsed) {
      // By turns with one multiprocessor, which is busy with little: elements are taken in packs.
      const target::Cuda gpu = (&kernel - parsed.data()) % 2 ? cuda::small_gpu() : tested_gpu();
      if (!why_unsupported(kernel, gpu).empty()) continue;
      const KernelCode code = generate(kernel, gpu);
      for (const std::vector<int64_t>& symbols : values) {
        options.symbols = symbols;
        const Buffers before = cpp::random_buffers(kernel, options);
        Buffers want = before;
        ASSERT_TRUE(loop::interpret(kernel, cpp::addresses(want), symbols));
        interpreted.add(kernel, code, options, before, std::move(want));
      }
    }
    interpreted.expect_results();
    if (testing::Test::HasFailure()) return;
  }
}

TEST(TritonFuzz, RandomKernels) {
  if (!has_triton()) GTEST_SKIP() << kLiftsSkips;
  fuzz({}, {{}}, exhaustive() ? 60 : 30);
}

TEST(TritonFuzz, RandomKernelsOfSymbolicSizes) {
  if (!has_triton()) GTEST_SKIP() << kLiftsSkips;
  fuzz({16, 7}, {{2, 3}, {16, 7}, {17, 8}, {40, 5}}, exhaustive() ? 40 : 20);
}

struct Compiled {
  std::string ptx;
  bool loads_packs() const { return ptx.find("ld.global.v4.b32") != std::string::npos; }
  bool stores_packs() const { return ptx.find("st.global.v4.b32") != std::string::npos; }
};

std::vector<Compiled> compile(const std::vector<std::string>& kernels) {
  test::Scratch folder;
  std::string jobs;
  std::vector<std::string> files;
  for (const std::string& kernel : kernels) {
    const KernelCode code = code_of(kernel);
    files.push_back(folder / (code.name + ".py"));
    test::spill(files.back(), code.text);
    jobs += files.back() + "\t" + code.name;
    for (const std::string& flag : code.flags) jobs += "\t" + flag;
    jobs += "\n";
  }
  test::spill(folder / "jobs", jobs);
  const std::string command = "TRITON_CACHE_DIR='" + (folder / "cache") + "' " + python() +
                              " '" BRAZE_TEST_SOURCES "/codegen/triton_compile.py' '" +
                              (folder / "jobs") + "' > '" + (folder / "said") + "' 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << test::slurp(folder / "said");
  std::vector<Compiled> compiled;
  for (const std::string& file : files) compiled.push_back({test::slurp(file + ".ptx")});
  return compiled;
}

TEST(TritonCompiler, PacksOf16Bytes) {
  if (!has_triton()) GTEST_SKIP() << kLiftsSkips;
  const auto compiled =
      compile({relu("f32", "1048576"), relu("f16", "1000001"), relu("bf16", "{512*s0}"),
               softmax(8192, 4096), layer_norm("f16", 4096, 768),
               "kernel sums(b0: f16 in, b1: f32 out) outer(o0 < 65536) inner(i0 < 1000) {\n"
               " r0 = sum(f32(load(b0, i0*65536 + o0))) inner\n store(b1, o0, r0)\n}",
               "kernel bias(b0: f32 in, b1: f32 in, b2: f32 out) outer(o0 < {s0}, o1 < {4*s1}) {\n"
               " store(b2, o0*{4*s1} + o1, add(load(b0, o0*{4*s1} + o1), load(b1, o1)))\n}"});
  constexpr size_t kColumns = 5;  // more threads than results
  for (size_t i = 0; i < compiled.size(); ++i) {
    EXPECT_TRUE(compiled[i].loads_packs()) << i << "\n" << compiled[i].ptx;
    if (i != kColumns) EXPECT_TRUE(compiled[i].stores_packs()) << i << "\n" << compiled[i].ptx;
  }
}

// Of all kinds; nothing is contracted, and small numbers are not flushed.
TEST(TritonCompiler, CompilesWhatIsGenerated) {
  if (!has_triton()) GTEST_SKIP() << kLiftsSkips;
  const auto compiled = compile(
      {softmax(100000, 4), softmax(8192, 65536), layer_norm("f32", 9000, 40001),
       "kernel take(b0: i64 in, b1: bf16 in, b2: bf16 out) outer(o0 < 90000, o1 < 16) {\n"
       " store(b2, o0*16 + o1, bf16(add(f32(load(b1, check_index(load(b0, o0), 7)*16 + o1)), "
       "1:f32)))\n}",
       "kernel columns(b0: f64 in, b1: f64 out) outer(o0 < 500) inner(i0 < 100) {\n"
       " r0 = welford(load(b0, i0*500 + o0)) inner\n store(b1, o0, r0.1)\n}",
       "kernel arg(b0: f32 in, b1: i64 out) outer(o0 < 500) inner(i0 < 100) {\n"
       " r0 = argmax(load(b0, o0*100 + i0)) inner\n store(b1, o0, r0)\n}",
       "kernel transpose(b0: f16 in, b1: f16 out) outer(o0 < 1024, o1 < 1024) {\n"
       " store(b1, o0*1024 + o1, load(b0, o1*1024 + o0))\n}",
       "kernel product(b0: f32 in, b1: f32 in, b2: f32 in, b3: f32 out) outer(o0 < 4096) {\n"
       " store(b3, o0, exp(add(mul(load(b0, o0), load(b1, o0)), load(b2, o0))))\n}"});
  for (const Compiled& one : compiled) EXPECT_TRUE(one.ptx.starts_with("shared="));
  expect_in(compiled.back().ptx, "mul.rn.f32");
  expect_in(compiled.back().ptx, "add.rn.f32");
}

}  // namespace
}  // namespace braze::codegen::triton
