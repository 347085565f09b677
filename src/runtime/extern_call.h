// One ExternStep made ready to run: the operator looked up, the arguments converted once.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "plan/function.h"
#include "runtime/shapes.h"

namespace braze::runtime {

// What of a result is held against its slot: nothing, since the sizes are not known before; the
// layout; or all, where another dtype or size, or a view of other strides, is an InternalError.
enum class ResultCheck : uint8_t { kNone, kLayout, kAll };

class ExternCall {
 public:
  // Throws UserError if the running PyTorch has no such operator. Refers to `function` and `step`.
  ExternCall(const plan::Function& function, const plan::ExternStep& step);

  // The arguments that depend on the sizes of a call.
  bool has_symbolic_arguments() const { return !symbolic_.empty(); }
  std::vector<c10::IValue> symbolic_arguments(const Shapes& shapes) const;

  // tensors: by slot; results are written there. Into a slot that has memory of its own (arena,
  // output) the result is computed by the out= overload, or copied; what has another layout than
  // its slot is copied, too.
  void run(std::vector<at::Tensor>& tensors, std::span<const c10::IValue> symbolic_arguments,
           const Shapes& shapes, ResultCheck check) const;

  // The float argument of that name, or its default. Nothing: there is none.
  std::optional<double> number_named(std::string_view name) const;

  const std::string& name() const { return step_->op; }
  // Slots of arguments that the op writes to (in-place ops of graphs that were not functionalised).
  const std::vector<plan::SlotId>& written() const { return written_; }
  // Whether a result shares memory with an argument, by the schema.
  bool gives_views() const { return gives_views_; }
  // Whether PyTorch says that what it gives, or the size of that, is known with the data alone.
  bool depends_on_data() const;
  const std::vector<plan::SlotId>& results() const { return step_->results; }

 private:
  struct TensorPosition {
    int argument;
    int element;  // -1: the argument itself
    plan::SlotId slot;
  };
  void note_tensors(const plan::Argument& argument, int position);
  using NumberOf = std::function<int64_t(sym::Int)>;
  c10::IValue converted(const plan::Argument& argument, int position, const NumberOf& number) const;
  void store(const at::Tensor& result, plan::SlotId slot, std::vector<at::Tensor>& tensors,
             const Shapes& shapes, ResultCheck check) const;
  bool is_operand(const at::Tensor& result, const std::vector<at::Tensor>& tensors) const;
  // Of what has the sizes of the slot.
  bool has_layout(const at::Tensor& result, plan::SlotId slot, const Shapes& shapes) const;
  void check_result(const at::Tensor& result, plan::SlotId slot, const Shapes& shapes) const;
  at::Tensor as_traced(const at::Tensor& result, plan::SlotId slot, const Shapes& shapes) const;

  const plan::Function* function_;
  const plan::ExternStep* step_;
  c10::OperatorHandle op_;
  bool uses_out_ = false;
  bool gives_views_ = false;
  bool is_pytorchs_ = false;
  std::vector<plan::SlotId> written_;
  const c10::FunctionSchema* schema_;  // as the step names it, which op_ may be the out= form of
  // Arguments in schema order; tensors and what depends on sizes are missing.
  std::vector<c10::IValue> template_;
  std::vector<int> symbolic_;  // positions of the latter
  std::vector<TensorPosition> positions_;
};

}  // namespace braze::runtime
