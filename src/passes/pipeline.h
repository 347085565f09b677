// The passes that a graph goes through when it is compiled, in order.
#pragma once

#include <cstdint>
#include <optional>

#include "passes/channels_last.h"
#include "passes/dropout_masks.h"
#include "passes/fused_attention.h"
#include "passes/linear_pointwise.h"
#include "passes/pass_manager.h"
#include "passes/unsupported.h"

namespace braze::passes {

struct PipelineOptions : PassOptions {
  ChannelsLast channels_last = ChannelsLast::kNone;
  bool counter_random = false;                    // random numbers of a counter (counter_random.h)
  std::optional<DropoutMapping> dropout_mapping;  // none: masks are drawn by PyTorch's operator
  std::optional<int64_t> activation_memory;       // bytes (activation_budget.h); none: no bound
  PanelProducts panel_products = PanelProducts::kNone;
  FusedAttention fused_attention = FusedAttention::kNone;
  bool linear_pointwise = false;  // large products through oneDNN (linear_pointwise.h)
};

const std::vector<Pass>& inference_passes();

// functionalise, counter_random, dropout_masks, channels_last, chunked_loss, point_convolutions,
// panel_products, fused_attention, linear_pointwise, few_rows, decompose, aligned_products,
// place_sums, fold, cse, rematerialise, dce. Throws Unsupported, the graph unchanged, when the
// graph has to run in eager.
void run_inference_pipeline(graph::Graph& graph, const PipelineOptions& options);

}  // namespace braze::passes
