#include <algorithm>
#include <functional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "codegen/cpp/nest.h"

namespace braze::codegen::cpp {

using loop::ExprKind;
using loop::ExprRef;
using loop::Kernel;
using loop::ReduceOp;
using loop::Statement;

namespace {

class SweepPlanner {
 public:
  explicit SweepPlanner(const Kernel& kernel) : kernel_(kernel) {}

  std::vector<Sweep> run() {
    for (const Statement& s : kernel_.body) {
      switch (s.kind) {
        case Statement::Kind::kStore:
          place({Task::Role::kStore, &s});
          break;
        case Statement::Kind::kScan:
          scans_.push_back({&s, {}});
          break;
        case Statement::Kind::kReduce:
          if (s.op == ReduceOp::kWelford) {
            const bool may_be_corrected = !is_regularised(s);
            place({Task::Role::kMean, &s, may_be_corrected});
            place({Task::Role::kSquares, &s, may_be_corrected});
          } else {
            place({Task::Role::kReduce, &s});
          }
          break;
      }
    }
    for (const Scan& scan : scans_)  // a scan that is needed for its index checks alone
      if (scan.sweeps.empty()) place({Task::Role::kScan, scan.statement});
    return std::move(sweeps_);
  }

 private:
  // A position in time: sweep, and whether in its loop (0) or after it (1).
  struct Time {
    size_t sweep = 0;
    int after = 0;
    friend auto operator<=>(const Time&, const Time&) = default;
  };
  struct Buffer {
    Time loaded, stored;
    bool is_loaded = false, is_stored = false;
  };
  struct Scan {
    const Statement* statement = nullptr;
    std::set<size_t> sweeps;  // that it is done in
  };

  // Whether something is added to the variance, as norms do: what is far below that may be lost.
  bool is_regularised(const Statement& welford) const {
    const auto is_variance = [&](ExprRef expr) {
      return expr->kind == ExprKind::kDiv && expr->args[0]->kind == ExprKind::kReduced &&
             expr->args[0]->ival == welford.reduced && expr->args[0]->component == 1;
    };
    std::unordered_set<ExprRef> seen;
    std::function<bool(ExprRef)> in = [&](ExprRef expr) {
      if (!seen.insert(expr).second) return false;
      if (expr->kind == ExprKind::kAdd &&
          ((is_variance(expr->args[0]) && expr->args[1]->is_constant()) ||
           (is_variance(expr->args[1]) && expr->args[0]->is_constant())))
        return true;
      return std::any_of(expr->args.begin(), expr->args.end(), std::ref(in));
    };
    return std::any_of(kernel_.body.begin(), kernel_.body.end(),
                       [&](const Statement& s) { return in(s.value); });
  }

  void place(Task task) {
    const Statement& s = *task.statement;
    std::unordered_set<ExprRef> seen;
    std::vector<int> loads;
    std::set<int> used;  // scans
    Time earliest{0, s.inner ? 0 : 1};
    const auto not_before = [&](Time t) {
      if (s.inner && t.after == 1) t = {t.sweep + 1, 0};
      if (!s.inner) t.after = 1;
      earliest = std::max(earliest, t);
    };
    std::function<void(ExprRef)> visit = [&](ExprRef expr) {
      if (!seen.insert(expr).second) return;
      if (expr->kind == ExprKind::kReduced) {
        // Complete after its loop.
        not_before({ready_.at(expr->ival), 1});
      }
      if (expr->kind == ExprKind::kLoad) loads.push_back(static_cast<int>(expr->ival));
      if (expr->kind == ExprKind::kScanned) {
        used.insert(static_cast<int>(expr->ival));
        visit(scan(expr->ival).statement->value);
      }
      for (ExprRef arg : expr->args) visit(arg);
    };
    visit(s.value);
    if (s.index) visit(s.index);
    if (task.role == Task::Role::kSquares) not_before({ready_.at(s.reduced), 1});
    for (int buffer : loads)
      if (buffers_[buffer].is_stored) not_before(buffers_[buffer].stored);
    if (task.role == Task::Role::kStore) {
      const Buffer& target = buffers_[s.buffer];
      if (target.is_loaded) not_before(target.loaded);
      if (target.is_stored) not_before(target.stored);
    }
    if (sweeps_.size() <= earliest.sweep) sweeps_.resize(earliest.sweep + 1);
    Sweep& sweep = sweeps_[earliest.sweep];
    if (task.role == Task::Role::kScan) used.insert(s.reduced);
    for (Scan& scan : scans_)
      if (used.contains(scan.statement->reduced) && scan.sweeps.insert(earliest.sweep).second)
        sweep.inner.push_back({Task::Role::kScan, scan.statement});
    if (task.role != Task::Role::kScan) (s.inner ? sweep.inner : sweep.outer).push_back(task);
    if (task.is_reduction()) ready_[s.reduced] = earliest.sweep;
    for (int buffer : loads) note(buffers_[buffer].is_loaded, buffers_[buffer].loaded, earliest);
    if (task.role == Task::Role::kStore)
      note(buffers_[s.buffer].is_stored, buffers_[s.buffer].stored, earliest);
  }

  Scan& scan(int64_t number) {
    return *std::find_if(scans_.begin(), scans_.end(),
                         [&](const Scan& s) { return s.statement->reduced == number; });
  }

  static void note(bool& known, Time& last, Time now) {
    last = known ? std::max(last, now) : now;
    known = true;
  }

  const Kernel& kernel_;
  std::vector<Sweep> sweeps_;
  std::vector<Scan> scans_;
  std::unordered_map<int64_t, size_t> ready_;
  std::unordered_map<int, Buffer> buffers_;
};

}  // namespace

std::vector<Sweep> plan_sweeps(const Kernel& kernel) { return SweepPlanner(kernel).run(); }

}  // namespace braze::codegen::cpp
