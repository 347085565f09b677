// Scans as CUDA C++, against the interpreter.
#include "codegen/cuda_kernels.h"
#include "toolchain/disk_cache.h"
#include "toolchain/nvrtc.h"

namespace braze::codegen::cuda {
namespace {

struct Op {
  std::string name, type, accumulate, value, result;
};

const Op kOps[] = {
    {"scan_sum", "f32", "f32", "X", "r0"},       {"scan_sum", "f16", "f32", "f32(X)", "f16(r0)"},
    {"scan_sum", "bf16", "f32", "f32(X)", "r0"}, {"scan_sum", "f64", "f64", "X", "r0"},
    {"scan_sum", "i64", "i64", "X", "r0"},       {"scan_sum", "bool", "i64", "i64(X)", "r0"},
    {"scan_sum", "u8", "u8", "X", "r0"},         {"scan_sum", "i16", "i16", "X", "r0"},
    {"scan_prod", "f32", "f32", "X", "r0"},      {"scan_prod", "i32", "i32", "X", "r0"},
    {"scan_max", "f32", "f32", "X", "r0"},       {"scan_max", "u8", "u8", "X", "r0"},
    {"scan_min", "i64", "i64", "X", "r0"},       {"scan_min", "f16", "f32", "f32(X)", "f16(r0)"},
    {"scan_logsumexp", "f32", "f32", "X", "r0"}, {"scan_logsumexp", "f64", "f64", "X", "r0"},
};

std::string filled(std::string text, const std::string& element) {
  for (size_t at; (at = text.find('X')) != std::string::npos;) text.replace(at, 1, element);
  return text;
}

std::string place(bool rows, int64_t lines, int64_t length) {
  return rows ? "o0*" + number(length) + " + i0" : "i0*" + number(lines) + " + o0";
}

std::string scan(const Op& op, bool rows, int64_t lines, int64_t length) {
  const std::string at = place(rows, lines, length);
  const std::string out = op.result == "r0" ? op.accumulate : op.type;
  return "kernel scan(b0: " + op.type + " in, b1: " + out + " out) outer(o0 < " + number(lines) +
         ") inner(i0 < " + number(length) + ") {\n r0 = " + op.name + "(" +
         filled(op.value, "load(b0, " + at + ")") + ") inner\n store(b1, " + at + ", " + op.result +
         ") inner\n}";
}

// The values and their places.
std::string extremum(const std::string& name, const std::string& type, bool rows, int64_t lines,
                     int64_t length) {
  const std::string at = place(rows, lines, length), x = "load(b0, " + at + ")";
  const bool half = type.ends_with("f16");
  return "kernel top(b0: " + type + " in, b1: " + type + " out, b2: i64 out) outer(o0 < " +
         number(lines) + ") inner(i0 < " + number(length) + ") {\n r0 = " + name + "(" +
         (half ? "f32(" + x + ")" : x) + ") inner\n store(b1, " + at + ", " +
         (half ? type + "(r0)" : "r0") + ") inner\n store(b2, " + at + ", r0.place) inner\n}";
}

// Lines and their length: rows that share a warp, that are a warp's, a block's, in several tiles;
// widths of whole packs and of none; blocks of columns of each width.
const std::pair<int64_t, int64_t> kShapes[] = {{21, 1},   {21, 5},   {37, 16},  {3, 128},
                                               {5, 129},  {3, 700},  {2, 1024}, {2, 1030},
                                               {1, 4096}, {1, 9000}, {40, 260}, {1, 8801}};

const RunOptions kClose{.tolerance = 2e-5, .magnitude = 50};  // sums of thousands cancel

target::Cuda gpu_of(int processors) {
  target::Cuda gpu = tested_gpu();
  gpu.processors = processors;
  return gpu;
}

TEST(CudaScans, EachOperationOverRowsAndColumns) {
  for (const bool special : {false, true}) {
    std::vector<std::string> texts;
    for (const Op& op : kOps)
      for (const auto& [lines, length] : {std::pair<int64_t, int64_t>{21, 5}, {6, 300}, {37, 64}})
        for (const bool rows : {true, false})
          if (op.name != "scan_prod" || length < 64) texts.push_back(scan(op, rows, lines, length));
    RunOptions options = kClose;
    options.special = special;
    check_emulated(texts, options);
  }
}

TEST(CudaScans, EachShape) {
  for (const int processors : {132, 1}) {
    std::vector<std::string> texts;
    for (const auto& [lines, length] : kShapes)
      for (const bool rows : {true, false}) {
        if (rows && processors == 1) continue;  // as with more
        texts.push_back(scan(kOps[processors == 1 ? 1 : 0], rows, lines, length));
        if (length > 512) texts.push_back(extremum("scan_max", "f32", rows, lines, length));
      }
    check_emulated(texts, kClose, {}, {{}}, gpu_of(processors));
  }
}

TEST(CudaScans, TheLastOfEqualOnesAndOfNans) {
  std::vector<std::string> texts;
  for (const std::string name : {"scan_max", "scan_min"})
    for (const std::string type : {"f32", "f16", "f64", "i64", "i32", "u8"})
      for (const auto& [lines, length] : {std::pair<int64_t, int64_t>{9, 33}, {4, 640}})
        for (const bool rows : {true, false})
          texts.push_back(extremum(name, type, rows, lines, length));
  check_emulated(texts, {.tolerance = 0, .magnitude = 0, .special = true});
}

TEST(CudaScans, WithWhatIsAroundThem) {
  std::vector<std::string> texts;
  for (const auto& [lines, length] : {std::pair<int64_t, int64_t>{9, 64}, {5, 77}, {3, 1500}})
    for (const bool rows : {true, false}) {
      const std::string at = place(rows, lines, length), x = "load(b0, " + at + ")";
      const std::string head = "(b0: f32 in, b1: f32 in, b2: f32 out, b3: f32 out) outer(o0 < " +
                               number(lines) + ") inner(i0 < " + number(length) + ") {\n";
      // Pointwise on both sides, a mask, a number of each line.
      texts.push_back("kernel around" + head + " r0 = scan_sum(mul(exp(" + x +
                      "), load(b1, o0))) inner\n store(b2, " + at + ", add(r0, " + x +
                      ")) inner\n store(b3, " + at + ", masked(lt(i0, 7), mul(r0, load(b1, i0)), " +
                      "0:f32)) inner\n}");
      // One that sees another, two beside each other.
      texts.push_back("kernel two" + head + " r0 = scan_sum(" + x + ") inner\n" +
                      " r1 = scan_max(mul(r0, 0.5:f32)) inner\n r2 = scan_min(" + x +
                      ") inner\n store(b2, " + at + ", sub(r1, r2)) inner\n store(b3, " + at +
                      ", f32(r1.place)) inner\n}");
      // Of what a reduction gives, and reductions of what a scan gives.
      texts.push_back("kernel share" + head + " r0 = max(" + x +
                      ") inner\n r1 = scan_sum(exp(sub(" + x +
                      ", r0))) inner\n r2 = sum(r1) inner\n store(b2, " + at +
                      ", div(r1, r2)) inner\n store(b3, o0, add(r2, r0))\n}");
      // Of what is stored before, and again in a later walk.
      texts.push_back("kernel again" + head + " store(b2, " + at + ", exp(" + x +
                      ")) inner\n r0 = scan_sum(load(b2, " + at +
                      ")) inner\n r1 = welford(r0) inner\n store(b3, " + at + ", mul(load(b2, " +
                      at + "), sub(r0, r1))) inner\n}");
    }
  check_emulated(texts, {.tolerance = 1e-4, .magnitude = 1000});
}

TEST(CudaScans, OfSeveralAxesAndBackwards) {
  check_emulated(
      {"kernel axes(b0: f32 in, b1: f32 out) outer(o0 < 5) inner(i0 < 7, i1 < 20) {\n"
       " r0 = scan_sum(load(b0, o0*200 + i0*28 + i1)) inner\n"
       " store(b1, o0*140 + i0*20 + i1, r0) inner\n}",
       "kernel middle(b0: f32 in, b1: f32 out) outer(o0 < 5, o1 < 30) inner(i0 < 40) {\n"
       " r0 = scan_sum(load(b0, o0*1200 + i0*30 + o1)) inner\n"
       " store(b1, o0*1200 + i0*30 + o1, r0) inner\n}",
       "kernel back(b0: f32 in, b1: f32 out) outer(o0 < 5) inner(i0 < 512) {\n"
       " r0 = scan_sum(load(b0, o0*512 + i0*-1 + 511)) inner\n"
       " store(b1, o0*512 + i0*-1 + 511, r0) inner\n}",
       "kernel up(b0: f32 in, b1: f32 out) outer(o0 < 50) inner(i0 < 100) {\n"
       " r0 = scan_sum(load(b0, i0*-50 + o0 + 4950)) inner\n"
       " store(b1, i0*-50 + o0 + 4950, r0) inner\n}",
       "kernel turned(b0: f32 in, b1: f32 out) outer(o0 < 50) inner(i0 < 100) {\n"
       " r0 = scan_sum(load(b0, i0*50 + o0)) inner\n store(b1, o0*100 + i0, r0) inner\n}",
       "kernel one(b0: f32 in, b1: f32 out) inner(i0 < 1) {\n"
       " r0 = scan_sum(load(b0, 3)) inner\n store(b1, 5, r0) inner\n}",
       "kernel chosen(b0: i64 in, b1: f32 in, b2: f32 out) outer(o0 < 3) inner(i0 < 70) {\n"
       " r0 = scan_max(min(load(b0, o0*70 + i0), 90)) inner\n"
       " store(b2, o0*70 + i0, load(b1, check_index(r0, 100))) inner\n}"},
      kClose);
}

TEST(CudaScans, SizesOfTheCall) {
  const std::vector<std::string> texts = {
      "kernel rows(b0: f32 in, b1: f32 out) outer(o0 < {s0}) inner(i0 < {s1}) {\n"
      " r0 = scan_sum(load(b0, o0*{s1} + i0)) inner\n store(b1, o0*{s1} + i0, r0) inner\n}",
      "kernel packs(b0: f16 in, b1: f16 out) outer(o0 < {s0}) inner(i0 < {4*s1}) {\n"
      " r0 = scan_sum(f32(load(b0, o0*{4*s1} + i0))) inner\n"
      " store(b1, o0*{4*s1} + i0, f16(r0)) inner\n}",
      "kernel columns(b0: f32 in, b1: f32 out, b2: i64 out) outer(o0 < {s0}) inner(i0 < {s1}) {\n"
      " r0 = scan_max(load(b0, i0*{s0} + o0)) inner\n store(b1, i0*{s0} + o0, r0) inner\n"
      " store(b2, i0*{s0} + o0, r0.place) inner\n}"};
  RunOptions options = kClose;
  options.elements = 1 << 16;
  for (const std::vector<int64_t>& hints : {std::vector<int64_t>{16, 7}, {7, 900}})
    check_emulated(texts, options, hints, {{2, 3}, {7, 200}, {64, 32}, {130, 5}, {3, 1500}});
}

Buffers results(const std::string& text, const target::Cuda& gpu, int64_t elements) {
  sym::ExprArena arena;
  loop::ExprPool pool;
  const std::vector<loop::Kernel> kernels = parse_kernels({text}, pool, arena);
  const KernelCode code = generate(kernels, gpu)[0];
  const auto library =
      toolchain::build(kMachine + portable_prelude() + emulated_kernel(kernels[0], code, 0),
                       {"-O1", "-fno-strict-aliasing", "-ffp-contract=off", "-w", "-mf16c"});
  Buffers buffers = cpp::random_buffers(kernels[0], {.elements = elements});
  uint32_t blocks[3], threads[3];
  for (int i = 0; i < 3; ++i) {
    blocks[i] = static_cast<uint32_t>(code.blocks[i].constant());
    threads[i] = static_cast<uint32_t>(code.threads[i].constant());
  }
  reinterpret_cast<Emulated>(library->symbol("run_kernel0"))(cpp::addresses(buffers).data(),
                                                             nullptr, blocks, threads);
  return buffers;
}

// Bit by bit, however many columns there are beside and whatever blocks they come in.
TEST(CudaScans, ResultsOfALineAreItsOwn) {
  constexpr int64_t kLength = 1300, kElements = 1 << 17;
  const Op& sum = kOps[0];
  const Buffers few = results(scan(sum, false, 8, kLength), gpu_of(132), kElements);
  for (const int processors : {132, 1}) {
    for (const int64_t lines : {8, 64}) {
      const std::string strided =
          "kernel scan(b0: f32 in, b1: f32 out) outer(o0 < " + number(lines) +
          ") inner(i0 < 1300) {\n r0 = scan_sum(load(b0, i0*8 + o0)) inner\n store(b1, i0*" +
          number(lines) + " + o0, r0) inner\n}";
      const Buffers got = results(strided, gpu_of(processors), kElements);
      for (int64_t i = 0; i < kLength; ++i)
        for (int64_t line = 0; line < 8; ++line)
          ASSERT_EQ(reinterpret_cast<const float*>(got[1].data())[i * lines + line],
                    reinterpret_cast<const float*>(few[1].data())[i * 8 + line])
              << i << " of " << line;
    }
  }
  EXPECT_NE(text_of(scan(sum, false, 8, kLength), gpu_of(132)).find("scan_column<8, 128, 4, 16>"),
            std::string::npos);
  EXPECT_NE(text_of(scan(sum, false, 64, kLength), gpu_of(0)).find("scan_column<32, 16, 4, 16>"),
            std::string::npos);
}

TEST(CudaScans, ShortColumnsInWideBlocks) {
  const std::vector<std::string> texts = {scan(kOps[0], false, 1500, 8),
                                          scan(kOps[1], false, 999, 16),
                                          extremum("scan_min", "f32", false, 1100, 9)};
  check_emulated(texts, kClose, {}, {{}}, small_gpu());
  EXPECT_NE(text_of(texts[0], small_gpu()).find("scan_column<256, 1,"), std::string::npos);
}

// What is left of a launch that has no points.
TEST(CudaScans, OfNoElements) {
  check_emulated(
      {"kernel none(b0: f32 in, b1: f32 out) outer(o0 < 0) inner(i0 < 9) {\n"
       " r0 = scan_sum(load(b0, o0*9 + i0)) inner\n store(b1, o0*9 + i0, r0) inner\n}",
       "kernel none(b0: f32 in, b1: f32 out) outer(o0 < 9) inner(i0 < 0) {\n"
       " r0 = scan_sum(load(b0, i0*9 + o0)) inner\n store(b1, i0*9 + o0, r0) inner\n}"});
}

TEST(CudaNvrtc, CompilesScans) {
  if (!toolchain::why_no_nvrtc().empty())
    GTEST_SKIP() << toolchain::why_no_nvrtc() << "; a machine with CUDA lifts it";
  std::vector<std::string> texts;
  for (const Op& op : kOps)
    for (const bool rows : {true, false}) texts.push_back(scan(op, rows, 4096, 4096));
  for (const bool rows : {true, false})
    for (const std::string type : {"f32", "f16", "i64"})
      texts.push_back(extremum("scan_min", type, rows, 4096, rows ? 4097 : 100));
  texts.push_back(scan(kOps[0], true, 1 << 20, 24));
  texts.push_back(scan(kOps[0], false, 1024, 65'536));
  sym::ExprArena arena;
  loop::ExprPool pool;
  const std::vector<loop::Kernel> kernels = parse_kernels(texts, pool, arena);
  std::vector<toolchain::CudaSource> sources;
  for (const KernelCode& code : generate(kernels, tested_gpu()))
    sources.push_back({code.text, compiler_flags(tested_gpu())});
  toolchain::DiskCache none("", 0);
  EXPECT_EQ(toolchain::cubins(sources, none).of_source.size(), sources.size());
}

}  // namespace
}  // namespace braze::codegen::cuda
