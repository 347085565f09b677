// Stores that accumulate, against the interpreter: in the memory of the device, in parts of each
// block, in packs and together with the threads of a warp.
#include <random>

#include "codegen/cuda_kernels.h"
#include "toolchain/disk_cache.h"
#include "toolchain/nvrtc.h"

namespace braze::codegen::cuda {
namespace {

const std::string kSpread = "mod(add(mul(load(b0, o0), 37), mul(o0, 101)), ";

// Of each of `rows` numbers, at the place that `place` gives of them.
std::string numbers(const std::string& op, const std::string& type, const std::string& place,
                    int64_t places, const std::string& rows) {
  return "kernel numbers(b0: i64 in, b1: " + type + " in, b2: " + type + " out) outer(o0 < " +
         rows + ") {\n " + op + "(b2, check_index(" + place + ", " + number(places) +
         "), load(b1, o0)) unordered\n}";
}

// The same of rows of `width`.
std::string rows_of(const std::string& op, const std::string& type, const std::string& place,
                    int64_t places, int64_t rows, int64_t width) {
  const std::string w = number(width);
  return "kernel rows(b0: i64 in, b1: " + type + " in, b2: " + type + " out) outer(o0 < " +
         number(rows) + ", o1 < " + w + ") {\n " + op + "(b2, check_index(" + place + ", " +
         number(places) + ")*" + w + " + o1, load(b1, o0*" + w + " + o1)) unordered\n}";
}

const RunOptions kSums = {.tolerance = 1e-4, .magnitude = 1};

TEST(CudaAccumulates, EachTypeIntoManyElements) {
  std::vector<std::string> texts;
  for (const std::string type : {"f32", "f64", "i32", "i64"})
    for (const std::string rows : {"1", "31", "1000", "4099"})
      texts.push_back(numbers("store_add", type, kSpread + "8000)", 8000, rows));
  check_emulated(texts, kSums);
  check_emulated(texts, kSums, {}, {{}}, small_gpu());
}

TEST(CudaAccumulates, EachOperation) {
  std::vector<std::string> texts;
  for (const std::string op : {"store_min", "store_max", "store_mul"})
    for (const std::string type : {"f32", "f64", "i32", "i64"}) {
      texts.push_back(numbers(op, type, kSpread + "500)", 500, "1500"));
      texts.push_back(rows_of(op, type, "load(b0, o0)", 10, 30, 64));
    }
  // Products come to what only floats of their size hold.
  check_emulated(texts, {.tolerance = 1e-4, .magnitude = 1e-3}, {}, {{}}, small_gpu());
  check_emulated({numbers("store_max", "f32", kSpread + "500)", 500, "1500"),
                  numbers("store_min", "f64", kSpread + "500)", 500, "1500")},
                 {.special = true}, {}, {{}}, small_gpu());
}

TEST(CudaAccumulates, AnyOfThoseThatSetAnElement) {
  check_emulated(
      {"kernel set(b0: i64 in, b1: f16 in, b2: f16 out) outer(o0 < 40, o1 < 64) {\n"
       " store_last(b2, check_index(o0*-1 + 39 + load(b0, o0)//16, 40)*64 + o1, load(b1, "
       "o0*64 + o1)) unordered\n}"},
      {}, {}, {{}}, small_gpu());
}

// Blocks add up few elements by themselves.
TEST(CudaAccumulates, IntoFewElements) {
  std::vector<std::string> texts;
  for (const std::string type : {"f32", "f64", "i32", "i64"})
    for (const std::string& place : {kSpread + "100)", std::string("load(b0, o0)//16"),
                                     std::string("load(b0, o0)"), std::string("o0//16")})
      texts.push_back(numbers("store_add", type, place, 1024, "9000"));
  check_emulated(texts, kSums, {}, {{}}, small_gpu());
  for (const std::string& text : texts)
    EXPECT_NE(text_of(text, small_gpu()).find("__shared__"), std::string::npos) << text;
  const std::string counts =
      "kernel count(b0: i64 in, b1: i64 out) outer(o0 < 9000) {\n"
      " store_add(b1, check_index(load(b0, o0), 512), 1) unordered\n}";
  const std::string masked =
      "kernel count(b0: f32 in, b1: i32 out) outer(o0 < 9000) {\n"
      " t0 = load(b0, o0)\n"
      " store_add(b1, min(max(i64(mul(t0, 10:f32)), 0), 30), where(lt(t0, 2.5:f32), 1:i32, "
      "0:i32)) unordered\n}";
  const std::string rows = rows_of("store_add", "i32", "load(b0, o0)", 10, 200, 64);
  check_emulated({counts, masked, rows}, kSums, {}, {{}}, small_gpu());
  for (const std::string& text : {counts, masked})
    EXPECT_NE(text_of(text, small_gpu()).find("__shared__ u32 part"), std::string::npos) << text;
  // Too few points for what each block would add once more.
  EXPECT_EQ(text_of(counts).find("__shared__"), std::string::npos);
}

TEST(CudaAccumulates, RowsInPacks) {
  std::vector<std::string> texts;
  for (const int64_t width : {1, 2, 3, 8, 100, 129, 512})
    for (const std::string type : {"f32", "f64", "i64"})
      texts.push_back(rows_of("store_add", type, width == 8 ? "load(b0, o0)//16" : "load(b0, o0)",
                              10, 8000 / width, width));
  for (const int64_t width : {4, 16, 64})
    texts.push_back(rows_of("store_add", "f32", "load(b0, o0)//8", 10, 8000 / width, width));
  check_emulated(texts, kSums, {}, {{}}, small_gpu());
  check_emulated(texts, kSums);
  const std::string row = rows_of("store_add", "f32", "load(b0, o0)", 10, 100, 64);
  EXPECT_NE(text_of(row, small_gpu()).find("add_pack_together<16>(p2 + "), std::string::npos);
  const std::string wide = rows_of("store_add", "f32", "load(b0, o0)", 10, 100, 128);
  EXPECT_NE(text_of(wide, small_gpu()).find("add_pack(p2 + "), std::string::npos);
  target::Cuda older = target::cuda(80, 1, 3350000);
  EXPECT_EQ(text_of(row, older).find("add_pack"), std::string::npos);
  check_emulated(texts, kSums, {}, {{}}, older);
}

// Each element has an index of its own, which may be that of its neighbours or one more.
TEST(CudaAccumulates, IndicesOfEachElement) {
  const auto scatter = [](const std::string& place, const std::string& type) {
    return "kernel scatter(b0: i64 in, b1: " + type + " in, b2: " + type +
           " out) outer(o0 < 100, o1 < 64) {\n store_add(b2, check_index(" + place +
           ", 100)*64 + o1, load(b1, o0*64 + o1)) unordered\n}";
  };
  const auto along = [](const std::string& place, const std::string& type) {
    return "kernel along(b0: i64 in, b1: " + type + " in, b2: " + type +
           " out) outer(o0 < 100, o1 < 64) {\n store_add(b2, o0*64 + check_index(" + place +
           ", 64), load(b1, o0*64 + o1)) unordered\n}";
  };
  std::vector<std::string> texts;
  for (const std::string type : {"f32", "f64", "i32"}) {
    texts.push_back(scatter("load(b0, o0*64 + o1)", type));
    texts.push_back(scatter("load(b0, o0*64 + o1)//16", type));
    texts.push_back(along("load(b0, o0*64 + o1)", type));
    texts.push_back(along("load(b0, o0*64 + o1)//16 + o1", type));
  }
  check_emulated(texts, kSums, {}, {{}}, small_gpu());
  check_emulated(texts, kSums);
}

// Statements of one kernel: what is stored, set and added beside what is reduced.
TEST(CudaAccumulates, BesideOtherStatements) {
  check_emulated(
      {"kernel both(b0: i64 in, b1: f32 in, b2: f32 out, b3: i32 out, b4: f32 out) outer(o0 < "
       "4000) {\n t0 = exp(load(b1, o0))\n store(b4, o0, t0)\n"
       " store_add(b2, check_index(load(b0, o0), 10), t0) unordered\n"
       " store_add(b3, check_index(load(b0, o0), 10), 1:i32) unordered\n}",
       "kernel softmax(b0: i64 in, b1: f32 in, b2: f32 out, b3: f32 out) outer(o0 < 70) inner(i0 < "
       "40) {\n r0 = max(load(b1, o0*40 + i0)) inner\n t0 = exp(sub(load(b1, o0*40 + i0), r0))\n"
       " r1 = sum(t0) inner\n"
       " store_add(b2, check_index(load(b0, o0), 10)*40 + i0, div(t0, r1)) inner unordered\n"
       " store_add(b3, check_index(load(b0, o0), 10), r1) unordered\n}",
       "kernel columns(b0: i64 in, b1: f32 in, b2: f32 out, b3: f32 out) outer(o0 < 90) inner(i0 < "
       "60) {\n r0 = sum(load(b1, i0*90 + o0)) inner\n store(b3, o0, r0)\n"
       " store_add(b2, check_index(load(b0, i0), 10)*90 + o0, load(b1, i0*90 + o0)) inner "
       "unordered\n}"},
      kSums, {}, {{}}, small_gpu());
}

TEST(CudaAccumulates, SizesOfTheCall) {
  const std::string many = numbers("store_add", "f32", kSpread + "8000)", 8000, "{s0}");
  const std::string few = numbers("store_add", "i64", kSpread + "100)", 100, "{s0}");
  const std::string rows =
      "kernel rows(b0: i64 in, b1: f32 in, b2: f32 out) outer(o0 < {s0}, o1 < 16) {\n"
      " store_add(b2, check_index(load(b0, o0), {s0})*16 + o1, load(b1, o0*16 + o1)) unordered\n}";
  check_emulated({many, few}, kSums, {2000}, {{2}, {2000}, {9000}}, small_gpu());
  check_emulated({rows}, kSums, {500}, {{30}, {500}, {1000}}, small_gpu());
}

TEST(CudaAccumulates, IndicesOutOfRange) {
  EXPECT_EQ(refused_indices({numbers("store_add", "f32", "load(b0, o0)", 10, "100")}), 0);
  EXPECT_GT(refused_indices({numbers("store_add", "f32", "load(b0, o0)", 9, "100")}), 0);
}

// Programs of random shapes, types and places.
TEST(CudaAccumulates, RandomPrograms) {
  const unsigned seed = 20;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto pick = [&](auto... choices) {
    const std::string list[] = {choices...};
    return list[random() % sizeof...(choices)];
  };
  std::vector<std::string> texts;
  for (int i = 0; i < 20; ++i) {
    const std::string op = pick("store_add", "store_add", "store_max");
    const std::string type = pick("f32", "f64", "i32", "i64");
    const int64_t width = int64_t{1} << random() % 8, rows = 1 + random() % (12'000 / width);
    const int64_t places = 10 + random() % (12'000 / width);
    const std::string place = pick("load(b0, o0)", "load(b0, o0)//16", kSpread + "10)");
    texts.push_back(rows_of(op, type, place, places, rows, width));
    texts.push_back(numbers(op, type, place, places, number(rows)));
  }
  check_emulated(texts, kSums, {}, {{}}, small_gpu());
  check_emulated(texts, kSums);
}

TEST(CudaNvrtc, CompilesWhatAccumulates) {
  if (!toolchain::why_no_nvrtc().empty())
    GTEST_SKIP() << toolchain::why_no_nvrtc() << "; a machine with CUDA lifts it";
  std::vector<std::string> texts;
  for (const std::string op : {"store_add", "store_max", "store_min", "store_mul", "store_last"})
    for (const std::string type : {"f32", "f64", "i32", "i64"}) {
      texts.push_back(numbers(op, type, "load(b0, o0)", 1 << 20, "4000000"));
      texts.push_back(numbers(op, type, "load(b0, o0)", 1024, "40000000"));
      texts.push_back(rows_of(op, type, "load(b0, o0)", 1 << 20, 100000, 256));
      texts.push_back(rows_of(op, type, "load(b0, o0)", 1 << 20, 100000, 2));
    }
  sym::ExprArena arena;
  loop::ExprPool pool;
  const std::vector<loop::Kernel> kernels = parse_kernels(texts, pool, arena);
  for (const target::Cuda& gpu : {tested_gpu(), target::cuda(75, 40, 320000)}) {
    std::vector<toolchain::CudaSource> sources;
    for (const KernelCode& code : generate(kernels, gpu))
      sources.push_back({code.text, compiler_flags(gpu)});
    toolchain::DiskCache none("", 0);
    EXPECT_EQ(toolchain::cubins(sources, none).of_source.size(), sources.size());
  }
}

}  // namespace
}  // namespace braze::codegen::cuda
