// Operators that draw random numbers. Their results are contiguous, but for dropout's.
#include "trace/fake_tensor.h"
#include "trace/shapes/families.h"

namespace braze::trace {
namespace {

// mean, std, generator
bool normal_around(const ShapeCall& call) {
  const at::Tensor mean = call.tensor(0);
  if (!c10::isFloatingType(mean.scalar_type()) || !(call[1].toDouble() >= 0)) return false;
  return call.give(fresh(mean.sym_sizes(), mean.scalar_type()));
}

// mean, std, generator
bool normal_with(const ShapeCall& call) {
  const at::Tensor std = call.tensor(1);
  if (!c10::isFloatingType(std.scalar_type())) return false;
  return call.give(fresh(std.sym_sizes(), std.scalar_type()));
}

// mean, std, generator
bool normal_of_two(const ShapeCall& call) {
  const at::Tensor mean = call.tensor(0), std = call.tensor(1);
  if (!c10::isFloatingType(mean.scalar_type()) || mean.scalar_type() != std.scalar_type() ||
      !all_equal(mean.sym_sizes(), std.sym_sizes()))
    return false;
  return call.give(fresh(mean.sym_sizes(), mean.scalar_type()));
}

// self, generator
bool sample_of_each(const ShapeCall& call) {
  const at::Tensor self = call.tensor(0);
  if (!c10::isFloatingType(self.scalar_type())) return false;
  return call.give(fresh(self.sym_sizes(), self.scalar_type()));
}

// input, p, train
bool native_dropout(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0);
  const double p = call[1].toDouble();
  if (!c10::isFloatingType(input.scalar_type()) || !(p >= 0 && p <= 1)) return false;
  return call.give(fresh_like(input, input.scalar_type()), fresh_like(input, at::kBool));
}

// self, noise, ...: computed on a contiguous copy, whatever PyTorch's own metadata has.
bool leaky_with_noise(const ShapeCall& call) {
  const at::Tensor self = call.tensor(0);
  if (!c10::isFloatingType(self.scalar_type())) return false;
  return call.give(fresh(self.sym_sizes(), self.scalar_type()));
}

constexpr NamedShape kShapes[] = {
    {"normal.Tensor_float", normal_around, true},  {"normal.float_Tensor", normal_with, true},
    {"normal.Tensor_Tensor", normal_of_two, true}, {"poisson", sample_of_each, true},
    {"_standard_gamma", sample_of_each, true},     {"native_dropout", native_dropout, true},
    {"rrelu_with_noise", leaky_with_noise, false},
};

}  // namespace

std::span<const NamedShape> random_shapes() { return kShapes; }

}  // namespace braze::trace
