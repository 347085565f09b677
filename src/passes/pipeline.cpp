#include "passes/pipeline.h"

#include "passes/cse.h"
#include "passes/dce.h"
#include "passes/decompose.h"
#include "passes/fold.h"
#include "passes/functionalise.h"

namespace braze::passes {

const std::vector<Pass>& inference_passes() {
  static const std::vector<Pass> passes = {
      {"functionalise", functionalise},         {"decompose", decompose},     {"fold", fold},
      {"cse", eliminate_common_subexpressions}, {"dce", eliminate_dead_code},
  };
  return passes;
}

void run_inference_pipeline(graph::Graph& graph, const PipelineOptions& options) {
  run_passes(graph, inference_passes(), options);
}

}  // namespace braze::passes
