// Expressions of the loop-level IR: what a kernel computes for one element.
//
// Immutable, hash-consed in an `ExprPool`: equal expressions are the same pointer, so a code
// generator that emits each pointer once has done common subexpression elimination. Every
// expression has a dtype. Index arithmetic is ordinary expressions of dtype i64, exact (no
// overflow: the lowering guarantees that indices fit).
//
// Sizes may be symbolic: an extent, a stride, a bound is then a `sym::Int` over the symbols of the
// graph, in expressions a kSize leaf. A kSize stands where a constant may stand: coefficients of
// indices, divisors. What no range proves (that a size is a multiple of 8, say) is not assumed.
//
// Semantics of values are those of one element of the eager op:
//   * integer add, sub, mul wrap; shifts by >= width are as ATen's; integer division by zero does
//     not reach a kernel (the lowering leaves it to ATen).
//   * kFloorDiv and kMod round towards minus infinity (Python), kTruncDiv towards zero, kFmod has
//     the sign of the dividend.
//   * kMin and kMax propagate NaN.
//   * Float arithmetic is IEEE, never reassociated or contracted inside one element, except in
//     reductions, whose order of accumulation is free. f16 and bf16 are computed in f32 and rounded
//     where eager would round: at each op's result, which the lowering says by casts.
//   * kWhere evaluates both branches; kMasked(cond, value, other) evaluates `value` (its loads!)
//     only where cond holds.
//   * kRandom(key, offset, subsequence, word): word `word & 3` of Philox 4x32-10 for that key and
//     the counter whose low half is `offset` and whose high half is `subsequence` (base/philox.h),
//     as an i32 with the word's bits. Operands are i64. A word that cuRAND gives a thread is the
//     one for its seed, a quarter of the number of words it has drawn (the remainder is `word`),
//     and its number.
//   * f16 and bf16 values occur only as loads, constants and casts to and from f32: arithmetic on
//     them is in f32.
//   * kCheckIndex(index, size): the index if 0 <= index < size; otherwise the kernel stops, returns
//     non-zero, and the caller runs the whole call in eager, which raises the user's exception.
//   * kAfter(check, value): the value, after `check` (of any dtype) has been evaluated for the
//     index checks in it. It stands where the value does not depend on an index that is checked.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "graph/types.h"
#include "loop/ops.h"
#include "sym/expr.h"

namespace braze::loop {

using graph::DType;

enum class ExprKind : uint8_t {
  kConst,    // number: `ival` for integers and bool, `fval` for floats
  kAxis,     // loop variable: `ival` = axis number; i64
  kSize,     // a number that is fixed for a call, but not when it is compiled: `size`; i64
  kLoad,     // args[0] = index in elements from element 0; `ival` = buffer parameter
  kReduced,  // result of a reduction: `ival` = its number, `component` (Welford: 0 mean, 1 M2, 2
             // count; argmax: 0 index, 1 value)
  kScanned,  // running value of a scan: `ival` = its number, `component`: 0 at this inner point, 1
             // at the one before (at the first one: what the scan begins with; of recurrences), 2
             // the number of the point that the value is from, in row-major order (kMax, kMin)
  kCast,     // args[0] converted to dtype as C++ static_cast does (float -> bool: != 0)
  kBitcast,
#define X(id, text, arity, is_comparison, cost) k##id,
  BRAZE_LOOP_OPS(X)
#undef X
};

// Values from lo to hi, both included.
struct Range {
  int64_t lo = INT64_MIN;
  int64_t hi = INT64_MAX;
  friend bool operator==(const Range&, const Range&) = default;
};

struct Expr {
  ExprKind kind = ExprKind::kConst;
  DType dtype;
  int32_t component = 0;
  int64_t ival = 0;
  double fval = 0;
  std::span<const Expr* const> args;  // in the pool's arena
  Range range;                        // integers and bool: every value lies in it
  sym::Int size;                      // kAxis: the extent. kSize: the value, never a constant
  bool symbolic = false;              // index arithmetic over a kSize or an axis of symbolic extent
  uint64_t hash = 0;                  // structural: the same in every pool
  uint32_t id = 0;                    // order of creation in the pool: operands have smaller ids

  bool is_constant() const { return kind == ExprKind::kConst; }
};
using ExprRef = const Expr*;

constexpr int64_t kUnknownExtent = int64_t{1} << 48;

// Owns expressions. `make` folds constants and applies the identities that are exact for the dtype
// (x + 0 and x * 1 for integers; x * 1 for floats; index arithmetic in full: see simplify.h).
// Not thread-safe: one pool per compile.
class ExprPool {
 public:
  ExprPool();
  ~ExprPool();
  ExprPool(ExprPool&&) noexcept;
  ExprPool& operator=(ExprPool&&) noexcept;

  // Any kind with operands. For kLoad, kReduced and kScanned use the functions below.
  ExprRef make(ExprKind kind, DType dtype, std::span<const ExprRef> args);
  ExprRef make(ExprKind kind, DType dtype, std::initializer_list<ExprRef> args) {
    return make(kind, dtype, std::span<const ExprRef>(args.begin(), args.size()));
  }
  ExprRef constant(DType dtype, double value);                  // floats, rounded to the dtype
  ExprRef integer(int64_t value, DType dtype = DType::kInt64);  // wraps to the dtype
  // A number of any dtype: constant() or integer() (a float is truncated).
  ExprRef number(DType dtype, double value);
  // An i64: integer() for a constant, else a kSize.
  ExprRef index(sym::Int value);
  // The extent is part of the axis (equal numbers with different extents are different axes): the
  // simplifier works with its range. An axis of extent 0 or 1 is the constant 0.
  ExprRef axis(int number, sym::Int extent = kUnknownExtent);
  ExprRef load(int buffer, DType dtype, ExprRef index);
  ExprRef reduced(int number, DType dtype, int component = 0);
  ExprRef scanned(int number, DType dtype);
  ExprRef scanned_before(int number, DType dtype);
  ExprRef scanned_place(int number);
  ExprRef cast(ExprRef value, DType dtype);  // the value itself when the dtype is the same
  // The same expression over other operands (and the same pointer when they are the same).
  ExprRef with_args(ExprRef expr, std::span<const ExprRef> args);

  // Unary and binary with the result dtype implied.
  ExprRef unary(ExprKind kind, ExprRef a);
  ExprRef binary(ExprKind kind, ExprRef a, ExprRef b);
  ExprRef where(ExprRef cond, ExprRef a, ExprRef b);
  ExprRef masked(ExprRef cond, ExprRef value, ExprRef other);
  ExprRef after(ExprRef check, ExprRef value);  // the value itself where it makes that check
  // i64 index arithmetic.
  ExprRef add(ExprRef a, ExprRef b) { return binary(ExprKind::kAdd, a, b); }
  ExprRef mul(ExprRef a, ExprRef b) { return binary(ExprKind::kMul, a, b); }
  ExprRef mul(ExprRef a, sym::Int b) { return mul(a, index(b)); }

  int64_t size() const;  // number of expressions made

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string_view to_string(ExprKind kind);  // "add"; leaves: "const", "axis", ...
int arity(ExprKind kind);                   // -1 for what has no operands
bool is_comparison(ExprKind kind);          // result is bool whatever the operands are
int cost_of(ExprKind kind);                 // as listed in ops.h
// A value of at least this cost is kept rather than worked out a second time.
constexpr int kExpensive = 15;

// Rebuilds an expression bottom-up: `replace` gives what stands for a node (its operands are
// untouched then), or null to keep it over rebuilt operands. `memo` is filled and may be shared by
// calls with the same `replace`.
using Substitution = std::unordered_map<ExprRef, ExprRef>;
ExprRef rewrite(ExprPool& pool, ExprRef expr, Substitution& memo,
                const std::function<ExprRef(ExprRef)>& replace);

std::string to_string(ExprRef expr);  // its text in a kernel, see ir.h

}  // namespace braze::loop
