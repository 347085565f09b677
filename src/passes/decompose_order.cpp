// The few largest elements of rows on a GPU, one after the other: a kernel has a row in registers,
// where PyTorch's operator reads it several times, or sorts.
#include <limits>

#include "graph/arguments.h"
#include "graph/op_kind.h"
#include "passes/decompose_rules.h"

namespace braze::passes {

using graph::DType;
using graph::Emitter;
using graph::Node;
using graph::None;
using graph::OpKind;
using graph::TensorType;
using graph::Value;
using sym::Int;

namespace {

// The dtype that has a number below all of `dtype` but -infinity, and holds all of these.
DType dtype_of_order(DType dtype) {
  const DType computed = graph::compute_dtype(dtype);
  return computed == dtype ? DType::kFloat64 : computed;
}

bool is_ordered(const TensorType& type) {
  return type.dtype == DType::kFloat32 || graph::is_half(type.dtype) ||
         (graph::is_integral(type.dtype, /*with_bool=*/false) && type.dtype != DType::kInt64);
}

// self, k, dim, largest, sorted. Of equal elements the first ones; PyTorch's are any of them.
Replacement largest_elements(Emitter& emit, const Node& node) {
  constexpr int64_t kMostPicked = 8, kLongest = 4096;
  Value* self = graph::tensor_arg(node, 0);
  const TensorType& type = self->type();
  if (type.device.type != graph::Device::Type::kCUDA || !is_ordered(type) || type.rank() == 0 ||
      !graph::bool_arg_or(node, 3, true))
    return {};
  const int64_t dim = graph::normalize_dim(graph::int_arg_or(node, 2, -1), type.rank());
  const Int count = graph::sym_arg(node, 1), length = type.sizes[dim];
  if (!count.is_constant() || !length.is_constant() || count.constant() < 1 ||
      count.constant() > kMostPicked || length.constant() > kLongest)
    return {};
  const DType wide = dtype_of_order(type.dtype);
  const double lowest = wide == DType::kFloat32 ? std::numeric_limits<float>::lowest()
                                                : std::numeric_limits<double>::lowest();
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  const auto number = [&](double value) {
    return emit.full(graph::make_type(wide, {}, type.device), value);
  };
  Value *none = number(kNone), *least = number(lowest);
  // -infinity is what has been picked.
  Value* left = emit.cast(self, wide);
  if (graph::is_float(type.dtype))
    left = emit.where(emit(OpKind::keq_Scalar, {left, kNone}), least, left);
  sym::Dims along(type.sizes.size(), Int(1));
  along[dim] = length;
  Value* places =
      emit.reshape(emit(OpKind::karange_start_step,
                        {Int(0), length, Int(1), DType::kInt64, None{}, type.device, None{}}),
                   along);
  std::vector<Value*> values, indices;
  for (int64_t i = 0; i < count.constant(); ++i) {
    if (i > 0) left = emit.where(emit(OpKind::keq_Tensor, {places, indices.back()}), none, left);
    const Node* picked = emit.node(OpKind::kmax_dim, {left, Int(dim), true});
    Value* value = picked->results()[0];
    if (graph::is_float(type.dtype))
      value = emit.where(emit(OpKind::keq_Tensor, {value, least}), none, value);
    values.push_back(emit.cast(value, type.dtype));
    indices.push_back(picked->results()[1]);
  }
  return {emit(OpKind::kcat, {std::move(values), Int(dim)}),
          emit(OpKind::kcat, {std::move(indices), Int(dim)})};
}

}  // namespace

Replacement decompose_order(Emitter& emit, const Node& node) {
  return node.op().kind == OpKind::ktopk ? largest_elements(emit, node) : Replacement{};
}

}  // namespace braze::passes
