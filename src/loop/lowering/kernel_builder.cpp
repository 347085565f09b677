#include <algorithm>

#include "loop/checks.h"
#include "loop/linear_form.h"
#include "loop/lowering/lowering.h"

namespace braze::loop::lowering {
namespace {

// What a reduction of `dtype` accumulates in.
DType accumulator(ReduceOp op, DType dtype) {
  if (op == ReduceOp::kAny || op == ReduceOp::kAll) return DType::kBool;
  if (dtype == DType::kBool) return DType::kUInt8;
  return compute_dtype(dtype);
}

}  // namespace

KernelBuilder::KernelBuilder(Lowering& lowering, graph::OriginId origin, std::string name,
                             std::span<const sym::Int> outer, std::span<const sym::Int> inner)
    : lowering_(lowering),
      origin_(origin),
      outer_(outer.size()),
      first_check_(lowering.checks_.size()) {
  kernel_.name = std::move(name);
  ExprPool& pool = lowering.pool();
  for (sym::Int extent : outer) kernel_.outer.push_back({extent});
  for (sym::Int extent : inner) kernel_.inner.push_back({extent});
  for (sym::Int extent : outer) axes_.push_back(pool.axis(static_cast<int>(axes_.size()), extent));
  for (sym::Int extent : inner) axes_.push_back(pool.axis(static_cast<int>(axes_.size()), extent));
}

ExprRef KernelBuilder::reduce(ReduceOp op, ExprRef value) {
  Statement s;
  s.kind = Statement::Kind::kReduce;
  s.inner = true;
  s.op = op;
  s.accumulate = accumulator(op, value->dtype);
  s.value = lowering_.pool().cast(value, s.accumulate);
  s.reduced = results();
  kernel_.body.push_back(s);
  return lowering_.pool().reduced(s.reduced, reduced_dtype(op, s.accumulate, 0));
}

ExprRef KernelBuilder::component(ExprRef reduced, int number) {
  for (const Statement& s : kernel_.body)
    if (s.is_reduction() && s.reduced == reduced->ival)
      return lowering_.pool().reduced(s.reduced, reduced_dtype(s.op, s.accumulate, number), number);
  BRAZE_UNREACHABLE("component of a value that is not a reduction");
}

int KernelBuilder::results() const {
  return static_cast<int>(
      std::ranges::count_if(kernel_.body, [](const Statement& s) { return !s.is_store(); }));
}

ExprRef KernelBuilder::scan(ExprRef initial, const std::function<ExprRef(ExprRef before)>& next) {
  ExprPool& pool = lowering_.pool();
  Statement s;
  s.kind = Statement::Kind::kScan;
  s.inner = true;
  s.reduced = results();
  s.accumulate = initial->dtype;
  s.initial = initial;
  s.value = next(pool.scanned_before(s.reduced, s.accumulate));
  kernel_.body.push_back(s);
  return pool.scanned(s.reduced, s.accumulate);
}

ExprRef KernelBuilder::scan(ScanOp op, ExprRef value) {
  Statement s;
  s.kind = Statement::Kind::kScan;
  s.inner = true;
  s.reduced = results();
  s.accumulate = value->dtype;
  s.scan = op;
  s.value = value;
  kernel_.body.push_back(s);
  return lowering_.pool().scanned(s.reduced, s.accumulate);
}

void KernelBuilder::accumulate(StoreOp op, Value* result, IndexView index, ExprRef value) {
  const int buffer = lowering_.known_[result->id()].buffer;
  BRAZE_CHECK(buffer >= 0, "%", result->id(), " is accumulated into before it is stored");
  accumulate(op, buffer, strides_of(result), index, value);
}

void KernelBuilder::accumulate(StoreOp op, int buffer, std::span<const sym::Int> strides,
                               IndexView index, ExprRef value) {
  store(buffer, strides, index, value, kernel_.inner.size() > 0);
  kernel_.body.back().store = op;
  kernel_.body.back().unordered = lowering_.on_gpu();
}

void KernelBuilder::store(Value* result, IndexView index, ExprRef value, bool inner) {
  auto& known = lowering_.known_[result->id()];
  known.buffer = lowering_.add_buffer({.type = result->type(), .value = result});
  lowering_.program_.buffers[known.buffer].type.offset = 0;
  store(known.buffer, strides_of(result), index, value, inner);
}

void KernelBuilder::store(int buffer, std::span<const sym::Int> strides, IndexView index,
                          ExprRef value, bool inner) {
  Statement s;
  s.buffer = buffer;
  s.inner = inner;
  s.index = dot(lowering_.pool(), index, strides);
  s.value = lowering_.pool().cast(value, lowering_.program_.buffers[buffer].type.dtype);
  kernel_.body.push_back(s);
}

// Puts the checks that no statement makes into one of them.
void KernelBuilder::keep_checks() {
  std::vector<ExprRef>& asked = lowering_.checks_;
  if (asked.size() == first_check_) return;
  std::vector<ExprRef> made;
  for (const Statement& s : kernel_.body)
    for (ExprRef check : checks_in(s.value)) made.push_back(check);
  for (size_t i = first_check_; i < asked.size(); ++i) {
    if (std::ranges::find(made, asked[i]) != made.end()) continue;
    made.push_back(asked[i]);
    bool varies_inside = false;
    for (size_t axis = outer_; axis < axes_.size(); ++axis)
      varies_inside |= depends_on(asked[i], static_cast<int>(axis));
    const auto place =
        std::find_if(kernel_.body.rbegin(), kernel_.body.rend(),
                     [varies_inside](const Statement& s) { return s.inner || !varies_inside; });
    BRAZE_CHECK(place != kernel_.body.rend(), "no place for the index check ", to_string(asked[i]));
    place->value = lowering_.pool().after(asked[i], place->value);
  }
  asked.resize(first_check_);
}

void KernelBuilder::finish() {
  keep_checks();
  std::unordered_map<int, int> param_of;
  auto param = [&](int buffer, DType dtype) {
    auto [at, added] = param_of.emplace(buffer, static_cast<int>(kernel_.params.size()));
    if (added)
      kernel_.params.push_back({.dtype = dtype,
                                .by_value = lowering_.program_.buffers[buffer].by_value,
                                .buffer = buffer});
    return at->second;
  };
  ExprPool& pool = lowering_.pool();
  Substitution memo;
  std::function<ExprRef(ExprRef)> renumber = [&](ExprRef e) -> ExprRef {
    if (e->kind != ExprKind::kLoad) return nullptr;
    ExprRef index = rewrite(pool, e->args[0], memo, renumber);
    return pool.load(param(static_cast<int>(e->ival), e->dtype), e->dtype, index);
  };
  for (Statement& s : kernel_.body) {
    if (s.index) s.index = rewrite(pool, s.index, memo, renumber);
    s.value = rewrite(pool, s.value, memo, renumber);
  }
  for (Statement& s : kernel_.body) {
    if (!s.is_store()) continue;
    s.buffer = param(s.buffer, s.value->dtype);
    kernel_.params[s.buffer].written = true;
  }
  lowering_.program_.items.push_back(
      ScheduledKernel{.kernel = std::move(kernel_), .origin = origin_});
}

}  // namespace braze::loop::lowering
