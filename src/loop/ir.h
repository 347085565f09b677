// The loop-level IR: what kernels compute, element by element.
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
// Or it has an associative operation (ScanOp), which combines the running value with `value`, and
// may be done in parts; its order of combination is free, as that of a reduction.
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
// An `unordered` one, which kernels of GPUs have, may meet others in one element at any points, and
// combines with them in any order; instead of the last of them any one stays.
//
// A `store_part` adds up over the outer points, beside what the kernel does with each. Its buffer
// is [parts, inner points]. Each outer point is given to one of the parts, by whoever runs the
// kernel and always the same one, and adds its values at the places of its inner points. Nothing
// has to be there at first, and what the parts have together is the sum over all outer points:
//
//   the sum of each column of f32[512, 128] beside the square of each element, in four parts:
//     kernel squares(b0: f32 in, b1: f32 out, b2: f32 out) outer(o0 < 512) inner(i0 < 128) {
//       store_part(b2, i0, load(b0, o0*128 + i0)) inner parts 4
//       store(b1, o0*128 + i0, mul(load(b0, o0*128 + i0), load(b0, o0*128 + i0)))  inner
//     }
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
#include <string>
#include <string_view>
#include <vector>

#include "graph/types.h"
#include "loop/expr.h"
#include "sym/expr.h"

namespace braze::loop {

enum class ReduceOp : uint8_t { kSum, kProd, kMax, kMin, kArgMax, kArgMin, kAny, kAll, kWelford };

// What a scan makes of the running value and the next one. kMax and kMin keep the last of equal
// values, and of NaNs, and know its place. kLogSumExp: the logarithm of the sum of exponentials.
enum class ScanOp : uint8_t { kRecurrence, kSum, kProd, kMax, kMin, kLogSumExp };

struct Axis {
  sym::Int extent = 1;
};

// What a store makes of the element that is there.
enum class StoreOp : uint8_t { kSet, kAdd, kMul, kMin, kMax, kLast, kPart };

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
  // kScan of kRecurrence: what the running value, of dtype `accumulate`, is before the first inner
  // point (a constant); `value` is what it becomes at each. Of other operations: null; `value`, of
  // dtype `accumulate`, is what each point adds.
  ScanOp scan = ScanOp::kRecurrence;
  ExprRef initial = nullptr;
  // kStore; min and max propagate NaN, as kMin and kMax do.
  StoreOp store = StoreOp::kSet;
  bool unordered = false;  // accumulates at points in any order
  int64_t parts = 0;       // kPart
  int buffer = -1;
  ExprRef index = nullptr;  // kPart: the number of the inner point, in row-major order
  ExprRef value = nullptr;

  // Of one pool: equal expressions are the same pointer.
  friend bool operator==(const Statement&, const Statement&) = default;

  bool is_reduction() const { return kind == Kind::kReduce; }
  bool is_scan() const { return kind == Kind::kScan; }
  bool is_recurrence() const { return is_scan() && scan == ScanOp::kRecurrence; }
  bool finds_place() const { return is_scan() && (scan == ScanOp::kMax || scan == ScanOp::kMin); }
  bool is_store() const { return kind == Kind::kStore; }
  bool accumulates() const { return is_store() && store != StoreOp::kSet; }
  bool overwrites() const { return is_store() && store == StoreOp::kSet; }
  bool is_part() const { return is_store() && store == StoreOp::kPart; }
  bool accumulates_in_order() const { return accumulates() && !unordered && !is_part(); }
  // Whether what it stores depends on what is there.
  bool combines() const { return accumulates() && store != StoreOp::kLast && !is_part(); }
};
uint64_t hash_of(const Statement& statement);  // the same in every pool

struct BufferParam {
  DType dtype = DType::kFloat32;
  bool written = false;
  bool by_value = false;  // on the CPU: a kernel of a GPU is given its only element by value
  bool aliased = false;   // another parameter has the same memory (schedule/in_place.h)
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

std::string_view to_string(ReduceOp op);
std::string_view to_string(ScanOp op);   // "scan", "scan_sum"
std::string_view to_string(StoreOp op);  // "store", "store_add"
ExprKind combination(StoreOp op);        // the op that combines what is there with the value
// The dtype of kReduced for a reduction that accumulates in `accumulate`: the position of an argmax
// (component 0) is i64.
DType reduced_dtype(ReduceOp op, DType accumulate, int component);

// Text as in the example above, with shared subexpressions named: `t0 = exp(...)`. Constants are
// i64 unless a dtype follows (`0.5:f32`), sizes stand in braces (`o0*{8*s0} + {s1}`); two kernels
// with the same text (names and program buffers left out) are the same kernel. `parse_kernel` reads
// it back into `pool`, sizes over the symbols of `arena`.
std::string to_string(const Kernel& kernel, bool with_name = true);
Kernel parse_kernel(std::string_view text, ExprPool& pool, sym::ExprArena* arena = nullptr);

// Invariants: dtypes of operands, axis and parameter numbers, reductions defined before use.
void verify(const Kernel& kernel);

}  // namespace braze::loop
