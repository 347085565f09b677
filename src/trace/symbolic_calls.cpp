// Metadata of calls with symbolic sizes that have no shape function of their own.
#include <algorithm>

#include "pytorch/errors.h"
#include "trace/kernel_scope.h"
#include "trace/recorder.h"
#include "trace/shapes/families.h"
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

bool has_number(const torch::jit::Stack& arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const c10::IValue& value) {
    return value.isTensor() && value.toTensor().defined() && !as_fake(value.toTensor());
  });
}

// The result of an elementwise operator: laid out as by one of the rules that kernels follow, that
// which gives `seen`, what the operator has made of the sizes seen. Undefined: none does.
at::Tensor laid_out_like(const at::Tensor& seen, c10::ArrayRef<at::Tensor> operands,
                         const torch::jit::Stack& arguments) {
  const at::ScalarType dtype = seen.scalar_type();
  const auto fits = [&](const at::Tensor& made) {
    return seen.sizes() == c10::IntArrayRef(hints_of(made.sym_sizes())) &&
           seen.strides() == c10::IntArrayRef(hints_of(made.sym_strides()));
  };
  const bool with_number = has_number(arguments);
  for (const bool number : {with_number, !with_number})
    if (at::Tensor made = fresh_elementwise(operands, dtype, number); fits(made)) return made;
  if (at::Tensor made = fresh_like(operands[0], dtype); fits(made)) return made;
  at::Tensor made = fresh(broadcast(operands), dtype);
  return fits(made) ? made : at::Tensor();
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
    if (!pytorch::carries_python_error(error)) throw;
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
  std::vector<at::Tensor> operands;
  const torch::jit::Stack saved(stack_.begin() + begin_, stack_.end());
  for (const c10::IValue& value : saved) {
    if (value.isTensorList() || value.isSymIntList()) return false;
    if (value.isTensor() && value.toTensor().defined() && as_fake(value.toTensor()))
      operands.push_back(value.toTensor());
  }
  if (operands.empty()) return false;
  const Dims sizes = broadcast(operands);
  if (in_place) {
    TORCH_CHECK(all_equal(sizes, operands[0].sym_sizes()),
                "the result of an in-place operator does not fit its first argument");
  }
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
    stack_.emplace_back(operands[0]);
    return true;
  }
  at::Tensor result;
  if (stack_.back().isTensor()) result = laid_out_like(stack_.back().toTensor(), operands, saved);
  stack_.resize(begin_);
  if (result.defined()) {
    stack_.emplace_back(result);
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
