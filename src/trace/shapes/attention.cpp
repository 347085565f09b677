// Fused attention on the CPU.
#include "trace/fake_tensor.h"
#include "trace/shapes/families.h"

namespace braze::trace {
namespace {

// query, key, value, dropout_p, is_causal, *, attn_mask, scale. Sizes (batch, heads, sequence,
// depth); the kernel writes (batch, sequence, heads, depth) and gives transposed views.
bool flash_attention(const ShapeCall& call) {
  const at::Tensor query = call.tensor(0), value = call.tensor(2);
  if (query.dim() != 4 || value.dim() != 4) return false;
  const auto sizes = query.sym_sizes();
  const c10::SymInt batch = sizes[0], heads = sizes[1], length = sizes[2], depth = sizes[3];
  const Dims stored = contiguous_strides(Dims{batch, length, heads, depth});
  const at::ScalarType accumulate =
      query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Dims sums = contiguous_strides(Dims{batch, length, heads});
  return call.give(make_fake(sizes, Dims{stored[0], stored[2], stored[1], stored[3]},
                             query.scalar_type()),
                   make_fake(Dims{batch, heads, length}, Dims{sums[0], sums[2], sums[1]},
                             accumulate));
}

constexpr NamedShape kShapes[] = {
    {"_scaled_dot_product_flash_attention_for_cpu", flash_attention, false},
};

}  // namespace

std::span<const NamedShape> attention_shapes() { return kShapes; }

}  // namespace braze::trace
