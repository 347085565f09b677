// The source of flex_attention's gradients, but for what follows from sizes and functions.
#include "codegen/cuda/flex_source.h"

namespace braze::codegen::cuda {
namespace {

constexpr std::string_view kArguments = R"(
struct Backward {
  const u16 *query, *key, *value, *tangent;
  const f32 *sums, *offsets;
  u16 *query_gradient, *key_gradient, *value_gradient;
  Rows query_rows, key_rows, value_rows, tangent_rows, query_out_rows, key_out_rows, value_out_rows;
  Blocks blocks;
  i32 heads, group, queries, keys;
  f32 scale;
};
// What exponentials are relative to, to the base 2. Of rows without weights they are 0.
D f32 divisor_of(f32 sum) { return sum == -kInfinity ? kInfinity : sum * kLog2E; }
)";

constexpr std::string_view kQueryGradient = R"(
// The gradient of the queries: a block has rows of them and walks over keys. What a tile adds to it
// is multiplied together with the scores of the next one.
extern "C" __global__ void __launch_bounds__(WARPGROUPS * 128, 1) flex_query_gradient(const __grid_constant__ Backward a TABLES) {
  constexpr i32 ROWS = WARPGROUPS * 64, THREADS = WARPGROUPS * 128, KEYS = TILE;
  constexpr i32 K_BYTES = KEYS * PANELS * 128, V_BYTES = KEYS * VALUE_PANELS * 128;
  extern __shared__ u8 memory[];
  __shared__ u64 copied_keys[STAGES], copied_values[2], freed_keys[STAGES], freed_values[2];
  if (threadIdx.x < STAGES) {
    prepare(copied_keys[threadIdx.x], THREADS);
    prepare(freed_keys[threadIdx.x], THREADS / 32);
  }
  if (threadIdx.x < 2) {
    prepare(copied_values[threadIdx.x], THREADS);
    prepare(freed_values[threadIdx.x], THREADS / 32);
  }
  __syncthreads();
  const u32 q_at = (shared_address(memory) + 1023) & ~1023u, d_at = q_at + ROWS * PANELS * 128;
  const u32 k_at = d_at + ROWS * VALUE_PANELS * 128, v_at = k_at + STAGES * K_BYTES;
  const i32 tile = gridDim.x - 1 - blockIdx.x, head = blockIdx.y, batch = blockIdx.z, first_row = tile * ROWS;
  const i32 group = threadIdx.x / 128, lane = threadIdx.x % 32;
  const i32 row = first_row + group * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4;
  const u16* const keys = a.key + batch * a.key_rows.batch + head / a.group * a.key_rows.head;
  const u16* const values = a.value + batch * a.value_rows.batch + head / a.group * a.value_rows.head;
  const auto walk = walk_over<BLOCK_KEYS, KEYS>(a.blocks, batch, head, first_row / (BLOCK_QUERIES ? BLOCK_QUERIES : 1), a.keys);
  CHANGE
  MASK
  GRADIENT
  f32 out[PANELS * 8][4];
  clear(out);
  if (walk.steps > 0) {
    const Place q0 = place_at<WHOLE_QUERIES>(row, 0, a.queries), q1 = place_at<WHOLE_QUERIES>(row + 8, 0, a.queries);
    const i64 number = ((i64)batch * a.heads + head) * a.queries;
    const f32 sums[2] = {divisor_of(a.sums[number + q0.base]), divisor_of(a.sums[number + q1.base])};
    const f32 offsets[2] = {a.offsets[number + q0.base], a.offsets[number + q1.base]};
    f32 scores[KEYS / 8][4], tangents[KEYS / 8][4];
    u32 halves[KEYS / 16][4];
    const auto load_keys = [&](i32 step) {
      if (step >= STAGES) wait_at(freed_keys[step % STAGES], step / STAGES - 1);
      load_rows<KEYS, PANELS, DEPTH, THREADS>(k_at + step % STAGES * K_BYTES, keys, a.key_rows.row, walk.first(step), a.keys);
      arrive_when_copied(copied_keys[step % STAGES]);
    };
    const auto load_values = [&](i32 step) {
      if (step >= 2) wait_at(freed_values[step % 2], step / 2 - 1);
      load_rows<KEYS, VALUE_PANELS, VALUE_DEPTH, THREADS>(v_at + step % 2 * V_BYTES, values, a.value_rows.row, walk.first(step), a.keys);
      arrive_when_copied(copied_values[step % 2]);
    };
    const auto wait_for_tile = [&](i32 step) {
      wait_at(copied_keys[step % STAGES], step / STAGES);
      wait_at(copied_values[step % 2], step / 2);
      show_copies();
    };
    const auto begin_scores = [&](i32 step) {
      multiply<ROWS, PANELS>(scores, q_at + group * 64 * 128, k_at + step % STAGES * K_BYTES);
      multiply<ROWS, VALUE_PANELS>(tangents, d_at + group * 64 * 128, v_at + step % 2 * V_BYTES);
      commit_products();
    };
    // Scores and what comes for the weights to the gradients of scores.
    const auto differentiate = [&](i32 step, i32 here) {
      const i32 column = here + lane % 4 * 2;
      const auto each = [&](const auto& body) {
#pragma unroll
        for (i32 j = 0; j < KEYS / 8; ++j)
#pragma unroll
          for (i32 e = 0; e < 4; ++e) body(j, e, e < 2 ? q0 : q1, place_at<WHOLE_KEYS>(column, j * 8 + e % 2, a.keys));
      };
      f32 weights[KEYS / 8][4];
      each([&](i32 j, i32 e, Place q, Place k) {
        scores[j][e] *= a.scale;
        const f32 changed = CHANGES ? change(scores[j][e], batch, head, q, k) : scores[j][e];
        weights[j][e] = exp2_near(__fmaf_rn(changed, kLog2E, -sums[e / 2]));
      });
      if (MASKS && (BLOCK_KEYS == 0 || step < walk.partial_steps))
        each([&](i32 j, i32 e, Place q, Place k) {
          if (!mask(batch, head, q, k)) weights[j][e] = 0;
        });
      each([&](i32 j, i32 e, Place q, Place k) {
        const f32 tangent = weights[j][e] * (tangents[j][e] - offsets[e / 2]);
        tangents[j][e] = CHANGES ? gradient(scores[j][e], tangent, batch, head, q, k) : tangent;
      });
      if (!WHOLE_KEYS && here + KEYS > a.keys)
        each([&](i32 j, i32 e, Place q, Place k) {
          if (column + j * 8 + e % 2 >= a.keys) tangents[j][e] = 0;
        });
    };
    load_rows<ROWS, PANELS, DEPTH, THREADS>(q_at, a.query + batch * a.query_rows.batch + head * a.query_rows.head, a.query_rows.row, first_row, a.queries);
    load_rows<ROWS, VALUE_PANELS, VALUE_DEPTH, THREADS>(d_at, a.tangent + batch * a.tangent_rows.batch + head * a.tangent_rows.head, a.tangent_rows.row, first_row, a.queries);
    load_keys(0);
    load_values(0);
    if (STAGES > 2 && walk.steps > 1) load_keys(1);
    if (walk.steps > 1) load_values(1);
    if (group == 1) pass_turn(0);
    wait_for_tile(0);
    hold(scores);
    hold(tangents);
    begin_products();
    begin_scores(0);
    wait_for_products<0>();
    hold(scores);
    hold(tangents);
    if (lane == 0) arrive_at(freed_values[0]);
    if (walk.steps > STAGES - 1) load_keys(STAGES - 1);
    if (walk.steps > 2) load_values(2);
    differentiate(0, walk.first(0));
    to_halves(halves, tangents);
    for (i32 step = 1; step < walk.steps; ++step) {
      const i32 here = walk.first(step);
      wait_for_tile(step);
      if (WARPGROUPS == 2) take_turn(group);
      hold(scores);
      hold(tangents);
      hold(out);
      begin_products();
      begin_scores(step);
      multiply_add(out, halves, k_at + (step - 1) % STAGES * K_BYTES);
      commit_products();
      if (WARPGROUPS == 2) pass_turn(1 - group);
      wait_for_products<1>();
      hold(scores);
      hold(tangents);
      if (lane == 0) arrive_at(freed_values[step % 2]);
      differentiate(step, here);
      wait_for_products<0>();
      hold(out);
      if (lane == 0) arrive_at(freed_keys[(step - 1) % STAGES]);
      to_halves(halves, tangents);
      if (step + STAGES - 1 < walk.steps) load_keys(step + STAGES - 1);
      if (step + 2 < walk.steps) load_values(step + 2);
    }
    hold(out);
    begin_products();
    multiply_add(out, halves, k_at + (walk.steps - 1) % STAGES * K_BYTES);
    commit_products();
    wait_for_products<0>();
    hold(out);
  }
  const f32 factors[2] = {a.scale, a.scale};
  store_rows(a.query_gradient + batch * a.query_out_rows.batch + head * a.query_out_rows.head, a.query_out_rows.row, out, factors, first_row + group * 64, a.queries, DEPTH);
}
)";

constexpr std::string_view kKeyGradient = R"(
// The gradients of keys and values: a block has rows of them and walks over the queries of all heads
// that share these.
extern "C" __global__ void __launch_bounds__(WARPGROUPS * 128, 1) flex_key_gradient(const __grid_constant__ Backward a TABLES) {
  constexpr i32 ROWS = WARPGROUPS * 64, THREADS = WARPGROUPS * 128, QUERIES = TILE;
  constexpr i32 Q_BYTES = QUERIES * PANELS * 128, D_BYTES = QUERIES * VALUE_PANELS * 128;
  extern __shared__ u8 memory[];
  __shared__ f32 sums_of[STAGES][QUERIES], offsets_of[STAGES][QUERIES];
  __shared__ u64 copied[STAGES], freed[STAGES];
  if (threadIdx.x < STAGES) {
    prepare(copied[threadIdx.x], THREADS);
    prepare(freed[threadIdx.x], THREADS / 32);
  }
  __syncthreads();
  const u32 k_at = (shared_address(memory) + 1023) & ~1023u, v_at = k_at + ROWS * PANELS * 128;
  const u32 q_at = v_at + ROWS * VALUE_PANELS * 128, d_at = q_at + STAGES * Q_BYTES;
  const i32 tile = blockIdx.x, key_head = blockIdx.y, batch = blockIdx.z, first_row = tile * ROWS;
  const i32 group = threadIdx.x / 128, lane = threadIdx.x % 32;
  const i32 row = first_row + group * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4;
  CHANGE
  MASK
  GRADIENT
  f32 of_keys[PANELS * 8][4], of_values[VALUE_PANELS * 8][4];
  clear(of_keys);
  clear(of_values);
  load_rows<ROWS, PANELS, DEPTH, THREADS>(k_at, a.key + batch * a.key_rows.batch + key_head * a.key_rows.head, a.key_rows.row, first_row, a.keys);
  load_rows<ROWS, VALUE_PANELS, VALUE_DEPTH, THREADS>(v_at, a.value + batch * a.value_rows.batch + key_head * a.value_rows.head, a.value_rows.row, first_row, a.keys);
  if (group == 1) pass_turn(0);
  const Place k0 = place_at<WHOLE_KEYS>(row, 0, a.keys), k1 = place_at<WHOLE_KEYS>(row + 8, 0, a.keys);
  i32 before = 0;  // tiles of the heads so far
  for (i32 member = 0; member < a.group; ++member) {
    const i32 head = key_head * a.group + member;
    const u16* const queries = a.query + batch * a.query_rows.batch + head * a.query_rows.head;
    const u16* const incoming = a.tangent + batch * a.tangent_rows.batch + head * a.tangent_rows.head;
    const i64 number = ((i64)batch * a.heads + head) * a.queries;
    const auto walk = walk_over<BLOCK_QUERIES, QUERIES>(a.blocks, batch, head, first_row / (BLOCK_KEYS ? BLOCK_KEYS : 1), a.queries);
    if (walk.steps == 0) continue;
    f32 scores[QUERIES / 8][4], tangents[QUERIES / 8][4];
    u32 of_weights[QUERIES / 16][4], of_scores[QUERIES / 16][4];
    const auto load = [&](i32 step) {
      const i32 use = before + step, slot = use % STAGES, first = walk.first(step);
      if (use >= STAGES) wait_at(freed[slot], use / STAGES - 1);
      load_rows<QUERIES, PANELS, DEPTH, THREADS>(q_at + slot * Q_BYTES, queries, a.query_rows.row, first, a.queries);
      load_rows<QUERIES, VALUE_PANELS, VALUE_DEPTH, THREADS>(d_at + slot * D_BYTES, incoming, a.tangent_rows.row, first, a.queries);
      if (threadIdx.x < QUERIES) {
        const bool inside = first + (i32)threadIdx.x < a.queries;
        const i64 place = inside ? number + first + threadIdx.x : number;
        copy_4(shared_address(&sums_of[slot][threadIdx.x]), a.sums + place, inside);
        copy_4(shared_address(&offsets_of[slot][threadIdx.x]), a.offsets + place, inside);
      }
      arrive_when_copied(copied[slot]);
    };
    const auto wait_for_tile = [&](i32 step) {
      wait_at(copied[(before + step) % STAGES], (before + step) / STAGES);
      show_copies();
    };
    const auto begin_scores = [&](i32 step) {
      const i32 slot = (before + step) % STAGES;
      multiply<ROWS, PANELS>(scores, k_at + group * 64 * 128, q_at + slot * Q_BYTES);
      multiply<ROWS, VALUE_PANELS>(tangents, v_at + group * 64 * 128, d_at + slot * D_BYTES);
      commit_products();
    };
    const auto begin_sums = [&](i32 step) {
      const i32 slot = (before + step) % STAGES;
      multiply_add(of_values, of_weights, d_at + slot * D_BYTES);
      multiply_add(of_keys, of_scores, q_at + slot * Q_BYTES);
      commit_products();
    };
    // Scores to weights, and what comes for these to the gradients of scores.
    const auto differentiate = [&](i32 step, i32 here) {
      const i32 slot = (before + step) % STAGES, column = lane % 4 * 2;
      const auto each = [&](const auto& body) {
#pragma unroll
        for (i32 j = 0; j < QUERIES / 8; ++j)
#pragma unroll
          for (i32 e = 0; e < 4; ++e) {
            const Place q = place_at<WHOLE_QUERIES>(here + column, j * 8 + e % 2, a.queries);
            body(j, e, column + j * 8 + e % 2, q, e < 2 ? k0 : k1);
          }
      };
      f32 weights[QUERIES / 8][4];
      each([&](i32 j, i32 e, i32 at, Place q, Place k) {
        scores[j][e] *= a.scale;
        const f32 changed = CHANGES ? change(scores[j][e], batch, head, q, k) : scores[j][e];
        weights[j][e] = exp2_near(__fmaf_rn(changed, kLog2E, -divisor_of(sums_of[slot][at])));
      });
      if (MASKS && (BLOCK_QUERIES == 0 || step < walk.partial_steps))
        each([&](i32 j, i32 e, i32, Place q, Place k) {
          if (!mask(batch, head, q, k)) weights[j][e] = 0;
        });
      if (!WHOLE_QUERIES && here + QUERIES > a.queries)
        each([&](i32 j, i32 e, i32 at, Place, Place) {
          if (here + at >= a.queries) weights[j][e] = 0;
        });
      each([&](i32 j, i32 e, i32 at, Place q, Place k) {
        const f32 tangent = weights[j][e] * (tangents[j][e] - offsets_of[slot][at]);
        tangents[j][e] = CHANGES ? gradient(scores[j][e], tangent, batch, head, q, k) : tangent;
        scores[j][e] = weights[j][e];
      });
      if (!WHOLE_QUERIES && here + QUERIES > a.queries)
        each([&](i32 j, i32 e, i32 at, Place, Place) {
          if (here + at >= a.queries) tangents[j][e] = 0;
        });
    };
    load(0);
    if (STAGES > 2 && walk.steps > 1) load(1);
    wait_for_tile(0);
    hold(scores);
    hold(tangents);
    begin_products();
    begin_scores(0);
    wait_for_products<0>();
    hold(scores);
    hold(tangents);
    if (walk.steps > STAGES - 1) load(STAGES - 1);
    differentiate(0, walk.first(0));
    to_halves(of_weights, scores);
    to_halves(of_scores, tangents);
    for (i32 step = 1; step < walk.steps; ++step) {
      const i32 here = walk.first(step);
      wait_for_tile(step);
      if (WARPGROUPS == 2) take_turn(group);
      hold(scores);
      hold(tangents);
      hold(of_values);
      hold(of_keys);
      begin_products();
      begin_scores(step);
      begin_sums(step - 1);
      if (WARPGROUPS == 2) pass_turn(1 - group);
      wait_for_products<1>();
      hold(scores);
      hold(tangents);
      differentiate(step, here);
      wait_for_products<0>();
      hold(of_values);
      hold(of_keys);
      if (lane == 0) arrive_at(freed[(before + step - 1) % STAGES]);
      to_halves(of_weights, scores);
      to_halves(of_scores, tangents);
      if (step + STAGES - 1 < walk.steps) load(step + STAGES - 1);
    }
    hold(of_values);
    hold(of_keys);
    begin_products();
    begin_sums(walk.steps - 1);
    wait_for_products<0>();
    hold(of_values);
    hold(of_keys);
    if (lane == 0) arrive_at(freed[(before + walk.steps - 1) % STAGES]);
    before += walk.steps;
  }
  wait_for_copies();  // of keys and values, where no query looks at them
  const f32 factors[2] = {a.scale, a.scale}, ones[2] = {1, 1};
  store_rows(a.key_gradient + batch * a.key_out_rows.batch + key_head * a.key_out_rows.head, a.key_out_rows.row, of_keys, factors, first_row + group * 64, a.keys, DEPTH);
  store_rows(a.value_gradient + batch * a.value_out_rows.batch + key_head * a.value_out_rows.head, a.value_out_rows.row, of_values, ones, first_row + group * 64, a.keys, VALUE_DEPTH);
}
)";

}  // namespace

std::string_view flex_backward_arguments() { return kArguments; }
std::string_view flex_query_gradient_kernel() { return kQueryGradient; }
std::string_view flex_key_gradient_kernel() { return kKeyGradient; }

}  // namespace braze::codegen::cuda
