#include "passes/pipeline.h"

#include "passes/aligned_products.h"
#include "passes/chunked_loss.h"
#include "passes/counter_random.h"
#include "passes/cse.h"
#include "passes/dce.h"
#include "passes/decompose.h"
#include "passes/few_rows.h"
#include "passes/fold.h"
#include "passes/functionalise.h"
#include "passes/fused_attention.h"
#include "passes/linear_pointwise.h"
#include "passes/place_sums.h"
#include "passes/pointwise_convolution.h"
#include "passes/rematerialise.h"

namespace braze::passes {

const std::vector<Pass>& inference_passes() {
  static const std::vector<Pass> passes = {
      {"functionalise", functionalise},
      {"counter_random", use_counter_random},
      {"dropout_masks", [](graph::Graph& graph) { return use_dropout_masks(graph, {}); }},
      {"channels_last",
       [](graph::Graph& graph) { return use_channels_last(graph, ChannelsLast::kAll); }},
      {"chunked_loss", chunk_losses},
      {"point_convolutions", multiply_convolutions},
      {"panel_products",
       [](graph::Graph& graph) { return use_panel_products(graph, PanelProducts::kLarge); }},
      {"fused_attention",
       [](graph::Graph& graph) {
         return use_fused_attention(graph, FusedAttention::kWithoutGradient);
       }},
      {"linear_pointwise", use_linear_pointwise},
      {"few_rows", touch_few_rows},
      {"decompose", decompose},
      {"aligned_products", align_products},
      {"place_sums", use_place_sums},
      {"fold", fold},
      {"cse", eliminate_common_subexpressions},
      {"rematerialise", rematerialise},
      {"dce", eliminate_dead_code},
  };
  return passes;
}

void run_inference_pipeline(graph::Graph& graph, const PipelineOptions& options) {
  PassOptions pass_options = options;
  if (!options.counter_random) pass_options.skip.push_back("counter_random");
  if (!options.dropout_mapping) pass_options.skip.push_back("dropout_masks");
  if (options.channels_last == ChannelsLast::kNone) pass_options.skip.push_back("channels_last");
  if (options.panel_products != PanelProducts::kAll)
    pass_options.skip.push_back("point_convolutions");
  if (options.panel_products == PanelProducts::kNone) pass_options.skip.push_back("panel_products");
  if (options.fused_attention == FusedAttention::kNone)
    pass_options.skip.push_back("fused_attention");
  if (!options.linear_pointwise) pass_options.skip.push_back("linear_pointwise");
  std::vector<Pass> passes = inference_passes();
  for (Pass& pass : passes) {
    if (pass.name == "channels_last")
      pass.run = [which = options.channels_last](graph::Graph& given) {
        return use_channels_last(given, which);
      };
    if (pass.name == "panel_products")
      pass.run = [which = options.panel_products](graph::Graph& given) {
        return use_panel_products(given, which);
      };
    if (pass.name == "fused_attention")
      pass.run = [which = options.fused_attention](graph::Graph& given) {
        return use_fused_attention(given, which);
      };
    if (pass.name == "dropout_masks" && options.dropout_mapping)
      pass.run = [mapping = *options.dropout_mapping](graph::Graph& given) {
        return use_dropout_masks(given, mapping);
      };
    if (pass.name == "rematerialise" && options.activation_memory)
      pass.run = [bytes = *options.activation_memory](graph::Graph& given) {
        return rematerialise_within(given, bytes);
      };
  }
  run_passes(graph, passes, pass_options);
}

}  // namespace braze::passes
