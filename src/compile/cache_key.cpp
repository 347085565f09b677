#include "base/hash.h"
#include "compile/compile.h"
#include "compile/version.h"

namespace braze::compile {

std::string cache_key(const graph::Graph& graph, const Options& options,
                      const graph::DataSymbols& data) {
  std::string text(compiler_version());
  text += "\nbackend " + std::to_string(static_cast<int>(options.backend));
  text += "\ntarget " + target::to_string(options.target);
  if (options.gpu_codegen == GpuCodegen::kTriton) text += "\ntriton";
  if (options.channels_last != passes::ChannelsLast::kNone)
    text += "\nchannels last " + std::to_string(static_cast<int>(options.channels_last));
  if (options.counter_random) text += "\ncounter random";
  if (options.dropout_mapping)
    text += "\ndropout " + std::to_string(options.dropout_mapping->most_threads) + " " +
            std::to_string(options.dropout_mapping->half_pack) + " " +
            std::to_string(options.dropout_mapping->single_pack);
  if (options.tuner) text += "\ntuned";
  if (options.deterministic) text += "\ndeterministic";
  if (options.activation_memory)
    text += "\nactivation memory " + std::to_string(*options.activation_memory);
  if (options.panel_products != passes::PanelProducts::kNone)
    text += "\npanel products " + std::to_string(static_cast<int>(options.panel_products));
  if (options.fused_attention != passes::FusedAttention::kNone)
    text += "\nfused attention " + std::to_string(static_cast<int>(options.fused_attention));
  text += options.linear_pointwise ? "\nlinear pointwise\n" : "\n";
  for (int symbol : data.numbers) text += "data symbol " + std::to_string(symbol) + "\n";
  for (const sym::Condition& assertion : data.assertions)
    text += "assert " + sym::to_string(assertion) + "\n";
  // The canonical form does not say which outputs the traced code made.
  text += "made ";
  for (const graph::OutputRole& role : graph.output_roles()) text += role.state.is_made ? '1' : '0';
  text += '\n' + graph::canonical(graph);
  return content_hash(text);
}

}  // namespace braze::compile
