// Runs generated CUDA C++ on the CPU, so that it can be compared with the interpreter without a
// GPU: the threads of a block are coroutines that take turns at each barrier and each exchange
// between lanes. Of the machine code that NVRTC makes it says nothing.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "codegen/cuda/codegen.h"
#include "codegen/cuda/operators.h"
#include "codegen/cuda/prelude.h"
#include "codegen/run_kernels.h"
#include "codegen/triton_interpreter.h"

namespace braze::codegen::cuda {

using cpp::Buffers;
using cpp::RunOptions;

constexpr const char* kMachine = R"(
#include <math.h>
#include <stdlib.h>
#include <ucontext.h>
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(x, y, z)
#define __CUDA_ARCH__ 900
#define __shared__ static
struct Index { unsigned x, y, z; };
Index threadIdx, blockIdx;
enum { kFibers = 8192 };  // of the blocks of a cluster, which run side by side
static ucontext_t scheduler, fibers[kFibers];
static Index index_of[kFibers];
static bool ended[kFibers];
static unsigned exchanged[kFibers], block_size;
static int current;
static unsigned turn;  // of all threads
static unsigned living[kFibers], waiting[kFibers], barriers[kFibers], passed[kFibers];  // by block
void yield() { swapcontext(&fibers[current], &scheduler); }
// Threads of other warps may have exchanged more or less than this one's.
static void pass_barrier(int block) {
  if (waiting[block] == 0 || waiting[block] < living[block]) return;
  waiting[block] = 0;
  ++barriers[block];
  passed[block] = turn;
}
void __syncthreads() {
  const int block = current / block_size;
  const unsigned barrier = barriers[block];
  ++waiting[block];
  pass_barrier(block);
  while (barriers[block] == barrier || passed[block] == turn) yield();  // all go on in one turn
}
unsigned exchange(unsigned value, int from) {
  exchanged[current] = value;
  yield();
  const unsigned other = exchanged[from];
  yield();
  return other;
}
unsigned __shfl_xor_sync(unsigned, unsigned value, int offset) { return exchange(value, current ^ offset); }
unsigned __shfl_up_sync(unsigned, unsigned value, int offset, int count) {
  return exchange(value, current % count < offset ? current : current - offset);
}
unsigned __shfl_sync(unsigned, unsigned value, int lane, int count) {
  return exchange(value, current - current % count + lane % count);
}
static unsigned reached[kFibers];  // the turn in which a thread asked which are with it
unsigned __activemask() {
  const unsigned mine = reached[current] = turn;
  yield();
  unsigned mask = 0;
  const int first = current - current % 32;
  for (int lane = 0; lane < 32; ++lane) mask |= (unsigned)(reached[first + lane] == mine) << lane;
  yield();
  reached[current] = 0;
  return mask;
}
unsigned __ballot_sync(unsigned mask, int truth) {
  exchanged[current] = truth;
  yield();
  unsigned votes = 0;
  const int first = current - current % 32;
  for (int lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1) votes |= (unsigned)(exchanged[first + lane] != 0) << lane;
  yield();
  return votes;
}
int __popc(unsigned bits) { return __builtin_popcount(bits); }
template <class T> T add_atomically(T* p, T x) { const T old = *p; *p = old + x; return old; }
float atomicAdd(float* p, float x) { return add_atomically(p, x); }
double atomicAdd(double* p, double x) { return add_atomically(p, x); }
unsigned atomicAdd(unsigned* p, unsigned x) { return add_atomically(p, x); }
unsigned long long atomicAdd(unsigned long long* p, unsigned long long x) { return add_atomically(p, x); }
template <class T> T atomicCAS(T* p, T expected, T next) {
  const T old = *p;
  if (old == expected) *p = next;
  return old;
}
void add_two(float* p, float a, float b) {
  if ((size_t)p % 8) abort();
  p[0] += a, p[1] += b;
}
void add_four(float* p, float a, float b, float c, float d) {
  if ((size_t)p % 16) abort();
  p[0] += a, p[1] += b, p[2] += c, p[3] += d;
}
unsigned rank_of_block() { return current / block_size; }
void sync_cluster() { yield(); }
template <class A> A from_block(const A* shared, unsigned) { return *shared; }
template <class To, class From> To bits_of(From x) { To to; __builtin_memcpy(&to, &x, sizeof to); return to; }
float __int_as_float(int x) { return bits_of<float>(x); }
double __longlong_as_double(long long x) { return bits_of<double>(x); }
unsigned long long wide_product(unsigned a, unsigned b) { return (unsigned long long)a * b; }
float rsqrtf(float x) { return 1 / sqrtf(x); }
float __fdividef(float x, float y) { return x / y; }
double rsqrt(double x) { return 1 / sqrt(x); }
unsigned char* shared_memory() {
  alignas(16) static unsigned char memory[8][228 << 10];  // by block of a cluster
  return memory[current / block_size];
}
struct Copy { void* to; const void* from; int bytes; };
static Copy copies[kFibers][64];  // of a thread, that it has not waited for
static int copy_count[kFibers];
template <int bytes> void copy_piece(void* shared, const void* p) {
  if ((size_t)shared % bytes || (size_t)p % bytes) abort();
  __builtin_memset(shared, 0x7f, bytes);
  copies[current][copy_count[current]++] = {shared, p, bytes};
}
void wait_for_copies() {
  for (int i = 0; i < copy_count[current]; ++i)
    __builtin_memcpy(copies[current][i].to, copies[current][i].from, copies[current][i].bytes);
  copy_count[current] = 0;
}
void fetch(const void* p) { volatile char there = *(const char*)p; }
float from_f16(unsigned short h) { return (float)bits_of<_Float16>(h); }
unsigned short to_f16(float f) { return bits_of<unsigned short>((_Float16)f); }
float from_bf16(unsigned short h) { return bits_of<float>((unsigned)h << 16); }
unsigned short to_bf16(float f) {
  if (f != f) return 0x7fff;
  unsigned bits = bits_of<unsigned>(f);
  return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
float maximum(float a, float b) { return a != a ? a : b != b ? b : b < a ? a : b; }
float minimum(float a, float b) { return a != a ? a : b != b ? b : b < a ? b : a; }
float exp_near(float x) { return exp2f(x * 1.44269504f); }
#define HALF(op, sign) \
  unsigned short op##_f16(unsigned short a, unsigned short b) { return to_f16(from_f16(a) sign from_f16(b)); } \
  unsigned short op##_bf16(unsigned short a, unsigned short b) { return to_bf16(from_bf16(a) sign from_bf16(b)); }
HALF(add, +) HALF(sub, -) HALF(mul, *)
static long long refused = 0;
void refuse_index() { ++refused; }
extern "C" long long refused_indices() { return refused; }
static void (*body)(void);
static void start() {
  body();
  ended[current] = true;
  const int block = current / block_size;
  --living[block];
  pass_barrier(block);
  swapcontext(&fibers[current], &scheduler);
}
// All threads of a block, or of those of a cluster, in turns, until all have ended.
static void run_block(const unsigned* threads, int cluster) {
  static char* stacks = (char*)malloc(kFibers * 65536ll);
  turn = 1;
  block_size = threads[0] * threads[1] * threads[2];
  const int count = block_size * cluster, first = blockIdx.x;
  for (int t = 0; t < count; ++t) {
    index_of[t] = {t % threads[0], t / threads[0] % threads[1], t / threads[0] / threads[1]};
    ended[t] = false;
    getcontext(&fibers[t]);
    fibers[t].uc_stack.ss_sp = stacks + t * 65536ll;
    fibers[t].uc_stack.ss_size = 65536;
    fibers[t].uc_link = 0;
    makecontext(&fibers[t], start, 0);
  }
  for (int block = 0; block < cluster; ++block) living[block] = block_size, waiting[block] = 0;
  for (int left = count; left > 0; ++turn)
    for (int t = 0; t < count; ++t) {
      if (ended[t]) continue;
      current = t;
      threadIdx = index_of[t];
      blockIdx.x = first + t / block_size;
      swapcontext(&scheduler, &fibers[t]);
      left -= ended[t];
    }
  blockIdx.x = first;
}
)";

using Emulated = void (*)(void* const* args, const int64_t* sizes, const uint32_t* blocks,
                          const uint32_t* threads);

// The prelude without what is written in PTX, which kMachine has.
inline std::string portable_prelude() {
  std::string text(prelude());
  const size_t begin = text.find("D void fetch("), end = text.find("template <class To");
  return text.erase(begin, end - begin);
}

inline std::string emulated_kernel(const loop::Kernel& kernel, const KernelCode& code, size_t n) {
  const std::string scope = "kernel" + std::to_string(n);
  std::string function = code.text.substr(code.text.find(prelude()) + prelude().size());
  const std::string linkage = "extern \"C\" __global__";
  function.replace(function.find(linkage), linkage.size(), "static");
  std::string call = scope + "::" + code.name + "(";
  for (size_t i = 0; i < kernel.params.size(); ++i)
    call += (i ? ", " : "") + std::string(kernel.params[i].by_value ? "*(" : "(") +
            storage_type_of(kernel.params[i].dtype) + "*)args[" + std::to_string(i) + "]";
  for (size_t i = 0; i < code.sizes.size(); ++i) call += ", sizes[" + std::to_string(i) + "]";
  return "namespace " + scope + " {\n" + function + "}\nextern \"C\" void run_" + scope +
         "(void* const* args_, const i64* sizes_, const u32* blocks, const u32* threads) {\n"
         "  static void* const* args; static const i64* sizes; args = args_; sizes = sizes_;\n"
         "  body = [] { " +
         call +
         "); };\n"
         "  for (blockIdx.z = 0; blockIdx.z < blocks[2]; ++blockIdx.z)\n"
         "    for (blockIdx.y = 0; blockIdx.y < blocks[1]; ++blockIdx.y)\n"
         "      for (blockIdx.x = 0; blockIdx.x < blocks[0]; blockIdx.x += " +
         std::to_string(code.cluster) + ") run_block(threads, " + std::to_string(code.cluster) +
         ");\n}\n";
}

inline std::vector<int64_t> values_of(const std::vector<sym::Int>& sizes,
                                      const std::vector<int64_t>& symbols) {
  std::vector<int64_t> values;
  for (sym::Int size : sizes) values.push_back(sym::evaluate(size, symbols));
  return values;
}

inline void expect_result(const loop::Kernel& kernel, const KernelCode& code, Emulated run,
                          const RunOptions& options, const Buffers& before, const Buffers& want) {
  Buffers got = before;
  const std::vector<int64_t> sizes = values_of(code.sizes, options.symbols);
  uint32_t blocks[3], threads[3];
  for (int i = 0; i < 3; ++i) {
    blocks[i] = static_cast<uint32_t>(sym::evaluate(code.blocks[i], options.symbols));
    threads[i] = static_cast<uint32_t>(sym::evaluate(code.threads[i], options.symbols));
  }
  run(cpp::addresses(got).data(), sizes.data(), blocks, threads);
  for (size_t p = 0; p < kernel.params.size(); ++p) {
    const graph::DType dtype = kernel.params[p].dtype;
    for (int64_t i = 0; i < options.elements; ++i) {
      const loop::Scalar a = loop::load(dtype, got[p].data(), i);
      const loop::Scalar b = loop::load(dtype, want[p].data(), i);
      ASSERT_TRUE(cpp::close(dtype, a, b, options))
          << "b" << p << "[" << i << "]: " << (graph::is_float(dtype) ? a.f : a.i) << ", expected "
          << (graph::is_float(dtype) ? b.f : b.i) << "\n"
          << code.text.substr(prelude().size()) << testing::PrintToString(options.symbols);
    }
  }
}

inline std::vector<loop::Kernel> parse_kernels(const std::vector<std::string>& texts,
                                               loop::ExprPool& pool, sym::ExprArena& arena,
                                               const std::vector<int64_t>& hints = {}) {
  for (size_t i = 0; i < hints.size(); ++i)
    arena.symbol("s" + std::to_string(i), hints[i], {2, INT64_MAX});
  std::vector<loop::Kernel> kernels;
  for (const std::string& text : texts) {
    kernels.push_back(loop::parse_kernel(text, pool, &arena));
    loop::verify(kernels.back());
    EXPECT_EQ(why_unsupported(kernels.back()), "") << text;
  }
  return kernels;
}

inline const target::Cuda& tested_gpu() {
  static const target::Cuda gpu = target::cuda(90, 132, 3350000);
  return gpu;
}

// Each kernel for each of the lists of values of symbols s0, s1, ... with these hints; as Triton
// too, if that is there and has the kernel.
inline void check_emulated(const std::vector<std::string>& texts, const RunOptions& options = {},
                           const std::vector<int64_t>& hints = {},
                           const std::vector<std::vector<int64_t>>& values = {{}},
                           const target::Cuda& gpu = tested_gpu()) {
  sym::ExprArena arena;
  loop::ExprPool pool;
  const std::vector<loop::Kernel> kernels = parse_kernels(texts, pool, arena, hints);
  const std::vector<KernelCode> code = generate(kernels, gpu);
  std::string source = kMachine + portable_prelude();
  for (size_t k = 0; k < kernels.size(); ++k) source += emulated_kernel(kernels[k], code[k], k);
  const auto library = toolchain::build(
      source, {"-O1", "-fno-strict-aliasing", "-ffp-contract=off", "-w", "-mf16c"});
  triton::Interpreter interpreted;
  for (size_t k = 0; k < kernels.size(); ++k) {
    std::optional<triton::KernelCode> in_triton;
    if (triton::has_triton() && triton::why_unsupported(kernels[k], gpu).empty())
      in_triton = triton::generate(kernels[k], gpu);
    const Buffers before = cpp::random_buffers(kernels[k], options);
    const auto run = reinterpret_cast<Emulated>(library->symbol("run_kernel" + std::to_string(k)));
    for (const std::vector<int64_t>& symbols : values) {
      RunOptions with_symbols = options;
      with_symbols.symbols = symbols;
      Buffers want = before;
      ASSERT_TRUE(loop::interpret(kernels[k], cpp::addresses(want), symbols));
      expect_result(kernels[k], code[k], run, with_symbols, before, want);
      if (testing::Test::HasFatalFailure()) return;
      if (in_triton) interpreted.add(kernels[k], *in_triton, with_symbols, before, std::move(want));
    }
  }
  interpreted.expect_results();
}

// How often kernels that run one after the other find an index out of range.
inline int64_t refused_indices(const std::vector<std::string>& texts,
                               const target::Cuda& gpu = tested_gpu()) {
  sym::ExprArena arena;
  loop::ExprPool pool;
  const std::vector<loop::Kernel> kernels = parse_kernels(texts, pool, arena);
  const std::vector<KernelCode> code = generate(kernels, gpu);
  std::string source = kMachine + portable_prelude();
  for (size_t k = 0; k < kernels.size(); ++k) source += emulated_kernel(kernels[k], code[k], k);
  const auto library = toolchain::build(source, {"-O1", "-fno-strict-aliasing", "-w", "-mf16c"});
  for (size_t k = 0; k < kernels.size(); ++k) {
    Buffers buffers = cpp::random_buffers(kernels[k], {});
    uint32_t blocks[3], threads[3];
    for (int i = 0; i < 3; ++i) {
      blocks[i] = static_cast<uint32_t>(code[k].blocks[i].constant());
      threads[i] = static_cast<uint32_t>(code[k].threads[i].constant());
    }
    reinterpret_cast<Emulated>(library->symbol("run_kernel" + std::to_string(k)))(
        cpp::addresses(buffers).data(), nullptr, blocks, threads);
  }
  return reinterpret_cast<long long (*)()>(library->symbol("refused_indices"))();
}

}  // namespace braze::codegen::cuda
