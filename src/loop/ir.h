// The loop-level IR: what kernels compute, element by element.
//
// ## Expressions
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
//   * f16 and bf16 values occur only as loads, constants and casts to and from f32: arithmetic on
//     them is in f32.
//   * kCheckIndex(index, size): the index if 0 <= index < size; otherwise the kernel stops, returns
//     non-zero, and the caller runs the whole call in eager, which raises the user's exception.
//   * kAfter(check, value): the value, once `check` has been evaluated, of whatever dtype, for the
//     index checks in it. It stands where a value does not depend on an index that was checked.
//
// ## Kernels
// A kernel is a loop nest: `outer` axes (parallel) and `inner` axes (a reduction or a row that is
// walked several times; may be empty). For each outer point the statements run in order; a
// statement marked `inner` runs over all inner points before the next statement begins. Reductions
// are inner statements whose result (kReduced) later statements may use at both levels.
//
// A scan is an inner statement too: it keeps a running value over the inner points in row-major
// order. Inner statements see it as it is at their point (kScanned) and as it was at the point
// before; a scan's own value is an expression of the latter, so that it may be any recurrence.
//
//   the running sum and its share of the whole, for each row of f32[512, 128]:
//     kernel share(b0: f32 in, b1: f32 out) outer(o0 < 512) inner(i0 < 128) {
//       r0 = scan(0:f32, add(r0.before, load(b0, o0*128 + i0)))       inner
//       r1 = sum(load(b0, o0*128 + i0))                               inner
//       store(b1, o0*128 + i0, div(r0, r1))                           inner
//     }
//
// What a scan depends on is the same in every walk over the inner points: no later statement stores
// to what it loads, so that it may be done again.
//
// A store may accumulate: add, multiply, take the minimum or the maximum of what is there and the
// value, or keep the last of them. Points that accumulate into one element differ in inner axes
// only, and do so in row-major order; so every outer axis is a term of the index. Halves are
// combined in f32, and each result is rounded. What a kernel accumulates into it touches in no
// other way; an earlier kernel has stored what is there at first.
//
//   softmax over the last axis of f32[512, 128]:
//     kernel softmax(b0: f32 in, b1: f32 out) outer(o0 < 512) inner(i0 < 128) {
//       r0 = max(load(b0, o0*128 + i0))                               inner
//       r1 = sum(exp(sub(load(b0, o0*128 + i0), reduced(r0))))        inner
//       store(b1, o0*128 + i0, div(exp(...), reduced(r1)))            inner
//     }
//
// A kernel may load from a buffer that an earlier statement stored to only at the very index that
// was stored in the same (outer, inner) point.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

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
             // at the one before (at the first one: what the scan begins with)
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

enum class ReduceOp : uint8_t { kSum, kProd, kMax, kMin, kArgMax, kArgMin, kAny, kAll, kWelford };

struct Axis {
  sym::Int extent = 1;
};

// What a store makes of the element that is there.
enum class StoreOp : uint8_t { kSet, kAdd, kMul, kMin, kMax, kLast };

struct Statement {
  enum class Kind : uint8_t { kReduce, kScan, kStore };
  Kind kind = Kind::kStore;
  bool inner = false;  // reductions and scans always are
  // kReduce: `value`, of dtype `accumulate` (kAny, kAll: bool), reduced over all inner axes with
  // `op`. Ties of argmax/argmin: the first index in row-major order of the inner axes; NaN wins. An
  // empty sum is 0, an empty product 1.
  ReduceOp op = ReduceOp::kSum;
  int reduced = -1;  // kReduce, kScan: number that kReduced or kScanned refers to
  DType accumulate = DType::kFloat32;
  // kScan: what the running value, of dtype `accumulate`, is before the first inner point (a
  // constant); `value` is what it becomes at each.
  ExprRef initial = nullptr;
  // kStore; min and max propagate NaN, as kMin and kMax do.
  StoreOp store = StoreOp::kSet;
  int buffer = -1;
  ExprRef index = nullptr;
  ExprRef value = nullptr;

  // Of one pool: equal expressions are the same pointer.
  friend bool operator==(const Statement&, const Statement&) = default;

  bool is_reduction() const { return kind == Kind::kReduce; }
  bool is_scan() const { return kind == Kind::kScan; }
  bool is_store() const { return kind == Kind::kStore; }
  bool accumulates() const { return is_store() && store != StoreOp::kSet; }
  bool overwrites() const { return is_store() && store == StoreOp::kSet; }
  // Whether what it stores depends on what is there.
  bool combines() const { return accumulates() && store != StoreOp::kLast; }
};
uint64_t hash_of(const Statement& statement);  // the same in every pool

struct BufferParam {
  DType dtype = DType::kFloat32;
  bool written = false;
  bool by_value = false;  // it is its only element, on the CPU, that a kernel of a GPU is given
  // Buffer number in the surrounding program (program.h); not part of the kernel's identity.
  int buffer = -1;
};

// Axis numbers: outer axes are 0 .. outer.size()-1, inner axes follow.
struct Kernel {
  std::string name;  // "fused_add_layer_norm", descriptive, not unique
  std::vector<BufferParam> params;
  std::vector<Axis> outer;
  std::vector<Axis> inner;
  std::vector<Statement> body;
};

std::string_view to_string(ExprKind kind);  // "add"; leaves: "const", "axis", ...
int arity(ExprKind kind);                   // -1 for kConst, kAxis, kReduced, kScanned
bool is_comparison(ExprKind kind);          // result is bool whatever the operands are
int cost_of(ExprKind kind);                 // as in the lists above
// A value of at least this cost is kept rather than worked out a second time.
constexpr int kExpensive = 15;
std::string_view to_string(ReduceOp op);
std::string_view to_string(StoreOp op);  // "store", "store_add"
ExprKind combination(StoreOp op);        // of what is there and the value
// The dtype of kReduced for a reduction that accumulates in `accumulate`: the position of an argmax
// (component 0) is i64.
DType reduced_dtype(ReduceOp op, DType accumulate, int component);

// Rebuilds an expression bottom-up: `replace` gives what stands for a node (its operands are
// untouched then), or null to keep it over rebuilt operands. `memo` is filled and may be shared by
// calls with the same `replace`.
using Substitution = std::unordered_map<ExprRef, ExprRef>;
ExprRef rewrite(ExprPool& pool, ExprRef expr, Substitution& memo,
                const std::function<ExprRef(ExprRef)>& replace);

// Text as in the example above, with shared subexpressions named: `t0 = exp(...)`. Constants are
// i64 unless a dtype follows (`0.5:f32`), sizes stand in braces (`o0*{8*s0} + {s1}`); two kernels
// with the same text (names and program buffers left out) are the same kernel. `parse_kernel` reads
// it back into `pool`, sizes over the symbols of `arena`.
std::string to_string(ExprRef expr);
std::string to_string(const Kernel& kernel, bool with_name = true);
Kernel parse_kernel(std::string_view text, ExprPool& pool, sym::ExprArena* arena = nullptr);

// Invariants: dtypes of operands, axis and parameter numbers, reductions defined before use.
void verify(const Kernel& kernel);

}  // namespace braze::loop
