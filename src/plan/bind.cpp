#include <algorithm>
#include <set>

#include "base/arena_layout.h"
#include "plan/plan.h"

namespace braze::plan {
namespace {

using sym::Expr;
using sym::Int;

// Calls `visit(Int&)` for every expression of an argument.
template <class Argument, class Visit>
void for_each_int(Argument& argument, const Visit& visit) {
  if (auto* value = std::get_if<Int>(&argument)) visit(*value);
  if (auto* list = std::get_if<std::vector<Int>>(&argument))
    for (auto& value : *list) visit(value);
}

template <class Type, class Visit>
void for_each_int_of_type(Type& type, const Visit& visit) {
  for (auto& size : type.sizes) visit(size);
  for (auto& stride : type.strides) visit(stride);
  visit(type.offset);
}

// Every expression of the plan, for reading or for writing.
template <class SomePlan, class Visit>
void for_each_int_of_plan(SomePlan& plan, const Visit& visit) {
  for (auto& slot : plan.slots) for_each_int_of_type(slot.type, visit);
  for (auto& kernel : plan.kernels)
    for (auto& size : kernel.sizes) visit(size);
  for (auto& step : plan.steps) {
    if (auto* kernel = std::get_if<KernelStep>(&step)) {
      visit(kernel->extent);
      visit(kernel->grain);
    } else if (auto* call = std::get_if<ExternStep>(&step)) {
      for (auto& argument : call->args) for_each_int(argument, visit);
    }
  }
}

struct ById {
  bool operator()(const Expr* a, const Expr* b) const { return a->id < b->id; }
};

void collect(Int value, std::set<const Expr*, ById>& exprs) {
  if (value.is_constant() || !exprs.insert(value.expr()).second) return;
  for (const auto& [term, coefficient] : value.expr()->terms) collect(Int(term), exprs);
  collect(value.expr()->a, exprs);
  collect(value.expr()->b, exprs);
}

// The values of expressions by id.
class Values {
 public:
  explicit Values(std::vector<int64_t> by_id) : by_id_(std::move(by_id)) {}
  int64_t operator()(Int value) const {
    return value.is_constant() ? value.constant() : by_id_[value.expr()->id];
  }

 private:
  std::vector<int64_t> by_id_;
};

// What divides by zero belongs to an empty tensor, and is not used.
int64_t quotient(int64_t a, int64_t b) { return b == 0 ? 0 : sym::floordiv(a, b); }

template <class Operand>
int64_t compute(const Expr& e, std::span<const int64_t> symbols, const Operand& operand) {
  switch (e.kind) {
    case sym::ExprKind::kSymbol:
      return symbols[e.symbol];
    case sym::ExprKind::kSum: {
      int64_t sum = e.constant;
      for (const auto& [term, coefficient] : e.terms) {
        int64_t product = 0;
        if (__builtin_mul_overflow(coefficient, operand(Int(term)), &product) ||
            __builtin_add_overflow(sum, product, &sum))
          throw Unbindable();
      }
      return sum;
    }
    case sym::ExprKind::kProduct: {
      int64_t product = 1;
      for (const auto& [factor, one] : e.terms)
        if (__builtin_mul_overflow(product, operand(Int(factor)), &product)) throw Unbindable();
      return product;
    }
    case sym::ExprKind::kFloorDiv:
      return quotient(operand(e.a), operand(e.b));
    case sym::ExprKind::kMod:
      return operand(e.a) - quotient(operand(e.a), operand(e.b)) * operand(e.b);
    case sym::ExprKind::kMin:
      return std::min(operand(e.a), operand(e.b));
    case sym::ExprKind::kMax:
      return std::max(operand(e.a), operand(e.b));
  }
  BRAZE_UNREACHABLE("expression kind");
}

}  // namespace

Binder::Binder(const Plan& plan) : plan_(plan) {
  std::set<const Expr*, ById> exprs;
  for_each_int_of_plan(plan, [&](Int value) { collect(value, exprs); });
  for (Int limit : plan.limits) collect(limit, exprs);
  exprs_.assign(exprs.begin(), exprs.end());
  find_groups();
}

// Uses of a slot are uses of the memory that it is a view of.
void Binder::find_groups() {
  constexpr int kNever = -1;
  const size_t count = plan_.slots.size();
  std::vector<int> begin(count, kNever), end(count, kNever);
  auto use = [&](SlotId slot, int step) {
    for (; slot >= 0; slot = plan_.slots[slot].base) {
      if (begin[slot] == kNever) begin[slot] = step;
      end[slot] = step;
    }
  };
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    const int step = static_cast<int>(i);
    if (auto* kernel = std::get_if<KernelStep>(&plan_.steps[i])) {
      for (SlotId slot : kernel->args) use(slot, step);
    } else if (auto* call = std::get_if<ExternStep>(&plan_.steps[i])) {
      for (const Argument& argument : call->args) {
        if (auto* slot = std::get_if<SlotId>(&argument)) use(*slot, step);
        if (auto* list = std::get_if<std::vector<SlotId>>(&argument))
          for (SlotId slot : *list) use(slot, step);
        if (auto* list = std::get_if<graph::OptionalRefs<SlotId>>(&argument))
          for (const auto& slot : list->refs)
            if (slot) use(*slot, step);
      }
      for (SlotId slot : call->results)
        if (slot >= 0) use(slot, step);
    } else if (auto* copy = std::get_if<CopyStep>(&plan_.steps[i])) {
      use(copy->target, step);
      use(copy->source, step);
    }
  }
  std::vector<int> group_of(count, kNever);
  for (size_t i = 0; i < count; ++i) {
    if (plan_.slots[i].kind != SlotKind::kArena || begin[i] == kNever) continue;
    SlotId place = static_cast<SlotId>(i);
    while (plan_.slots[place].place >= 0) place = plan_.slots[place].place;
    if (group_of[place] == kNever) {
      group_of[place] = static_cast<int>(groups_.size());
      groups_.push_back({.slots = {}, .begin = begin[i], .end = end[i]});
    }
    Group& group = groups_[group_of[place]];
    group.slots.push_back(static_cast<SlotId>(i));
    group.begin = std::min(group.begin, begin[i]);
    group.end = std::max(group.end, end[i]);
  }
}

std::vector<int64_t> Binder::evaluate(std::span<const int64_t> values) const {
  BRAZE_CHECK(values.size() == plan_.symbols.size(), "one value for each symbol");
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] < plan_.symbols[i].low || values[i] > plan_.symbols[i].high) throw Unbindable();
  std::vector<int64_t> by_id(exprs_.empty() ? 0 : exprs_.back()->id + 1);
  const auto operand = [&](Int value) {
    return value.is_constant() ? value.constant() : by_id[value.expr()->id];
  };
  for (const Expr* expr : exprs_) by_id[expr->id] = compute(*expr, values, operand);
  return by_id;
}

Plan Binder::bind(std::span<const int64_t> symbols) const {
  const Values value(evaluate(symbols));
  for (Int limit : plan_.limits) {
    const int64_t number = value(limit);
    if (number < INT32_MIN || number > INT32_MAX) throw Unbindable();
  }
  Plan bound{.slots = plan_.slots,
             .input_count = plan_.input_count,
             .steps = plan_.steps,
             .outputs = plan_.outputs,
             .kernels = plan_.kernels};
  for_each_int_of_plan(bound, [&](Int& number) {
    if (!number.is_constant()) number = value(number);
  });
  for (Slot& slot : bound.slots) {
    for (Int size : slot.type.sizes)
      if (size.constant() < 0) throw Unbindable();
    if (slot.kind == SlotKind::kArena || slot.kind == SlotKind::kOutput)
      slot.bytes = extent_bytes(slot.type);
    if (slot.kind == SlotKind::kView)
      slot.byte_offset = slot.type.offset.constant() * graph::size_of(slot.type.dtype);
  }
  std::vector<ArenaBlock> blocks;
  for (const Group& group : groups_) {
    ArenaBlock block{.begin = group.begin, .end = group.end};
    for (SlotId slot : group.slots) block.bytes = std::max(block.bytes, bound.slots[slot].bytes);
    blocks.push_back(block);
  }
  bound.arena_bytes = lay_out(blocks);
  for (size_t i = 0; i < blocks.size(); ++i)
    for (SlotId slot : groups_[i].slots) bound.slots[slot].byte_offset = blocks[i].offset;
  for (Slot& slot : bound.slots) slot.place = -1;
  return bound;
}

Plan bind(const Plan& plan, std::span<const int64_t> values) { return Binder(plan).bind(values); }

std::vector<int64_t> hints(const Plan& plan) {
  std::vector<int64_t> values;
  for (const Symbol& symbol : plan.symbols) values.push_back(symbol.hint);
  return values;
}

}  // namespace braze::plan
