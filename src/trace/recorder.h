// One call of an operator on its way into the graph: arguments, metadata, results.
#pragma once

#include "trace/metadata.h"
#include "trace/shapes/shapes.h"
#include "trace/trace_state.h"

namespace braze::trace {

// A call that a tracer's scope has come upon: metadata or a node, as the state of the thread says.
void record_call(const OperatorInfo& info, torch::jit::Stack& stack);

class Recorder {
 public:
  Recorder(TraceState& state, const OperatorInfo& info, torch::jit::Stack& stack)
      : state_(state), info_(info), stack_(stack), begin_(stack.size() - info.arguments.size()) {}

  // Leaves the results on the stack.
  void run();

 private:
  c10::IValue& argument(int i) { return stack_[begin_ + i]; }
  const std::string& op_name() const { return info_.handle.operator_name().name; }

  // arguments.cpp: fills `arguments_` and `operands_`, replaces real tensors on the stack by fakes.
  void take_arguments();
  graph::Argument take_argument(int i);
  graph::Argument take_tensor(int i);
  graph::Argument take_tensors(int i);
  graph::Argument take_optional_tensors(int i);
  graph::Argument take_list(int i);
  void note_number(const graph::Argument& number);
  at::Tensor take_operand(const at::Tensor& tensor, int position, int element);
  // devices.cpp
  graph::Argument take_device(int i);
  void take_devices();
  c10::Device device_of_operands() const;
  bool may_come_from_cpu(const Operand& operand) const;

  // Whether only Python numbers stand in the tensor positions; then the call runs for real.
  bool only_numbers();
  void run_for_real();
  void check_region();
  void check_sizes();
  void check_place();
  bool reaches_beyond_its_operand();
  void check_rerun();
  void check_writes();
  bool may_overlap(const Operand& written, const Operand& read) const;
  void check_overlap();
  void check_broadcast();
  void check_filling();
  void refuse_unchecked();
  void note_write(const Operand& written);
  void check_memory(const Operand& operand);
  void use_overload_with_number();

  void compute_metadata();
  // Arguments that name dimensions of the first one name some that it has, each once.
  bool has_named_dims() const;
  bool use_metadata_rule();
  bool use_rule();
  // symbolic_calls.cpp
  bool try_elementwise();
  bool try_symbolic_kernel();
  void specialise_symbols();

  void take_results();
  at::Tensor take_result(const at::Tensor& tensor);
  void count_reshape(const graph::Value* view);
  at::Tensor take_known_result(const at::Tensor& tensor, FakeTensorImpl& fake);
  void append_node();
  void note_constants(const graph::Node& node);
  void complete_dtype();
  void complete_dim_of_nothing();

  [[noreturn]] void fail(std::string what, const char* way_out,
                         NeedsData needs_data = NeedsData::kNo) const;

  // data_dependent.cpp: the op reads data, which becomes part of the graph. False: it cannot.
  bool capture_data();
  bool capture_item();
  bool capture_result_of_data();
  bool expand_masks();

  // rules
  void evaluate();
  void literal();
  void batch_norm();
  bool resize();

  struct Result {
    bool defined = false;
    graph::TensorType type;
    int storage = -1;
    FakeTensorImpl* bind = nullptr;  // the fake that stands for the new value
  };

  TraceState& state_;
  const OperatorInfo& info_;
  torch::jit::Stack& stack_;
  const size_t begin_;
  const graph::Op* op_ = nullptr;  // when not info_.op
  std::vector<graph::Argument> arguments_;
  std::vector<Operand> operands_;
  std::vector<c10::IValue> constant_call_;  // the arguments, while all operands are constants
  std::vector<graph::Inferred> inferred_;   // by a rule
  std::vector<Result> results_;
  std::vector<at::Tensor> result_tensors_;  // for autograd
  c10::Device device_{c10::kCPU};           // of the results
  bool constant_ = true;
  bool symbolic_ = false;
  bool requires_grad_ = false;
};

}  // namespace braze::trace
