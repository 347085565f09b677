#include "trace/metadata.h"

#include <c10/core/DefaultDtype.h>

#include <map>

#include "sym/symbols.h"
#include "trace/fake_tensor.h"
#include "trace/sym_node.h"
#include "trace/trace_state.h"

namespace braze::trace {

using sym::Int;
using sym::Relation;

GuardedSizes::GuardedSizes() {
  TraceState* state = current_state();
  shapes_ = state ? &state->shapes : nullptr;
}

bool GuardedSizes::asserts_equal(Int a, Int b) { return shapes_->expect(Relation::kEqual, a, b); }

bool GuardedSizes::asserts_at_least(Int a, int64_t least) {
  return shapes_->expect(Relation::kNotLess, a, least);
}

bool GuardedSizes::is_surely_equal(Int a, Int b) {
  try {
    return shapes_->guard_eq(a, b);
  } catch (const sym::Undecidable&) {
    return false;
  }
}

// Strides are products of sizes, so that the extremes tell; where they differ the question stays
// open.
bool GuardedSizes::is_less_for_most_sizes(Int a, Int b) {
  try {
    return shapes_->guard_lt(a, b);
  } catch (const sym::Undecidable&) {
    std::map<int, Int> symbols;
    for (const Int value : {a, b})
      sym::for_each_symbol(value, [&](int number) { symbols.emplace(number, Int()); });
    constexpr size_t kMost = 4;
    if (symbols.size() > kMost) throw;
    const sym::ExprArena& arena = *(a.is_constant() ? b : a).expr()->arena;
    std::optional<bool> answer;
    for (unsigned corner = 0; corner < 1u << symbols.size(); ++corner) {
      std::vector<Int> values(shapes_->symbol_count());
      unsigned bit = 0;
      for (const auto& [number, unused] : symbols) {
        const int64_t extreme = corner >> bit++ & 1 ? int64_t{1} << 15 : 2;
        values[number] =
            shapes_->is_unbacked(number) ? Int(extreme) : Int(arena.symbol_expr(number));
      }
      const Int left = sym::replace(a, values), right = sym::replace(b, values);
      if (!left.is_constant() || !right.is_constant()) throw;
      const bool is_less = left.constant() < right.constant();
      if (answer && *answer != is_less) throw;
      answer = is_less;
    }
    return *answer;
  }
}

Int GuardedSizes::span_of(Int size) {
  return shapes_->mentions_unbacked(size) ? sym::max(size, 1) : size;
}

graph::DType default_dtype() {
  return dtype_of(c10::typeMetaToScalarType(c10::get_default_dtype()));
}

void put_results(const OperatorInfo& info, torch::jit::Stack& stack, size_t begin,
                 std::span<const graph::Inferred> results) {
  const auto tensor_at = [&](size_t i) {
    return stack[begin + i].isTensor() ? stack[begin + i].toTensor() : at::Tensor();
  };
  const at::Tensor base = tensor_at(0);
  // The result is the argument that is written to: the first of in-place ops, `out` of others; what
  // rrelu writes to is its noise, which it does not return.
  const std::vector<int>& alias = info.op->effects.results_alias;
  const bool writes = !info.mutates.empty() &&
                      (info.mutates[0] == 0 || (!alias.empty() && alias[0] == info.mutates[0]));
  const at::Tensor written = writes ? tensor_at(info.mutates[0]) : at::Tensor();
  const auto made = [&](const graph::Inferred& result) {
    if (result.undefined) return at::Tensor();
    if (writes) return written;
    at::Tensor fake = info.op->view ? make_fake_view(base, result.type)
                                    : make_fake(result.type, result.row_major);
    if (info.op->view && result.row_major) as_fake(fake)->assume_row_major();
    return fake;
  };
  stack.resize(begin);
  if (info.returns_list) {
    c10::List<at::Tensor> list;
    list.reserve(results.size());
    for (const graph::Inferred& result : results) list.push_back(made(result));
    stack.emplace_back(std::move(list));
    return;
  }
  for (const graph::Inferred& result : results) stack.emplace_back(made(result));
}

bool infer_nested(const OperatorInfo& info, torch::jit::Stack& stack) {
  const size_t begin = stack.size() - info.arguments.size();
  std::deque<graph::Value> values;
  const auto arguments = arguments_of_nested(info, stack, begin, values);
  if (!arguments) return false;
  std::vector<graph::Inferred> results;
  GuardedSizes sizes;
  if (!info.infer->rule(graph::InferCall(*arguments, sizes, results, default_dtype())))
    return false;
  put_results(info, stack, begin, results);
  return true;
}

}  // namespace braze::trace
