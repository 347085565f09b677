#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <deque>

#include "loop/checks.h"
#include "loop/ir.h"
#include "loop/scalar.h"
#include "loop/simplify.h"
#include "sym/facts.h"

namespace braze::loop {
namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
  return hash ^ hash >> 32;
}

// A symbolic size is hashed by its text, which is the same in every pool.
uint64_t hash_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3ull;
  return hash;
}

// `size_hash`: of the size of a kAxis or kSize.
uint64_t hash_of(const Expr& e, uint64_t size_hash) {
  uint64_t hash = mix(static_cast<uint64_t>(e.kind) << 8 | static_cast<uint64_t>(e.dtype), 0x5bd1);
  hash = mix(hash, static_cast<uint64_t>(e.ival));
  hash = mix(hash, std::bit_cast<uint64_t>(e.fval));
  hash = mix(hash, static_cast<uint64_t>(e.component));
  if (e.kind == ExprKind::kAxis || e.kind == ExprKind::kSize) hash = mix(hash, size_hash);
  for (ExprRef arg : e.args) hash = mix(hash, arg->hash);
  return hash;
}

bool same(const Expr& a, const Expr& b) {
  return a.hash == b.hash && a.kind == b.kind && a.dtype == b.dtype && a.ival == b.ival &&
         a.component == b.component &&
         std::bit_cast<uint64_t>(a.fval) == std::bit_cast<uint64_t>(b.fval) && a.size == b.size &&
         std::ranges::equal(a.args, b.args);
}

// Ops whose value for constants is the same everywhere: correctly rounded or integer.
bool is_foldable(ExprKind kind, DType dtype, std::span<const ExprRef> args) {
  if (args.empty() || graph::is_half(dtype)) return false;
  for (ExprRef arg : args)
    if (!arg->is_constant()) return false;
#define X(id, text, arity, is_comparison, cost) case ExprKind::k##id:
  switch (kind) {
    BRAZE_LOOP_EXACT(X)
    BRAZE_LOOP_EXACT_FLOATS(X)
    BRAZE_LOOP_BITS(X)
    BRAZE_LOOP_RANDOM(X)
    return true;
    BRAZE_LOOP_DIVISIONS(X)
    return !graph::is_float(dtype) && (kind == ExprKind::kPow || args[1]->ival != 0);
    BRAZE_LOOP_FUNCTIONS(X)
    BRAZE_LOOP_CONTROL(X)
    BRAZE_LOOP_TERMS(X)
    return false;
  }
#undef X
  BRAZE_UNREACHABLE("expression kind ", static_cast<int>(kind));
}

// Whether every value of `inner` is exactly representable in `outer`.
bool preserves(DType inner, DType outer) {
  if (inner == outer) return true;
  if (graph::is_float(inner)) {
    if (!graph::is_float(outer)) return false;
    if (outer == DType::kFloat64) return true;
    return outer == DType::kFloat32 && graph::size_of(inner) == 2;
  }
  if (inner == DType::kBool) return true;
  int64_t bits = 8 * graph::size_of(inner);
  if (outer == DType::kFloat64) return bits <= 32;
  if (outer == DType::kFloat32) return bits <= 16;
  if (graph::is_float(outer) || outer == DType::kBool) return false;
  bool widens = graph::size_of(outer) > graph::size_of(inner);
  return widens && (outer != DType::kUInt8);
}

DType result_dtype(ExprKind kind, std::span<const ExprRef> args) {
  if (is_comparison(kind)) return DType::kBool;
  if (kind == ExprKind::kRandom) return DType::kInt32;
  const bool second =
      kind == ExprKind::kWhere || kind == ExprKind::kMasked || kind == ExprKind::kAfter;
  return args[second ? 1 : 0]->dtype;
}

void check_operands(ExprKind kind, DType dtype, std::span<const ExprRef> args) {
  BRAZE_CHECK(static_cast<int>(args.size()) == arity(kind), "operands of ", to_string(kind));
  if (kind == ExprKind::kCast || kind == ExprKind::kBitcast || kind == ExprKind::kLoad) return;
  BRAZE_CHECK(dtype == result_dtype(kind, args), to_string(kind), " gives ",
              graph::to_string(result_dtype(kind, args)), ", not ", graph::to_string(dtype));
  bool conditional = kind == ExprKind::kWhere || kind == ExprKind::kMasked;
  if (conditional) BRAZE_CHECK(args[0]->dtype == DType::kBool, "condition of ", to_string(kind));
  size_t first = conditional || kind == ExprKind::kAfter ? 1 : 0;
  for (size_t i = first + 1; i < args.size(); ++i)
    BRAZE_CHECK(args[i]->dtype == args[first]->dtype, "operands of ", to_string(kind), ": ",
                graph::to_string(args[first]->dtype), " and ", graph::to_string(args[i]->dtype));
  BRAZE_CHECK(kind != ExprKind::kRandom || args[0]->dtype == DType::kInt64, "operands of ",
              to_string(kind), ": ", graph::to_string(args[0]->dtype));
}

}  // namespace

struct ExprPool::Impl {
  std::deque<Expr> exprs;
  std::deque<std::vector<ExprRef>> blocks;  // operand lists
  std::vector<ExprRef> table;               // open addressing, a power of two

  // What is known of a symbolic size; asked for often, and slow to work out.
  struct SizeFacts {
    uint64_t hash;
    Range range;
  };
  std::unordered_map<const sym::Expr*, SizeFacts> sizes;

  const SizeFacts& facts(sym::Int size) {
    auto [known, fresh] = sizes.try_emplace(size.expr());
    if (fresh) {
      const sym::Range range = sym::range_of(size);
      known->second = {
          hash_of(sym::to_string(size)),
          {std::max(range.low, -kUnknownExtent), std::min(range.high, kUnknownExtent)}};
    }
    return known->second;
  }

  Impl() : table(1024, nullptr) {}

  std::span<const ExprRef> keep(std::span<const ExprRef> args) {
    if (args.empty()) return {};
    if (blocks.empty() || blocks.back().capacity() - blocks.back().size() < args.size()) {
      blocks.emplace_back();
      blocks.back().reserve(std::max<size_t>(1024, args.size()));
    }
    auto& block = blocks.back();
    size_t begin = block.size();
    block.insert(block.end(), args.begin(), args.end());
    return {block.data() + begin, args.size()};
  }

  void grow() {
    std::vector<ExprRef> larger(table.size() * 2, nullptr);
    for (ExprRef e : table) {
      if (!e) continue;
      size_t at = e->hash & (larger.size() - 1);
      while (larger[at]) at = (at + 1) & (larger.size() - 1);
      larger[at] = e;
    }
    table = std::move(larger);
  }

  // The one expression equal to `e`, whose `args` may be temporary.
  ExprRef intern(Expr e, uint64_t size_hash = 0) {
    e.hash = hash_of(e, size_hash);
    size_t at = e.hash & (table.size() - 1);
    for (; table[at]; at = (at + 1) & (table.size() - 1))
      if (same(*table[at], e)) return table[at];
    e.args = keep(e.args);
    e.id = static_cast<uint32_t>(exprs.size());
    exprs.push_back(e);
    ExprRef made = &exprs.back();
    table[at] = made;
    if (exprs.size() * 2 > table.size()) grow();
    return made;
  }

  static ExprRef raw(ExprPool& pool, ExprKind kind, DType dtype, std::span<const ExprRef> args) {
    Expr e;
    e.kind = kind;
    e.dtype = dtype;
    e.args = args;
    e.range = simplify::range_of_op(kind, dtype, args);
    e.symbolic = dtype == DType::kInt64 &&
                 std::ranges::any_of(args, [](ExprRef arg) { return arg->symbolic; });
    return pool.impl_->intern(e);
  }
};

ExprPool::ExprPool() : impl_(std::make_unique<Impl>()) {}
ExprPool::~ExprPool() = default;
ExprPool::ExprPool(ExprPool&&) noexcept = default;
ExprPool& ExprPool::operator=(ExprPool&&) noexcept = default;

int64_t ExprPool::size() const { return static_cast<int64_t>(impl_->exprs.size()); }

ExprRef ExprPool::make(ExprKind kind, DType dtype, std::span<const ExprRef> args) {
  if (kind == ExprKind::kCast) return cast(args[0], dtype);
  BRAZE_CHECK(kind != ExprKind::kLoad, "loads are made by load()");
  check_operands(kind, dtype, args);
  if (is_foldable(kind, args.empty() ? dtype : args[0]->dtype, args)) {
    std::vector<Scalar> values;
    for (ExprRef arg : args) values.push_back({arg->ival, arg->fval});
    Scalar value = apply(kind, args[0]->dtype, values);
    return graph::is_float(dtype) ? constant(dtype, value.f) : integer(value.i, dtype);
  }
  if (ExprRef same_value = simplify::identity(*this, kind, dtype, args)) return same_value;
  if (!graph::is_float(args.back()->dtype))
    if (ExprRef simpler = simplify::integer_op(*this, &Impl::raw, kind, dtype, args))
      return simpler;
  return Impl::raw(*this, kind, dtype, args);
}

ExprRef ExprPool::constant(DType dtype, double value) {
  BRAZE_CHECK(graph::is_float(dtype), "a float constant of ", graph::to_string(dtype));
  Expr e;
  e.dtype = dtype;
  e.fval = std::isnan(value) ? std::nan("") : round_to(dtype, value);
  return impl_->intern(e);
}

ExprRef ExprPool::integer(int64_t value, DType dtype) {
  Expr e;
  e.dtype = dtype;
  e.ival = wrap(dtype, value);
  e.range = {e.ival, e.ival};
  return impl_->intern(e);
}

ExprRef ExprPool::number(DType dtype, double value) {
  return graph::is_float(dtype) ? constant(dtype, value)
                                : integer(convert({0, value}, DType::kFloat64, dtype).i, dtype);
}

ExprRef ExprPool::index(sym::Int value) {
  if (value.is_constant()) return integer(value.constant());
  Expr e;
  e.kind = ExprKind::kSize;
  e.dtype = DType::kInt64;
  const Impl::SizeFacts& facts = impl_->facts(value);
  e.range = facts.range;
  e.size = value;
  e.symbolic = true;
  return impl_->intern(e, facts.hash);
}

ExprRef ExprPool::axis(int number, sym::Int extent) {
  if (extent.is_constant() && extent.constant() <= 1) return integer(0);
  Expr e;
  e.kind = ExprKind::kAxis;
  e.dtype = DType::kInt64;
  e.ival = number;
  e.size = extent;
  e.symbolic = !extent.is_constant();
  if (!e.symbolic) {
    e.range = {0, extent.constant() - 1};
    return impl_->intern(e, static_cast<uint64_t>(e.range.hi));
  }
  const Impl::SizeFacts& facts = impl_->facts(extent);
  e.range = {0, std::max<int64_t>(facts.range.hi - 1, 0)};
  return impl_->intern(e, facts.hash);
}

ExprRef ExprPool::load(int buffer, DType dtype, ExprRef index) {
  BRAZE_CHECK(index->dtype == DType::kInt64, "an index of ", graph::to_string(index->dtype));
  Expr e;
  e.kind = ExprKind::kLoad;
  e.dtype = dtype;
  e.ival = buffer;
  e.args = {&index, 1};
  e.range = range_of(dtype);
  return impl_->intern(e);
}

ExprRef ExprPool::reduced(int number, DType dtype, int component) {
  Expr e;
  e.kind = ExprKind::kReduced;
  e.dtype = dtype;
  e.ival = number;
  e.component = component;
  e.range = range_of(dtype);
  return impl_->intern(e);
}

namespace {

Expr scanned_expr(int number, DType dtype, int component) {
  Expr e;
  e.kind = ExprKind::kScanned;
  e.dtype = dtype;
  e.ival = number;
  e.component = component;
  e.range = range_of(dtype);
  return e;
}

}  // namespace

ExprRef ExprPool::scanned(int number, DType dtype) {
  return impl_->intern(scanned_expr(number, dtype, 0));
}

ExprRef ExprPool::scanned_before(int number, DType dtype) {
  return impl_->intern(scanned_expr(number, dtype, 1));
}

ExprRef ExprPool::scanned_place(int number) {
  return impl_->intern(scanned_expr(number, DType::kInt64, 2));
}

ExprRef ExprPool::cast(ExprRef value, DType dtype) {
  if (value->dtype == dtype) return value;
  if (value->is_constant() && !graph::is_half(value->dtype)) {
    Scalar result = convert({value->ival, value->fval}, value->dtype, dtype);
    return graph::is_float(dtype) ? constant(dtype, result.f) : integer(result.i, dtype);
  }
  // x -> wider -> y is x -> y.
  if (value->kind == ExprKind::kCast && preserves(value->args[0]->dtype, value->dtype)) {
    ExprRef inner = value->args[0];
    if (inner->dtype == dtype) return inner;
    bool through_float = graph::is_float(value->dtype) && !graph::is_float(dtype);
    bool half = graph::is_half(inner->dtype) ||
                graph::is_half(dtype);  // those are only cast to and from f32
    if (!through_float && !half) return cast(inner, dtype);
  }
  bool via_single = (graph::is_half(dtype) || graph::is_half(value->dtype)) &&
                    dtype != DType::kFloat32 && value->dtype != DType::kFloat32;
  if (via_single) value = cast(value, DType::kFloat32);
  return Impl::raw(*this, ExprKind::kCast, dtype, {&value, 1});
}

ExprRef ExprPool::with_args(ExprRef expr, std::span<const ExprRef> args) {
  if (std::ranges::equal(expr->args, args)) return expr;
  if (expr->kind == ExprKind::kLoad)
    return load(static_cast<int>(expr->ival), expr->dtype, args[0]);
  if (expr->kind == ExprKind::kBitcast) return make(ExprKind::kBitcast, expr->dtype, args);
  return make(expr->kind, expr->dtype, args);
}

ExprRef ExprPool::unary(ExprKind kind, ExprRef a) {
  return make(kind, is_comparison(kind) ? DType::kBool : a->dtype, {a});
}

ExprRef ExprPool::binary(ExprKind kind, ExprRef a, ExprRef b) {
  return make(kind, is_comparison(kind) ? DType::kBool : a->dtype, {a, b});
}

ExprRef ExprPool::where(ExprRef cond, ExprRef a, ExprRef b) {
  return make(ExprKind::kWhere, a->dtype, {cond, a, b});
}

ExprRef ExprPool::masked(ExprRef cond, ExprRef value, ExprRef other) {
  return make(ExprKind::kMasked, value->dtype, {cond, value, other});
}

ExprRef ExprPool::after(ExprRef check, ExprRef value) {
  const std::vector<ExprRef> made = checks_in(value);
  if (std::ranges::find(made, check) != made.end()) return value;
  return make(ExprKind::kAfter, value->dtype, {check, value});
}

namespace {

struct KindFacts {
  std::string_view text;
  int arity;
  bool is_comparison;
  int cost;
};

const KindFacts& facts_of(ExprKind kind) {
  static constexpr KindFacts kFacts[] = {
#define X(id, text, arity, is_comparison, cost) {text, arity, is_comparison, cost},
      BRAZE_LOOP_TERMS(X) BRAZE_LOOP_OPS(X)
#undef X
  };
  static_assert(static_cast<int>(ExprKind::kConst) == 0 &&
                static_cast<int>(ExprKind::kBitcast) ==
                    7);  // the terms are listed as the kinds are
  return kFacts[static_cast<int>(kind)];
}

}  // namespace

std::string_view to_string(ExprKind kind) { return facts_of(kind).text; }
int arity(ExprKind kind) { return facts_of(kind).arity; }
bool is_comparison(ExprKind kind) { return facts_of(kind).is_comparison; }
int cost_of(ExprKind kind) { return facts_of(kind).cost; }

std::string_view to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kProd:
      return "prod";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kArgMax:
      return "argmax";
    case ReduceOp::kArgMin:
      return "argmin";
    case ReduceOp::kAny:
      return "any";
    case ReduceOp::kAll:
      return "all";
    case ReduceOp::kWelford:
      return "welford";
  }
  BRAZE_UNREACHABLE("reduction ", static_cast<int>(op));
}

std::string_view to_string(ScanOp op) {
  constexpr std::string_view kNames[] = {"scan",     "scan_sum", "scan_prod",
                                         "scan_max", "scan_min", "scan_logsumexp"};
  return kNames[static_cast<int>(op)];
}

std::string_view to_string(StoreOp op) {
  switch (op) {
    case StoreOp::kSet:
      return "store";
    case StoreOp::kAdd:
      return "store_add";
    case StoreOp::kMul:
      return "store_mul";
    case StoreOp::kMin:
      return "store_min";
    case StoreOp::kMax:
      return "store_max";
    case StoreOp::kLast:
      return "store_last";
    case StoreOp::kPart:
      return "store_part";
  }
  BRAZE_UNREACHABLE("store ", static_cast<int>(op));
}

ExprKind combination(StoreOp op) {
  switch (op) {
    case StoreOp::kSet:
    case StoreOp::kLast:
      break;
    case StoreOp::kAdd:
    case StoreOp::kPart:
      return ExprKind::kAdd;
    case StoreOp::kMul:
      return ExprKind::kMul;
    case StoreOp::kMin:
      return ExprKind::kMin;
    case StoreOp::kMax:
      return ExprKind::kMax;
  }
  BRAZE_UNREACHABLE("combination of ", to_string(op));
}

uint64_t hash_of(const Statement& statement) {
  // All fields by name: one that is added does not build until it stands here.
  const auto& [kind, inner, op, reduced, accumulate, scan, initial, store, unordered, parts, buffer,
               index, value] = statement;
  uint64_t hash = mix(static_cast<uint64_t>(kind) << 1 | static_cast<uint64_t>(inner), 0x3c6e);
  hash = mix(hash, static_cast<uint64_t>(unordered) << 32 | static_cast<uint64_t>(scan) << 24 |
                       static_cast<uint64_t>(op) << 16 | static_cast<uint64_t>(accumulate) << 8 |
                       static_cast<uint64_t>(store));
  hash = mix(hash, static_cast<uint64_t>(reduced));
  hash = mix(hash, static_cast<uint64_t>(buffer));
  hash = mix(hash, static_cast<uint64_t>(parts));
  for (ExprRef expr : {initial, index, value}) hash = mix(hash, expr ? expr->hash : 0);
  return hash;
}

DType reduced_dtype(ReduceOp op, DType accumulate, int component) {
  if (op == ReduceOp::kAny || op == ReduceOp::kAll) return DType::kBool;
  bool position = (op == ReduceOp::kArgMax || op == ReduceOp::kArgMin) && component == 0;
  return position ? DType::kInt64 : accumulate;
}

ExprRef rewrite(ExprPool& pool, ExprRef expr, Substitution& memo,
                const std::function<ExprRef(ExprRef)>& replace) {
  if (auto known = memo.find(expr); known != memo.end()) return known->second;
  ExprRef result = replace(expr);
  if (!result) {
    result = expr;
    if (!expr->args.empty()) {
      std::vector<ExprRef> args;
      args.reserve(expr->args.size());
      for (ExprRef arg : expr->args) args.push_back(rewrite(pool, arg, memo, replace));
      result = pool.with_args(expr, args);
    }
  }
  memo.emplace(expr, result);
  return result;
}

}  // namespace braze::loop
