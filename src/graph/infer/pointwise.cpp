// Elementwise operators.
#include <algorithm>
#include <array>

#include "graph/infer/call.h"

namespace braze::graph {
namespace {

// How the result's dtype follows from the operands.
enum class Rule : uint8_t {
  kPromote,  // the common dtype
  kFloat,    // the common dtype, the default dtype for integers
  kCompare,  // bool
  kSelf,     // that of argument 0
};

// How many leading arguments take part in promotion; the others (alpha, rounding_mode) only scale
// or steer.
constexpr int kEach = 99;

DType floating(const InferCall& call, DType dtype) {
  return is_integral(dtype, true) ? call.default_dtype : dtype;
}

DType promoted(const InferCall& call, int count) {
  const auto args = call.args.first(std::min<size_t>(call.args.size(), count));
  return result_type(args, call.default_dtype);
}

DType result_dtype(const InferCall& call, Rule rule, int count) {
  switch (rule) {
    case Rule::kCompare:
      return DType::kBool;
    case Rule::kSelf:
      return call.tensor(0).dtype;
    case Rule::kPromote:
      return promoted(call, count);
    case Rule::kFloat:
      return floating(call, promoted(call, count));
  }
  BRAZE_UNREACHABLE("rule");
}

// The operands of a kernel's loop. Most operators have at most three.
class Operands {
 public:
  void push(const TensorType* type) {
    if (count_ == operands_.size()) overflow_ = true;
    if (!overflow_) operands_[count_++] = type;
  }
  void reverse() { std::reverse(operands_.begin(), operands_.begin() + count_); }
  bool usable() const { return count_ > 0 && !overflow_; }
  std::span<const TensorType* const> list() const { return {operands_.data(), count_}; }

 private:
  std::array<const TensorType*, 4> operands_ = {};
  size_t count_ = 0;
  bool overflow_ = false;
};

const TensorType& number_operand() {
  static const TensorType& number = *new TensorType;
  return number;
}

// `with_numbers`: numbers are operands of the kernel's, as tensors without dimensions.
Operands operands_of(const InferCall& call, bool with_numbers, int count = kEach) {
  Operands operands;
  const int most = std::min(static_cast<int>(call.args.size()), count);
  for (int i = 0; i < most; ++i) {
    if (const TensorType* type = call.optional(i))
      operands.push(type);
    else if (with_numbers && call.number(i))
      operands.push(&number_operand());
  }
  return operands;
}

// Tensors alone are operands.
template <Rule rule, int promoted_arguments = kEach>
bool elementwise(const InferCall& call) {
  const Operands operands = operands_of(call, false);
  return operands.usable() &&
         call.give_elementwise(operands.list(), result_dtype(call, rule, promoted_arguments));
}

// Arguments 0 and 1, of which one may be a number.
template <Rule rule>
bool binary(const InferCall& call) {
  const Operands operands = operands_of(call, true, 2);
  return operands.usable() && call.give_elementwise(operands.list(), result_dtype(call, rule, 2));
}

// Eager computes other - self.
bool reversed(const InferCall& call) {
  Operands operands = operands_of(call, true, 2);
  operands.reverse();
  return operands.usable() && call.give_elementwise(operands.list(), promoted(call, 2));
}

// self, other, rounding_mode
bool division_with_mode(const InferCall& call) {
  const Operands operands = operands_of(call, true, 2);
  const DType dtype = result_dtype(call, call.absent(2) ? Rule::kFloat : Rule::kPromote, 2);
  return operands.usable() && call.give_elementwise(operands.list(), dtype);
}

// Allocated without regard to the operands' layout.
template <Rule rule>
bool row_major(const InferCall& call) {
  const Operands operands = operands_of(call, false);
  if (!operands.usable()) return false;
  auto sizes = try_broadcast(operands.list(), call.ask);
  const TensorType& first = *operands.list().front();
  return sizes && call.give_fresh(std::move(*sizes), result_dtype(call, rule, 2), first.device);
}

// Allocated by empty_like.
bool relu(const InferCall& call) {
  if (call.tensor(0).dtype == DType::kBool) return false;  // an error
  return elementwise<Rule::kSelf>(call);
}

bool absolute(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  if (self.dtype == DType::kBool) return false;  // an error
  if (is_complex(self.dtype)) return call.give_like(self, part_of(self.dtype));
  return elementwise<Rule::kSelf>(call);
}

// self, exponent: the number is no operand of the kernel's.
bool power_of_number(const InferCall& call) {
  if (!call.checked && is_integral(call.tensor(0).dtype, true)) {
    const auto* exponent = std::get_if<sym::Int>(&call[1]);  // an error if it is less than 0
    if (exponent && (!exponent->is_constant() || exponent->constant() < 0)) return false;
  }
  return elementwise<Rule::kPromote>(call);
}

// Errors are left to PyTorch's kernel: a result that does not fit into `self`, an element of `self`
// that stands for several, an operand that shares some of its memory.
bool in_place(const InferCall& call, Rule rule) {
  const TensorType& self = call.tensor(0);
  const Value *target = call.value(0), *other = call.value(1);
  if (other && other != target && other->storage() == target->storage()) return false;
  const Operands operands = operands_of(call, false, 2);
  const auto sizes = try_broadcast(operands.list(), call.ask);
  if (!sizes || !call.ask.all_equal(*sizes, self.sizes)) return false;
  if (!can_cast(result_dtype(call, rule, 2), self.dtype)) return false;
  for (size_t i = 0; i < self.sizes.size(); ++i)
    if (self.strides[i] == sym::Int(0) && self.sizes[i] != sym::Int(1)) return false;
  return call.give_written();
}

bool binary_in_place(const InferCall& call) { return in_place(call, Rule::kPromote); }
bool division_in_place(const InferCall& call) { return in_place(call, Rule::kFloat); }
bool unary_in_place(const InferCall& call) { return in_place(call, Rule::kSelf); }

// condition, self, other
bool where(const InferCall& call) {
  const TensorType& condition = call.tensor(0);
  if (condition.dtype != DType::kBool) return false;
  const DType dtype = result_type(call.args.subspan(1, 2), call.default_dtype);
  Operands operands;
  operands.push(&condition);
  // The kernel converts an operand of another dtype first.
  std::array<TensorType, 2> converted;
  for (int i : {1, 2}) {
    const TensorType* type = call.optional(i);
    if (type && type->dtype != dtype) {
      TensorType& copy = converted[i - 1];
      copy.device = type->device;
      copy.sizes = type->sizes;
      copy.strides = like_strides(*type, MemoryFormat::kPreserve, call.ask);
      type = &copy;
    }
    operands.push(type ? type : &number_operand());
  }
  return call.give_elementwise(operands.list(), dtype);
}

// condition, self, other, out. Where an operand shares memory with `out` and is not `out` itself,
// PyTorch's kernel decides.
bool where_into(const InferCall& call) {
  const TensorType& out = call.tensor(3);
  if (call.tensor(0).dtype != DType::kBool || may_overlap_itself(out) ||
      result_type(call.args.subspan(1, 2), call.default_dtype) != out.dtype)
    return false;
  Operands operands;
  for (int i : {0, 1, 2}) {
    const TensorType* type = call.optional(i);
    operands.push(type ? type : &number_operand());
    const int storage = call.value(3)->storage();  // less than 0: of a kernel's own call
    const bool shares = type && storage >= 0 && call.value(i)->storage() == storage;
    if (shares && *type != out) return false;
  }
  const auto sizes = try_broadcast(operands.list(), call.ask);
  return sizes && call.ask.all_equal(*sizes, out.sizes) && call.give(out);
}

// Of the real parts and the imaginary ones, or of lengths and angles.
bool complex_of_parts(const InferCall& call) {
  const TensorType &a = call.tensor(0), &b = call.tensor(1);
  if (a.dtype != b.dtype || (a.dtype != DType::kFloat32 && a.dtype != DType::kFloat64))
    return false;
  const DType dtype = a.dtype == DType::kFloat32 ? DType::kComplex64 : DType::kComplex128;
  const TensorType* operands[] = {&a, &b};
  return call.give_elementwise(operands, dtype);
}

bool has_format(const TensorType& type, MemoryFormat format) {
  if (format == MemoryFormat::kChannelsLast) return type.rank() == 4;
  return format != MemoryFormat::kChannelsLast3d || type.rank() == 5;
}

bool give_copy(const InferCall& call, int format_position, DType dtype, Device device) {
  const TensorType& self = call.tensor(0);
  const MemoryFormat format =
      optional_memory_format_arg(call.list(), format_position).value_or(MemoryFormat::kPreserve);
  return has_format(self, format) && call.give_like(self, dtype, format, device);
}

// self, *, memory_format
bool clone(const InferCall& call) {
  return give_copy(call, 1, call.tensor(0).dtype, call.tensor(0).device);
}

// self, strides
bool copy_strided(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  const std::span<const sym::Int> strides = call.dims(1);
  return call.give({.dtype = self.dtype,
                    .device = self.device,
                    .sizes = self.sizes,
                    .strides = {strides.begin(), strides.end()}});
}

// self, dtype, layout, device, pin_memory, non_blocking, memory_format
bool to_copy(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  return give_copy(call, 6, call.dtype_or(1, self.dtype),
                   optional_device_arg(call.list(), 3).value_or(self.device));
}

// self, dim: half of the size
bool glu(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  const auto dim = call.dim(1, self.rank());
  if (self.rank() == 0 || !dim) return false;
  sym::Dims sizes = self.sizes;
  if (!call.ask.equal(sym::mod(sizes[*dim], 2), 0) ||
      !call.ask.all_equal(self.strides, row_major_strides(sizes, call.ask)))
    return false;
  sizes[*dim] = sym::floordiv(sizes[*dim], 2);
  return call.give_fresh(std::move(sizes), self.dtype, self.device);
}

constexpr InferUse kAlways = InferUse::kAlways, kPasses = InferUse::kPasses;

constexpr InferEntry kPointwiseRules[] = {
    {"aten.relu", relu, kAlways},
    {"aten.abs", absolute, kAlways},
    {"aten.where.self", where, kAlways},
    {"aten.where.self_out", where_into, kAlways},
    {"aten.floor_divide", binary<Rule::kPromote>, kAlways},
    {"aten.complex", complex_of_parts, kAlways},
    {"aten.polar", complex_of_parts, kAlways},
    {"aten.glu", glu},
    {"aten.clone", clone},
    {"aten._to_copy", to_copy},
    {"prims.copy_strided", copy_strided, kPasses},
    {"aten.add_.Tensor", binary_in_place},
    {"aten.sub_.Tensor", binary_in_place},
    {"aten.mul_.Tensor", binary_in_place},
    {"aten.div_.Tensor", division_in_place},
    {"aten.relu_", unary_in_place},

    {"aten.add.Tensor", binary<Rule::kPromote>},
    {"aten.add.Scalar", binary<Rule::kPromote>},
    {"aten.sub.Tensor", binary<Rule::kPromote>},
    {"aten.sub.Scalar", binary<Rule::kPromote>, kPasses},
    {"aten.rsub.Tensor", reversed, kPasses},
    {"aten.rsub.Scalar", reversed, kPasses},
    {"aten.mul.Tensor", binary<Rule::kPromote>},
    {"aten.mul.Scalar", binary<Rule::kPromote>},
    {"aten.div.Tensor", binary<Rule::kFloat>},
    {"aten.div.Scalar", binary<Rule::kFloat>},
    {"aten.div.Tensor_mode", division_with_mode, kPasses},
    {"aten.div.Scalar_mode", division_with_mode, kPasses},
    {"aten.floor_divide.Scalar", binary<Rule::kPromote>, kPasses},
    {"aten.remainder.Tensor", binary<Rule::kPromote>, kPasses},
    {"aten.remainder.Scalar", binary<Rule::kPromote>, kPasses},
    {"aten.fmod.Tensor", binary<Rule::kPromote>, kPasses},
    {"aten.fmod.Scalar", binary<Rule::kPromote>, kPasses},
    {"aten.pow.Tensor_Scalar", power_of_number},
    {"aten.pow.Tensor_Tensor", elementwise<Rule::kPromote>, kPasses},
    {"aten.pow.Scalar", row_major<Rule::kPromote>, kPasses},
    {"aten.maximum", binary<Rule::kPromote>},
    {"aten.minimum", binary<Rule::kPromote>},
    {"aten.fmax", binary<Rule::kPromote>, kPasses},
    {"aten.fmin", binary<Rule::kPromote>, kPasses},
    {"aten.atan2", binary<Rule::kFloat>, kPasses},
    {"aten.xlogy.Tensor", binary<Rule::kFloat>, kPasses},

    {"aten.eq.Tensor", binary<Rule::kCompare>},
    {"aten.eq.Scalar", binary<Rule::kCompare>},
    {"aten.ne.Tensor", binary<Rule::kCompare>},
    {"aten.ne.Scalar", binary<Rule::kCompare>},
    {"aten.lt.Tensor", binary<Rule::kCompare>},
    {"aten.lt.Scalar", binary<Rule::kCompare>},
    {"aten.le.Tensor", binary<Rule::kCompare>},
    {"aten.le.Scalar", binary<Rule::kCompare>},
    {"aten.gt.Tensor", binary<Rule::kCompare>},
    {"aten.gt.Scalar", binary<Rule::kCompare>},
    {"aten.ge.Tensor", binary<Rule::kCompare>},
    {"aten.ge.Scalar", binary<Rule::kCompare>},
    {"aten.logical_and", binary<Rule::kCompare>, kPasses},
    {"aten.logical_or", binary<Rule::kCompare>, kPasses},
    {"aten.logical_xor", binary<Rule::kCompare>, kPasses},
    {"aten.logical_not", elementwise<Rule::kCompare>, kPasses},
    {"aten.isnan", elementwise<Rule::kCompare>, kPasses},
    {"aten.isinf", elementwise<Rule::kCompare>, kPasses},
    {"aten.isfinite", elementwise<Rule::kCompare>, kPasses},
    {"aten.bitwise_and.Tensor", binary<Rule::kPromote>, kPasses},
    {"aten.bitwise_and.Scalar", binary<Rule::kPromote>, kPasses},
    {"aten.bitwise_or.Tensor", binary<Rule::kPromote>, kPasses},
    {"aten.bitwise_or.Scalar", binary<Rule::kPromote>, kPasses},
    {"aten.bitwise_xor.Tensor", binary<Rule::kPromote>, kPasses},
    {"aten.bitwise_xor.Scalar", binary<Rule::kPromote>, kPasses},
    {"aten.bitwise_left_shift.Tensor", binary<Rule::kPromote>, kPasses},
    {"aten.bitwise_right_shift.Tensor", binary<Rule::kPromote>, kPasses},
    {"aten.bitwise_not", elementwise<Rule::kSelf>, kPasses},

    {"aten.exp", elementwise<Rule::kFloat>},
    {"aten.log", elementwise<Rule::kFloat>},
    {"aten.sqrt", elementwise<Rule::kFloat>},
    {"aten.rsqrt", elementwise<Rule::kFloat>},
    {"aten.sin", elementwise<Rule::kFloat>},
    {"aten.cos", elementwise<Rule::kFloat>},
    {"aten.tanh", elementwise<Rule::kFloat>},
    {"aten.erf", elementwise<Rule::kFloat>},
    {"aten.sigmoid", elementwise<Rule::kFloat>},
    {"aten.exp2", elementwise<Rule::kFloat>, kPasses},
    {"aten.expm1", elementwise<Rule::kFloat>, kPasses},
    {"aten.log2", elementwise<Rule::kFloat>, kPasses},
    {"aten.log10", elementwise<Rule::kFloat>, kPasses},
    {"aten.log1p", elementwise<Rule::kFloat>, kPasses},
    {"aten.tan", elementwise<Rule::kFloat>, kPasses},
    {"aten.asin", elementwise<Rule::kFloat>, kPasses},
    {"aten.acos", elementwise<Rule::kFloat>, kPasses},
    {"aten.atan", elementwise<Rule::kFloat>, kPasses},
    {"aten.sinh", elementwise<Rule::kFloat>, kPasses},
    {"aten.cosh", elementwise<Rule::kFloat>, kPasses},
    {"aten.erfc", elementwise<Rule::kFloat>, kPasses},
    {"aten.reciprocal", elementwise<Rule::kFloat>, kPasses},

    {"aten.neg", elementwise<Rule::kSelf>},
    {"aten.gelu", elementwise<Rule::kSelf>},
    {"aten.silu", elementwise<Rule::kSelf>},
    {"aten.square", elementwise<Rule::kPromote>, kPasses},
    {"aten.floor", elementwise<Rule::kSelf>, kPasses},
    {"aten.ceil", elementwise<Rule::kSelf>, kPasses},
    {"aten.trunc", elementwise<Rule::kSelf>, kPasses},
    {"aten.round", elementwise<Rule::kSelf>, kPasses},
    {"aten.sign", elementwise<Rule::kSelf>, kPasses},
    {"aten.leaky_relu", elementwise<Rule::kSelf>, kPasses},
    {"aten.elu", elementwise<Rule::kSelf>, kPasses},
    {"aten.hardsigmoid", elementwise<Rule::kSelf>, kPasses},
    {"aten.softplus", elementwise<Rule::kSelf>, kPasses},
    {"aten.mish", elementwise<Rule::kSelf>, kPasses},
    {"aten.threshold", elementwise<Rule::kSelf>, kPasses},
    {"aten.nan_to_num", like_self, kPasses},
    {"aten.masked_fill.Scalar", row_major<Rule::kSelf>, kPasses},
    {"aten.masked_fill.Tensor", row_major<Rule::kSelf>, kPasses},
    {"aten.lerp.Scalar", elementwise<Rule::kSelf>, kPasses},
    {"aten.lerp.Tensor", elementwise<Rule::kSelf>, kPasses},
    {"aten.addcmul", elementwise<Rule::kPromote, 3>, kPasses},
    {"aten.addcdiv", elementwise<Rule::kPromote, 3>, kPasses},
    {"aten.clamp", elementwise<Rule::kPromote>, kPasses},
    {"aten.clamp.Tensor", elementwise<Rule::kPromote>, kPasses},
    {"aten.clamp_min", elementwise<Rule::kPromote>, kPasses},
    {"aten.clamp_min.Tensor", elementwise<Rule::kPromote>, kPasses},
    {"aten.clamp_max", elementwise<Rule::kPromote>, kPasses},
    {"aten.clamp_max.Tensor", elementwise<Rule::kPromote>, kPasses},
};

}  // namespace

std::span<const InferEntry> infer_pointwise() { return kPointwiseRules; }

}  // namespace braze::graph
