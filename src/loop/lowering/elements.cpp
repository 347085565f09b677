// Graphs of elementwise ops as one kernel.
#include "loop/lowering/lowering.h"

namespace braze::loop {
namespace lowering {

std::optional<Program> Lowering::run_as_elements() {
  inlines_ = true;
  count_uses();
  add_inputs();
  const sym::Dims sizes = sizes_of(graph_.inputs().at(0).value);
  for (const auto& node : graph_.nodes()) lower(*node);
  if (!program_.items.empty()) return std::nullopt;
  KernelBuilder kernel(*this, -1, "elements", sizes);
  for (Value* output : graph_.outputs()) {
    if (sizes_of(output).size() > sizes.size()) return std::nullopt;
    const ExprRef value = broadcast_element(output, kernel.outer());
    graph::TensorType type = output->type();
    type.sizes = sizes;
    type.strides = sym::contiguous_strides(sizes);
    type.offset = 0;
    const sym::Dims strides = type.strides;
    const int buffer = add_buffer({.type = std::move(type), .value = output});
    program_.outputs.push_back(buffer);
    kernel.store(buffer, strides, kernel.outer(), value);
  }
  if (!program_.items.empty()) return std::nullopt;
  kernel.finish();
  return std::move(program_);
}

}  // namespace lowering

std::optional<Program> lower_elements(const graph::Graph& graph, const target::Target& target) {
  return lowering::Lowering(graph, target, /*deterministic=*/false).run_as_elements();
}

}  // namespace braze::loop
