// Whole layers of transformers. The layout of attention by itself is asked of PyTorch's kernel
// (trace/shapes/attention.cpp).
#include "graph/infer/call.h"

namespace braze::graph {
namespace {

// src, ...: a whole nn.TransformerEncoderLayer in evaluation mode. Contiguous whatever src is.
bool encoder_layer(const InferCall& call) {
  const TensorType& src = call.tensor(0);
  return call.give_fresh(src.sizes, src.dtype, src.device);
}

constexpr InferEntry kAttentionRules[] = {
    {"aten._transformer_encoder_layer_fwd", encoder_layer, InferUse::kAlways},
};

}  // namespace

std::span<const InferEntry> infer_attention() { return kAttentionRules; }

}  // namespace braze::graph
