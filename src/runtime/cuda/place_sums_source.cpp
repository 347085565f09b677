// The kernels' text.
#include "base/error.h"
#include "runtime/cuda/place_sums.h"

namespace braze::runtime::cuda {
namespace {

constexpr const char* kTypes = R"(
typedef unsigned short u16; typedef unsigned int u32;
typedef long long i64; typedef unsigned long long u64;
#define D static __device__ __forceinline__
struct f16 { u16 bits; };
struct bf16 { u16 bits; };
D float wide(f16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
D float wide(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
D float wide(float x) { return x; }
D double wide(double x) { return x; }
D void narrow(f16& to, float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(x)); }
D void narrow(bf16& to, float x) {
  const u32 bits = __float_as_uint(x);
  to.bits = x != x ? (u16)0x7fc0 : (u16)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
D void narrow(float& to, float x) { to = x; }
D void narrow(double& to, double x) { to = x; }
extern "C" __device__ void __assertfail(const char*, const char*, u32, const char*, unsigned long);
)";

constexpr const char* kKernels = R"(
struct alignas(sizeof(Element) * kPack) Pack { Element v[kPack]; };
struct Range { int first, count; };  // count < 0: a long list
constexpr int kShort = 32, kThreads = 256;

// heads: for each place the last row that came to it, plus one; then the number of rows that have
// been ordered and of long lists.
extern "C" __global__ void __launch_bounds__(kThreads) link_places(
    const Place* place, int count, int rows, i64 skipped, int refuses, int* heads, int* next) {
  const int row = blockIdx.x * kThreads + threadIdx.x;
  if (row >= count) return;
  const i64 to = place[row];
  if (to < 0 || to >= rows) {
    if (refuses) __assertfail("index out of range", "braze::sum_by_place", 0, "link_places", 1);
    return;
  }
  if (to != skipped) next[row] = atomicExch(heads + to, row + 1);
}

// Places with long lists are noted from the end of `order` backwards.
extern "C" __global__ void __launch_bounds__(kThreads) order_places(
    int rows, int count, int* heads, const int* next, Range* ranges, int* order) {
  const int place = blockIdx.x * kThreads + threadIdx.x;
  int length = 0;
  const int head = place < rows ? heads[place] : 0;
  for (int row = head; row != 0 && length <= kShort; row = next[row - 1]) ++length;
  const bool is_long = length > kShort;
  const int own = is_long ? 0 : length;
  int end = own;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const int before = __shfl_up_sync(0xffffffffu, end, offset);
    if ((int)(threadIdx.x % 32) >= offset) end += before;
  }
  int first = 0;
  if (threadIdx.x % 32 == 31 && end > 0) first = atomicAdd(heads + rows, end);
  first = __shfl_sync(0xffffffffu, first, 31) + end - own;
  if (place >= rows) return;
  ranges[place] = {first, is_long ? -1 : own};
  if (is_long) {
    order[count - 1 - atomicAdd(heads + rows + 1, 1)] = place;
    return;
  }
  // From behind: lists mostly come in descending order.
  const int last = first + own - 1;
  int at = last;
  for (int row = head; row != 0; row = next[row - 1]) {
    int to = at--;
    for (; to < last && order[to + 1] < row - 1; ++to) order[to] = order[to + 1];
    order[to] = row - 1;
  }
}

D Pack load(const Element* source, Flat at) { return *(const Pack*)(source + at); }
D void add(Sum (&sums)[kPack], const Pack& pack) {
#pragma unroll
  for (int i = 0; i < kPack; ++i) sums[i] += wide(pack.v[i]);
}
D void store(Element* out, Flat at, const Sum (&sums)[kPack]) {
  Pack pack;
#pragma unroll
  for (int i = 0; i < kPack; ++i) narrow(pack.v[i], sums[i]);
  *(Pack*)(out + at) = pack;
}

// What is there before: `base`, where there is one.
D void begin(Sum (&sums)[kPack], const Element* base, Flat at) {
  const Pack pack = base ? load(base, at) : Pack{};
#pragma unroll
  for (int i = 0; i < kPack; ++i) sums[i] = base ? wide(pack.v[i]) : (Sum)0;
}

// A row of the result is that of 1 << log_threads neighbouring threads.
D void sum_short(const Element* source, const Range* ranges, const int* order, const Element* base,
                 Element* out, int outer, int count, int rows, int packs, int log_threads, Flat item) {
  const Flat row = item >> log_threads;
  const int matrix = outer <= kOuter ? 0 : (int)(row / rows) * kOuter;
  if (outer <= kOuter ? row >= rows : matrix >= outer) return;
  const int place = outer <= kOuter ? (int)row : (int)(row % rows);
  const Range range = ranges[place];
  if (range.count < 0) return;
  const Flat width = (Flat)packs * kPack;
  const int step = 1 << log_threads;
  for (int column = (int)item & (step - 1); column < packs; column += step) {
    const Flat behind = (Flat)column * kPack;
    Sum sums[kOuter][kPack];
#pragma unroll
    for (int o = 0; o < kOuter; ++o)
      if (kOuter == 1 || matrix + o < outer)
        begin(sums[o], base, ((Flat)(matrix + o) * rows + place) * width + behind);
    constexpr int kAhead = 4;
    for (int k = 0; k < range.count; k += kAhead) {
      Pack pack[kAhead][kOuter];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        if (k + a >= range.count) continue;
        const Flat from = order[range.first + k + a];
#pragma unroll
        for (int o = 0; o < kOuter; ++o)
          if (kOuter == 1 || matrix + o < outer)
            pack[a][o] = load(source, ((Flat)(matrix + o) * count + from) * width + behind);
      }
#pragma unroll
      for (int a = 0; a < kAhead; ++a)
#pragma unroll
        for (int o = 0; o < kOuter; ++o)
          if (k + a < range.count && (kOuter == 1 || matrix + o < outer)) add(sums[o], pack[a][o]);
    }
#pragma unroll
    for (int o = 0; o < kOuter; ++o)
      if (kOuter == 1 || matrix + o < outer)
        store(out, ((Flat)(matrix + o) * rows + place) * width + behind, sums[o]);
  }
}

// A block for kColumns packs of one row of the result: its threads have as many slots for rows.
constexpr int kColumns = 8, kSlots = kThreads / kColumns, kTile = 1024;
D void sum_long(const Element* source, const Place* places, const Element* base, Element* out,
                int count, int rows, int packs, int place, int matrix, int chunk) {
  __shared__ int list[kTile];
  __shared__ int of_warp[kThreads / 32];
  __shared__ Sum parts[kSlots][kColumns][kPack];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int slot = threadIdx.x / kColumns, own = threadIdx.x % kColumns;
  const int column = chunk * kColumns + own;
  const Flat width = (Flat)packs * kPack;
  const Flat target = ((Flat)matrix * rows + place) * width + (Flat)column * kPack;
  Sum sums[kPack];
  begin(sums, slot == 0 && column < packs ? base : nullptr, target);
  for (int tile = 0; tile < count; tile += kTile) {
    constexpr int kRounds = kTile / kThreads;
    u32 hits[kRounds];
    int found = 0;
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      const int row = tile + (warp * kRounds + round) * 32 + lane;
      hits[round] = __ballot_sync(0xffffffffu, row < count && places[row] == place);
      found += __popc(hits[round]);
    }
    if (lane == 0) of_warp[warp] = found;
    __syncthreads();
    int before = 0, all = 0;
#pragma unroll
    for (int w = 0; w < kThreads / 32; ++w) {
      if (w < warp) before += of_warp[w];
      all += of_warp[w];
    }
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      const int row = tile + (warp * kRounds + round) * 32 + lane;
      if (hits[round] >> lane & 1) list[before + __popc(hits[round] & ((1u << lane) - 1))] = row;
      before += __popc(hits[round]);
    }
    __syncthreads();
    if (column < packs)
      for (int k = slot; k < all; k += kSlots)
        add(sums, load(source, ((Flat)matrix * count + list[k]) * width + (Flat)column * kPack));
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) parts[slot][own][i] = sums[i];
  for (int half = kSlots / 2; half > 0; half /= 2) {
    __syncthreads();
    if (slot < half) {
#pragma unroll
      for (int i = 0; i < kPack; ++i) parts[slot][own][i] += parts[slot + half][own][i];
    }
  }
  if (slot == 0 && column < packs) store(out, target, parts[0][own]);
  __syncthreads();
}

// The first `long_blocks` blocks do long lists. `base` may be `out`: a thread reads what it writes.
extern "C" __global__ void __launch_bounds__(kThreads) sum_places(
    const Element* source, const Place* places, const int* heads, const Range* ranges,
    const int* order, const Element* base, Element* out, int outer, int count, int rows, int packs,
    int log_threads, int long_blocks) {
  if ((int)blockIdx.x >= long_blocks) {
    const Flat item = (Flat)(blockIdx.x - long_blocks) * kThreads + threadIdx.x;
    return sum_short(source, ranges, order, base, out, outer, count, rows, packs, log_threads, item);
  }
  const int chunks = (packs + kColumns - 1) / kColumns;
  const u64 items = (u64)heads[rows + 1] * outer * chunks;
  for (u64 item = blockIdx.x; item < items; item += long_blocks) {
    const int place = order[count - 1 - (int)(item / chunks / outer)];
    sum_long(source, places, base, out, count, rows, packs, place, (int)(item / chunks % outer),
             (int)(item % chunks));
  }
}
)";

const char* name_of(SummedType type) {
  switch (type) {
    case SummedType::kFloat16:
      return "f16";
    case SummedType::kBFloat16:
      return "bf16";
    case SummedType::kFloat32:
      return "float";
    case SummedType::kFloat64:
      return "double";
  }
  BRAZE_UNREACHABLE("a type that is not summed");
}

}  // namespace

std::string place_sum_source(const PlaceSumKind& kind) {
  std::string text = kTypes;
  text += std::string("typedef ") + name_of(kind.type) + " Element;\n";
  text += kind.type == SummedType::kFloat64 ? "typedef double Sum;\n" : "typedef float Sum;\n";
  text += kind.wide_places ? "typedef i64 Place;\n" : "typedef int Place;\n";
  text += kind.wide ? "typedef u64 Flat;\n" : "typedef u32 Flat;\n";
  text += "constexpr int kPack = " + std::to_string(kind.pack) +
          ", kOuter = " + std::to_string(kind.outer) + ";\n";
  return text + kKernels;
}

}  // namespace braze::runtime::cuda
