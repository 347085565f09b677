#include <algorithm>
#include <map>
#include <set>

#include "plan/binder.h"
#include "sym/symbols.h"

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

template <class SomeLaunch, class Visit>
void for_each_int_of_launch(SomeLaunch& launch, const Visit& visit) {
  if (auto* chunks = std::get_if<Chunks>(&launch)) {
    visit(chunks->extent);
    visit(chunks->grain);
  } else {
    auto& grid = std::get<Grid>(launch);
    for (auto& count : grid.blocks) visit(count);
    for (auto& count : grid.threads) visit(count);
    visit(grid.shared_bytes);
  }
}

// Every expression of the function, for reading or for writing.
template <class SomeFunction, class Visit>
void for_each_int_of_function(SomeFunction& function, const Visit& visit) {
  for (auto& slot : function.slots) for_each_int_of_type(slot.type, visit);
  for (auto& kernel : function.kernels)
    for (auto& size : kernel.sizes) visit(size);
  for (auto& step : function.steps) {
    if (auto* kernel = std::get_if<KernelStep>(&step)) {
      for_each_int_of_launch(kernel->launch, visit);
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

constexpr int64_t kMostElements = int64_t{1} << 56;  // bytes fit an int64

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

Binder::Binder(const Function& function) : function_(function) {
  std::set<const Expr*, ById> exprs;
  for_each_int_of_function(function, [&](Int value) { collect(value, exprs); });
  for (Int limit : function.limits) collect(limit, exprs);
  exprs_.assign(exprs.begin(), exprs.end());
  index_of_id_.assign(exprs_.empty() ? 0 : exprs_.back()->id + 1, -1);
  for (size_t i = 0; i < exprs_.size(); ++i) index_of_id_[exprs_[i]->id] = static_cast<int32_t>(i);
  find_types();
  find_places();
  if (function.is_symbolic()) find_groups();
}

Binder::Place Binder::place(Int value) const {
  if (value.is_constant()) return {.constant = value.constant()};
  return {.value = index_of_id_[value.expr()->id]};
}

void Binder::find_types() {
  std::map<std::vector<Place>, int32_t> known;
  for (const Slot& slot : function_.slots) {
    // A function without symbols has its offsets in bytes.
    const bool symbolic = function_.is_symbolic();
    offset_.push_back(symbolic ? place(slot.type.offset) : Place{.constant = slot.byte_offset});
    std::vector<Place> dims;
    for (Int size : slot.type.sizes) dims.push_back(place(size));
    for (Int stride : slot.type.strides) dims.push_back(place(stride));
    std::vector<Place> key = dims;
    key.push_back({.constant = static_cast<int64_t>(slot.type.dtype)});
    const auto [type, fresh] = known.emplace(std::move(key), static_cast<int32_t>(known.size()));
    type_of_.push_back(type->second);
    if (!fresh) continue;
    first_dim_.push_back(dims_.size());
    rank_.push_back(slot.type.sizes.size());
    element_.push_back(graph::size_of(slot.type.dtype));
    offset_unit_.push_back(symbolic ? element_.back() : 1);
    dims_.insert(dims_.end(), dims.begin(), dims.end());
  }
}

void Binder::find_places() {
  for (const KernelSignature& kernel : function_.kernels) {
    first_kernel_size_.push_back(kernel_sizes_.size());
    for (Int size : kernel.sizes) kernel_sizes_.push_back(place(size));
  }
  for (const Step& step : function_.steps) {
    work_.emplace_back();
    auto* kernel = std::get_if<KernelStep>(&step);
    if (!kernel) continue;
    if (auto* chunks = std::get_if<Chunks>(&kernel->launch)) {
      work_.back() = {place(chunks->extent), place(chunks->grain)};
    } else {
      const Grid& grid = std::get<Grid>(kernel->launch);
      launches_.push_back({place(grid.blocks[0]), place(grid.blocks[1]), place(grid.blocks[2]),
                           place(grid.threads[0]), place(grid.threads[1]), place(grid.threads[2]),
                           place(grid.shared_bytes)});
    }
  }
  for (Int limit : function_.limits) limits_.push_back(place(limit));
}

// Uses of a slot are uses of the memory that it is a view of.
void Binder::find_groups() {
  constexpr int kNever = -1;
  const size_t count = function_.slots.size();
  std::vector<int> begin(count, kNever), end(count, kNever);
  auto use = [&](SlotId slot, int step) {
    for (; slot >= 0; slot = function_.slots[slot].base) {
      if (begin[slot] == kNever) begin[slot] = step;
      end[slot] = step;
    }
  };
  for (size_t i = 0; i < function_.steps.size(); ++i) {
    if (std::holds_alternative<FreeStep>(function_.steps[i])) continue;
    for (SlotId slot : slots_of(function_.steps[i])) use(slot, static_cast<int>(i));
  }
  std::vector<int> group_of(count, kNever);
  for (size_t i = 0; i < count; ++i) {
    if (function_.slots[i].kind != SlotKind::kArena || begin[i] == kNever) continue;
    SlotId place = static_cast<SlotId>(i);
    while (function_.slots[place].place >= 0) place = function_.slots[place].place;
    if (group_of[place] == kNever) {
      group_of[place] = static_cast<int>(groups_.size());
      groups_.push_back({.slots = {}, .begin = begin[i], .end = end[i]});
    }
    Group& group = groups_[group_of[place]];
    group.slots.push_back(static_cast<SlotId>(i));
    if (std::find(group.types.begin(), group.types.end(), type_of_[i]) == group.types.end())
      group.types.push_back(type_of_[i]);
    group.begin = std::min(group.begin, begin[i]);
    group.end = std::max(group.end, end[i]);
  }
}

void Binder::evaluate(std::span<const int64_t> symbols, Numbers& numbers) const {
  BRAZE_CHECK(symbols.size() == function_.symbols.size(), "one value for each symbol");
  for (size_t i = 0; i < symbols.size(); ++i)
    if (symbols[i] < function_.symbols[i].low || symbols[i] > function_.symbols[i].high)
      throw Unbindable();
  numbers.values.resize(exprs_.size());
  const auto operand = [&](Int value) {
    return value.is_constant() ? value.constant() : numbers.values[index_of_id_[value.expr()->id]];
  };
  for (size_t i = 0; i < exprs_.size(); ++i)
    numbers.values[i] = compute(*exprs_[i], symbols, operand);
  for (const Place& limit : limits_) {
    const int64_t number = limit.in(numbers);
    if (number < INT32_MIN || number > INT32_MAX) throw Unbindable();
  }
}

void Binder::measure_types(Numbers& numbers) const {
  numbers.dims.reserve(dims_.size());
  for (const Place& dim : dims_) numbers.dims.push_back(dim.in(numbers));
  numbers.type_bytes.reserve(rank_.size());
  for (size_t type = 0; type < rank_.size(); ++type) {
    const int64_t* sizes = numbers.dims.data() + first_dim_[type];
    const int64_t* strides = sizes + rank_[type];
    int64_t last = 0;
    bool empty = false;
    for (size_t d = 0; d < rank_[type]; ++d) {
      int64_t span = 0;
      if (sizes[d] < 0 || __builtin_mul_overflow(sizes[d] - 1, strides[d], &span) ||
          __builtin_add_overflow(last, span, &last))
        throw Unbindable();
      empty |= sizes[d] == 0;
    }
    if (last >= kMostElements) throw Unbindable();
    numbers.type_bytes.push_back(empty ? 0 : (last + 1) * element_[type]);
  }
}

// What no CUDA device launches is outside of what a function is for.
void Binder::evaluate_launches(Numbers& numbers) const {
  constexpr int64_t kMostBlocks[] = {INT32_MAX, 65535, 65535};
  constexpr int64_t kMostThreads = 1024;
  for (const std::array<Place, 7>& places : launches_) {
    std::array<int64_t, 7> value;
    for (size_t i = 0; i < value.size(); ++i) value[i] = places[i].in(numbers);
    for (size_t i = 0; i < 3; ++i)
      if (value[i] < 0 || value[i] > kMostBlocks[i] || value[3 + i] < 1 ||
          value[3 + i] > kMostThreads)
        throw Unbindable();
    if (value[3] * value[4] * value[5] > kMostThreads || value[6] < 0 || value[6] > INT32_MAX)
      throw Unbindable();
    const auto number = [&](size_t i) { return static_cast<uint32_t>(value[i]); };
    numbers.launches.push_back(
        {{number(0), number(1), number(2)}, {number(3), number(4), number(5)}, number(6)});
  }
}

std::shared_ptr<const Layout> Binder::lay_out_groups(const Numbers& numbers,
                                                     std::shared_ptr<const Layout> known,
                                                     bool room) const {
  std::vector<int64_t> bytes(groups_.size());
  bool fits = known != nullptr;
  for (size_t i = 0; i < groups_.size(); ++i) {
    for (int32_t type : groups_[i].types) bytes[i] = std::max(bytes[i], numbers.type_bytes[type]);
    fits = fits && bytes[i] <= known->group_bytes[i];
  }
  if (fits) return known;
  std::vector<ArenaBlock> blocks;
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (room) bytes[i] += bytes[i] / 4;
    if (known) bytes[i] = std::max(bytes[i], known->group_bytes[i]);
    blocks.push_back({.bytes = bytes[i], .begin = groups_[i].begin, .end = groups_[i].end});
  }
  auto layout = std::make_shared<Layout>();
  layout->arena_bytes = lay_out(blocks);
  layout->group_bytes = std::move(bytes);
  layout->offset.resize(function_.slots.size());
  for (size_t i = 0; i < blocks.size(); ++i)
    for (SlotId slot : groups_[i].slots) layout->offset[slot] = blocks[i].offset;
  return layout;
}

std::shared_ptr<const Layout> Binder::layout_of_function() const {
  auto layout = std::make_shared<Layout>();
  for (const Slot& slot : function_.slots) layout->offset.push_back(slot.byte_offset);
  layout->arena_bytes = function_.arena_bytes;
  return layout;
}

Numbers Binder::numbers(std::span<const int64_t> symbols, std::shared_ptr<const Layout> known,
                        bool room) const {
  Numbers result;
  evaluate(symbols, result);
  measure_types(result);
  result.kernel_sizes.reserve(kernel_sizes_.size());
  for (const Place& size : kernel_sizes_) result.kernel_sizes.push_back(size.in(result));
  result.work.reserve(work_.size());
  for (const auto& [extent, grain] : work_)
    result.work.push_back({extent.in(result), grain.in(result)});
  evaluate_launches(result);
  result.layout = function_.is_symbolic() ? lay_out_groups(result, std::move(known), room)
                                          : layout_of_function();
  return result;
}

int64_t Binder::number(Int value, const Numbers& numbers) const {
  return value.is_constant() ? value.constant() : numbers.values[index_of_id_[value.expr()->id]];
}

Function Binder::bind(std::span<const int64_t> symbols) const {
  const Numbers numbers = this->numbers(symbols);
  Function bound{.on_failure = function_.on_failure,
                 .slots = function_.slots,
                 .input_count = function_.input_count,
                 .device = function_.device,
                 .arena_bytes = numbers.layout->arena_bytes,
                 .steps = function_.steps,
                 .outputs = function_.outputs,
                 .kernels = function_.kernels};
  for_each_int_of_function(bound, [&](Int& value) { value = number(value, numbers); });
  for (size_t i = 0; i < bound.slots.size() && function_.is_symbolic(); ++i) {
    Slot& slot = bound.slots[i];
    slot.place = -1;
    if (slot.kind == SlotKind::kArena || slot.kind == SlotKind::kOutput)
      slot.bytes = numbers.type_bytes[type_of_[i]];
    if (slot.kind == SlotKind::kArena) slot.byte_offset = numbers.layout->offset[i];
    if (slot.kind == SlotKind::kView)
      slot.byte_offset = view_bytes(static_cast<SlotId>(i), numbers);
  }
  return bound;
}

std::vector<bool> used_symbols(const Function& function) {
  std::set<const Expr*, ById> exprs;
  for_each_int_of_function(function, [&](Int value) { collect(value, exprs); });
  for (Int limit : function.limits) collect(limit, exprs);
  std::vector<bool> used(function.symbols.size(), false);
  for (const Expr* expr : exprs)
    if (expr->kind == sym::ExprKind::kSymbol) used[expr->symbol] = true;
  return used;
}

Function bind(const Function& function, std::span<const int64_t> values) {
  return Binder(function).bind(values);
}

bool conditions_hold(const Function& function, std::span<const int64_t> values) {
  bool in_range = true;
  const auto check = [&](int symbol) {
    in_range = in_range && values[symbol] >= function.symbols[symbol].low &&
               values[symbol] <= function.symbols[symbol].high;
  };
  for (const sym::Condition& condition : function.conditions) {
    sym::for_each_symbol(condition, check);
    if (!in_range || !sym::holds(condition, values)) return false;
  }
  return true;
}

std::vector<int64_t> hints(const Function& function) {
  std::vector<int64_t> values;
  for (const Symbol& symbol : function.symbols) values.push_back(symbol.hint);
  return values;
}

}  // namespace braze::plan
