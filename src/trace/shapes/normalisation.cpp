// Layer, batch and group normalisation. PyTorch's metadata functions for them are Python.
#include "trace/fake_tensor.h"
#include "trace/shapes/families.h"

namespace braze::trace {
namespace {

bool is_reduced(at::ScalarType dtype) { return dtype == at::kHalf || dtype == at::kBFloat16; }

bool is_on_gpu(const at::Tensor& tensor) {
  const FakeTensorImpl* fake = as_fake(tensor);
  return fake && fake->fake_device().is_cuda();
}

// Statistics of half-precision inputs are kept in float when the parameters are float.
at::ScalarType statistics_dtype(const at::Tensor& input, std::initializer_list<at::Tensor> params) {
  if (is_reduced(input.scalar_type()))
    for (const at::Tensor& param : params)
      if (param.defined() && param.scalar_type() == at::kFloat) return at::kFloat;
  return input.scalar_type();
}

// The same of layer and batch norm: the kernels of a GPU keep them in float always.
at::ScalarType accumulated_dtype(const at::Tensor& input,
                                 std::initializer_list<at::Tensor> params) {
  if (is_on_gpu(input) && is_reduced(input.scalar_type())) return at::kFloat;
  return statistics_dtype(input, params);
}

// input, normalized_shape, weight, bias, eps
bool layer_norm(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0), weight = call.tensor(2), bias = call.tensor(3);
  const Dims normalized = dims_in(call[1]);
  Dims statistics = sizes_of(input);
  if (normalized.empty() || normalized.size() > statistics.size()) return false;  // an error
  const size_t first = statistics.size() - normalized.size();
  for (size_t i = first; i < statistics.size(); ++i) {
    if (!equal(statistics[i], normalized[i - first])) return false;
    statistics[i] = 1;
  }
  for (const at::Tensor& param : {weight, bias})
    if (param.defined() && !all_equal(param.sym_sizes(), normalized)) return false;
  const at::ScalarType dtype = accumulated_dtype(input, {weight, bias});
  return call.give(fresh(input.sym_sizes(), input.scalar_type()), fresh(statistics, dtype),
                   fresh(statistics, dtype));
}

// input, weight, bias, running_mean, running_var, training, momentum, eps
bool batch_norm(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0), weight = call.tensor(1), bias = call.tensor(2);
  if (input.dim() < 2) return false;
  const auto format = plain_format(input);
  if (!format) return false;
  const at::Tensor running_mean = call.tensor(3), running_var = call.tensor(4);
  for (const at::Tensor& param : {weight, bias, running_mean, running_var})
    if (param.defined() && (param.dim() != 1 || !equal(param.sym_size(0), input.sym_size(1))))
      return false;
  const bool training = call[5].toBool();
  const Dims channels{training || is_on_gpu(input) ? input.sym_size(1) : c10::SymInt(0)};
  const at::ScalarType dtype = accumulated_dtype(input, {weight, bias, running_mean, running_var});
  return call.give(fresh_in_format(input.sym_sizes(), *format, input.scalar_type()),
                   fresh(channels, dtype), fresh(channels, dtype));
}

// input, weight, bias, N, C, HxW, group, eps
bool group_norm(const ShapeCall& call) {
  const at::Tensor input = call.tensor(0), weight = call.tensor(1), bias = call.tensor(2);
  const auto format = plain_format(input);
  if (!format) return false;
  const c10::SymInt images = int_in(call[3]), channels = int_in(call[4]), groups = int_in(call[6]);
  if (less(groups, 1) || !equal(channels % groups, 0) ||
      !equal(input.sym_numel(), images * channels * int_in(call[5])))
    return false;  // an error
  for (const at::Tensor& param : {weight, bias})
    if (param.defined() && (param.dim() != 1 || !equal(param.sym_numel(), channels))) return false;
  const Dims statistics{images, groups};
  const at::ScalarType dtype = statistics_dtype(input, {weight, bias});
  return call.give(fresh_in_format(input.sym_sizes(), *format, input.scalar_type()),
                   fresh(statistics, dtype), fresh(statistics, dtype));
}

constexpr NamedShape kShapes[] = {
    {"native_layer_norm", layer_norm, false},
    {"native_batch_norm", batch_norm, false},
    {"_native_batch_norm_legit", batch_norm, false},
    {"native_group_norm", group_norm, false},
};

}  // namespace

std::span<const NamedShape> normalisation_shapes() { return kShapes; }

}  // namespace braze::trace
