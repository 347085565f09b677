// Sorting, order statistics and running sums.
#include "graph/infer/call.h"

namespace braze::graph {
namespace {

using sym::Int;

// self, ...
bool sort(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  if (is_complex(self.dtype)) return false;  // an error
  return call.give_like(self, self.dtype) && call.give_like(self, DType::kInt64);
}

bool give_value_and_place(const InferCall& call, sym::Dims sizes) {
  const TensorType& self = call.tensor(0);
  return call.give_fresh(sizes, self.dtype, self.device) &&
         call.give_fresh(std::move(sizes), DType::kInt64, self.device);
}

// Values and places along one dimension, which is left out or kept with size 1.
bool value_and_place(const InferCall& call, int dim_position, int keep_position) {
  const TensorType& self = call.tensor(0);
  const auto dim = call.dim(dim_position, self.rank());
  if (self.rank() == 0 || !dim || !call.ask.expect_at_least(self.sizes[*dim], 1)) return false;
  sym::Dims sizes = self.sizes;
  if (bool_arg_or(call.list(), keep_position, false))
    sizes[*dim] = 1;
  else
    sizes.erase(sizes.begin() + *dim);
  return give_value_and_place(call, std::move(sizes));
}

// self, dim, keepdim
bool middle(const InferCall& call) { return value_and_place(call, 1, 2); }

// self, k, dim, keepdim
bool kth_value(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  const auto dim = call.dim(2, self.rank());
  if (self.rank() == 0 || !dim) return false;
  const Int k = sym_arg(call.list(), 1);
  if (call.ask.less(k, 1) || call.ask.less(self.sizes[*dim], k)) return false;
  return value_and_place(call, 2, 3);
}

// self, dim, dtype
bool cumulative(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  const DType dtype = is_integral(self.dtype, true) ? DType::kInt64 : self.dtype;
  return call.give_fresh(self.sizes, call.dtype_or(2, dtype), self.device);
}

// self, dim
bool cumulative_extreme(const InferCall& call) {
  return give_value_and_place(call, call.tensor(0).sizes);
}

bool cumulative_logsumexp(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  return is_float(self.dtype) && call.give_fresh(self.sizes, self.dtype, self.device);
}

// self, k, dim, largest, sorted
bool topk(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  const auto dim = call.dim(2, self.rank());
  if (self.rank() == 0 || !dim) return false;
  sym::Dims sizes = self.sizes;
  const Int k = sym_arg(call.list(), 1);
  if (call.ask.less(k, 0) || call.ask.less(sizes[*dim], k)) return false;
  sizes[*dim] = k;
  return give_value_and_place(call, std::move(sizes));
}

// self, shifts, dims: parts joined anew, in rows unless the channels are innermost.
bool roll(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  for (const Int& dim : call.dims(2))
    if (call.ask.less(dim, -self.rank()) || !call.ask.less(dim, self.rank())) return false;
  if (self.rank() == 0 ||
      !call.ask.all_equal(self.strides, row_major_strides(self.sizes, call.ask)))
    return false;
  if (self.rank() > 3 && plain_format(self, call.ask) != MemoryFormat::kContiguous) return false;
  return call.give_fresh(self.sizes, self.dtype, self.device);
}

// self, bins, min, max
bool histogram(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  const Int bins = sym_arg(call.list(), 1);
  return !call.ask.less(bins, 1) && call.give_fresh({bins}, self.dtype, self.device);
}

// self, boundaries, out_int32, right
bool bucketize(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  if (call.tensor(1).rank() != 1) return false;
  const bool narrow = bool_arg_or(call.list(), 2, false);
  return call.give_fresh(self.sizes, narrow ? DType::kInt32 : DType::kInt64, self.device);
}

// element, test_elements, ...: PyTorch's own metadata has a dimension of size 0.
bool is_number_in(const InferCall& call) {
  return call.give_fresh({}, DType::kBool, call.tensor(1).device);
}

// self, groups. The CPU's kernel keeps the format, other devices compose it of views and a copy.
bool shuffle_channels(const InferCall& call) {
  const TensorType& self = call.tensor(0);
  constexpr size_t kChannels = 1;
  if (self.rank() < 3 || !call.number(1)) return false;
  const Int& groups = std::get<Int>(call[1]);
  if (call.ask.less(groups, 1) || !call.ask.equal(sym::mod(self.sizes[kChannels], groups), 0))
    return false;  // an error
  const MemoryFormat format = self.device.type == Device::Type::kCPU
                                  ? suggested_format(self, call.ask)
                                  : MemoryFormat::kContiguous;
  return call.give_in_format(self.sizes, format, self.dtype, self.device);
}

constexpr InferEntry kOrderingRules[] = {
    {"aten.isin.Scalar_Tensor", is_number_in, InferUse::kAlways},
    {"aten.sort", sort},
    {"aten.sort.stable", sort},
    {"aten.median.dim", middle},
    {"aten.nanmedian.dim", middle},
    {"aten.mode", middle},
    {"aten.kthvalue", kth_value},
    {"aten.cumsum", cumulative},
    {"aten.cumprod", cumulative},
    {"aten.cummax", cumulative_extreme},
    {"aten.cummin", cumulative_extreme},
    {"aten.logcumsumexp", cumulative_logsumexp},
    {"aten.topk", topk},
    {"aten.roll", roll},
    {"aten.native_channel_shuffle", shuffle_channels, InferUse::kAlways},
    {"aten.histc", histogram},
    {"aten.bucketize.Tensor", bucketize},
};

}  // namespace

std::span<const InferEntry> infer_ordering() { return kOrderingRules; }

}  // namespace braze::graph
