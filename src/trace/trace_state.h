// The state of one trace: the graph so far, which fakes and real tensors stand for which of its
// values, and which values are known constants.
#pragma once

#include <ATen/core/stack.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/identity_map.h"
#include "trace/backward.h"
#include "trace/changed_leaves.h"
#include "trace/constants.h"
#include "trace/control_flow.h"
#include "trace/cycles.h"
#include "trace/fake_tensor.h"
#include "trace/joint.h"
#include "trace/operator.h"
#include "trace/outside_memory.h"
#include "trace/tracer.h"

namespace torch::autograd {
struct Edge;
struct Node;  // its header takes as long to parse as all others
}  // namespace torch::autograd

namespace braze::trace {

// A real tensor that was there before the trace, or a literal made in it.
struct OutsideTensor {
  at::Tensor real;
  graph::InputKind kind = graph::InputKind::kConstant;
  std::string name;
  at::Tensor fake;  // undefined until an op touches the tensor, unless it stands for it in Python
};

class TraceState {
 public:
  TraceState();

  bool declare(const at::Tensor& real, graph::InputKind kind, std::string name, std::string* why);
  at::Tensor symbolic_input(const at::Tensor& real, graph::InputKind kind, std::string name,
                            std::span<const DynamicDim> dims, const std::set<int>& strides);
  at::Tensor stand_in(const at::Tensor& real, graph::InputKind kind, std::string name);
  sym::Int symbolic_integer(int64_t value);
  std::optional<std::vector<double>> added_to(const at::Tensor& real);
  // A symbol whose value the compiled code reads from data as it runs.
  sym::Int data_symbol(sym::Range range);
  // Whether a call may end here and run again in eager: nothing outside has been written so far,
  // nothing random drawn.
  bool may_run_again() const { return !has_effects_; }
  bool needs_autograd();
  // A data-dependent op that a metadata kernel calls (nonzero of an index mask): if its operands
  // are constants of the trace, puts fakes of the real results on the stack.
  bool evaluate_nested(const OperatorInfo& info, torch::jit::Stack& stack);
  // What the tensor of a trace holds if that depends on nothing outside, else undefined.
  at::Tensor constant(const at::Tensor& tensor);
  // Notes whether autograd gave the last results a history.
  void settle_autograd();
  // Recorded writes count as writes to autograd; at the end of the trace nothing has been written.
  void restore_versions();
  // `backward()` and `torch.autograd.grad()` (trace/backward.h).
  std::string run_backward(const BackwardCall& call, BackwardResult& result);
  // What the node has saved is given up.
  void note_used_up(torch::autograd::Node& node);
  bool has_used_up() const { return !used_up_.empty(); }
  bool is_used_up(const torch::autograd::Node& node) const { return used_up_.contains(&node); }
  // Before `finish`: the backward of outputs that require grad becomes a part of the graph. A text
  // that is not empty says what cannot be.
  std::string differentiate(const std::vector<at::Tensor>& outputs);
  Trace finish(const std::vector<at::Tensor>& outputs);

  const graph::Graph& graph() const { return graph_; }
  const std::vector<GraphInput>& inputs() const { return inputs_; }
  bool is_outside_storage(int storage) const;
  // Where gradients of a tensor from outside leave the trace.
  torch::autograd::Edge gradient_edge(const at::Tensor& real) const;
  // A fake with the metadata of `output` for its gradient, an input of the graph without a real
  // tensor.
  at::Tensor add_tangent(const at::Tensor& output, std::string name);
  // A fresh fake that stands for a value of the graph, without a history.
  at::Tensor another_fake(graph::Value* value);
  // What has been recorded from this value on, up to now, stands for something else: nodes whose
  // results nobody uses in the end are left out, whatever they would refuse.
  void stands_for_program(const graph::Value* first) {
    stand_ins_.emplace_back(first->id(), graph_.value_count());
  }
  // Nodes to come stem from the backward of what this autograd node recorded; none: from the code.
  // `in_code`: of a backward in the code.
  void backward_of(std::optional<uint64_t> sequence_number, bool in_code = false);

  const std::shared_ptr<sym::ShapeEnv> shapes_owner = std::make_shared<sym::ShapeEnv>();
  sym::ShapeEnv& shapes = *shapes_owner;
  // What ATen's composite functions have taken for granted about sizes that come from data since
  // the last call: each makes an assertion of it, or throws Undecidable.
  std::vector<std::function<void()>> assumed;
  std::vector<c10::SymNode> size_nodes;  // by expression: see sym_node.h
  std::optional<TraceBreak> last_break;
  std::function<graph::OriginId(graph::Graph&)> origin_provider;
  DataCapture data_capture;
  ControlFlow control_flow{*this};
  ChangedLeaves changed_leaves;

 private:
  void take_up_versions();
  friend class Recorder;
  friend class ControlFlow;

  // The fake that stands for a real tensor; a graph input from the first call on.
  FakeTensorImpl* touch(const at::Tensor& real);
  FakeTensorImpl* touch_alias(const at::Tensor& real, const OutsideTensor& declared);
  // The fake of this trace that `tensor` is or that stands for it.
  FakeTensorImpl* fake_of(const at::Tensor& tensor, const graph::Op& op);
  void add_input(OutsideTensor& tensor);
  // A graph input over the fake's storage.
  void add_value(OutsideTensor& tensor, graph::TensorType type);
  // Of a dimension: duck-shaped, that is one symbol for all of the same size and history.
  sym::Int size_symbol(int64_t size, const DynamicDim& dim);
  void settle_symbols(Trace& trace);
  void stand_for(const at::Tensor& fake, const at::Tensor& real, graph::InputKind kind,
                 std::string name);
  void take_history(const at::Tensor& fake, const at::Tensor& real);
  // A fresh fake with the contents of `real`, which was made while tracing.
  at::Tensor literal(const at::Tensor& real);

  bool is_declared(const at::Tensor& real) const;
  struct KnownStorage {
    int number = -1;         // in the graph
    bool inference = false;  // tensors over it are inference tensors
  };
  KnownStorage& known_storage(const c10::Storage& storage);
  int storage_number(const c10::Storage& storage) { return known_storage(storage).number; }
  // Gives the memory of `real` and what it overlaps with one number.
  void join_memory(const at::Tensor& real, int storage, bool is_constant);
  void rename_storage(int from, int to);
  // Of memory that the trace has written to so far; kNone for other memory.
  OutsideMemory::Sharing sharing_of_written(int storage) const;
  // From here on the storage counts as another one: its memory has been allocated anew.
  int renew_storage_number(const c10::Storage& storage);
  void note_write(int storage);  // to an outside tensor
  void leave_stand_ins_out();
  c10::Storage storage_of_real(const at::Tensor& real);

  void bind(FakeTensorImpl* fake, graph::Value* value);
  graph::OriginId origin();
  // The node just recorded is the forward of the autograd node made last.
  void note_forward(graph::OriginId origin);
  // Puts `detach` behind the nodes of the forward to whose results autograd gave no history.
  void detach_what_has_no_history();
  void write_to_detached(graph::Node* node);
  // Results to which autograd is about to give a history, or not.
  void watch_autograd(std::vector<at::Tensor> results);

  graph::Graph graph_;
  std::vector<GraphInput> inputs_;
  Constants constants_;
  uint32_t serial_;
  std::unordered_map<c10::TensorImpl*, OutsideTensor> outside_;
  // The declared tensor to which a real storage belongs.
  std::unordered_map<c10::StorageImpl*, c10::TensorImpl*> declared_storages_;
  std::unordered_map<c10::StorageImpl*, c10::Storage> meta_of_real_storage_;
  IdentityMap<KnownStorage> known_storages_;
  std::vector<c10::Storage> storages_;  // keeps addresses unique
  std::vector<bool> outside_storages_;  // by number
  std::vector<bool> written_storages_;  // by number: of those from outside
  OutsideMemory outside_memory_;
  // Tensors from outside that the trace writes to, with their versions at its beginning.
  std::vector<std::pair<at::Tensor, int64_t>> versions_;
  std::vector<std::pair<at::Tensor, int64_t>> traced_versions_;  // at its end
  std::vector<at::Tensor> autograd_candidates_;
  bool needs_autograd_ = false;
  // Autograd's sequence number as the trace begins, and the origins of what has been recorded with
  // higher ones, in their order.
  const uint64_t first_sequence_number_;
  std::vector<std::pair<uint64_t, graph::OriginId>> forward_origins_;
  std::optional<graph::OriginId> backward_origin_;
  HistoryCycles cycles_;
  std::vector<graph::Node*> without_history_;  // took what requires grad while autograd was off
  // Nodes of autograd that a backward in the traced code has used up, held by their addresses.
  std::unordered_map<const torch::autograd::Node*, std::shared_ptr<void>> used_up_;
  std::vector<at::Tensor> gradients_;
  std::vector<std::pair<int, int>> stand_ins_;  // ids of values, [first, end)
  graph::Joint joint_;
  std::map<std::pair<int64_t, int64_t>, sym::Int> ducks_;
  std::vector<SymbolicInput> symbolic_inputs_;
  std::unordered_map<FakeTensorImpl*, c10::TensorImpl*> stood_for_;
  std::vector<int> scalars_;  // by number: the symbol
  std::set<int> from_data_;   // symbols whose values the compiled code reads
  int last_cut_ = 0;          // values of lower ids are from before the last of them
  bool has_effects_ = false;
  bool has_lasting_effects_ = false, has_refusing_ = false;  // Recorder::check_rerun
};

TraceState* current_state();

}  // namespace braze::trace
