// Inputs with symbolic sizes, and what is left of the symbols when the trace is over.
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <numeric>

#include "pytorch/nodes.h"
#include "sym/symbols.h"
#include "trace/sym_node.h"
#include "trace/trace_state.h"

namespace braze::trace {
namespace {

using sym::Int;

// As strides count it: a dimension without elements is as wide as one of size 1.
Int extent(const Int& size, const sym::ShapeEnv& shapes) {
  return shapes.mentions_unbacked(size) ? sym::max(size, 1) : size;
}

// Row-major strides, for sizes of which nothing is known; else as below.
sym::Dims strides_without_sizes(const sym::Dims& sizes, const sym::ShapeEnv& shapes) {
  sym::Dims result(sizes.size());
  Int stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    result[i] = stride;
    stride = stride * extent(sizes[i], shapes);
  }
  return result;
}

// Each stride as the product of a size and a stride further inside where the numbers agree, as is
// so for dense tensors in any order of dimensions; else the number.
sym::Dims strides_of(const at::Tensor& real, const sym::Dims& sizes, const sym::ShapeEnv& shapes) {
  const c10::IntArrayRef strides = real.strides();
  std::vector<size_t> order(sizes.size());
  std::iota(order.rbegin(), order.rend(), 0);  // inner dimensions first among equal strides
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t i, size_t j) { return strides[i] < strides[j]; });
  std::map<int64_t, Int> reached{{1, 1}};
  sym::Dims result(sizes.size());
  for (size_t i : order) {
    auto found = reached.find(strides[i]);
    result[i] = found == reached.end() ? Int(strides[i]) : found->second;
    reached.emplace(strides[i] * real.size(static_cast<int64_t>(i)),
                    result[i] * extent(sizes[i], shapes));
  }
  return result;
}

std::vector<c10::SymInt> to_symints(const sym::Dims& dims, sym::ShapeEnv& shapes) {
  std::vector<c10::SymInt> result;
  result.reserve(dims.size());
  for (const Int& dim : dims) result.push_back(to_symint(dim, shapes));
  return result;
}

bool is_symbolic(const sym::Dims& dims) {
  return std::any_of(dims.begin(), dims.end(), [](Int dim) { return !dim.is_constant(); });
}

bool depends_on(const sym::Condition& condition, const std::vector<int>& symbols) {
  bool found = false;
  sym::for_each_symbol(condition, [&](int symbol) {
    found = found || std::find(symbols.begin(), symbols.end(), symbol) != symbols.end();
  });
  return found;
}

void settle(graph::Graph& graph, std::span<const Int> values) {
  sym::Replacement settled(values);
  auto put = [&](sym::Dims& dims) {
    for (Int& dim : dims) dim = settled(dim);
  };
  auto settle_value = [&](graph::Value* value) {
    const graph::TensorType& old = value->type();
    if (!is_symbolic(old.sizes) && !is_symbolic(old.strides) && old.offset.is_constant()) return;
    graph::TensorType type = old;
    put(type.sizes);
    put(type.strides);
    type.offset = settled(type.offset);
    value->set_type(std::move(type));
  };
  for (const graph::Input& input : graph.inputs()) settle_value(input.value);
  for (const auto& node : graph.nodes()) {
    for (int i = 0; i < static_cast<int>(node->args().size()); ++i) {
      if (auto* number = std::get_if<Int>(&node->args()[i])) {
        if (!number->is_constant()) node->set_arg(i, settled(*number));
      } else if (auto* list = std::get_if<sym::Dims>(&node->args()[i])) {
        if (!is_symbolic(*list)) continue;
        sym::Dims dims = *list;
        put(dims);
        node->set_arg(i, std::move(dims));
      }
    }
    for (graph::Value* result : node->results())
      if (result) settle_value(result);
  }
}

// The graph input and dimension whose size or stride is this symbol. Tangents come later than the
// call.
std::optional<graph::SymbolBinding> find_binding(const graph::Graph& graph, Int symbol) {
  using Kind = graph::SymbolBinding::Kind;
  for (const Kind kind : {Kind::kSize, Kind::kStride}) {
    for (const graph::Input& input : graph.inputs()) {
      if (input.kind == graph::InputKind::kTangent) continue;
      const graph::TensorType& type = input.value->type();
      const sym::Dims& dims = kind == Kind::kSize ? type.sizes : type.strides;
      auto found = std::find(dims.begin(), dims.end(), symbol);
      if (found != dims.end())
        return graph::SymbolBinding{kind, input.value, static_cast<int>(found - dims.begin())};
    }
  }
  return std::nullopt;
}

}  // namespace

sym::Int TraceState::size_symbol(int64_t size, const DynamicDim& dim) {
  constexpr int64_t kHint = 64;  // for sizes that say nothing about the usual ones
  if (dim.unbacked)
    return shapes.unbacked("u" + std::to_string(shapes.symbol_count()), size < 2 ? kHint : size,
                           dim.range, size);
  if (size < 2) return size;
  auto [place, fresh] = ducks_.try_emplace({size, dim.previous});
  if (fresh)
    place->second =
        shapes.symbol("s" + std::to_string(shapes.symbol_count()), size, sym::Range{2, INT64_MAX});
  if (size < dim.range.low || size > dim.range.high) return place->second;
  if (dim.range.low > 2) shapes.guard_lt(place->second, dim.range.low);
  if (dim.range.high != INT64_MAX) shapes.guard_lt(dim.range.high, place->second);
  return place->second;
}

at::Tensor TraceState::symbolic_input(const at::Tensor& real, graph::InputKind kind,
                                      std::string name, std::span<const DynamicDim> dims,
                                      const std::set<int>& strides) {
  SymbolicInput input{.tensor = real};
  for (int64_t size : real.sizes()) input.sizes.push_back(size);
  for (const DynamicDim& dim : dims)
    input.sizes[dim.dim] = size_symbol(input.sizes[dim.dim].constant(), dim);
  const bool unbacked =
      std::any_of(dims.begin(), dims.end(), [](auto& dim) { return dim.unbacked; });
  input.strides = unbacked && real.is_contiguous() ? strides_without_sizes(input.sizes, shapes)
                                                   : strides_of(real, input.sizes, shapes);
  for (const int dim : strides) {
    if (dim >= real.dim()) continue;  // seen of a tensor with more of them
    Int& stride = input.strides[dim];
    if (stride.is_constant() && stride.constant() >= 2)
      stride = shapes.symbol("s" + std::to_string(shapes.symbol_count()), stride.constant(),
                             sym::Range{2, INT64_MAX});
  }
  at::Tensor fake = make_fake_input(storage_of_real(real), to_symints(input.sizes, shapes),
                                    to_symints(input.strides, shapes), real.storage_offset(),
                                    real.scalar_type(), real.device());
  stand_for(fake, real, kind, std::move(name));
  take_history(fake, real);
  symbolic_inputs_.push_back(std::move(input));
  return fake;
}

// A leaf, or a node of the fake's own, which has its symbolic sizes: autograd holds gradients
// against them. Walks end there.
void TraceState::take_history(const at::Tensor& fake, const at::Tensor& real) {
  if (!real.requires_grad()) return;
  if (real.is_leaf())
    fake.set_requires_grad(true);
  else
    pytorch::give_identity(fake, real);
}

torch::autograd::Edge TraceState::gradient_edge(const at::Tensor& real) const {
  const auto found = outside_.find(real.unsafeGetTensorImpl());
  const bool stands_in = found != outside_.end() && found->second.fake.defined() &&
                         as_fake(found->second.fake)->stands_for_input &&
                         found->second.fake.requires_grad();
  return torch::autograd::impl::gradient_edge(stands_in ? found->second.fake : real);
}

at::Tensor TraceState::stand_in(const at::Tensor& real, graph::InputKind kind, std::string name) {
  at::Tensor fake = make_fake_input(storage_of_real(real), c10::fromIntArrayRefSlow(real.sizes()),
                                    c10::fromIntArrayRefSlow(real.strides()), real.storage_offset(),
                                    real.scalar_type(), real.device());
  stand_for(fake, real, kind, std::move(name));
  return fake;
}

void TraceState::stand_for(const at::Tensor& fake, const at::Tensor& real, graph::InputKind kind,
                           std::string name) {
  c10::TensorImpl* impl = real.unsafeGetTensorImpl();
  as_fake(fake)->stands_for_input = true;
  as_fake(fake)->serial = serial_;
  as_fake(fake)->set_inference(real.is_inference());
  stood_for_.emplace(as_fake(fake), impl);
  outside_.insert_or_assign(impl, OutsideTensor{real, kind, std::move(name), fake});
  declared_storages_.emplace(impl->unsafe_storage().unsafeGetStorageImpl(), impl);
}

sym::Int TraceState::symbolic_integer(int64_t value) {
  const int number = shapes.symbol_count();
  scalars_.push_back(number);
  return shapes.symbol("s" + std::to_string(number), value, sym::Range{});
}

sym::Int TraceState::data_symbol(sym::Range range) {
  // Large enough for kernels to be shaped for much work.
  constexpr int64_t kHint = 4096;
  const int64_t hint = std::clamp<int64_t>(kHint, range.low, range.high);
  from_data_.insert(shapes.symbol_count());
  return shapes.unbacked("u" + std::to_string(shapes.symbol_count()), hint, range);
}

void TraceState::settle_symbols(Trace& trace) {
  if (shapes.symbol_count() == 0) return;
  sym::ShapeEnv::Settled settled = shapes.settle();
  settle(trace.graph, settled.values);
  std::vector<graph::SymbolBinding> bindings;
  int scalars = 0;
  for (int i = 0; i < settled.arena->symbol_count(); ++i) {
    std::optional<graph::SymbolBinding> binding;
    if (from_data_.contains(settled.kept[i]))
      trace.data_symbols.push_back(i);
    else
      binding = find_binding(trace.graph, Int(settled.arena->symbol_expr(i)));
    if (!binding)
      binding = graph::SymbolBinding{graph::SymbolBinding::Kind::kScalar, nullptr, scalars++};
    bindings.push_back(*binding);
  }
  trace.graph.set_symbols(settled.arena, std::move(bindings));
  trace.arena = settled.arena;
  for (SymbolicInput& input : symbolic_inputs_) {
    for (sym::Dims* dims : {&input.sizes, &input.strides})
      for (Int& dim : *dims) dim = sym::replace(dim, settled.values);
  }
  trace.symbolic_inputs = std::move(symbolic_inputs_);
  for (int symbol : scalars_) trace.integers.push_back(settled.values[symbol]);
  trace.conditions = std::move(settled.conditions);
  std::vector<sym::Condition> beside_ranges(trace.conditions.begin() + settled.range_count,
                                            trace.conditions.end());
  // What is asserted of the call's own sizes is a guard.
  for (sym::Condition& assertion : settled.assertions) {
    const bool of_data = depends_on(assertion, trace.data_symbols);
    if (!of_data) beside_ranges.push_back(assertion);
    (of_data ? trace.assertions : trace.conditions).push_back(std::move(assertion));
  }
  trace.graph.set_conditions(std::move(beside_ranges));
  trace.values = std::move(settled.values);
}

}  // namespace braze::trace
