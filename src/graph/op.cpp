#include "graph/op.h"

#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/fork_mutex.h"
#include "graph/op_kind.h"
#include "graph/op_name.h"

namespace braze::graph {
namespace {

constexpr OpClass kPointwise = OpClass::kPointwise;
constexpr OpClass kView = OpClass::kView;
constexpr OpClass kFactory = OpClass::kFactory;
constexpr OpClass kIndexing = OpClass::kIndexing;
constexpr OpClass kReduction = OpClass::kReduction;
constexpr OpClass kExtern = OpClass::kExtern;
constexpr OpClass kRandom = OpClass::kRandom;

Effects known_effects(OpClass op_class, unsigned facts) {
  Effects effects;
  effects.random = op_class == OpClass::kRandom;
  if (op_class == OpClass::kView) effects.results_alias = {0};
  if ((facts & kRunningStatistics) != 0) effects.mutates = {3, 4};  // Node::mutated_arguments
  return effects;
}

class OpTable {
 public:
  OpTable() {
    by_kind_.resize(static_cast<size_t>(OpKind::kCount));
    ops_.reserve(2 * by_kind_.size());
    by_name_.reserve(2 * by_kind_.size());
#define X(id, name, op_class, ...) \
  add_known(OpKind::k##id, name, k##op_class __VA_OPT__(, ) __VA_ARGS__);
#include "graph/op_list.inc"
#undef X
  }

  const Op& known(OpKind kind) const { return *by_kind_.at(static_cast<size_t>(kind)); }

  const Op& find_or_add(std::string_view name, Effects effects) {
    std::lock_guard lock(mutex_);
    if (const auto known = by_name_.find(name); known != by_name_.end())
      for (const Op* op : known->second)
        if (op->kind != OpKind::kUnknown || op->effects == effects) return *op;
    Op op;
    op.name = name;
    op.effects = std::move(effects);
    return add_locked(std::move(op));
  }

 private:
  void add_known(OpKind kind, std::string_view name, OpClass op_class, unsigned facts = 0) {
    Op op;
    op.kind = kind;
    op.name = name;
    op.effects = known_effects(op_class, facts);
    op.op_class = op_class;
    op.pointwise = op_class == OpClass::kPointwise;
    op.view = op_class == OpClass::kView;
    op.facts = static_cast<uint8_t>(facts);
    BRAZE_CHECK(!by_name_.contains(op.name), "two lines for ", name, " in op_list.inc");
    by_kind_[static_cast<size_t>(kind)] = &add_locked(std::move(op));
  }

  const Op& add_locked(Op op) {
    ops_.push_back(std::make_unique<Op>(std::move(op)));
    const Op& added = *ops_.back();
    by_name_[added.name].push_back(&added);
    return added;
  }

  ForkMutex mutex_;
  std::vector<std::unique_ptr<Op>> ops_;
  std::vector<const Op*> by_kind_;
  std::unordered_map<std::string_view, std::vector<const Op*>> by_name_;  // keys of ops_
};

OpTable& table() {
  static OpTable* instance = new OpTable;  // lives for the whole process, also during exit
  return *instance;
}

// "The last entry holds for all further results": what follows from the others is left out, so that
// effects that mean the same are equal.
Effects normalised(Effects effects) {
  std::vector<int>& alias = effects.results_alias;
  while (alias.size() > 1 && alias.back() == alias[alias.size() - 2]) alias.pop_back();
  if (alias == std::vector<int>{-1}) alias.clear();
  return effects;
}

}  // namespace

Effects effects_by_name(std::string_view name) {
  Effects effects;
  if (OpName(name).in_place()) effects = {.mutates = {0}, .results_alias = {0}};
  effects.opaque = name.ends_with(".out") || name.ends_with("_out");
  return effects;
}

const Op& find_or_add_op(std::string_view name) {
  return table().find_or_add(name, effects_by_name(name));
}

const Op& find_or_add_op(std::string_view name, Effects effects) {
  return table().find_or_add(name, normalised(std::move(effects)));
}

const Op& op_of(OpKind kind) { return table().known(kind); }

}  // namespace braze::graph
