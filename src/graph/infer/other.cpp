#include <algorithm>
#include <cmath>

#include "graph/arguments.h"
#include "graph/infer/infer.h"
#include "graph/infer/promotion.h"
#include "graph/infer/strides.h"

namespace braze::graph {
namespace {

using sym::Int;

TensorType reduced(const TensorType& self, const std::vector<int64_t>& dims, bool keep,
                   DType dtype) {
  sym::Dims sizes;
  for (int64_t i = 0; i < self.rank(); ++i) {
    const bool gone = std::find(dims.begin(), dims.end(), i) != dims.end();
    if (!gone)
      sizes.push_back(self.sizes[i]);
    else if (keep)
      sizes.push_back(1);
  }
  return make_type(dtype, std::move(sizes), self.device);
}

// Results of max.dim and argmax.
TensorType reduced_one(const TensorType& self, ArgumentList list, DType dtype) {
  const int64_t dim = normalize_dim(int_arg(list, 1), self.rank());
  if (self.rank() == 0) return make_type(dtype, {}, self.device);
  return reduced(self, {dim}, bool_arg_or(list, 2, false), dtype);
}

DType sum_dtype(const TensorType& self, std::optional<DType> asked) {
  if (asked) return *asked;
  return is_integral(self.dtype, true) ? DType::kInt64 : self.dtype;
}

// Factories have their arguments for dtype, layout and device in this order.
Device device_arg(ArgumentList list, int dtype_position, Device otherwise = {}) {
  return optional_device_arg(list, dtype_position + 2).value_or(otherwise);
}

TensorType like(const TensorType& self, ArgumentList list, int dtype_position,
                int format_position) {
  TensorType type = self;
  type.offset = 0;
  type.dtype = optional_dtype_arg(list, dtype_position).value_or(self.dtype);
  type.device = device_arg(list, dtype_position, self.device);
  type.strides = like_strides(
      self, optional_memory_format_arg(list, format_position).value_or(MemoryFormat::kPreserve));
  return type;
}

TensorType arange(ArgumentList list, std::span<const Argument> numbers, int dtype_position) {
  auto number = [&](size_t i) { return scalar_to_double(numbers[i]); };
  const double start = numbers.size() > 1 ? number(0) : 0;
  const double end = numbers.size() > 1 ? number(1) : number(0);
  const double step = numbers.size() > 2 ? number(2) : 1;
  const bool integral = std::all_of(numbers.begin(), numbers.end(), [](const Argument& n) {
    return scalar_kind(n) != DTypeKind::kFloat;
  });
  const auto size = static_cast<int64_t>(std::ceil((end - start) / step));
  return make_type(
      optional_dtype_arg(list, dtype_position).value_or(integral ? DType::kInt64 : DType::kFloat32),
      {std::max<int64_t>(size, 0)}, device_arg(list, dtype_position));
}

// The format that all have; what is joined keeps it.
MemoryFormat common_format(const std::vector<Value*>& parts) {
  const MemoryFormat format = suggested_format(parts.at(0)->type());
  const bool common = std::all_of(parts.begin(), parts.end(), [&](const Value* part) {
    return suggested_format(part->type()) == format;
  });
  return common ? format : MemoryFormat::kContiguous;
}

TensorType concatenated(const std::vector<Value*>& parts, int64_t dim) {
  // Tensors of size [0] are left out, as eager does for old programs.
  const TensorType* shape = nullptr;
  std::vector<Argument> all;
  Int total = 0;
  for (Value* part : parts) {
    all.push_back(part);
    const bool skipped = part->type().sizes == sym::Dims{0};
    if (!skipped && !shape) shape = &part->type();
  }
  if (!shape) shape = &parts.at(0)->type();
  dim = normalize_dim(dim, shape->rank());
  for (Value* part : parts) {
    if (part->type().rank() == shape->rank()) total = total + part->type().sizes[dim];
  }
  TensorType type = make_type(result_type(all), shape->sizes, shape->device);
  type.sizes[dim] = total;
  type.strides = like_strides(type, common_format(parts));
  return type;
}

// A result with the values of argument 0, some or all replaced, in the layout of its clone.
TensorType cloned(const TensorType& self) {
  TensorType type = self;
  type.offset = 0;
  type.strides = like_strides(self, MemoryFormat::kPreserve);
  return type;
}

// The inverses of views keep strides with their gaps, but not overlaps.
TensorType scattered(const TensorType& self) {
  for (size_t i = 0; i < self.sizes.size(); ++i) {
    if (self.strides[i] == Int(0) && self.sizes[i] != Int(1)) return cloned(self);
  }
  TensorType type = self;
  type.offset = 0;
  return type;
}

// The kernel sees an index tensor as one of the result's rank, whose other dimensions are of size 1:
// where the result's are too, these have a say in its layout.
void add_dims_of_one(sym::Dims& strides, const sym::Dims& sizes, size_t place,
                     const TensorType& index) {
  Int span = 1;
  for (const Int& size : index.sizes) span = span * (size == Int(0) ? Int(1) : size);
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool inside = d >= place && d < place + index.sizes.size();
    if (!inside && sizes[d] == Int(1)) strides[d] = d < place ? span : Int(1);
  }
}

// Empty: a mask, of which only the data tells how much it picks.
std::optional<TensorType> index(const TensorType& self, const std::vector<Value*>& indices) {
  // The broadcast index shape stands where the first index stood, or in front when indices are
  // apart from each other.
  std::vector<const TensorType*> tensors;
  size_t first = indices.size(), last = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i]) continue;
    const TensorType& type = indices[i]->type();
    if (type.dtype == DType::kBool || type.dtype == DType::kUInt8) return std::nullopt;
    tensors.push_back(&type);
    first = std::min(first, i);
    last = i;
  }
  const sym::Dims picked = broadcast_sizes(tensors);
  const bool adjacent = last - first + 1 == tensors.size();
  const size_t place = adjacent ? first : 0;
  TensorType type = make_type(self.dtype, {}, self.device);
  sym::Dims& sizes = type.sizes;
  std::vector<sym::Dims> strides(1);  // of the operands of the kernel's loop, `self` first
  for (size_t i = 0; i < self.sizes.size(); ++i) {
    if (i < indices.size() && indices[i]) continue;
    sizes.push_back(self.sizes[i]);
    strides[0].push_back(self.strides[i]);
  }
  sizes.insert(sizes.begin() + place, picked.begin(), picked.end());
  strides[0].insert(strides[0].begin() + place, picked.size(), 0);
  for (const TensorType* tensor : tensors) {
    sym::Dims& own = strides.emplace_back(sizes.size(), 0);
    const size_t begin = place + picked.size() - tensor->sizes.size();
    for (size_t i = 0; i < tensor->sizes.size(); ++i)
      if (tensor->sizes[i] != Int(1) || sizes[begin + i] == Int(1))
        own[begin + i] = tensor->strides[i];
    if (tensor->sizes.size() == picked.size() && tensor->is_contiguous())
      add_dims_of_one(own, sizes, place, *tensor);
  }
  type.strides = iterator_strides(strides, sizes);
  return type;
}

// Statistics of half-precision inputs are kept in f32 on a GPU, and where a parameter is of f32.
DType statistics_dtype(const TensorType& self, ArgumentList list,
                       std::initializer_list<int> parameters) {
  const bool half = self.dtype == DType::kFloat16 || self.dtype == DType::kBFloat16;
  if (half && self.device.type == Device::Type::kCUDA) return DType::kFloat32;
  for (const int position : parameters) {
    const Value* parameter = optional_tensor_arg(list, position);
    if (half && parameter && parameter->type().dtype == DType::kFloat32) return DType::kFloat32;
  }
  return self.dtype;
}

}  // namespace

std::optional<std::vector<TensorType>> infer_other(OpKind kind, std::span<const Argument> args) {
  const ArgumentList list(args);
  auto self = [&]() -> const TensorType& { return tensor_arg(list, 0)->type(); };
  auto one = [](TensorType type) { return std::vector{std::move(type)}; };
  auto dims = [&](int i) { return reduction_dims_arg(list, i, self().rank()); };
  switch (kind) {
    // Factories.
    case OpKind::kfull:
      return one(make_type(optional_dtype_arg(list, 2).value_or(dtype_of_scalar(args[1])),
                           dims_arg(list, 0), device_arg(list, 2)));
    case OpKind::kfull_like:
      return one(like(self(), list, 2, 6));
    case OpKind::kzeros_like:
    case OpKind::kones_like:
    case OpKind::kempty_like:
      return one(like(self(), list, 1, 5));
    case OpKind::kzeros:
    case OpKind::kones:
    case OpKind::kempty_memory_format:
      return one(make_type(optional_dtype_arg(list, 1).value_or(DType::kFloat32), dims_arg(list, 0),
                           device_arg(list, 1)));
    case OpKind::karange:
      return one(arange(list, args.first(1), 1));
    case OpKind::karange_start:
      return one(arange(list, args.first(2), 2));
    case OpKind::karange_start_step:
      return one(arange(list, args.first(3), 3));
    case OpKind::kscalar_tensor:
      return one(make_type(optional_dtype_arg(list, 1).value_or(DType::kFloat32), {},
                           device_arg(list, 1)));
    case OpKind::klift_fresh_copy:
    case OpKind::kcopy:
    case OpKind::kfill_Scalar:
    case OpKind::kfill_Tensor:
    case OpKind::kindex_put:
      return one(cloned(self()));
    case OpKind::kscatter_src:
    case OpKind::kscatter_value:
    case OpKind::kscatter_add:
      return one(make_type(self().dtype, self().sizes, self().device));
    case OpKind::kslice_scatter:
    case OpKind::kselect_scatter:
    case OpKind::kas_strided_scatter:
    case OpKind::kdiagonal_scatter:
      return one(scattered(self()));
    // Indexing.
    case OpKind::kcat:
      return one(concatenated(tensor_list_arg(list, 0), int_arg_or(list, 1, 0)));
    case OpKind::kembedding: {
      sym::Dims sizes = tensor_arg(list, 1)->type().sizes;
      sizes.push_back(self().sizes.at(1));
      return one(make_type(self().dtype, std::move(sizes), self().device));
    }
    case OpKind::kindex_select: {
      sym::Dims sizes = self().sizes;
      if (!sizes.empty())
        sizes[normalize_dim(int_arg(list, 1), self().rank())] = tensor_arg(list, 2)->type().numel();
      return one(make_type(self().dtype, std::move(sizes), self().device));
    }
    case OpKind::kgather:
      return one(make_type(self().dtype, tensor_arg(list, 2)->type().sizes, self().device));
    case OpKind::kindex_Tensor:
      if (const auto type = index(self(), tensor_list_arg(list, 1))) return one(*type);
      return std::nullopt;
    // Reductions.
    case OpKind::ksum:
    case OpKind::kprod:
      return one(make_type(sum_dtype(self(), optional_dtype_arg(list, 1)), {}, self().device));
    case OpKind::ksum_dim_IntList:
      return one(reduced(self(), dims(1), bool_arg_or(list, 2, false),
                         sum_dtype(self(), optional_dtype_arg(list, 3))));
    case OpKind::kmean:
      return one(make_type(optional_dtype_arg(list, 1).value_or(self().dtype), {}, self().device));
    case OpKind::kmean_dim:
      return one(reduced(self(), dims(1), bool_arg_or(list, 2, false),
                         optional_dtype_arg(list, 3).value_or(self().dtype)));
    case OpKind::kamax:
    case OpKind::kamin:
      return one(reduced(self(), dims(1), bool_arg_or(list, 2, false), self().dtype));
    case OpKind::kmax:
    case OpKind::kmin:
      return one(make_type(self().dtype, {}, self().device));
    case OpKind::kmax_dim:
    case OpKind::kmin_dim:
      return std::vector{reduced_one(self(), list, self().dtype),
                         reduced_one(self(), list, DType::kInt64)};
    case OpKind::kargmax:
    case OpKind::kargmin:
      if (!is_none(list, 1)) return one(reduced_one(self(), list, DType::kInt64));
      return one(reduced(self(), dims(1), bool_arg_or(list, 2, false), DType::kInt64));
    case OpKind::kvar_correction:
    case OpKind::kstd_correction:
      return one(reduced(self(), dims(1), bool_arg_or(list, 3, false), part_of(self().dtype)));
    case OpKind::kvar_mean_correction: {
      const TensorType mean = reduced(self(), dims(1), bool_arg_or(list, 3, false), self().dtype);
      TensorType variance = mean;
      variance.dtype = part_of(mean.dtype);
      return std::vector{variance, mean};
    }
    case OpKind::k_softmax:
    case OpKind::k_log_softmax:
      return one(make_type(bool_arg_or(list, 2, false) ? DType::kFloat32 : self().dtype,
                           self().sizes, self().device));
    // Library calls.
    case OpKind::kmm:
      return one(make_type(self().dtype,
                           {self().sizes.at(0), tensor_arg(list, 1)->type().sizes.at(1)},
                           self().device));
    case OpKind::kaddmm:
      return one(make_type(
          self().dtype,
          {tensor_arg(list, 1)->type().sizes.at(0), tensor_arg(list, 2)->type().sizes.at(1)},
          tensor_arg(list, 1)->type().device));
    case OpKind::klinear: {
      sym::Dims sizes = self().sizes;
      sizes.back() = tensor_arg(list, 1)->type().sizes.at(0);
      return one(make_type(self().dtype, std::move(sizes), self().device));
    }
    case OpKind::kbmm:
      return one(make_type(
          self().dtype,
          {self().sizes.at(0), self().sizes.at(1), tensor_arg(list, 1)->type().sizes.at(2)},
          self().device));
    case OpKind::knative_layer_norm: {
      const auto normalized = static_cast<int64_t>(dims_arg(list, 1).size());
      std::vector<int64_t> last;
      for (int64_t i = self().rank() - normalized; i < self().rank(); ++i) last.push_back(i);
      const TensorType statistics =
          reduced(self(), last, true, statistics_dtype(self(), list, {2, 3}));
      return std::vector{make_type(self().dtype, self().sizes, self().device), statistics,
                         statistics};
    }
    case OpKind::k_native_batch_norm_legit_functional: {
      const TensorType statistics = make_type(statistics_dtype(self(), list, {1, 2, 3, 4}),
                                              {self().sizes.at(1)}, self().device);
      TensorType out = self();
      out.offset = 0;
      out.strides = like_strides(self(), MemoryFormat::kPreserve);
      return std::vector{out, statistics, statistics, tensor_arg(list, 3)->type(),
                         tensor_arg(list, 4)->type()};
    }
    default:
      return std::nullopt;
  }
}

}  // namespace braze::graph
