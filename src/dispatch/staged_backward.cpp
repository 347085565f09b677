#include "dispatch/staged_backward.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "pytorch/convert.h"

namespace braze::dispatch {
namespace {

using Kind = Backward::BackwardInput::Kind;

// By gradient: the input of the backward that holds what it is the gradient of, or -1.
std::vector<int> held_by(const Backward& whole, const graph::Joint& joint) {
  std::vector<int> held;
  for (const int input : joint.gradient_of) {
    const auto place =
        std::ranges::find_if(whole.inputs(), [&](const Backward::BackwardInput& candidate) {
          return candidate.kind == Kind::kInput && candidate.index == input;
        });
    held.push_back(
        place == whole.inputs().end() ? -1 : static_cast<int>(place - whole.inputs().begin()));
  }
  return held;
}

}  // namespace

StagedBackward::StagedBackward(const Backward& whole, const graph::Joint& joint, int64_t bytes) {
  std::vector<passes::BackwardStage> cut =
      passes::cut_into_stages(whole.graph(), held_by(whole, joint), bytes);
  if (cut.size() < 2) return;
  for (size_t i = 0; i < cut.size(); ++i) {
    Stage& stage = stages_.emplace_back();
    for (const graph::Input& input : cut[i].graph.inputs())
      if (input.kind == graph::InputKind::kTangent) stage.tangents.push_back(input.value->type());
    stage.gradients = std::move(cut[i].gradients);
    for (size_t later = i + 1; later < cut.size(); ++later)
      for (size_t tangent = 0; tangent < cut[later].tangents.size(); ++tangent) {
        const auto source = cut[later].tangents[tangent];
        if (source.stage == static_cast<int>(i) || (source.stage < 0 && i == 0))
          stage.handed_on.push_back({source, static_cast<int>(later), static_cast<int>(tangent)});
      }
    for (const graph::TensorType& type : stage.tangents)
      stage.like.push_back(at::empty({}, at::TensorOptions()
                                             .dtype(pytorch::scalar_type_of(type.dtype))
                                             .device(pytorch::device_of(type.device))));
    for (const auto& source : cut[i].tangents) stage.flows.push_back(source.flows);
    stage.backward = whole.stage(cut[i], stage.kept);
  }
  for (size_t number = 0; number < whole.kept().size(); ++number) {
    size_t last = 0;
    for (size_t i = 0; i < stages_.size(); ++i)
      if (std::ranges::find(stages_[i].kept, number) != stages_[i].kept.end()) last = i;
    stages_[last].freed.push_back(number);
  }
}

std::vector<at::Tensor> StagedBackward::run(size_t number, const Backward::Saved& saved,
                                            std::vector<at::Tensor> tangents,
                                            std::span<const int64_t> symbols,
                                            std::span<const double> numbers) const {
  const Stage& stage = stages_[number];
  std::vector<double> own;
  for (const int i : stage.backward->numbers()) own.push_back(numbers[i]);
  std::vector<at::Tensor> passed_by;
  for (const HandedOn& value : stage.handed_on)
    if (value.source.stage < 0) passed_by.push_back(tangents[value.source.index]);
  const Backward::Saved mapped{[&](size_t i) { return saved.unpack(stage.kept[i]); }, saved.let_go};
  std::vector<at::Tensor> outputs = stage.backward->run(mapped, std::move(tangents), symbols, own);
  std::vector<at::Tensor> result(outputs.begin(), outputs.begin() + stage.gradients.size());
  auto passed = passed_by.begin();
  for (const HandedOn& value : stage.handed_on)
    result.push_back(value.source.stage < 0 ? std::move(*passed++) : outputs[value.source.index]);
  return result;
}

}  // namespace braze::dispatch
