#include "loop/random.h"

#include "base/error.h"

namespace braze::loop {
namespace {

using K = ExprKind;

constexpr int64_t kCounters = 16;  // of a block

bool is_integer(ExprRef expr, int64_t value) {
  return expr->is_constant() && !graph::is_float(expr->dtype) && expr->ival == value;
}

// x where `expr` is kind(x, constant).
ExprRef operand_of(ExprRef expr, ExprKind kind, int64_t constant) {
  return expr->kind == kind && is_integer(expr->args[1], constant) ? expr->args[0] : nullptr;
}

}  // namespace

// Made of bit operations, which no simplification of indices takes apart, so that element_of_random
// recognises them.
ExprRef random_word(ExprPool& pool, ExprRef key, ExprRef offset, ExprRef element) {
  const auto shifted = [&](int64_t bits) {
    return pool.binary(K::kShr, element, pool.integer(bits));
  };
  const auto masked = [&](ExprRef value, int64_t mask) {
    return pool.binary(K::kAnd, value, pool.integer(mask));
  };
  ExprRef counter =
      pool.binary(K::kOr, masked(shifted(2), -kCounters), masked(element, kCounters - 1));
  return pool.make(K::kRandom, DType::kInt32, {key, offset, counter, masked(shifted(4), 3)});
}

ExprRef element_of_random(ExprRef random) {
  if (random->kind != K::kRandom) return nullptr;
  ExprRef word = operand_of(random->args[3], K::kAnd, 3);
  ExprRef element = word ? operand_of(word, K::kShr, 4) : nullptr;
  ExprRef counter = random->args[2];
  if (!element || counter->kind != K::kOr) return nullptr;
  ExprRef block = operand_of(counter->args[0], K::kAnd, -kCounters);
  const bool same = block && operand_of(block, K::kShr, 2) == element &&
                    operand_of(counter->args[1], K::kAnd, kCounters - 1) == element;
  return same ? element : nullptr;
}

ExprRef element_of_mask(ExprRef random) {
  const ExprRef word = random->args[3];
  ExprRef narrow = word->kind == K::kCast ? operand_of(word->args[0], K::kAnd, 3) : nullptr;
  const bool is_cast = narrow && narrow->kind == K::kCast && narrow->dtype == DType::kInt32;
  return is_cast && narrow->args[0]->dtype == DType::kInt64 ? narrow->args[0] : nullptr;
}

// In 32 bits as far as it is about the element, of which there are fewer.
ExprRef mask_word(ExprPool& pool, ExprRef seed, ExprRef offset, ExprRef element,
                  const MaskDraw& draw) {
  BRAZE_CHECK(draw.pack == 4 || draw.pack == 8, "a pack of ", draw.pack);
  const auto number = [&](int64_t value) { return pool.integer(value, DType::kInt32); };
  const auto shifted = [&](ExprRef value, int64_t bits) {
    return pool.binary(K::kShr, value, number(bits));
  };
  const auto masked = [&](ExprRef value, int64_t mask) {
    return pool.binary(K::kAnd, value, number(mask));
  };
  element = pool.cast(element, DType::kInt32);
  ExprRef thread = shifted(element, draw.pack == 8 ? 3 : 2);
  ExprRef counter = draw.pack == 8 ? masked(shifted(element, 2), 1) : number(0);
  if (!draw.one_round) {
    ExprRef threads = number(draw.threads);
    ExprRef round = pool.binary(K::kTruncDiv, thread, threads);
    thread = pool.binary(K::kSub, thread, pool.binary(K::kMul, round, threads));
    counter = pool.binary(K::kAdd, counter, pool.binary(K::kMul, round, number(draw.pack / 4)));
  }
  // The offset counts words.
  ExprRef before =
      pool.binary(K::kAdd, pool.binary(K::kShr, offset, pool.integer(2)), pool.integer(draw.first));
  return pool.make(
      K::kRandom, DType::kInt32,
      {seed, pool.add(before, pool.cast(counter, DType::kInt64)), pool.cast(thread, DType::kInt64),
       pool.cast(masked(element, 3), DType::kInt64)});
}

}  // namespace braze::loop
