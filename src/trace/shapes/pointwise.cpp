// Elementwise operators.
#include <ATen/MemoryOverlap.h>
#include <ATen/native/TypeProperties.h>
#include <c10/core/WrapDimMinimal.h>

#include "trace/break.h"
#include "trace/fake_tensor.h"
#include "trace/shapes/families.h"

namespace braze::trace {
namespace {

at::ScalarType promoted(const at::Tensor& a, const at::Tensor& b) {
  return at::native::result_type({a, b});
}

// What a Python number of its kind counts as.
at::ScalarType dtype_of_number(const c10::Scalar& number) {
  if (number.isComplex()) return c10::typeMetaToScalarType(c10::get_default_complex_dtype());
  if (number.isFloatingPoint()) return c10::typeMetaToScalarType(c10::get_default_dtype());
  return number.isBoolean() ? at::kBool : at::kLong;
}

at::ScalarType promoted(const at::Tensor& a, const c10::Scalar& b) {
  at::native::ResultTypeState state = {};
  state = at::native::update_result_type_state(a, state);
  const at::ScalarType number = dtype_of_number(b);
  // Nothing is promoted with a type that is not there yet.
  const bool alone = state.wrappedResult == at::ScalarType::Undefined;
  state.wrappedResult = alone ? number : c10::promoteTypes(state.wrappedResult, number);
  return at::native::result_type(state);
}

at::ScalarType floating(at::ScalarType dtype) {
  return c10::isIntegralType(dtype, /*includeBool=*/true)
             ? c10::typeMetaToScalarType(c10::get_default_dtype())
             : dtype;
}

// Errors are left to PyTorch's kernel: a result that does not fit into `self`, an element of `self`
// that stands for several.
bool in_place(const ShapeCall& call, DimsRef sizes, at::ScalarType dtype) {
  const at::Tensor self = call.tensor(0);
  if (!all_equal(sizes, self.sym_sizes()) || !c10::canCast(dtype, self.scalar_type())) return false;
  for (int64_t i = 0; i < self.dim(); ++i)
    if (is(self.sym_stride(i), 0) && !is(self.sym_size(i), 1)) return false;
  return call.give(self);
}

bool give_elementwise(const ShapeCall& call, std::initializer_list<at::Tensor> operands,
                      at::ScalarType dtype, bool with_number = false) {
  if (!call.info.mutates.empty()) return in_place(call, broadcast(operands), dtype);
  return call.give(fresh_elementwise(operands, dtype, with_number));
}

bool unary(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  return give_elementwise(call, {input}, input.scalar_type());
}

bool relu(const ShapeCall& call) {
  if (call.tensor(0).scalar_type() == at::kBool) return false;  // an error
  return unary(call);
}

bool absolute(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  if (input.scalar_type() == at::kBool) return false;  // an error
  if (input.is_complex())
    return call.give(fresh_like(input, c10::toRealValueType(input.scalar_type())));
  return unary(call);
}

bool floating_unary(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  return give_elementwise(call, {input}, floating(input.scalar_type()));
}

// PyTorch's kernel for metadata does not look whether the result fits.
bool logit_in_place(const ShapeCall& call) {
  const at::ScalarType dtype = call.tensor(0).scalar_type();
  if (c10::canCast(floating(dtype), dtype)) return false;
  raise_break({"aten.logit_", "its result does not fit the dtype that it is written to", kMoveOut});
}

bool binary(const ShapeCall& call) {
  const at::Tensor a = call.tensor(0), b = call.tensor(1);
  const bool overlapping =
      !call.info.mutates.empty() && b.has_storage() && a.is_alias_of(b) && !a.is_same(b);
  return !overlapping && give_elementwise(call, {a, b}, promoted(a, b));
}

// PyTorch's kernel for metadata does not look whether the two overlap.
bool copy_in_place(const ShapeCall& call) {
  const at::Tensor self = call.tensor(0), source = call.tensor(1);
  if (self.is_same(source) || self.unsafeGetTensorImpl()->has_symbolic_sizes_strides() ||
      source.unsafeGetTensorImpl()->has_symbolic_sizes_strides())
    return false;
  at::assert_no_partial_overlap(self, source);
  return false;
}

bool true_division(const ShapeCall& call) {
  const at::Tensor a = call.tensor(0), b = call.tensor(1);
  return give_elementwise(call, {a, b}, floating(promoted(a, b)));
}

bool comparison(const ShapeCall& call) {
  return give_elementwise(call, {call.tensor(0), call.tensor(1)}, at::kBool);
}

bool with_number(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  return give_elementwise(call, {input}, promoted(input, call[1].toScalar()), true);
}

// The number is no operand of the kernel's.
bool power_of_number(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  const c10::Scalar exponent = call[1].toScalar();
  const bool integral = c10::isIntegralType(input.scalar_type(), /*includeBool=*/true);
  if (integral && (exponent.isSymbolic() || (exponent.isIntegral(true) && exponent.toLong() < 0)))
    return false;  // an error
  return give_elementwise(call, {input}, promoted(input, exponent));
}

bool comparison_with_number(const ShapeCall& call) {
  return give_elementwise(call, {call.tensor(0)}, at::kBool, true);
}

bool division_by_number(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  return give_elementwise(call, {input}, floating(promoted(input, call[1].toScalar())), true);
}

// condition, self, other
bool where(const ShapeCall& call) {
  const at::Tensor condition = call.tensor(0);
  at::Tensor a = call.tensor(1), b = call.tensor(2);
  if (condition.scalar_type() != at::kBool) return false;
  const at::ScalarType dtype = promoted(a, b);
  // The kernel converts an operand of another dtype first.
  if (a.scalar_type() != dtype) a = call.is_number(1) ? a : fresh_like(a, dtype);
  if (b.scalar_type() != dtype) b = call.is_number(2) ? b : fresh_like(b, dtype);
  return call.give(fresh_elementwise({condition, a, b}, dtype));
}

// Of the real parts and the imaginary ones, or of lengths and angles.
bool complex_of(const ShapeCall& call) {
  const at::Tensor a = call.tensor(0), b = call.tensor(1);
  const at::ScalarType dtype = a.scalar_type();
  if (dtype != b.scalar_type() || (dtype != at::kFloat && dtype != at::kDouble)) return false;
  return call.give(fresh_elementwise({a, b}, c10::toComplexType(dtype)));
}

// self, *, memory_format
bool clone(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  if (!call[1].isNone() &&
      static_cast<at::MemoryFormat>(call[1].toInt()) != at::MemoryFormat::Preserve) {
    if (static_cast<at::MemoryFormat>(call[1].toInt()) != at::MemoryFormat::Contiguous)
      return false;
    return call.give(fresh(input.sym_sizes(), input.scalar_type()));
  }
  return call.give(fresh_like(input, input.scalar_type()));
}

// self, *, dtype, layout, device, pin_memory, memory_format
bool like(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  if (!call[5].isNone()) return false;
  return call.give(fresh_like(input, dtype_in(call[1], input.scalar_type())));
}

// self, value, *, dtype, layout, device, pin_memory, memory_format
bool full_like(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  if (!call[6].isNone()) return false;
  return call.give(fresh_like(input, dtype_in(call[2], input.scalar_type())));
}

// self, dim: half of the size
bool glu(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  if (input.dim() == 0) return false;
  const int64_t dim = c10::maybe_wrap_dim(call[1].toInt(), input.dim());
  Dims sizes = sizes_of(input);
  if (!equal(sizes[dim] % 2, 0) || !all_equal(input.sym_strides(), contiguous_strides(sizes)))
    return false;
  sizes[dim] = sizes[dim] / 2;
  return call.give(fresh(sizes, input.scalar_type()));
}

// self, dtype, layout, device, pin_memory, non_blocking, memory_format
bool to_copy(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  const at::ScalarType dtype = dtype_in(call[1], input.scalar_type());
  if (call[6].isNone()) return call.give(fresh_like(input, dtype));
  const auto format = static_cast<at::MemoryFormat>(call[6].toInt());
  if (format == at::MemoryFormat::Contiguous) return call.give(fresh(input.sym_sizes(), dtype));
  if (format != at::MemoryFormat::Preserve) return false;
  return call.give(fresh_like(input, dtype));
}

constexpr NamedShape kShapes[] = {
    {"copy_", copy_in_place, false},
    {"relu", relu, false},
    {"abs", absolute, false},
    {"where.self", where, false},
    {"floor_divide", binary, false},
    {"complex", complex_of, false},
    {"polar", complex_of, false},
    {"add.Tensor", binary, true},
    {"sub.Tensor", binary, true},
    {"mul.Tensor", binary, true},
    {"div.Tensor", true_division, true},
    {"add_.Tensor", binary, true},
    {"sub_.Tensor", binary, true},
    {"mul_.Tensor", binary, true},
    {"div_.Tensor", true_division, true},
    {"maximum", binary, true},
    {"minimum", binary, true},
    {"eq.Tensor", comparison, true},
    {"ne.Tensor", comparison, true},
    {"lt.Tensor", comparison, true},
    {"le.Tensor", comparison, true},
    {"gt.Tensor", comparison, true},
    {"ge.Tensor", comparison, true},
    {"eq.Scalar", comparison_with_number, true},
    {"ne.Scalar", comparison_with_number, true},
    {"lt.Scalar", comparison_with_number, true},
    {"le.Scalar", comparison_with_number, true},
    {"gt.Scalar", comparison_with_number, true},
    {"ge.Scalar", comparison_with_number, true},
    {"pow.Tensor_Scalar", power_of_number, true},
    {"mul.Scalar", with_number, true},
    {"add.Scalar", with_number, true},
    {"div.Scalar", division_by_number, true},
    {"neg", unary, true},
    {"gelu", unary, true},
    {"silu", unary, true},
    {"tanh", floating_unary, true},
    {"sigmoid", floating_unary, true},
    {"exp", floating_unary, true},
    {"log", floating_unary, true},
    {"sqrt", floating_unary, true},
    {"rsqrt", floating_unary, true},
    {"sin", floating_unary, true},
    {"cos", floating_unary, true},
    {"erf", floating_unary, true},
    {"relu_", unary, true},
    {"logit_", logit_in_place},
    {"clone", clone, true},
    {"_to_copy", to_copy, true},
    {"empty_like", like, true},
    {"zeros_like", like, true},
    {"ones_like", like, true},
    {"rand_like", like, true},
    {"randn_like", like, true},
    {"full_like", full_like, true},
    {"glu", glu, true},
};

}  // namespace

std::span<const NamedShape> pointwise_shapes() { return kShapes; }

}  // namespace braze::trace
