#include "runtime/attention_operator.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "kernels/kernels.h"
#include "runtime/torch_threads.h"
#include "target/isa.h"

namespace braze::runtime {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

bool has_rows(const at::Tensor& tensor) {
  return tensor.dim() == 4 && tensor.scalar_type() == at::kFloat && tensor.device().is_cpu() &&
         tensor.layout() == at::kStrided && (tensor.stride(3) == 1 || tensor.size(3) <= 1);
}

void copy_strides(const at::Tensor& from, int64_t (&to)[3]) {
  for (int i = 0; i < 3; ++i) to[i] = from.stride(i);
}

void check_operands(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const at::Tensor& out) {
  for (const at::Tensor& tensor : {query, key, value, out})
    TORCH_CHECK(has_rows(tensor),
                "attention: expected float32 tensors of 4 dimensions on the CPU, last stride 1");
  TORCH_CHECK(out.sizes() == query.sizes() && key.sizes() == value.sizes() &&
                  key.size(0) == query.size(0) && key.size(3) == query.size(3) &&
                  key.size(1) != 0 && query.size(1) % key.size(1) == 0,
              "attention: query ", query.sizes(), ", key ", key.sizes(), ", value ", value.sizes(),
              " into ", out.sizes());
}

const kernels::Variant& variant_of_processor() {
  const kernels::Variant* variant = kernels::variant_for(target::chosen_isa());
  TORCH_CHECK(variant, "attention: needs a processor with AVX2 and FMA");
  return *variant;
}

// `mask`: set to the mask in the sizes of the scores.
kernels::Attention described(const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& value, const OptionalTensor& attn_mask,
                             bool is_causal, double scale, const at::Tensor& out,
                             at::Tensor& mask) {
  check_operands(query, key, value, out);
  kernels::Attention attention{.query = query.const_data_ptr<float>(),
                               .key = key.const_data_ptr<float>(),
                               .value = value.const_data_ptr<float>(),
                               .out = out.mutable_data_ptr<float>(),
                               .batch = query.size(0),
                               .heads = query.size(1),
                               .key_heads = key.size(1),
                               .queries = query.size(2),
                               .keys = key.size(2),
                               .depth = query.size(3),
                               .scale = static_cast<float>(scale),
                               .causal = is_causal};
  copy_strides(query, attention.query_strides);
  copy_strides(key, attention.key_strides);
  copy_strides(value, attention.value_strides);
  copy_strides(out, attention.out_strides);
  if (attn_mask) {
    TORCH_CHECK(attn_mask->scalar_type() == at::kFloat && attn_mask->device().is_cpu(),
                "attention: expected a float32 mask on the CPU");
    mask = attn_mask->expand({query.size(0), query.size(1), query.size(2), key.size(2)});
    attention.mask = mask.const_data_ptr<float>();
    for (int i = 0; i < 4; ++i) attention.mask_strides[i] = mask.stride(i);
  }
  return attention;
}

at::Tensor& attention_out(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const OptionalTensor& attn_mask, bool is_causal, double scale,
                          at::Tensor& out) {
  at::Tensor mask;
  const auto attention = described(query, key, value, attn_mask, is_causal, scale, out, mask);
  kernels::attend(variant_of_processor(), attention, usable_threads(), on_torch_threads);
  return out;
}

// Whether ATen's operator of this PyTorch gives a result like the query, or one with the layout
// [batch, queries, heads, depth]: asked once, of the operator.
bool aten_gives_like_query() {
  static const bool answer = [] {
    const at::Tensor query = at::zeros({1, 2, 3, 4}, at::TensorOptions(at::kFloat));
    const auto result = at::_scaled_dot_product_flash_attention_for_cpu(query, query, query);
    return std::get<0>(result).is_contiguous();
  }();
  return answer;
}

// In memory for [batch, rows, heads, depth].
at::Tensor by_sequence(const at::Tensor& like) {
  const auto sizes = like.sizes();
  return at::empty({sizes[0], sizes[2], sizes[1], sizes[3]}, like.options()).transpose(1, 2);
}

at::Tensor zeros_by_sequence(const at::Tensor& like) { return by_sequence(like).zero_(); }

at::Tensor result_for(const at::Tensor& query) {
  TORCH_CHECK(has_rows(query), "attention: expected a float32 query of 4 dimensions on the CPU");
  return aten_gives_like_query() ? at::empty_like(query) : by_sequence(query);
}

at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const OptionalTensor& attn_mask, bool is_causal, double scale) {
  at::Tensor out = result_for(query);
  return attention_out(query, key, value, attn_mask, is_causal, scale, out);
}

std::tuple<at::Tensor, at::Tensor> attention_with_logsumexp(const at::Tensor& query,
                                                            const at::Tensor& key,
                                                            const at::Tensor& value,
                                                            const OptionalTensor& attn_mask,
                                                            bool is_causal, double scale) {
  at::Tensor out = result_for(query), mask;
  const auto sizes = query.sizes();
  at::Tensor sums = at::empty({sizes[0], sizes[2], sizes[1]}, query.options()).transpose(1, 2);
  auto attention = described(query, key, value, attn_mask, is_causal, scale, out, mask);
  attention.logsumexp = sums.mutable_data_ptr<float>();
  copy_strides(sums, attention.logsumexp_strides);
  kernels::attend(variant_of_processor(), attention, usable_threads(), on_torch_threads);
  return {std::move(out), std::move(sums)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward(
    const at::Tensor& given, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& out, const at::Tensor& logsumexp,
    const OptionalTensor& attn_mask, bool is_causal, double scale) {
  at::Tensor mask;
  kernels::AttentionGradient gradient;
  gradient.forward = described(query, key, value, attn_mask, is_causal, scale, out, mask);
  const at::Tensor tangent = has_rows(given) ? given : given.contiguous();
  TORCH_CHECK(tangent.sizes() == query.sizes() && has_rows(tangent),
              "attention: a tangent of sizes ", tangent.sizes(), " of ", query.sizes());
  TORCH_CHECK(logsumexp.sizes() == query.sizes().slice(0, 3) &&
                  logsumexp.scalar_type() == at::kFloat && logsumexp.device().is_cpu(),
              "attention: logarithms of sums of sizes ", logsumexp.sizes(), " of ", query.sizes());
  gradient.forward.logsumexp = const_cast<float*>(logsumexp.const_data_ptr<float>());
  copy_strides(logsumexp, gradient.forward.logsumexp_strides);
  gradient.tangent = tangent.const_data_ptr<float>();
  copy_strides(tangent, gradient.tangent_strides);
  if (query.numel() == 0 || key.numel() == 0)
    return {zeros_by_sequence(query), zeros_by_sequence(key), zeros_by_sequence(value)};
  const at::Tensor of_query = by_sequence(query), of_key = by_sequence(key),
                   of_value = by_sequence(value);
  gradient.query = of_query.mutable_data_ptr<float>();
  gradient.key = of_key.mutable_data_ptr<float>();
  gradient.value = of_value.mutable_data_ptr<float>();
  copy_strides(of_query, gradient.query_strides);
  copy_strides(of_key, gradient.key_strides);
  copy_strides(of_value, gradient.value_strides);
  kernels::differentiate(variant_of_processor(), gradient, usable_threads(), on_torch_threads);
  return {of_query, of_key, of_value};
}

}  // namespace

void register_attention_operator() {
  static const bool done = [] {
    static torch::Library library(torch::Library::FRAGMENT, "braze", std::nullopt, __FILE__,
                                  __LINE__);
    library.def(
        "attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool is_causal, "
        "float scale) -> Tensor",
        torch::dispatch(c10::DispatchKey::CPU, attention));
    library.def(
        "attention.out(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, "
        "bool is_causal, float scale, *, Tensor(a!) out) -> Tensor(a!)",
        torch::dispatch(c10::DispatchKey::CPU, attention_out));
    library.def(
        "attention_with_logsumexp(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, "
        "bool is_causal, float scale) -> (Tensor, Tensor)",
        torch::dispatch(c10::DispatchKey::CPU, attention_with_logsumexp));
    library.def(
        "attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, "
        "Tensor logsumexp, Tensor? attn_mask, bool is_causal, float scale) "
        "-> (Tensor, Tensor, Tensor)",
        torch::dispatch(c10::DispatchKey::CPU, attention_backward));
    return true;
  }();
  (void)done;
}

}  // namespace braze::runtime
