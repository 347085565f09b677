// `matmul`, whose kernel reads concrete sizes in some versions of PyTorch.
//
// The dispatcher runs a composite kernel above autograd, long before the tracer's own key. So a key
// above all others is included while a trace is under way; for all other operators it is passed by.
#include "trace/composites.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/dot.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mv.h>

#include "pytorch/aten.h"

namespace braze::trace {
namespace {

using at::Tensor;
using SymInts = std::vector<c10::SymInt>;

c10::SymInt product(const SymInts& sizes) {
  c10::SymInt result = 1;
  for (const c10::SymInt& size : sizes) result = result * size;
  return result;
}

bool is_contiguous_up_to_last(const Tensor& tensor) {
  auto sizes = tensor.sym_sizes(), strides = tensor.sym_strides();
  for (size_t i = 0; i + 2 < sizes.size(); ++i)
    if (strides[i] != strides[i + 1] * sizes[i + 1]) return false;
  return true;
}

// Whether the batch of one operand is folded into the rows of a product of two matrices; PyTorch's
// own rule, so that static and symbolic sizes give the same bits.
bool folds(const Tensor& a, const Tensor& b) {
  const bool a_is_batched = a.dim() >= b.dim();
  const Tensor& batched = a_is_batched ? a : b;
  const Tensor& other = a_is_batched ? b : a;
  if (batched.dim() < 3 || other.dim() > 2) return false;
  if (other.requires_grad()) return true;
  if (a.dim() == 2) return false;
  return batched.sym_numel() == 0 || is_contiguous_up_to_last(batched);
}

Tensor folded_product(const Tensor& a, const Tensor& b) {
  const bool transposed = b.dim() > a.dim();
  const Tensor batched = transposed ? b.mT() : a;
  const Tensor other = !transposed ? b : a.dim() == 2 ? a.t() : a;
  auto sizes = batched.sym_sizes();
  SymInts result_sizes(sizes.begin(), sizes.end() - 1);
  const Tensor rows = batched.reshape_symint({product(result_sizes), sizes.back()});
  if (other.dim() == 1) return at::_unsafe_view_symint(at::mv(rows, other), result_sizes);
  result_sizes.push_back(other.sym_size(1));
  Tensor result = at::_unsafe_view_symint(at::mm(rows, other), result_sizes);
  return transposed ? result.mT().contiguous() : result;
}

Tensor product_of(const Tensor& a, const Tensor& b);

Tensor batched_product(const Tensor& a, const Tensor& b) {
  auto batch_of = [](const Tensor& t) {
    auto sizes = t.sym_sizes();
    return SymInts(sizes.begin(), sizes.end() - std::min<int64_t>(t.dim(), 2));
  };
  const SymInts a_batch = batch_of(a), b_batch = batch_of(b);
  if (a.dim() == 3 && b.dim() == 3 && a_batch[0] != b_batch[0]) {
    if (a_batch[0] == 1 && a.requires_grad()) return product_of(a.squeeze(0), b);
    if (b_batch[0] == 1 && b.requires_grad()) return product_of(a, b.squeeze(0));
  }
  SymInts result_sizes = pytorch::broadcast_sizes(a_batch, b_batch);
  auto expanded = [&](const Tensor& t) {
    SymInts sizes = result_sizes;
    sizes.push_back(t.sym_size(-2));
    sizes.push_back(t.sym_size(-1));
    return t.expand_symint(sizes).reshape_symint(
        {product(result_sizes), t.sym_size(-2), t.sym_size(-1)});
  };
  const Tensor left = a.dim() == 1 ? a.unsqueeze(0) : a;
  const Tensor right = b.dim() == 1 ? b.unsqueeze(1) : b;
  const Tensor result = at::bmm(expanded(left), expanded(right));
  if (a.dim() > 1) result_sizes.push_back(a.sym_size(-2));
  if (b.dim() > 1) result_sizes.push_back(b.sym_size(-1));
  return at::_unsafe_view_symint(result, result_sizes);
}

Tensor product_of(const Tensor& a, const Tensor& b) {
  TORCH_CHECK(a.dim() != 0 && b.dim() != 0,
              "both arguments to matmul need to be at least 1D, but they are ", a.dim(), "D and ",
              b.dim(), "D");
  if (a.dim() == 1 && b.dim() == 1) return at::dot(a, b);
  if (a.dim() == 2 && b.dim() == 1) return at::mv(a, b);
  if (a.dim() == 1 && b.dim() == 2) return at::mm(a.unsqueeze(0), b).squeeze_(0);
  if (a.dim() == 2 && b.dim() == 2) return at::mm(a, b);
  return folds(a, b) ? folded_product(a, b) : batched_product(a, b);
}

bool is_symbolic(const Tensor& tensor) {
  return tensor.defined() && tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  c10::impl::ExcludeDispatchKeyGuard below(kCompositeKey);
  // Autocast casts before it decomposes.
  const bool decompose =
      (is_symbolic(a) || is_symbolic(b)) && !pytorch::is_autocast_enabled(at::kCPU);
  return decompose ? product_of(a, b) : at::matmul(a, b);
}

}  // namespace

std::string register_composites() {
  if (c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(kCompositeKey))
    return "another library has a fallback on the dispatch key " +
           std::string(c10::toString(kCompositeKey)) + ", which tracing needs";
  // Never destroyed, like the tracer's own fallback.
  static auto& fallback =
      *new torch::Library(torch::Library::IMPL, "_", kCompositeKey, __FILE__, __LINE__);
  fallback.fallback(torch::CppFunction::makeFallthrough());
  static auto& operators =
      *new torch::Library(torch::Library::IMPL, "aten", kCompositeKey, __FILE__, __LINE__);
  operators.impl("matmul", matmul);
  register_attention(operators);
  register_recurrent(operators);
  register_quantiles(operators);
  register_symbolic_composites(operators);
  register_draws(operators);
  register_ctc_loss(operators);
  return "";
}

}  // namespace braze::trace
