// Reductions and softmax. Their results are row-major.
#include <algorithm>
#include <initializer_list>

#include "graph/infer/call.h"

namespace braze::graph {
namespace {

using sym::Int;

bool is_number_dtype(DType dtype) { return is_float(dtype) || is_complex(dtype); }
DType summed(DType dtype) { return is_integral(dtype, true) ? DType::kInt64 : dtype; }
// Logical ones are bool, but of bytes bytes.
DType logical(DType dtype) { return dtype == DType::kUInt8 ? dtype : DType::kBool; }

// The dimensions that a reduction goes over.
class Reduced {
 public:
  explicit Reduced(const TensorType& self) : self_(self), all_(true) {}
  // Absent or empty: all of them.
  Reduced(const InferCall& call, const TensorType& self, int position)
      : self_(self), all_(call.dims(position).empty()) {
    for (const Int& named : call.dims(position)) {
      const int64_t rank = std::max<int64_t>(self.rank(), 1), dim = named.constant();
      known_ &= -rank <= dim && dim < rank;
      named_ |= uint64_t{1} << (dim < 0 ? dim + rank : dim);
    }
    known_ &= self.rank() <= 64;
  }

  bool known() const { return known_; }  // the tensor has such dimensions
  bool has(int64_t dim) const { return all_ || (named_ >> dim & 1) != 0; }

  sym::Dims sizes(bool keep) const {
    sym::Dims sizes;
    if (all_ && !keep) return sizes;
    sizes.reserve(self_.sizes.size());
    for (int64_t i = 0; i < self_.rank(); ++i) {
      if (!has(i))
        sizes.push_back(self_.sizes[i]);
      else if (keep)
        sizes.push_back(1);
    }
    return sizes;
  }

  // Whether there is something to choose from. Else it is an error.
  bool has_elements(SizeQuestions& ask) const {
    for (int64_t i = 0; i < self_.rank(); ++i)
      if (has(i) && !ask.expect_at_least(self_.sizes[i], 1)) return false;
    return true;
  }

 private:
  const TensorType& self_;
  const bool all_;
  uint64_t named_ = 0;
  bool known_ = true;
};

// One result for `dims_position`, kept with size 1 if the argument behind says so.
bool reduce(const InferCall& call, int dims_position, int keep_position, DType dtype) {
  const TensorType& self = call.tensor(0);
  const Reduced reduced(call, self, dims_position);
  return reduced.known() &&
         call.give_fresh(reduced.sizes(bool_arg_or(call.list(), keep_position, false)), dtype,
                         self.device);
}

// self, dtype
bool sum_all(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  return call.give_fresh({}, call.dtype_or(1, summed(self.dtype)), self.device);
}

// self, dim or dims, keepdim, dtype
bool sum_dims(const InferCall& call) {
  return reduce(call, 1, 2, call.dtype_or(3, summed(call.tensor(0).dtype)));
}

bool mean_all(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  const DType dtype = call.dtype_or(1, self.dtype);
  return is_number_dtype(dtype) && call.give_fresh({}, dtype, self.device);
}

bool mean_dims(const InferCall& call) {
  const DType dtype = call.dtype_or(3, call.tensor(0).dtype);
  return is_number_dtype(dtype) && reduce(call, 1, 2, dtype);
}

// self
bool extreme_all(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  if (!Reduced(self).has_elements(call.ask) || is_complex(self.dtype)) return false;  // an error
  return call.give_fresh({}, self.dtype, self.device);
}

// self, dims, keepdim
bool extreme_dims(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  const Reduced reduced(call, self, 1);
  if (!reduced.known() || !reduced.has_elements(call.ask) || is_complex(self.dtype)) return false;
  return call.give_fresh(reduced.sizes(bool_arg_or(call.list(), 2, false)), self.dtype,
                         self.device);
}

// self, dim, keepdim
bool extreme_with_place(const InferCall& call) {
  return extreme_dims(call) && reduce(call, 1, 2, DType::kInt64);
}

// self, dim, keepdim
bool arg_extreme(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  const Reduced reduced(call, self, 1);
  if (!reduced.known() || !reduced.has_elements(call.ask) || is_complex(self.dtype)) return false;
  return call.give_fresh(reduced.sizes(bool_arg_or(call.list(), 2, false)), DType::kInt64,
                         self.device);
}

// self, dim, *, correction, keepdim
bool variance(const InferCall& call) {
  const DType dtype = call.tensor(0).dtype;
  return is_number_dtype(dtype) && reduce(call, 1, 3, part_of(dtype));
}

bool variance_and_mean(const InferCall& call) {
  return variance(call) && reduce(call, 1, 3, call.tensor(0).dtype);
}

// self, dim, half_to_float
bool softmax(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  const bool widens = bool_arg_or(call.list(), 2, false);
  const bool on_cpu = self.device.type == Device::Type::kCPU;
  if (!is_float(self.dtype) || (widens && on_cpu)) return false;  // errors on the CPU
  return call.give_fresh(self.sizes, widens ? DType::kFloat32 : self.dtype, self.device);
}

// self, dim, dtype
bool safe_softmax(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  const DType dtype = call.dtype_or(2, self.dtype);
  const int64_t dim = call.ask.number(sym_arg(call.list(), 1)), rank = self.rank();
  if (!is_float(dtype) || dim < -rank || dim >= rank) return false;
  return call.give_fresh(self.sizes, dtype, self.device);
}

// grad_output, output, dim, input_dtype
bool softmax_backward(const InferCall& call) {
  const TensorType &grad = call.tensor(0), &output = call.tensor(1);
  const DType dtype = call.dtype_or(3, grad.dtype);
  const bool narrows =
      grad.dtype == DType::kFloat32 && is_half(dtype) && grad.device.type == Device::Type::kCUDA;
  return is_float(grad.dtype) && grad.dtype == output.dtype && (dtype == grad.dtype || narrows) &&
         call.dim(2, grad.rank()) && call.ask.all_fit(grad.sizes, output.sizes) &&
         call.give_fresh(grad.sizes, dtype, grad.device);
}

// self
bool logical_all(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  return call.give_fresh({}, logical(self.dtype), self.device);
}

// self, dim, keepdim
bool logical_dim(const InferCall& call) {
  return reduce(call, 1, 2, logical(call.tensor(0).dtype));
}

// self, dim, keepdim
bool logsumexp(const InferCall& call) {
  const DType dtype = call.tensor(0).dtype;
  return is_float(dtype) && reduce(call, 1, 2, dtype);
}

// self, ord, dim, keepdim, dtype
bool vector_norm(const InferCall& call) {
  const DType dtype = call.tensor(0).dtype;
  return is_float(dtype) && call.absent(4) && reduce(call, 2, 3, dtype);
}

// self, p, dim, keepdim
bool norm_dims(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  return is_float(self.dtype) && !is_empty(self.sizes) && reduce(call, 2, 3, self.dtype);
}

// self, target, weight, reduction, ignore_index: a loss for each sample, or one.
bool nll_loss(const InferCall& call) {
  const TensorType &self = call.tensor(0), &target = call.tensor(1);
  const TensorType* weight = call.optional(2);
  if (self.rank() != 2 || target.rank() != 1 || !call.ask.fit(self.sizes[0], target.sizes[0]))
    return false;
  if (weight && (weight->rank() != 1 || !call.ask.fit(weight->sizes[0], self.sizes[1])))
    return false;
  const bool each = int_arg(call.list(), 3) == 0;
  return call.give_fresh(each ? sym::Dims{self.sizes[0]} : sym::Dims{}, self.dtype, self.device) &&
         call.give_fresh({}, self.dtype, self.device);
}

constexpr InferEntry kReductionsRules[] = {
    {"aten.argmax", arg_extreme},
    {"aten.argmin", arg_extreme},
    {"aten.amax", extreme_dims},
    {"aten.amin", extreme_dims},
    {"aten.max.dim", extreme_with_place},
    {"aten.min.dim", extreme_with_place},
    {"aten.any", logical_all},
    {"aten.all", logical_all},
    {"aten.any.dim", logical_dim},
    {"aten.all.dim", logical_dim},
    {"aten.prod", sum_all},
    {"aten.prod.dim_int", sum_dims},
    {"aten.logsumexp", logsumexp},
    {"aten.linalg_vector_norm", vector_norm},
    {"aten.norm.ScalarOpt_dim", norm_dims},
    {"aten.nll_loss_forward", nll_loss},
    {"aten.max", extreme_all, InferUse::kAlways},
    {"aten.min", extreme_all, InferUse::kAlways},
    {"aten.var.correction", variance, InferUse::kAlways},
    {"aten.std.correction", variance, InferUse::kAlways},
    {"aten.var_mean.correction", variance_and_mean, InferUse::kAlways},
    {"aten.std_mean.correction", variance_and_mean, InferUse::kAlways},
    {"aten.sum.dim_IntList", sum_dims},
    {"aten.mean.dim", mean_dims},
    {"aten.sum", sum_all},
    {"aten.mean", mean_all},
    {"aten._softmax", softmax},
    {"aten._log_softmax", softmax},
    {"aten._safe_softmax", safe_softmax},
    {"aten._softmax_backward_data", softmax_backward, InferUse::kAlways},
    {"aten._log_softmax_backward_data", softmax_backward, InferUse::kAlways},
};

}  // namespace

std::span<const InferEntry> infer_reductions() { return kReductionsRules; }

}  // namespace braze::graph
