#include "runtime/place_sum_operator.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <array>
#include <limits>
#include <optional>

#include "runtime/cuda/place_sums.h"
#include "runtime/cuda/stream.h"

namespace braze::runtime {
namespace {

std::optional<cuda::SummedType> summed_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return cuda::SummedType::kFloat16;
    case at::kBFloat16:
      return cuda::SummedType::kBFloat16;
    case at::kFloat:
      return cuda::SummedType::kFloat32;
    case at::kDouble:
      return cuda::SummedType::kFloat64;
    default:
      return std::nullopt;
  }
}

void check_place_sum(const at::Tensor& source, const at::Tensor& place, int64_t dim,
                     const c10::SymInt& rows, const std::optional<at::Tensor>& base) {
  TORCH_CHECK(summed_type(source.scalar_type()), "braze::sum_by_place: no sums of ",
              source.scalar_type());
  TORCH_CHECK(place.scalar_type() == at::kLong || place.scalar_type() == at::kInt,
              "braze::sum_by_place: places are of int64 or int32, got ", place.scalar_type());
  TORCH_CHECK(place.device() == source.device(), "braze::sum_by_place: the source is on ",
              source.device(), " and its places are on ", place.device());
  TORCH_CHECK(dim >= 0 && dim < source.dim() && place.dim() == 1 &&
                  place.sym_size(0) == source.sym_size(dim),
              "braze::sum_by_place: expected a place for each of the elements of ",
              source.sym_sizes(), " along dimension ", dim, ", got ", place.sym_sizes());
  TORCH_CHECK(rows >= 0, "braze::sum_by_place: ", rows, " rows");
  if (!base) return;
  c10::SymDimVector sizes(source.sym_sizes());
  sizes[dim] = rows;
  TORCH_CHECK(base->sym_sizes() == c10::SymIntArrayRef(sizes) &&
                  base->scalar_type() == source.scalar_type() && base->device() == source.device(),
              "braze::sum_by_place: the base is ", base->scalar_type(), base->sym_sizes(),
              " and not ", source.scalar_type(), c10::SymIntArrayRef(sizes));
}

at::Tensor sum_by_operators(const at::Tensor& source, const at::Tensor& place, int64_t dim,
                            int64_t rows, int64_t skipped, bool checked,
                            const std::optional<at::Tensor>& base) {
  at::Tensor inside = place.ge(0).logical_and(place.lt(rows));
  if (checked && !place.is_cuda())
    TORCH_CHECK_INDEX(inside.all().item<bool>(), "index out of range in braze::sum_by_place");
  if (checked) inside = at::ones_like(inside);  // the operator checks
  const at::Tensor counts = inside.logical_and(place.ne(skipped));
  const bool is_half = source.element_size() == 2;
  std::vector<int64_t> sizes = source.sizes().vec();
  sizes[dim] = rows;
  const at::ScalarType wide = is_half ? at::kFloat : source.scalar_type();
  const at::Tensor sums = base ? base->to(wide, /*non_blocking=*/false, /*copy=*/true).contiguous()
                               : at::zeros(sizes, source.options().dtype(wide));
  if (rows == 0 || source.numel() == 0) return sums.to(source.scalar_type());
  std::vector<int64_t> along(source.dim(), 1);
  along[dim] = place.size(0);
  const at::Tensor added =
      at::where(counts.view(along), source, at::zeros({}, source.options())).to(sums.scalar_type());
  const at::Tensor target = at::where(counts, place, at::zeros({}, place.options())).to(at::kLong);
  c10::List<std::optional<at::Tensor>> indices;
  for (int64_t i = 0; i < dim; ++i) indices.push_back(std::nullopt);
  indices.push_back(target);
  return sums.index_put_(indices, added, /*accumulate=*/true).to(source.scalar_type());
}

at::Tensor sum_by_place_on_gpu(const at::Tensor& given, const at::Tensor& given_places, int64_t dim,
                               int64_t rows, int64_t skipped, bool checked,
                               const std::optional<at::Tensor>& given_base) {
  check_place_sum(given, given_places, dim, rows, given_base);
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() - 64;
  cuda::PlaceSum sum{.device = given.device().index(),
                     .outer = c10::multiply_integers(given.sizes().slice(0, dim)),
                     .count = given.size(dim),
                     .rows = rows,
                     .inner = c10::multiply_integers(given.sizes().slice(dim + 1)),
                     .skipped = skipped,
                     .refuses = checked};
  const bool empty = given.numel() == 0 || rows == 0;
  if (empty || !cuda::knows_place_sums() || sum.outer > kMost || sum.count > kMost ||
      sum.rows > kMost || sum.inner > kMost)
    return sum_by_operators(given, given_places, dim, rows, skipped, checked, given_base);
  const at::Tensor source = given.contiguous(), place = given_places.contiguous();
  std::vector<int64_t> sizes = source.sizes().vec();
  sizes[dim] = rows;
  const at::Tensor base = given_base ? given_base->contiguous() : at::Tensor();
  const at::Tensor out = at::empty(sizes, source.options());
  const auto words = source.options().dtype(at::kInt);
  const at::Tensor heads = at::zeros({rows + cuda::place_sum_counters()}, words);
  const at::Tensor ranges = at::empty({rows, 2}, words);
  const at::Tensor lists = at::empty({2, sum.count}, words);
  sum.source = source.const_data_ptr();
  sum.place = place.const_data_ptr();
  sum.out = out.mutable_data_ptr();
  if (base.defined()) sum.base = base.const_data_ptr();
  sum.heads = heads.mutable_data_ptr();
  sum.ranges = ranges.mutable_data_ptr();
  sum.next = lists.mutable_data_ptr<int32_t>();
  sum.order = lists.mutable_data_ptr<int32_t>() + sum.count;
  const cuda::SummedType type = *summed_type(source.scalar_type());
  const int pack = cuda::place_sum_pack(
      type, sum.inner, std::array{sum.source, sum.base, static_cast<const void*>(sum.out)});
  constexpr int kMatrices = 4;  // that share the reading of a list where rows are narrow
  sum.kind = {.type = type,
              .wide_places = place.scalar_type() == at::kLong,
              .pack = pack,
              .outer = pack == 1 && sum.outer >= kMatrices ? kMatrices : 1,
              .wide = std::max(source.numel(), out.numel()) > kMost};
  cuda::sum_by_place(sum, cuda::current_stream(source.device()));
  return out;
}

at::Tensor sum_by_place_elsewhere(const at::Tensor& source, const at::Tensor& place, int64_t dim,
                                  int64_t rows, int64_t skipped, bool checked,
                                  const std::optional<at::Tensor>& base) {
  check_place_sum(source, place, dim, rows, base);
  return sum_by_operators(source, place, dim, rows, skipped, checked, base);
}

at::Tensor sum_by_place_meta(const at::Tensor& source, const at::Tensor& place, int64_t dim,
                             c10::SymInt rows, const c10::SymInt&, bool,
                             const std::optional<at::Tensor>& base) {
  check_place_sum(source, place, dim, rows, base);
  c10::SymDimVector sizes(source.sym_sizes());
  sizes[dim] = std::move(rows);
  return at::empty_symint(sizes, source.options());
}

}  // namespace

void register_place_sum_operator() {
  static const bool done = [] {
    static torch::Library library(torch::Library::FRAGMENT, "braze", std::nullopt, __FILE__,
                                  __LINE__);
    library.def(
        "sum_by_place(Tensor source, Tensor place, int dim, SymInt rows, SymInt skipped=-1, "
        "bool checked=False, Tensor? base=None) -> Tensor");
    library.impl("sum_by_place", torch::dispatch(c10::DispatchKey::CPU, sum_by_place_elsewhere));
    library.impl("sum_by_place", torch::dispatch(c10::DispatchKey::CUDA, sum_by_place_on_gpu));
    library.impl("sum_by_place", torch::dispatch(c10::DispatchKey::Meta, sum_by_place_meta));
    return true;
  }();
  (void)done;
}

}  // namespace braze::runtime
