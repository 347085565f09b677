#include "passes/place_sums.h"

#include <algorithm>
#include <optional>

#include "graph/arguments.h"
#include "graph/emitter.h"
#include "graph/op_kind.h"
#include "passes/aliasing.h"
#include "sym/facts.h"

namespace braze::passes {
namespace {

using graph::DType;
using graph::Emitter;
using graph::Graph;
using graph::Node;
using graph::OpKind;
using graph::TensorType;
using graph::Value;
using sym::Int;

bool is_summed(const TensorType& type) {
  return type.device.type == graph::Device::Type::kCUDA && graph::is_float(type.dtype);
}

// Eager takes indices of a CPU for a tensor of a GPU as well.
bool is_place(const TensorType& type) {
  return type.device.type == graph::Device::Type::kCUDA &&
         (type.dtype == DType::kInt64 || type.dtype == DType::kInt32);
}

bool is_zeros(const Value* value) {
  const Node* node = value->producer();
  return node && node->op().kind == OpKind::kfull && graph::is_number(node->args()[1], 0);
}

bool all_positive(std::span<const Int> sizes) {
  return std::ranges::all_of(sizes, [](const Int& size) { return sym::known_positive(size); });
}

// Whether lists, of three words for each place, are little beside what is summed there: `elements`
// of the result. Of the elements of a wide matrix few are picked, and PyTorch sorts these.
bool has_room_for_lists(const Int& elements, DType dtype) {
  constexpr int64_t kLeastBytes = 4 * 3 * 4;
  return elements.hint() * graph::size_of(dtype) >= kLeastBytes;
}

// grad, indices, rows, the row that gets no gradient, whether to scale by frequency
Value* embedding_gradient(Emitter& emit, const Node& node) {
  Value *grad = graph::tensor_arg(node, 0), *indices = graph::tensor_arg(node, 1);
  const TensorType &type = node.result()->type(), &places = indices->type();
  if (!is_summed(type) || grad->type().dtype != type.dtype || !is_place(places) ||
      graph::bool_arg(node, 4) || grad->type().rank() != places.rank() + 1 ||
      !type.is_contiguous() || !all_positive(grad->type().sizes) || !all_positive(type.sizes) ||
      !has_room_for_lists(type.sizes[1], type.dtype))
    return nullptr;
  const Int count = places.numel();
  Value* source = emit.reshape(emit.contiguous(grad), {count, type.sizes[1]});
  Value* place = emit.reshape(emit.contiguous(indices), {count});
  return emit(OpKind::kbraze_sum_by_place, {source, place, Int(0), type.sizes[0],
                                            graph::sym_arg(node, 3), false, graph::None{}});
}

struct IndexedDims {
  size_t first = 0;
  std::vector<Value*> indices;  // of the dims from `first` on
  sym::Dims sizes;              // that the indices have in common
};

std::optional<IndexedDims> indexed_dims(const Node& node) {
  IndexedDims result;
  const std::vector<Value*> given = graph::tensor_list_arg(node, 1);
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i]) continue;
    if (result.indices.empty()) result.first = i;
    if (i != result.first + result.indices.size() || !is_place(given[i]->type()))
      return std::nullopt;
    result.indices.push_back(given[i]);
  }
  if (result.indices.empty()) return std::nullopt;
  // Those that are broadcast are few, and PyTorch's.
  result.sizes = result.indices[0]->type().sizes;
  for (const Value* index : result.indices)
    if (index->type().sizes != result.sizes) return std::nullopt;
  return result;
}

// The place among all of the indexed dims' elements; -1 where an index is none of its dim.
Value* place_of(Emitter& emit, const IndexedDims& dims, std::span<const Int> sizes) {
  const Int count = product(dims.sizes);
  Value *place = nullptr, *inside = nullptr;
  for (size_t i = 0; i < dims.indices.size(); ++i) {
    Value* index = emit.reshape(emit.contiguous(dims.indices[i]), {count});
    index = emit.cast(index, DType::kInt64);
    Value* negative = emit(OpKind::klt_Scalar, {index, Int(0)});
    index = emit.where(negative, emit.add(index, sizes[i]), index);
    if (dims.indices.size() > 1) {
      Value* fits = emit(OpKind::klogical_and, {emit(OpKind::kge_Scalar, {index, Int(0)}),
                                                emit(OpKind::klt_Scalar, {index, sizes[i]})});
      inside = inside ? emit(OpKind::klogical_and, {inside, fits}) : fits;
    }
    place = place ? emit.add(emit.mul(place, sizes[i]), index) : index;
  }
  if (!inside) return place;
  return emit.where(inside, place,
                    emit.full(graph::make_type(DType::kInt64, {}, place->type().device), Int(-1)));
}

// self, indices, values, whether to accumulate
Value* indexed_sums(Emitter& emit, const Node& node) {
  const TensorType& type = node.result()->type();
  Value* values = graph::tensor_arg(node, 2);
  if (!graph::bool_arg_or(node, 3, false) || !is_summed(type) || !type.is_contiguous() ||
      values->type().dtype != type.dtype || values->type().device != type.device)
    return nullptr;
  const std::optional<IndexedDims> dims = indexed_dims(node);
  if (!dims || !all_positive(type.sizes) || !all_positive(dims->sizes)) return nullptr;
  const auto first = type.sizes.begin() + static_cast<std::ptrdiff_t>(dims->first);
  const auto last = first + static_cast<std::ptrdiff_t>(dims->indices.size());
  const sym::Dims before(type.sizes.begin(), first), indexed(first, last);
  const sym::Dims behind(last, type.sizes.end());
  if (!has_room_for_lists(product(before) * product(behind), type.dtype)) return nullptr;
  sym::Dims source = before;
  source.insert(source.end(), dims->sizes.begin(), dims->sizes.end());
  source.insert(source.end(), behind.begin(), behind.end());
  if (values->type().sizes != source) values = emit.expand(values, source);
  const auto in_three = [&](Value* value, const sym::Dims& middle) {
    return emit.reshape(emit.contiguous(value),
                        {product(before), product(middle), product(behind)});
  };
  Value* self = graph::tensor_arg(node, 0);
  const graph::Argument base =
      is_zeros(self) ? graph::Argument(graph::None{}) : graph::Argument(in_three(self, indexed));
  Value* sums = emit(OpKind::kbraze_sum_by_place,
                     {in_three(values, dims->sizes), place_of(emit, *dims, indexed), Int(1),
                      product(indexed), Int(-1), /*checked=*/true, base});
  return emit.reshape(sums, type.sizes);
}

// Whether it comes from outside or is what a library makes.
bool is_in_memory(const Value* value) {
  const Node* producer = value->producer();
  while (producer && producer->op().view) {
    value = graph::tensor_arg(*producer, 0);
    producer = value->producer();
  }
  return !producer || producer->op().op_class == graph::OpClass::kExtern;
}

// Whether a kernel that adds by atomic operations, which makes its operand as it goes, would not do
// as well: the operand is in memory, and large, with whole packs in its rows and lists that are
// short.
bool is_worth_lists(const Value* source, int64_t dim, const Int& rows) {
  constexpr int64_t kLeastBytes = 1 << 20, kPackBytes = 16, kShort = 32;
  const TensorType& type = source->type();
  if (!is_in_memory(source) || !type.is_contiguous()) return false;
  const int64_t bytes = graph::size_of(type.dtype);
  const auto behind = std::span(type.sizes).subspan(static_cast<size_t>(dim) + 1);
  return type.numel().hint() * bytes >= kLeastBytes &&
         product(behind).hint() * bytes % kPackBytes == 0 &&
         type.sizes[dim].hint() <= kShort * rows.hint();
}

// self, dim, index of one dim, source, alpha
Value* added_rows_by_place(Emitter& emit, const Node& node) {
  const TensorType& type = node.result()->type();
  Value *self = graph::tensor_arg(node, 0), *place = graph::tensor_arg(node, 2);
  Value* source = graph::tensor_arg(node, 3);
  const int64_t rank = type.rank();
  if (!is_summed(type) || rank == 0 || source->type().rank() != rank || !type.is_contiguous() ||
      source->type().dtype != type.dtype || !is_place(place->type()) || place->type().rank() != 1 ||
      !(graph::is_none(node, 4) || graph::is_number(node.args()[4], 1)) ||
      !all_positive(type.sizes) || !all_positive(source->type().sizes))
    return nullptr;
  const int64_t dim = graph::normalize_dim(graph::int_arg(node, 1), rank);
  sym::Dims others = type.sizes;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(dim));
  if (!has_room_for_lists(product(others), type.dtype) ||
      !is_worth_lists(source, dim, type.sizes[dim]))
    return nullptr;
  const graph::Argument base =
      is_zeros(self) ? graph::Argument(graph::None{}) : graph::Argument(emit.contiguous(self));
  return emit(OpKind::kbraze_sum_by_place,
              {source, place, Int(dim), type.sizes[dim], Int(-1), /*checked=*/true, base});
}

Value* sums_for(Emitter& emit, const Node& node) {
  const OpKind kind = node.op().kind;
  if (kind == OpKind::kembedding_dense_backward) return embedding_gradient(emit, node);
  if (kind == OpKind::kindex_put) return indexed_sums(emit, node);
  return kind == OpKind::kindex_add ? added_rows_by_place(emit, node) : nullptr;
}

}  // namespace

bool use_place_sums(Graph& graph) {
  bool changed = false;
  for (auto place = graph.nodes().begin(); place != graph.nodes().end();) {
    Node* node = (place++)->get();
    Emitter emit(graph, node);
    Value* made = sums_for(emit, *node);
    if (!made) continue;
    graph.replace_all_uses(node->result(), made);
    graph.erase(node);
    changed = true;
  }
  if (changed) recompute_storages(graph);
  return changed;
}

}  // namespace braze::passes
