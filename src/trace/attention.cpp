// `scaled_dot_product_attention`, whose composite kernel picks one that never holds the scores, if
// it can. One that is given a mask often cannot, though the mask hides nothing: models that find in
// eager that they need none make one where they are told that they are compiled, as that would be
// read from data. Where such a mask is known to a trace, it is left out.
#include <ATen/core/Tensor.h>
#include <ATen/ops/all.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include "trace/composites.h"
#include "trace/constants.h"
#include "trace/fake_tensor.h"
#include "trace/trace_state.h"

namespace braze::trace {
namespace {

using at::Tensor;

// Whether the scores have the same sizes with the mask and without it.
bool broadcasts_into_scores(const Tensor& mask, const Tensor& query, const Tensor& key) {
  const int64_t rank = query.dim();
  if (rank < 2 || key.dim() != rank || mask.dim() > rank) return false;
  for (int64_t dim = 1; dim <= mask.dim(); ++dim) {
    const int64_t wanted = dim == 1 ? key.size(-2) : query.size(-dim);
    if (mask.size(-dim) != 1 && mask.size(-dim) != wanted) return false;
  }
  return true;
}

// Asked of masks that take no time to speak of to look through.
bool hides_nothing(const Tensor& mask) {
  constexpr int64_t kMostElements = int64_t{1} << 22;
  if (mask.scalar_type() != at::kBool || mask.numel() > kMostElements || current_state() == nullptr)
    return false;
  const Tensor real = current_state()->constant(mask);
  if (!real.defined() || real.numel() == 0) return false;
  RealCallScope scope;
  return at::all(real).item<bool>();
}

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value,
                 const std::optional<Tensor>& mask, double dropout, bool causal,
                 std::optional<double> scale, bool grouped) {
  c10::impl::ExcludeDispatchKeyGuard below(kCompositeKey);
  const auto is_static = [](const Tensor& tensor) {
    return !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
  };
  const bool needless = mask && mask->defined() && query.is_cuda() && !causal && is_static(query) &&
                        is_static(key) && is_static(*mask) &&
                        broadcasts_into_scores(*mask, query, key) && hides_nothing(*mask);
  return at::scaled_dot_product_attention(query, key, value, needless ? std::nullopt : mask,
                                          dropout, causal, scale, grouped);
}

}  // namespace

void register_attention(torch::Library& operators) {
  operators.impl("scaled_dot_product_attention", attention);
}

}  // namespace braze::trace
