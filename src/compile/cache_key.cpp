#include "base/hash.h"
#include "compile/compile.h"
#include "compile/version.h"

namespace braze::compile {

std::string cache_key(const graph::Graph& graph, const Options& options) {
  std::string text(compiler_version());
  text += "\nbackend " + std::to_string(static_cast<int>(options.backend));
  text += "\ntarget " + target::to_string(options.target);
  if (options.panel_products) text += "\npanel products";
  if (options.fused_attention) text += "\nfused attention";
  text += options.linear_pointwise ? "\nlinear pointwise\n" : "\n";
  text += graph::canonical(graph);
  return content_hash(text);
}

}  // namespace braze::compile
