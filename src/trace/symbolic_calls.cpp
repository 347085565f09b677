// Metadata of calls with symbolic sizes that have no shape function of their own.
#include <algorithm>

#include "torch_python/errors.h"
#include "trace/kernel_scope.h"
#include "trace/recorder.h"
#include "trace/sym_node.h"

namespace braze::trace {
namespace {

std::vector<int64_t> hints_of(c10::SymIntArrayRef values) {
  std::vector<int64_t> hints;
  for (const c10::SymInt& value : values) hints.push_back(from_symint(value).hint());
  return hints;
}

// A meta tensor of the sizes seen, without a guard: for what does not depend on sizes.
at::Tensor with_hints(const at::Tensor& tensor) {
  const FakeTensorImpl* fake = as_fake(tensor);
  if (!fake) return tensor;
  return make_fake(c10::fromIntArrayRefSlow(hints_of(tensor.sym_sizes())),
                   c10::fromIntArrayRefSlow(hints_of(tensor.sym_strides())), tensor.scalar_type());
}

// The hints of a layout are what the operator has made of the sizes seen.
bool fits(const at::Tensor& seen, const graph::TensorType& type) {
  const auto same = [](c10::IntArrayRef numbers, const sym::Dims& dims) {
    return std::equal(numbers.begin(), numbers.end(), dims.begin(), dims.end(),
                      [](int64_t number, sym::Int dim) { return number == dim.hint(); });
  };
  return same(seen.sizes(), type.sizes) && same(seen.strides(), type.strides);
}

// The result of an elementwise operator: laid out as by one of the rules that kernels follow, that
// which gives `seen`, what the operator has made of the sizes seen. Nothing: none does.
std::optional<graph::Inferred> laid_out_like(const at::Tensor& seen,
                                             std::vector<const graph::TensorType*> operands,
                                             const sym::Dims& sizes, bool with_number,
                                             graph::SizeQuestions& ask) {
  graph::Inferred made;
  made.type.dtype = dtype_of(seen.scalar_type());
  made.type.sizes = sizes;
  const graph::TensorType number;
  const auto with_strides = [&](sym::Dims strides) {
    made.type.strides = std::move(strides);
    return fits(seen, made.type);
  };
  for (const bool counts : {with_number, !with_number}) {
    if (counts) operands.push_back(&number);
    const bool found =
        with_strides(graph::pointwise_strides(operands, sizes, ask, &made.row_major));
    if (counts) operands.pop_back();
    if (found) return made;
    made.row_major = false;
  }
  if (operands[0]->sizes == sizes &&
      with_strides(graph::like_strides(*operands[0], graph::MemoryFormat::kPreserve, ask)))
    return made;
  made.row_major = true;
  if (with_strides(graph::row_major_strides(sizes, ask))) return made;
  return std::nullopt;
}

}  // namespace

// Some C++ kernels take symbolic sizes (view, expand, ...).
bool Recorder::try_symbolic_kernel() {
  const torch::jit::Stack saved(stack_.begin() + begin_, stack_.end());
  try {
    compute_results(info_, stack_);
    return true;
  } catch (const c10::Error&) {
    // Not one of those; an error of the user's is raised again by the kernel over numbers.
  } catch (const std::exception& error) {  // the same of a custom operator's own function
    if (!torch_python::carries_python_error(error)) throw;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyErr_Clear();
    PyGILState_Release(gil);
  }
  stack_.resize(begin_);
  stack_.insert(stack_.end(), saved.begin(), saved.end());
  return false;
}

// Elementwise operators all make their results alike. What PyTorch's kernel says for the sizes seen
// tells the dtype.
bool Recorder::try_elementwise() {
  if (!info_.handle.hasTag(at::Tag::pointwise) || info_.result_count != 1) return false;
  const bool in_place = info_.mutates.size() == 1 && info_.mutates[0] == 0;
  if (!info_.mutates.empty() && !in_place) return false;
  std::vector<const graph::TensorType*> operands;
  bool with_number = false;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (info_.arguments[i] == ArgumentKind::kTensors || argument(i).isSymIntList()) return false;
    with_number |= info_.arguments[i] == ArgumentKind::kTensor && graph::is_scalar(arguments_[i]);
    graph::for_each_value(arguments_[i],
                          [&](const graph::Value* value) { operands.push_back(&value->type()); });
  }
  if (operands.empty()) return false;
  const torch::jit::Stack saved(stack_.begin() + begin_, stack_.end());
  GuardedSizes ask(state_.shapes);
  const std::optional<sym::Dims> sizes = graph::try_broadcast(operands, ask);
  if (!sizes || (in_place && !ask.all_equal(*sizes, operands[0]->sizes))) return false;
  for (size_t i = begin_; i < stack_.size(); ++i) {
    if (stack_[i].isTensor() && stack_[i].toTensor().defined())
      stack_[i] = with_hints(stack_[i].toTensor());
    else if (stack_[i].isSymInt())
      stack_[i] = from_symint(stack_[i].toSymInt()).hint();
  }
  compute_results(info_, stack_);
  if (in_place) {
    // It has been for the errors alone: a result that the dtype cannot hold.
    stack_.resize(begin_);
    stack_.emplace_back(saved[0]);
    return true;
  }
  std::optional<graph::Inferred> result;
  if (stack_.back().isTensor())
    result = laid_out_like(stack_.back().toTensor(), operands, *sizes, with_number, ask);
  stack_.resize(begin_);
  if (result) {
    stack_.emplace_back(make_fake(result->type, result->row_major));
    inferred_.push_back(std::move(*result));
    return true;
  }
  stack_.insert(stack_.end(), saved.begin(), saved.end());
  return false;
}

// Every symbol that the call sees becomes its hint, with a guard.
void Recorder::specialise_symbols() {
  for (size_t i = begin_; i < stack_.size(); ++i) {
    c10::IValue& value = stack_[i];
    if (value.isTensor()) {
      value = specialised(value.toTensor());
    } else if (value.isTensorList()) {
      auto list = value.toTensorList();
      for (size_t j = 0; j < list.size(); ++j) list.set(j, specialised(list.get(j)));
    } else if (value.isSymInt()) {
      value = value.toSymInt().guard_int(__FILE__, __LINE__);
    } else if (value.isSymIntList()) {
      c10::List<int64_t> list;
      for (const c10::SymInt& dim : value.toSymIntVector())
        list.push_back(dim.guard_int(__FILE__, __LINE__));
      value = list;
    } else if (value.isList()) {
      auto list = value.toList();
      for (size_t j = 0; j < list.size(); ++j)
        if (c10::IValue element = list.get(j); element.isTensor())
          list.set(j, specialised(element.toTensor()));
    }
  }
}

}  // namespace braze::trace
