#include "loop/random.h"

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

}  // namespace braze::loop
