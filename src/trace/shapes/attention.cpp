// Fused attention on the CPU.
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/empty.h>

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

}  // namespace

// query, key, value, dropout_p, is_causal, *, attn_mask, scale. Sizes (batch, heads, sequence,
// depth).
bool metadata::flash_attention(const ShapeCall& call) {
  const at::Tensor query = call.tensor(0), value = call.tensor(2);
  if (query.dim() != 4 || value.dim() != 4) return false;
  const auto sizes = query.sym_sizes();
  const c10::SymInt batch = sizes[0], heads = sizes[1], length = sizes[2], depth = sizes[3];
  at::Tensor output;
  if (output_is_like_query()) {
    output = fresh_like(query, query.scalar_type());
  } else {
    output = fresh(Dims{batch, length, heads, depth}, query.scalar_type());
    const auto stored = output.sym_strides();
    output =
        make_fake(sizes, Dims{stored[0], stored[2], stored[1], stored[3]}, query.scalar_type());
  }
  const at::ScalarType accumulate = query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor stored = fresh(Dims{batch, length, heads}, accumulate);
  const auto sums = stored.sym_strides();
  return call.give(
      output, make_fake(Dims{batch, heads, length}, Dims{sums[0], sums[2], sums[1]}, accumulate));
}

}  // namespace braze::trace
