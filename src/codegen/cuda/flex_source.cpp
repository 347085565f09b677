// The source of flex_attention's kernels, but for what follows from sizes and functions.
#include "codegen/cuda/flex_source.h"

namespace braze::codegen::cuda {
namespace {

constexpr std::string_view kTools = R"(
// Products of halves with sums in single precision. Four warps, a warpgroup, make 64 rows together:
// a thread has of a row of 8 columns those at 2 * (lane % 4) and behind, of the rows lane / 4 and
// lane / 4 + 8 of the 16 of its warp.
//
// Matrices in shared memory lie in panels of 64 columns, rows of 128 bytes, whose eight pieces of
// 16 bytes are exchanged by the number of the row, so that eight rows of one piece use all banks
// (the 128-byte swizzle of the PTX ISA, "Shared memory matrix layout").
D u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
D u32 place_in(u32 rows, u32 row, u32 piece) {
  return (piece / 8 * rows + row) * 128 + ((piece % 8) ^ (row % 8)) * 16;
}
D void copy_16(u32 to, const void* from, bool whole) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(__cvta_generic_to_global(from)), "r"(whole ? 16 : 0) : "memory");
}
D void copy_4(u32 to, const void* from, bool whole) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(to), "l"(__cvta_generic_to_global(from)), "r"(whole ? 4 : 0) : "memory");
}
// Rows [first, first + ROWS) of a matrix with COLUMNS of PANELS * 64 columns; what is outside is 0.
template <int ROWS, int PANELS, int COLUMNS, int THREADS> D void load_rows(u32 to, const u16* from, i64 stride, i32 first, i32 end) {
  constexpr i32 PIECES = PANELS * 8, STEP = THREADS / PIECES, COUNT = ROWS / STEP;
  static_assert(THREADS % PIECES == 0 && ROWS % STEP == 0, "each thread copies as much");
  const i32 row = threadIdx.x / PIECES, piece = threadIdx.x % PIECES;
  const bool has_columns = PANELS * 64 == COLUMNS || piece * 8 < COLUMNS;
  const u16* place = from + (first + row) * stride + piece * 8;
#pragma unroll
  for (i32 i = 0; i < COUNT; ++i) {
    const bool inside = has_columns && first + row + i * STEP < end;
    copy_16(to + place_in(ROWS, row + i * STEP, piece), inside ? place : from, inside);
    place += STEP * stride;
  }
}
// Barriers in shared memory that count arrivals, one use after another (PTX ISA, mbarrier).
D void prepare(u64& barrier, u32 arrivals) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(shared_address(&barrier)), "r"(arrivals) : "memory"); }
D void arrive_at(u64& barrier) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}" :: "r"(shared_address(&barrier)) : "memory");
}
// Once what this thread has begun to copy is there.
D void arrive_when_copied(u64& barrier) { asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(shared_address(&barrier)) : "memory"); }
// For all arrivals of a use, by its number.
D void wait_at(u64& barrier, u32 use) {
  u32 done = 0;
  while (!done)
    asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done) : "r"(shared_address(&barrier)), "r"(use % 2) : "memory");
}
// Turns of two warpgroups.
D void take_turn(i32 group) { asm volatile("bar.sync %0, 256;" :: "r"(1 + group) : "memory"); }
D void pass_turn(i32 group) { asm volatile("bar.arrive %0, 256;" :: "r"(1 + group) : "memory"); }
D u32 pack_f16(f32 a, f32 b) { u32 p; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(p) : "f"(b), "f"(a)); return p; }
D u32 pack_bf16(f32 a, f32 b) { u32 p; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(p) : "f"(b), "f"(a)); return p; }
D f32 exp2_near(f32 x) { f32 y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
template <int N> D void clear(f32 (&sums)[N][4]) {
#pragma unroll
  for (i32 j = 0; j < N; ++j)
#pragma unroll
    for (i32 e = 0; e < 4; ++e) sums[j][e] = 0;
}
)";

// Of warpgroups (PTX ISA, "Asynchronous warpgroup level matrix instructions"), and of warps.
constexpr std::string_view kWarpgroups = R"(
D u64 matrix_at(u32 address, u32 leading, u32 stride) {
  return (u64)(address >> 4 & 0x3fff) | (u64)(leading >> 4) << 16 | (u64)(stride >> 4) << 32 | (u64)1 << 62;
}
D void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
D void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> D void wait_for_products() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory"); }
D void show_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
template <int N> D void hold(f32 (&d)[N][4]) {
#pragma unroll
  for (i32 j = 0; j < N; ++j)
#pragma unroll
    for (i32 e = 0; e < 4; ++e) asm volatile("" : "+f"(d[j][e]) :: "memory");
}
// d = A B^T: 64 rows at `a` of a matrix of A_ROWS, and B_ROWS = 8 N rows at `b`, both of PANELS.
template <int A_ROWS, int PANELS, int N> D void multiply(f32 (&d)[N][4], u32 a, u32 b) {
#pragma unroll
  for (i32 k = 0; k < PANELS * 4; ++k)
    wgmma_ss(d, matrix_at(a + k / 4 * A_ROWS * 128 + k % 4 * 32, 16, 1024), matrix_at(b + k / 4 * N * 8 * 128 + k % 4 * 32, 16, 1024), k > 0);
}
// d += A B: A in registers, 16 STEPS columns; B of as many rows and 8 N columns.
template <int STEPS, int N> D void multiply_add(f32 (&d)[N][4], const u32 (&a)[STEPS][4], u32 b) {
#pragma unroll
  for (i32 k = 0; k < STEPS; ++k) wgmma_rs(d, a[k], matrix_at(b + k * 2048, STEPS * 16 * 128, 1024));
}
)";
constexpr std::string_view kWarps = R"(
D void begin_products() {}
D void commit_products() {}
template <int N> D void wait_for_products() {}
D void show_copies() {}
template <int N> D void hold(f32 (&)[N][4]) {}
D void mma(f32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." HALVES "." HALVES ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
D void load_matrices(u32 (&m)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(address) : "memory");
}
D void load_turned(u32 (&m)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(address) : "memory");
}
template <int A_ROWS, int PANELS, int N> D void multiply(f32 (&d)[N][4], u32 a, u32 b) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  clear(d);
#pragma unroll
  for (u32 k = 0; k < PANELS * 4; ++k) {
    u32 left[4];
    load_matrices(left, a + place_in(A_ROWS, warp * 16 + lane % 16, k * 2 + lane / 16));
#pragma unroll
    for (u32 n = 0; n < N; n += 2) {
      u32 right[4];
      load_matrices(right, b + place_in(N * 8, n * 8 + lane % 8 + lane / 16 * 8, k * 2 + lane / 8 % 2));
      mma(d[n], left, right[0], right[1]);
      mma(d[n + 1], left, right[2], right[3]);
    }
  }
}
template <int STEPS, int N> D void multiply_add(f32 (&d)[N][4], const u32 (&a)[STEPS][4], u32 b) {
  const u32 lane = threadIdx.x % 32;
#pragma unroll
  for (u32 k = 0; k < STEPS; ++k)
#pragma unroll
    for (u32 n = 0; n < N; n += 2) {
      u32 right[4];
      load_turned(right, b + place_in(STEPS * 16, k * 16 + lane % 8 + lane / 8 % 2 * 8, n + lane / 16));
      mma(d[n], a[k], right[0], right[1]);
      mma(d[n + 1], a[k], right[2], right[3]);
    }
}
)";

constexpr std::string_view kCommon = R"(
template <class T> struct One {
  T value;
  D T operator[](i64) const { return value; }
};
struct Blocks {
  const i32 *partial_counts, *partial, *whole_counts, *whole;
  i64 batch_rows, head_rows, columns;
};
// Tiles of keys, or of queries, by the lists of a BlockMask: first those of blocks in which the mask
// has to be asked, then those of whole ones.
template <int BLOCK, int TILE> struct Walk {
  const i32 *partial, *whole;
  i32 partial_steps, steps;
  D i32 first(i32 step) const {
    if (BLOCK == 0) return step * TILE;
    if (step >= steps) return 0;
    constexpr i32 each = BLOCK == 0 ? 1 : BLOCK / TILE;
    const bool asks = step < partial_steps;
    const i32 number = asks ? step : step - partial_steps;
    return (asks ? partial : whole)[number / each] * BLOCK + number % each * TILE;
  }
};
template <int BLOCK, int TILE> D Walk<BLOCK, TILE> walk_over(const Blocks& blocks, i32 batch, i32 head, i32 row, i32 size) {
  if (BLOCK == 0) return {nullptr, nullptr, 0, (size + TILE - 1) / TILE};
  constexpr i32 each = BLOCK == 0 ? 1 : BLOCK / TILE;
  const i64 place = batch * blocks.batch_rows + head * blocks.head_rows + row;
  const i32 partial = blocks.partial_counts[place] * each;
  return {blocks.partial + place * blocks.columns, blocks.whole + place * blocks.columns, partial,
          partial + (blocks.whole_counts ? blocks.whole_counts[place] * each : 0)};
}
// Within 2^-22 of it, which is near enough for scores.
D f32 tanh_near(f32 x) { return 1.0f - __fdividef(2.0f, 1.0f + exp2_near(x * 2.88539008f)); }
#define tanhf tanh_near
struct Rows { i64 batch, head, row; };
// A query, or a key, in two parts, of which the second is a constant where a loop is unrolled.
struct Place { i32 base, offset; };
template <bool WHOLE> D Place place_at(i32 base, i32 offset, i32 size) {
  if (WHOLE) return {base, offset};
  return {min(base + offset, size - 1), 0};
}
#define kInfinity __int_as_float(0x7f800000)
constexpr f32 kLog2E = 1.44269504f;
template <int N> D void to_halves(u32 (&to)[N / 2][4], const f32 (&from)[N][4]) {
#pragma unroll
  for (i32 j = 0; j < N; ++j) {
    to[j / 2][j % 2 * 2] = pack_halves(from[j][0], from[j][1]);
    to[j / 2][j % 2 * 2 + 1] = pack_halves(from[j][2], from[j][3]);
  }
}
D f32 over_quad_max(f32 x) { x = fmaxf(x, __shfl_xor_sync(~0u, x, 1)); return fmaxf(x, __shfl_xor_sync(~0u, x, 2)); }
D f32 over_quad_sum(f32 x) { x += __shfl_xor_sync(~0u, x, 1); return x + __shfl_xor_sync(~0u, x, 2); }
// The rows of a warpgroup, factors[0] for those below 8 of each 16.
template <int N> D void store_rows(u16* to, i64 stride, const f32 (&rows)[N][4], const f32 (&factors)[2], i32 first, i32 end, i32 columns) {
  const i32 row = first + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    if (row + half * 8 >= end) continue;
#pragma unroll
    for (i32 j = 0; j < N; ++j) {
      const i32 column = j * 8 + threadIdx.x % 4 * 2;
      if (column < columns)
        *(u32*)(to + (row + half * 8) * stride + column) = pack_halves(rows[j][half * 2] * factors[half], rows[j][half * 2 + 1] * factors[half]);
    }
  }
}
)";

constexpr std::string_view kForward = R"(
struct Forward {
  const u16 *query, *key, *value;
  u16* out;
  f32* sums;
  Rows query_rows, key_rows, value_rows, out_rows;
  Blocks blocks;
  i32 heads, group, queries, keys;
  f32 scale;
};
extern "C" __global__ void __launch_bounds__(WARPGROUPS * 128, 1) flex_forward(const __grid_constant__ Forward a TABLES) {
  constexpr i32 ROWS = WARPGROUPS * 64, THREADS = WARPGROUPS * 128, KEYS = TILE;
  constexpr i32 K_BYTES = KEYS * PANELS * 128, V_BYTES = KEYS * VALUE_PANELS * 128;
  extern __shared__ u8 memory[];
  __shared__ u64 copied_keys[2], copied_values[2], freed_keys[2], freed_values[2];
  if (threadIdx.x < 2) {
    prepare(copied_keys[threadIdx.x], THREADS);
    prepare(copied_values[threadIdx.x], THREADS);
    prepare(freed_keys[threadIdx.x], THREADS / 32);
    prepare(freed_values[threadIdx.x], THREADS / 32);
  }
  __syncthreads();
  const u32 q_at = (shared_address(memory) + 1023) & ~1023u, k_at = q_at + ROWS * PANELS * 128, v_at = k_at + 2 * K_BYTES;
  const i32 tile = gridDim.x - 1 - blockIdx.x, head = blockIdx.y, batch = blockIdx.z, first_row = tile * ROWS;
  const i32 group = threadIdx.x / 128, lane = threadIdx.x % 32;
  const i32 row = first_row + group * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4;
  const u16* const keys = a.key + batch * a.key_rows.batch + head / a.group * a.key_rows.head;
  const u16* const values = a.value + batch * a.value_rows.batch + head / a.group * a.value_rows.head;
  const auto walk = walk_over<BLOCK_KEYS, KEYS>(a.blocks, batch, head, first_row / (BLOCK_QUERIES ? BLOCK_QUERIES : 1), a.keys);
  CHANGE
  MASK
  f32 out[VALUE_PANELS * 8][4], top[2] = {-kInfinity, -kInfinity}, sum[2] = {0, 0};
  clear(out);
  if (walk.steps > 0) {
    const Place q0 = place_at<WHOLE_QUERIES>(row, 0, a.queries), q1 = place_at<WHOLE_QUERIES>(row + 8, 0, a.queries);
    f32 shrink[2];
    // Scores to weights, with the sums so far.
    const auto soften = [&](f32 (&scores)[KEYS / 8][4], bool asks, i32 first) {
      const i32 column = first + lane % 4 * 2;
      if (CHANGES) {
#pragma unroll
        for (i32 j = 0; j < KEYS / 8; ++j)
#pragma unroll
          for (i32 e = 0; e < 4; ++e) {
            const Place k = place_at<WHOLE_KEYS>(column, j * 8 + e % 2, a.keys);
            scores[j][e] = change(scores[j][e] * a.scale, batch, head, e < 2 ? q0 : q1, k);
          }
      }
      if (asks) {
#pragma unroll
        for (i32 j = 0; j < KEYS / 8; ++j)
#pragma unroll
          for (i32 e = 0; e < 4; ++e) {
            const Place k = place_at<WHOLE_KEYS>(column, j * 8 + e % 2, a.keys);
            if (!mask(batch, head, e < 2 ? q0 : q1, k)) scores[j][e] = -kInfinity;
          }
      }
      if (!WHOLE_KEYS && first + KEYS > a.keys) {
#pragma unroll
        for (i32 j = 0; j < KEYS / 8; ++j)
#pragma unroll
          for (i32 e = 0; e < 4; ++e)
            if (column + j * 8 + e % 2 >= a.keys) scores[j][e] = -kInfinity;
      }
      const f32 factor = CHANGES ? kLog2E : a.scale * kLog2E;
#pragma unroll
      for (i32 half = 0; half < 2; ++half) {
        f32 most = top[half];
#pragma unroll
        for (i32 j = 0; j < KEYS / 8; ++j) most = fmaxf(most, fmaxf(scores[j][half * 2], scores[j][half * 2 + 1]));
        most = over_quad_max(most);
        const f32 from = most == -kInfinity ? 0 : most * factor;
        shrink[half] = exp2_near(__fmaf_rn(top[half], factor, -from));
        top[half] = most;
        f32 added[4] = {};
#pragma unroll
        for (i32 j = 0; j < KEYS / 8; ++j) {
          const f32 w0 = exp2_near(__fmaf_rn(scores[j][half * 2], factor, -from)), w1 = exp2_near(__fmaf_rn(scores[j][half * 2 + 1], factor, -from));
          scores[j][half * 2] = w0;
          scores[j][half * 2 + 1] = w1;
          added[j % 2 * 2] += w0;
          added[j % 2 * 2 + 1] += w1;
        }
        sum[half] = sum[half] * shrink[half] + ((added[0] + added[1]) + (added[2] + added[3]));
      }
    };
    f32 scores[KEYS / 8][4];
    u32 weights[KEYS / 16][4];
    const u32 mine = q_at + group * 64 * 128;
    const auto load_keys = [&](i32 step) {
      if (step >= 2) wait_at(freed_keys[step % 2], step / 2 - 1);
      load_rows<KEYS, PANELS, DEPTH, THREADS>(k_at + step % 2 * K_BYTES, keys, a.key_rows.row, walk.first(step), a.keys);
      arrive_when_copied(copied_keys[step % 2]);
    };
    const auto load_values = [&](i32 step) {
      if (step >= 2) wait_at(freed_values[step % 2], step / 2 - 1);
      load_rows<KEYS, VALUE_PANELS, VALUE_DEPTH, THREADS>(v_at + step % 2 * V_BYTES, values, a.value_rows.row, walk.first(step), a.keys);
      arrive_when_copied(copied_values[step % 2]);
    };
    const auto asks = [&](i32 step) { return MASKS && (BLOCK_KEYS == 0 || step < walk.partial_steps); };
    load_rows<ROWS, PANELS, DEPTH, THREADS>(q_at, a.query + batch * a.query_rows.batch + head * a.query_rows.head, a.query_rows.row, first_row, a.queries);
    load_keys(0);
    load_values(0);
    if (walk.steps > 1) load_keys(1);
    if (walk.steps > 1) load_values(1);
    if (group == 1) pass_turn(0);
    wait_at(copied_keys[0], 0);
    show_copies();
    hold(scores);
    begin_products();
    multiply<ROWS, PANELS>(scores, mine, k_at);
    commit_products();
    wait_for_products<0>();
    hold(scores);
    if (lane == 0) arrive_at(freed_keys[0]);
    if (walk.steps > 2) load_keys(2);
    soften(scores, asks(0), walk.first(0));
    to_halves(weights, scores);
    for (i32 step = 1; step < walk.steps; ++step) {
      const i32 here = walk.first(step);
      wait_at(copied_keys[step % 2], step / 2);
      wait_at(copied_values[(step - 1) % 2], (step - 1) / 2);
      show_copies();
      // The warpgroups take turns: while the scores of one become weights, the other multiplies.
      if (WARPGROUPS == 2) take_turn(group);
      hold(scores);
      hold(out);
      begin_products();
      multiply<ROWS, PANELS>(scores, mine, k_at + step % 2 * K_BYTES);
      commit_products();
      multiply_add(out, weights, v_at + (step - 1) % 2 * V_BYTES);
      commit_products();
      if (WARPGROUPS == 2) pass_turn(1 - group);
      wait_for_products<1>();
      hold(scores);
      if (lane == 0) arrive_at(freed_keys[step % 2]);
      soften(scores, asks(step), here);
      wait_for_products<0>();
      hold(out);
      if (lane == 0) arrive_at(freed_values[(step - 1) % 2]);
      to_halves(weights, scores);
#pragma unroll
      for (i32 j = 0; j < VALUE_PANELS * 8; ++j)
#pragma unroll
        for (i32 e = 0; e < 4; ++e) out[j][e] *= shrink[e / 2];
      if (step + 2 < walk.steps) load_keys(step + 2);
      if (step + 1 < walk.steps) load_values(step + 1);
    }
    wait_at(copied_values[(walk.steps - 1) % 2], (walk.steps - 1) / 2);
    show_copies();
    hold(out);
    begin_products();
    multiply_add(out, weights, v_at + (walk.steps - 1) % 2 * V_BYTES);
    commit_products();
    wait_for_products<0>();
    hold(out);
  }
  f32 factors[2];
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    const f32 total = over_quad_sum(sum[half]);
    factors[half] = total > 0 ? __frcp_rn(total) : total == 0 ? 0 : total;
    if (lane % 4 == 0 && row + half * 8 < a.queries)
      a.sums[((i64)batch * a.heads + head) * a.queries + row + half * 8] = total == 0 ? -kInfinity : (CHANGES ? top[half] : top[half] * a.scale) + __logf(total);
  }
  store_rows(a.out + batch * a.out_rows.batch + head * a.out_rows.head, a.out_rows.row, out, factors, first_row + group * 64, a.queries, VALUE_DEPTH);
}
)";

}  // namespace

std::string_view flex_tools() { return kTools; }
std::string_view flex_products_of_warpgroups() { return kWarpgroups; }
std::string_view flex_products_of_warps() { return kWarps; }
std::string_view flex_common() { return kCommon; }
std::string_view flex_forward_kernel() { return kForward; }

}  // namespace braze::codegen::cuda
