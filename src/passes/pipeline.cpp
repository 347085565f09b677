#include "passes/pipeline.h"

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
#include "passes/rematerialise.h"

namespace braze::passes {

const std::vector<Pass>& inference_passes() {
  static const std::vector<Pass> passes = {
      {"functionalise", functionalise},
      {"counter_random", use_counter_random},
      {"chunked_loss", chunk_losses},
      {"panel_products", use_panel_products},
      {"fused_attention", use_fused_attention},
      {"linear_pointwise", use_linear_pointwise},
      {"few_rows", touch_few_rows},
      {"decompose", decompose},
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
  if (!options.panel_products) pass_options.skip.push_back("panel_products");
  if (!options.fused_attention) pass_options.skip.push_back("fused_attention");
  if (!options.linear_pointwise) pass_options.skip.push_back("linear_pointwise");
  if (!options.activation_memory) return run_passes(graph, inference_passes(), pass_options);
  std::vector<Pass> passes = inference_passes();
  for (Pass& pass : passes)
    if (pass.name == "rematerialise")
      pass.run = [bytes = *options.activation_memory](graph::Graph& given) {
        return rematerialise_within(given, bytes);
      };
  run_passes(graph, passes, pass_options);
}

}  // namespace braze::passes
