// Nodes of autograd: PyTorch's pointers to them, and one that hands gradients on.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace braze::pytorch {

// A shared_ptr, or, from PyTorch 2.13 on, an intrusive_ptr.
using NodePtr = decltype(torch::autograd::Edge::function);
inline constexpr bool kNodesAreShared =
    std::is_same_v<NodePtr, std::shared_ptr<torch::autograd::Node>>;
using WeakNodePtr = std::conditional_t<kNodesAreShared, std::weak_ptr<torch::autograd::Node>,
                                       c10::weak_intrusive_ptr<torch::autograd::Node>>;

template <class T, class... Args>
auto make_node(Args&&... args) {
  if constexpr (kNodesAreShared)
    return std::make_shared<T>(std::forward<Args>(args)...);
  else
    return c10::make_intrusive<T>(std::forward<Args>(args)...);
}

// What a node lets go of: its edges and what it has kept. Nodes that go with them let go of theirs
// behind it, not within, so that a long history does not fill the stack.
void let_go(torch::autograd::edge_list& edges, std::shared_ptr<void> kept);

// Of a leaf: whether anything is called when a gradient is accumulated into it.
bool has_hooks(const c10::TensorImpl& leaf);
// A history of its own for `tensor`, with its sizes, behind which is that of `history`.
void give_identity(const at::Tensor& tensor, const at::Tensor& history);
// Whether it carries a tangent of forward-mode differentiation.
bool has_tangent(const c10::TensorImpl& tensor);

// By target, the edges in the history of `tensors` that lead there: places in nodes, valid as long
// as these are. `begin`: the thread's sequence number behind which the history is looked through.
std::vector<std::vector<torch::autograd::Edge*>> edges_to(
    std::span<const torch::autograd::Edge> targets, std::span<const at::Tensor> tensors,
    uint64_t begin);

// A tensor over the memory of `value` whose gradient is that of `history`; without one if that does
// not require grad.
at::Tensor with_history(const at::Tensor& value, const at::Tensor& history);

}  // namespace braze::pytorch
