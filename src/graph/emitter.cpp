#include "graph/emitter.h"

#include "graph/arguments.h"
#include "graph/devices.h"
#include "graph/infer/infer.h"
#include "graph/infer/strides.h"
#include "graph/op_kind.h"

namespace braze::graph {

using sym::Int;

Emitter::Emitter(Graph& graph, Node* before)
    : graph_(graph), before_(before), origin_(before ? before->origin() : -1) {}

Node* Emitter::node(OpKind kind, std::vector<Argument> args) {
  const Op& op = op_of(kind);
  std::optional<std::vector<TensorType>> types = infer_types(op, args);
  BRAZE_CHECK(types, "no types can be inferred for ", op.name);
  std::vector<int> storages;
  if (op.view) storages.assign(types->size(), std::get<Value*>(args[0])->storage());
  return graph_.add_node(op, std::move(args), std::move(*types), origin_, before_,
                         std::move(storages));
}

Value* Emitter::raw(const Op& op, std::vector<Argument> args, TensorType type, int storage) {
  std::vector<TensorType> types;
  types.push_back(std::move(type));
  return graph_.add_node(op, std::move(args), std::move(types), origin_, before_, {storage})
      ->result();
}

Value* Emitter::add(Value* a, Argument b) {
  const OpKind kind = is_scalar(b) ? OpKind::kadd_Scalar : OpKind::kadd_Tensor;
  return (*this)(kind, {a, std::move(b), Int(1)});
}

Value* Emitter::sub(Value* a, Argument b) {
  const OpKind kind = is_scalar(b) ? OpKind::ksub_Scalar : OpKind::ksub_Tensor;
  return (*this)(kind, {a, std::move(b), Int(1)});
}

Value* Emitter::mul(Value* a, Argument b) {
  return (*this)(is_scalar(b) ? OpKind::kmul_Scalar : OpKind::kmul_Tensor, {a, std::move(b)});
}

Value* Emitter::div(Value* a, Argument b) {
  return (*this)(is_scalar(b) ? OpKind::kdiv_Scalar : OpKind::kdiv_Tensor, {a, std::move(b)});
}

Value* Emitter::where(Value* condition, Value* a, Value* b) {
  return (*this)(OpKind::kwhere_self, {condition, a, b});
}

Value* Emitter::permute(Value* a, std::vector<int64_t> order) {
  return (*this)(OpKind::kpermute, {a, sym::Dims(order.begin(), order.end())});
}

Value* Emitter::expand(Value* a, sym::Dims sizes) {
  if (a->type().sizes == sizes) return a;
  return (*this)(OpKind::kexpand, {a, std::move(sizes), false});
}

Value* Emitter::reshape(Value* a, sym::Dims sizes) {
  if (a->type().sizes == sizes) return a;
  if (!view_strides(a->type(), sizes)) a = contiguous(a);
  return (*this)(OpKind::kview, {a, std::move(sizes)});
}

Value* Emitter::cast(Value* a, DType dtype) { return cast(a, dtype, a->type().device); }

Value* Emitter::cast(Value* a, DType dtype, Device device) {
  const bool stays = same_device(a->type().device, device);
  if (stays && a->type().dtype == dtype) return a;
  return (*this)(OpKind::k_to_copy, {a, dtype, None{}, stays ? Argument(None{}) : Argument(device),
                                     None{}, false, None{}});
}

Value* Emitter::contiguous(Value* a) {
  if (a->type().is_contiguous()) return a;
  return (*this)(OpKind::kclone, {a, MemoryFormat::kContiguous});
}

Value* Emitter::full(const TensorType& type, Argument value) {
  const bool on_cpu = same_device(type.device, {});
  return (*this)(OpKind::kfull, {type.sizes, std::move(value), type.dtype, None{},
                                 on_cpu ? Argument(None{}) : Argument(type.device), None{}});
}

}  // namespace braze::graph
