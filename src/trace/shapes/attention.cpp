// Fused attention on the CPU.
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/empty.h>

#include "trace/constants.h"
#include "trace/fake_tensor.h"
#include "trace/shapes/families.h"

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

// query, key, value, dropout_p, is_causal, *, attn_mask, scale. Sizes (batch, heads, sequence,
// depth).
bool flash_attention(const ShapeCall& call) {
  const at::Tensor query = call.tensor(0), value = call.tensor(2);
  if (query.dim() != 4 || value.dim() != 4) return false;
  const auto sizes = query.sym_sizes();
  const c10::SymInt batch = sizes[0], heads = sizes[1], length = sizes[2], depth = sizes[3];
  at::Tensor output;
  if (output_is_like_query()) {
    output = fresh_like(query, query.scalar_type());
  } else {
    const Dims stored = contiguous_strides(Dims{batch, length, heads, depth});
    output =
        make_fake(sizes, Dims{stored[0], stored[2], stored[1], stored[3]}, query.scalar_type());
  }
  const at::ScalarType accumulate = query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Dims sums = contiguous_strides(Dims{batch, length, heads});
  return call.give(
      output, make_fake(Dims{batch, heads, length}, Dims{sums[0], sums[2], sums[1]}, accumulate));
}

// src, ...: a whole nn.TransformerEncoderLayer in evaluation mode. Contiguous whatever src is.
bool encoder_layer(const ShapeCall& call) {
  const at::Tensor src = call.tensor(0);
  if (src.is_nested()) return false;
  return call.give(fresh(src.sym_sizes(), src.scalar_type()));
}

constexpr NamedShape kShapes[] = {
    {"_transformer_encoder_layer_fwd", encoder_layer, false},
    {"_scaled_dot_product_flash_attention_for_cpu", flash_attention, false},
};

}  // namespace

std::span<const NamedShape> attention_shapes() { return kShapes; }

}  // namespace braze::trace
