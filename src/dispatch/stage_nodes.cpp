#include "dispatch/stage_nodes.h"

#include <algorithm>
#include <utility>

#include "dispatch/staged_backward.h"

namespace braze::dispatch {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

class StageNode final : public Node {
 public:
  std::string name() const override { return "BrazeBackward"; }
  void release_variables() override { kept->release(number); }

  std::shared_ptr<Kept> kept;
  size_t number = 0;

 protected:
  variable_list apply(variable_list&& given) override {
    const std::vector<bool>& flows = kept->stages->stages()[number].flows;
    bool any = false;
    for (size_t i = 0; i < given.size(); ++i) any |= flows[i] && given[i].defined();
    if (!any) return variable_list(num_outputs());
    return kept->run_stage(getptr(), number, std::move(given));
  }
};

}  // namespace

bool is_awaited(const torch::autograd::edge_list& to_inputs) {
  return std::ranges::any_of(to_inputs, [](const torch::autograd::Edge& edge) {
    return edge.is_valid() && (!edge.function->post_hooks().empty() ||
                               edge.function->tensor_post_acc_grad_hooks() != nullptr);
  });
}

torch::autograd::edge_list add_stages(const DifferentiatedCall& call,
                                      const std::shared_ptr<Kept>& kept,
                                      const torch::autograd::edge_list& to_inputs) {
  const std::vector<StagedBackward::Stage>& stages = kept->stages->stages();
  std::vector<NodePtr> nodes(stages.size());
  const auto edges_behind = [&](size_t number, torch::autograd::edge_list edges) {
    for (const StagedBackward::HandedOn& value : stages[number].handed_on)
      edges.emplace_back(nodes[value.stage], static_cast<uint32_t>(value.tangent));
    return edges;
  };
  // The last one first, as those in front of it lead to it.
  for (size_t number = stages.size(); number-- > 1;) {
    auto node = pytorch::make_node<StageNode>();
    torch::autograd::edge_list edges;
    for (const int gradient : stages[number].gradients) edges.push_back(to_inputs[gradient]);
    node->set_next_edges(edges_behind(number, std::move(edges)));
    for (size_t i = 0; i < stages[number].tangents.size(); ++i) {
      std::vector<int64_t> sizes;
      for (const sym::Int& size : stages[number].tangents[i].sizes)
        sizes.push_back(sym::evaluate(size, call.symbols));
      node->add_input_metadata(stages[number].like[i].expand(sizes));
    }
    node->kept = kept;
    node->number = number;
    nodes[number] = node;
  }
  return edges_behind(0, to_inputs);
}

}  // namespace braze::dispatch
