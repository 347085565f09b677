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

class Leveller {
 public:
  explicit Leveller(const Kernel& kernel) : kernel_(kernel) {}

  std::vector<Level> run() {
    for (const Statement& s : kernel_.body) {
      switch (s.kind) {
        case Statement::Kind::kStore:
          place({Sweep::Role::kStore, &s});
          break;
        case Statement::Kind::kScan:
          scans_.push_back({&s, {}});
          break;
        case Statement::Kind::kReduce:
          if (s.op == ReduceOp::kWelford) {
            place({Sweep::Role::kMean, &s});
            place({Sweep::Role::kSquares, &s});
          } else {
            place({Sweep::Role::kReduce, &s});
          }
          break;
      }
    }
    for (const Scan& scan : scans_)  // a scan that is needed for its index checks alone
      if (scan.levels.empty()) place({Sweep::Role::kScan, scan.statement});
    return std::move(levels_);
  }

 private:
  // A position in time: level, and whether in its loop (0) or after it (1).
  struct Time {
    size_t level = 0;
    int after = 0;
    friend auto operator<=>(const Time&, const Time&) = default;
  };
  struct Buffer {
    Time loaded, stored;
    bool is_loaded = false, is_stored = false;
  };
  struct Scan {
    const Statement* statement = nullptr;
    std::set<size_t> levels;  // that it is done in
  };

  void place(Sweep sweep) {
    const Statement& s = *sweep.statement;
    std::unordered_set<ExprRef> seen;
    std::vector<int> loads;
    std::set<int> used;  // scans
    Time earliest{0, s.inner ? 0 : 1};
    const auto not_before = [&](Time t) {
      if (s.inner && t.after == 1) t = {t.level + 1, 0};
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
    if (sweep.role == Sweep::Role::kSquares) not_before({ready_.at(s.reduced), 1});
    for (int buffer : loads)
      if (buffers_[buffer].is_stored) not_before(buffers_[buffer].stored);
    if (sweep.role == Sweep::Role::kStore) {
      const Buffer& target = buffers_[s.buffer];
      if (target.is_loaded) not_before(target.loaded);
      if (target.is_stored) not_before(target.stored);
    }
    if (levels_.size() <= earliest.level) levels_.resize(earliest.level + 1);
    Level& level = levels_[earliest.level];
    if (sweep.role == Sweep::Role::kScan) used.insert(s.reduced);
    for (Scan& scan : scans_)
      if (used.contains(scan.statement->reduced) && scan.levels.insert(earliest.level).second)
        level.inner.push_back({Sweep::Role::kScan, scan.statement});
    if (sweep.role != Sweep::Role::kScan) (s.inner ? level.inner : level.outer).push_back(sweep);
    if (sweep.is_reduction()) ready_[s.reduced] = earliest.level;
    for (int buffer : loads) note(buffers_[buffer].is_loaded, buffers_[buffer].loaded, earliest);
    if (sweep.role == Sweep::Role::kStore)
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
  std::vector<Level> levels_;
  std::vector<Scan> scans_;
  std::unordered_map<int64_t, size_t> ready_;
  std::unordered_map<int, Buffer> buffers_;
};

}  // namespace

std::vector<Level> plan_levels(const Kernel& kernel) { return Leveller(kernel).run(); }

}  // namespace braze::codegen::cpp
