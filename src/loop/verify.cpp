#include <algorithm>
#include <set>
#include <unordered_set>

#include "loop/linear_form.h"
#include "loop/program.h"

namespace braze::loop {
namespace {

class KernelVerifier {
 public:
  explicit KernelVerifier(const Kernel& kernel) : kernel_(kernel) {}

  void run() {
    for (const BufferParam& param : kernel_.params)
      BRAZE_CHECK(!graph::is_complex(param.dtype), where(), "complex parameter");
    for (const Statement& s : kernel_.body) {
      BRAZE_CHECK(s.value, where(), "statement without a value");
      // A scan's own value refers to it.
      if (s.is_scan()) scan(s);
      check(s.value, s.inner);
      scan_ = -1;
      if (s.is_reduction()) reduction(s);
      if (s.is_store()) store(s);
      if (s.is_scan()) note_loads(s.value);
    }
  }

 private:
  std::string where() const { return "kernel " + kernel_.name + ": "; }

  void reduction(const Statement& s) {
    BRAZE_CHECK(s.inner, where(), "a reduction runs over the inner axes");
    BRAZE_CHECK(s.value->dtype == s.accumulate, where(), "r", s.reduced, " accumulates ",
                graph::to_string(s.value->dtype), " in ", graph::to_string(s.accumulate));
    bool logical = s.op == ReduceOp::kAny || s.op == ReduceOp::kAll;
    BRAZE_CHECK(logical == (s.accumulate == DType::kBool) || s.op == ReduceOp::kMax ||
                    s.op == ReduceOp::kMin || s.op == ReduceOp::kArgMax ||
                    s.op == ReduceOp::kArgMin,
                where(), to_string(s.op), " of ", graph::to_string(s.accumulate));
    BRAZE_CHECK(results_.emplace(s.reduced, &s).second, where(), "r", s.reduced,
                " is defined twice");
  }

  void scan(const Statement& s) {
    BRAZE_CHECK(s.inner, where(), "a scan runs over the inner axes");
    const bool begins = s.is_recurrence() ? s.initial && s.initial->is_constant() &&
                                                s.initial->dtype == s.accumulate
                                          : !s.initial && s.accumulate != DType::kBool;
    BRAZE_CHECK(begins && s.value->dtype == s.accumulate && !graph::is_half(s.accumulate), where(),
                "r", s.reduced, " scans ", graph::to_string(s.value->dtype), " in ",
                graph::to_string(s.accumulate));
    BRAZE_CHECK(s.scan != ScanOp::kLogSumExp || graph::is_float(s.accumulate), where(),
                to_string(s.scan), " of ", graph::to_string(s.accumulate));
    BRAZE_CHECK(results_.emplace(s.reduced, &s).second, where(), "r", s.reduced,
                " is defined twice");
    scan_ = s.reduced;
  }

  // Notes what a scan loads: no later statement may store to it.
  void note_loads(ExprRef e) {
    if (!noted_.insert(e).second) return;
    if (e->kind == ExprKind::kLoad) scanned_buffers_.insert(static_cast<int>(e->ival));
    for (ExprRef arg : e->args) note_loads(arg);
  }

  void store(const Statement& s) {
    BRAZE_CHECK(s.buffer >= 0 && s.buffer < static_cast<int>(kernel_.params.size()), where(),
                "store to b", s.buffer);
    const BufferParam& param = kernel_.params[s.buffer];
    BRAZE_CHECK(param.written && !param.by_value, where(), "store to the input b", s.buffer);
    BRAZE_CHECK(s.index && s.index->dtype == DType::kInt64, where(), "index of a store");
    BRAZE_CHECK(s.value->dtype == param.dtype, where(), "store of ",
                graph::to_string(s.value->dtype), " to b", s.buffer, " of ",
                graph::to_string(param.dtype));
    BRAZE_CHECK(!scanned_buffers_.contains(s.buffer), where(), "store to b", s.buffer,
                ", which a scan has loaded");
    BRAZE_CHECK(!s.unordered || s.accumulates(), where(), "store to b", s.buffer, " in no order");
    check(s.index, s.inner);
    if (s.is_part()) return part(s);
    if (s.accumulates()) return accumulation(s);
    BRAZE_CHECK(!accumulated_.contains(s.buffer), where(), "store to b", s.buffer,
                ", which is accumulated into");
    stored_.emplace(s.buffer, s.index);
    touched_.insert(s.buffer);
  }

  void part(const Statement& s) {
    BRAZE_CHECK(s.inner && s.parts > 0 && graph::is_float(s.value->dtype) &&
                    !graph::is_half(s.value->dtype),
                where(), "parts of b", s.buffer);
    const LinearForm index = linear_form(s.index);
    sym::Int behind = 1;
    for (size_t axis = kernel_.inner.size(); axis-- > 0;) {
      const sym::Int extent = kernel_.inner[axis].extent;
      const auto atom = [&](ExprRef e) {
        return e->kind == ExprKind::kAxis &&
               e->ival == static_cast<int64_t>(kernel_.outer.size() + axis);
      };
      const auto term = std::ranges::find_if(
          index.terms, [&](const LinearForm::Term& t) { return atom(t.atom); });
      const bool alone = extent == sym::Int(1);
      BRAZE_CHECK(alone ? term == index.terms.end()
                        : term != index.terms.end() && term->coefficient == behind,
                  where(), "places of the parts of b", s.buffer);
      behind = behind * extent;
    }
    BRAZE_CHECK(touched_.insert(s.buffer).second && accumulated_.emplace(s.buffer, s.store).second,
                where(), "store to b", s.buffer, ", which has parts");
  }

  void accumulation(const Statement& s) {
    const DType dtype = s.value->dtype;
    BRAZE_CHECK(!s.combines() || dtype != DType::kBool, where(), to_string(s.store), " in ",
                graph::to_string(dtype));
    BRAZE_CHECK(!touched_.contains(s.buffer), where(), "store to b", s.buffer,
                ", which is accumulated into");
    const auto [known, fresh] = accumulated_.emplace(s.buffer, s.store);
    BRAZE_CHECK(fresh || known->second == s.store, where(), "b", s.buffer,
                " is accumulated into in two ways");
    if (s.unordered) return;
    const LinearForm index = linear_form(s.index);
    for (size_t axis = 0; axis < kernel_.outer.size(); ++axis) {
      const sym::Int extent = kernel_.outer[axis].extent;
      if (extent.is_constant() && extent.constant() <= 1) continue;
      const bool found = std::ranges::any_of(index.terms, [&](const LinearForm::Term& term) {
        return term.atom->kind == ExprKind::kAxis && term.atom->ival == static_cast<int64_t>(axis);
      });
      BRAZE_CHECK(found, where(), "all o", axis, " accumulate into the same elements of b",
                  s.buffer);
    }
  }

  void check(ExprRef e, bool inner) {
    if (!seen_[inner].insert(e).second) return;
    for (ExprRef arg : e->args) check(arg, inner);
    const bool half = graph::is_half(e->dtype);
    BRAZE_CHECK(!half || e->kind == ExprKind::kConst || e->kind == ExprKind::kLoad ||
                    e->kind == ExprKind::kCast || e->kind == ExprKind::kAfter,
                where(), to_string(e->kind), " computed in ", graph::to_string(e->dtype));
    if (e->kind == ExprKind::kCast && (half || graph::size_of(e->args[0]->dtype) == 2))
      check_half_cast(e->dtype, e->args[0]->dtype);
    if (e->kind == ExprKind::kAxis) axis(*e, inner);
    if (e->kind == ExprKind::kReduced) result(*e);
    if (e->kind == ExprKind::kScanned) running(*e, inner);
    if (e->kind == ExprKind::kLoad) load(*e);
  }

  void check_half_cast(DType to, DType from) const {
    BRAZE_CHECK((!graph::is_half(to) || from == DType::kFloat32) &&
                    (!graph::is_half(from) || to == DType::kFloat32),
                where(), "cast from ", graph::to_string(from), " to ", graph::to_string(to));
  }

  void axis(const Expr& e, bool inner) const {
    const auto outer = static_cast<int64_t>(kernel_.outer.size());
    const auto count = outer + static_cast<int64_t>(kernel_.inner.size());
    BRAZE_CHECK(e.ival >= 0 && e.ival < count, where(), "no axis ", e.ival);
    BRAZE_CHECK(inner || e.ival < outer, where(), "inner axis ", e.ival - outer,
                " in an outer statement");
    const sym::Int extent =
        e.ival < outer ? kernel_.outer[e.ival].extent : kernel_.inner[e.ival - outer].extent;
    BRAZE_CHECK(e.size == extent || e.size == sym::Int(kUnknownExtent), where(), "axis ", e.ival,
                " has extent ", sym::to_string(extent), ", not ", sym::to_string(e.size));
  }

  void result(const Expr& e) const {
    const Statement& s = definition(e);
    BRAZE_CHECK(s.is_reduction() && e.dtype == reduced_dtype(s.op, s.accumulate, e.component),
                where(), "r", e.ival, " as ", graph::to_string(e.dtype));
    int components = s.op == ReduceOp::kWelford                               ? 3
                     : s.op == ReduceOp::kArgMax || s.op == ReduceOp::kArgMin ? 2
                                                                              : 1;
    BRAZE_CHECK(e.component >= 0 && e.component < components, where(), "r", e.ival, ".",
                e.component);
  }

  const Statement& definition(const Expr& e) const {
    auto known = results_.find(static_cast<int>(e.ival));
    BRAZE_CHECK(known != results_.end(), where(), "r", e.ival, " is used before its definition");
    return *known->second;
  }

  void running(const Expr& e, bool inner) const {
    const Statement& s = definition(e);
    const DType dtype = e.component == 2 ? DType::kInt64 : s.accumulate;
    BRAZE_CHECK(s.is_scan() && e.dtype == dtype, where(), "r", e.ival, " as ",
                graph::to_string(e.dtype));
    BRAZE_CHECK(inner, where(), "the running r", e.ival, " in an outer statement");
    BRAZE_CHECK(e.component == 0 || (e.component == 1 ? s.is_recurrence() : s.finds_place()),
                where(), "no such part of r", e.ival);
    BRAZE_CHECK(e.component == 1 || e.ival != scan_, where(), "r", e.ival,
                " is used before its definition");
  }

  void load(const Expr& e) {
    BRAZE_CHECK(e.ival >= 0 && e.ival < static_cast<int64_t>(kernel_.params.size()), where(),
                "load of b", e.ival);
    const BufferParam& param = kernel_.params[e.ival];
    BRAZE_CHECK(e.dtype == param.dtype, where(), "load of b", e.ival, " as ",
                graph::to_string(e.dtype));
    BRAZE_CHECK(!param.written || stored_.contains({static_cast<int>(e.ival), e.args[0]}), where(),
                "load of b", e.ival, " at an index that was not stored before");
    touched_.insert(static_cast<int>(e.ival));
  }

  const Kernel& kernel_;
  std::unordered_set<ExprRef> seen_[2];
  std::unordered_map<int, const Statement*> results_;
  int scan_ = -1;  // the scan whose value is being checked
  std::unordered_set<ExprRef> noted_;
  std::unordered_set<int> touched_, scanned_buffers_;  // loaded or overwritten; loaded by a scan
  std::unordered_map<int, StoreOp> accumulated_;
  std::set<std::pair<int, ExprRef>> stored_;
};

}  // namespace

void verify(const Kernel& kernel) { KernelVerifier(kernel).run(); }

}  // namespace braze::loop
