// Random numbers of a counter.
#include "loop/random.h"

#include <array>
#include <cmath>

#include "graph/op_kind.h"
#include "loop/lowering/pointwise.h"

namespace braze::loop::lowering {
namespace {

using graph::OpKind;
using K = ExprKind;

// The high `count` bits of a word, as a number that is not negative.
ExprRef high_bits(ExprPool& pool, ExprRef word, int count) {
  ExprRef shifted = pool.binary(K::kShr, word, pool.integer(32 - count, DType::kInt32));
  return pool.binary(K::kAnd, shifted, pool.integer((int64_t{1} << count) - 1, DType::kInt32));
}

// The random number of an element, from its words: a float in [0, 1), a multiple of the last place
// of the numbers in [0.5, 1), or an integer of any value. Null for other dtypes.
ExprRef number_from(ExprPool& pool, DType dtype, ExprRef first, ExprRef second) {
  const auto single = [&](int bits) {
    return pool.binary(K::kMul, pool.cast(high_bits(pool, first, bits), DType::kFloat32),
                       pool.constant(DType::kFloat32, std::ldexp(1.0, -bits)));
  };
  const auto wide = [&](int bits, ExprRef word) {
    return pool.cast(high_bits(pool, word, bits), DType::kFloat64);
  };
  const auto number = [&](double value) { return pool.constant(DType::kFloat64, value); };
  switch (dtype) {
    case DType::kFloat16:
      return pool.cast(single(11), dtype);
    case DType::kBFloat16:
      return pool.cast(single(8), dtype);
    case DType::kFloat32:
      return single(24);
    case DType::kFloat64: {
      ExprRef high = pool.binary(K::kMul, wide(27, first), number(0x1p26));
      return pool.binary(K::kMul, pool.binary(K::kAdd, high, wide(26, second)), number(0x1p-53));
    }
    case DType::kInt32:
      return first;
    case DType::kInt64: {
      ExprRef high = pool.binary(K::kShl, pool.cast(second, dtype), pool.integer(32));
      ExprRef low = pool.binary(K::kAnd, pool.cast(first, dtype), pool.integer(0xffffffff));
      return pool.binary(K::kOr, high, low);
    }
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kComplex64:
    case DType::kComplex128:
      break;
  }
  return nullptr;
}

// Whether a word, as a number without a sign, is below a number from 0 to 2^32.
ExprRef unsigned_below(ExprPool& pool, ExprRef word, int64_t threshold) {
  if (threshold > 0xffffffff) return pool.integer(1, DType::kBool);
  ExprRef number = pool.binary(K::kXor, word, pool.integer(INT32_MIN, DType::kInt32));
  return pool.binary(K::kLt, number, pool.integer(threshold + INT32_MIN, DType::kInt32));
}

// seed, offset, size, dtype
bool lower_random(Lowering& lowering, const Node& node) {
  Value* seed = graph::tensor_arg(node, 0);
  const int64_t offset = graph::int_arg(node, 1);
  const graph::TensorType& type = node.result()->type();
  const DType dtype = type.dtype;
  const bool known = graph::is_float(dtype) || dtype == DType::kInt32 || dtype == DType::kInt64;
  if (!known) return false;
  const sym::Dims strides = sym::contiguous_strides(type.sizes);
  Traits traits{.size = graph::size_of(dtype) == 8 ? 30 : 15,
                .math = true,
                .loads = true,
                .heavy = true,
                .label = "random"};
  lowering.define(node, 0, std::move(traits),
                  [&lowering, seed, offset, dtype, strides](IndexView index) {
                    ExprPool& pool = lowering.pool();
                    ExprRef key = lowering.element(seed, {});
                    ExprRef element = dot(pool, index, strides);
                    const auto word = [&](int64_t stream) {
                      return random_word(pool, key, pool.integer(stream), element);
                    };
                    ExprRef first = word(offset);
                    const bool wide = graph::size_of(dtype) == 8;
                    return number_from(pool, dtype, first, wide ? word(offset + 1) : nullptr);
                  });
  return true;
}

// state, first, size, threshold, threads, pack
bool lower_mask(Lowering& lowering, const Node& node) {
  Value* state = graph::tensor_arg(node, 0);
  const graph::TensorType& type = node.result()->type();
  const MaskDraw draw{
      .first = graph::int_arg(node, 1),
      .threads = graph::int_arg(node, 4),
      .pack = graph::int_arg(node, 5),
      .one_round = type.numel().is_constant() &&
                   type.numel().constant() <= graph::int_arg(node, 4) * graph::int_arg(node, 5)};
  const int64_t threshold = graph::int_arg(node, 3);
  const sym::Dims strides = sym::contiguous_strides(type.sizes);
  Traits traits{.size = 15, .math = true, .loads = true, .heavy = true, .label = "mask"};
  lowering.define(node, 0, std::move(traits),
                  [&lowering, state, threshold, draw, strides](IndexView index) {
                    ExprPool& pool = lowering.pool();
                    ExprRef seed = lowering.element(state, std::array{pool.integer(0)});
                    ExprRef offset = lowering.element(state, std::array{pool.integer(1)});
                    ExprRef word = mask_word(pool, seed, offset, dot(pool, index, strides), draw);
                    return unsigned_below(pool, word, threshold);
                  });
  return true;
}

}  // namespace

Handler random_handler(OpKind kind) {
  if (kind == OpKind::kbraze_random) return &lower_random;
  return kind == OpKind::kbraze_philox_mask ? &lower_mask : nullptr;
}

}  // namespace braze::loop::lowering
