// A call whose results' metadata is to be worked out, as a rule sees it.
#pragma once

#include <span>
#include <vector>

#include "graph/arguments.h"
#include "graph/infer/promotion.h"
#include "graph/infer/strides.h"

namespace braze::graph {

struct Inferred {
  TensorType type;
  bool row_major = false;  // surely, dimensions of size 1 included
  bool undefined = false;  // no tensor: a gradient that the call does not ask for
};

class InferCall {
 public:
  // Of a call as it is traced.
  InferCall(std::span<const Argument> args, SizeQuestions& ask, std::vector<Inferred>& results,
            DType default_dtype)
      : args(args), ask(ask), default_dtype(default_dtype), checked(false), results_(results) {}
  // Of one that a pass makes or that has been traced.
  InferCall(std::span<const Argument> args, std::vector<Inferred>& results)
      : args(args), ask(traced_sizes()), checked(true), results_(results) {}

  const std::span<const Argument> args;
  SizeQuestions& ask;
  const DType default_dtype = DType::kFloat32;
  const bool checked;  // the arguments are known to be ones that eager takes

  // Arguments by position. One past the end counts as absent.
  ArgumentList list() const { return args; }
  const Argument& operator[](int i) const { return list()[i]; }
  bool absent(int i) const { return is_none(args, i); }
  bool number(int i) const { return is_scalar(list()[i]); }
  const Value* value(int i) const {  // null: no tensor
    const auto* value = std::get_if<Value*>(&list()[i]);
    return value ? *value : nullptr;
  }
  const TensorType& tensor(int i) const { return tensor_arg(args, i)->type(); }
  const TensorType* optional(int i) const {
    const Value* tensor = value(i);
    return tensor ? &tensor->type() : nullptr;
  }
  std::span<Value* const> tensors(int i) const;
  std::span<const sym::Int> dims(int i) const;  // of integers; absent: none
  const std::vector<bool>& bools(int i) const;  // absent is an internal error
  // A dimension of a tensor of this rank; empty optional: it has none of the name.
  std::optional<int64_t> dim(int i, int64_t rank) const;
  DType dtype_or(int i, DType otherwise) const {
    return optional_dtype_arg(args, i).value_or(otherwise);
  }

  // Results in order; true, for rules to return.
  bool give(TensorType type, bool row_major = false) const {
    results_.push_back({std::move(type), row_major});
    return true;
  }
  bool give_undefined() const {
    results_.push_back({.undefined = true});
    return true;
  }
  bool give_fresh(sym::Dims sizes, DType dtype, Device device) const {
    return give(make_type(dtype, std::move(sizes), device, ask), true);
  }
  // As torch.empty_like.
  bool give_like(const TensorType& self, DType dtype,
                 MemoryFormat format = MemoryFormat::kPreserve) const {
    return give_like(self, dtype, format, self.device);
  }
  bool give_like(const TensorType& self, DType dtype, MemoryFormat format, Device device) const;
  bool give_in_format(sym::Dims sizes, MemoryFormat format, DType dtype, Device device) const;
  // What an elementwise op over these operands allocates.
  bool give_elementwise(std::span<const TensorType* const> operands, DType dtype) const;
  // Argument 0 itself, which has been written to.
  bool give_written() const { return give(tensor(0)); }

 private:
  std::vector<Inferred>& results_;
};

// Gives the results' types and returns true, or returns false, having given nothing that counts:
// where eager refuses the arguments, or where it is not sure what eager does.
using InferRule = bool (*)(const InferCall& call);

// Who uses a rule. PyTorch's own C++ kernel for metadata serves a trace where no rule does.
enum class InferUse : uint8_t {
  kPasses,   // passes alone
  kSymbols,  // a trace too, where sizes are symbols
  kAlways,   // a trace always
};

// As the first argument, a tensor.
inline bool like_self(const InferCall& call) {
  return call.give_like(call.tensor(0), call.tensor(0).dtype);
}

struct InferEntry {
  const char* name;  // as in op.h: "aten.add.Tensor"
  InferRule rule;
  InferUse use = InferUse::kSymbols;
};

// Null: no rule for an operator of that name.
const InferEntry* find_infer_entry(std::string_view name);
std::span<const std::span<const InferEntry>> infer_families();

// By family of operators.
std::span<const InferEntry> infer_activations();
std::span<const InferEntry> infer_attention();
std::span<const InferEntry> infer_assembly();
std::span<const InferEntry> infer_factories();
std::span<const InferEntry> infer_indexing();
std::span<const InferEntry> infer_losses();
std::span<const InferEntry> infer_matrix();
std::span<const InferEntry> infer_normalisation();
std::span<const InferEntry> infer_ordering();
std::span<const InferEntry> infer_pointwise();
std::span<const InferEntry> infer_pooling();
std::span<const InferEntry> infer_random();
std::span<const InferEntry> infer_reductions();
std::span<const InferEntry> infer_scatter();
std::span<const InferEntry> infer_views();

}  // namespace braze::graph
