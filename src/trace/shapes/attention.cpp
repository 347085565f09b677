// Fused attention on the CPU.
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>

#include <array>

#include "trace/constants.h"
#include "trace/fake_tensor.h"
#include "trace/rules/rules.h"
#include "trace/shapes/common.h"

namespace braze::trace {
namespace {

// Whether the kernel of this PyTorch makes the output like the query, or always with the layout
// (batch, sequence, heads, depth): asked once, of the kernel, for a batch of nothing, which starts
// neither threads nor MKL.
bool output_is_like_query() {
  static const bool answer = [] {
    RealCallScope scope;
    const at::Tensor query = at::empty({0, 2, 3, 4}, at::TensorOptions(at::kFloat));
    const auto result = at::_scaled_dot_product_flash_attention_for_cpu(query, query, query);
    return std::get<0>(result).strides() == query.strides();
  }();
  return answer;
}

// The same of the gradients of query, key and value, which have the layout (batch, sequence, heads,
// depth) in the PyTorch that is known.
bool gradients_are_by_sequence() {
  static const bool answer = [] {
    RealCallScope scope;
    const at::Tensor query = at::empty({0, 2, 3, 4}, at::TensorOptions(at::kFloat));
    const auto result = at::_scaled_dot_product_flash_attention_for_cpu(query, query, query);
    const auto gradients = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        query, query, query, query, std::get<0>(result), std::get<1>(result), 0.0, false);
    return std::get<0>(gradients).strides() == at::IntArrayRef{24, 4, 8, 1};
  }();
  return answer;
}

// Of four dimensions, with memory for (batch, sequence, heads, depth).
at::Tensor laid_out_by_sequence(DimsRef sizes, at::ScalarType dtype) {
  const at::Tensor stored = fresh(Dims{sizes[0], sizes[2], sizes[1], sizes[3]}, dtype);
  const auto strides = stored.sym_strides();
  return make_fake(sizes, Dims{strides[0], strides[2], strides[1], strides[3]}, dtype);
}

}  // namespace

// query, key, value, dropout_p, is_causal, *, attn_mask, scale. Sizes (batch, heads, sequence,
// depth).
bool metadata::flash_attention(const ShapeCall& call) {
  const at::Tensor query = call.tensor(0), value = call.tensor(2);
  if (query.dim() != 4 || value.dim() != 4) return false;
  const auto sizes = query.sym_sizes();
  const c10::SymInt batch = sizes[0], heads = sizes[1], length = sizes[2];
  at::Tensor output;
  if (output_is_like_query()) {
    output = fresh_like(query, query.scalar_type());
  } else {
    output = laid_out_by_sequence(sizes, query.scalar_type());
  }
  const at::ScalarType accumulate = query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor stored = fresh(Dims{batch, length, heads}, accumulate);
  const auto sums = stored.sym_strides();
  return call.give(
      output, make_fake(Dims{batch, heads, length}, Dims{sums[0], sums[2], sums[1]}, accumulate));
}

// grad_out, query, key, value, ...
bool metadata::flash_attention_backward(const ShapeCall& call) {
  std::array<at::Tensor, 4> tensors;
  for (int i = 0; i < 4; ++i) {
    tensors[i] = call.tensor(i);
    if (tensors[i].dim() != 4 || tensors[i].scalar_type() != tensors[0].scalar_type() ||
        equal(tensors[i].sym_numel(), 0))
      return false;
  }
  if (!gradients_are_by_sequence()) return false;
  const auto gradient = [](const at::Tensor& of) {
    return laid_out_by_sequence(of.sym_sizes(), of.scalar_type());
  };
  return call.give(gradient(tensors[1]), gradient(tensors[2]), gradient(tensors[3]));
}

}  // namespace braze::trace
