#include "trace/dtype_errors.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trace/constants.h"
#include "trace/fake_tensor.h"
#include "trace/sym_node.h"

namespace braze::trace {
namespace {

constexpr int64_t kMostElementsTried = 4096;  // of a tensor that the call is tried with or makes

constexpr size_t kMostOutcomes = 10'000;  // kept

bool is_common(at::ScalarType dtype) { return dtype == at::kFloat || dtype == at::kDouble; }

// Nearly all kernels are there for tensors of one common dtype, and a Python number changes
// nothing.
bool is_plain(const OperatorInfo& info, const torch::jit::Stack& stack, size_t begin) {
  if (info.has(graph::kOfIntegers)) return false;
  const auto is_plain = [](const at::Tensor& tensor) {
    return !tensor.defined() || is_common(tensor.scalar_type());
  };
  std::optional<at::ScalarType> dtype;
  for (size_t i = begin; i < stack.size(); ++i) {
    const c10::IValue& value = stack[i];
    const bool truth = value.isBool() && info.arguments[i - begin] == ArgumentKind::kScalar;
    if (truth || value.isComplexDouble() || value.isTensorList() || value.isOptionalTensorList())
      return false;
    if (!value.isTensor()) continue;
    const at::Tensor& tensor = value.toTensor();
    if (!is_plain(tensor)) return false;
    if (tensor.defined() && dtype.value_or(tensor.scalar_type()) != tensor.scalar_type())
      return false;
    if (tensor.defined()) dtype = tensor.scalar_type();
  }
  return true;
}

// The call on tensors of one element: no size matters to whether a dtype is refused, but that empty
// tensors may not come to the kernel that does. Where that size is refused, on tensors of the sizes
// seen, if they are small.
class SmallCall {
 public:
  // What the outcome depends on, until the next one is asked for; empty for a call that is not to
  // be made.
  std::string_view key(const OperatorInfo& info, const torch::jit::Stack& stack, size_t begin) {
    size_ = 0;
    put(reinterpret_cast<intptr_t>(&info));
    for (size_t i = begin; i < stack.size(); ++i) {
      if (info.is_size[i - begin]) {
        add('s');
        for (int64_t hint : hints_of(stack[i])) add(hint == 0 ? '0' : hint > 0 ? '1' : '-');
      } else if (!note(stack[i])) {
        return {};
      }
    }
    return {bytes_.data(), size_};
  }

  static torch::jit::Stack arguments(const OperatorInfo& info, const torch::jit::Stack& stack,
                                     size_t begin, bool one) {
    torch::jit::Stack call;
    const auto tried = [one](const at::Tensor& tensor) { return tried_with(tensor, one); };
    for (size_t i = begin; i < stack.size(); ++i) {
      call.push_back(copy_lists(stack[i]));
      c10::IValue& value = call.back();
      if (value.isTensor()) {
        value = tried(value.toTensor());
      } else if (value.isTensorList()) {
        auto list = value.toTensorList();
        for (size_t j = 0; j < list.size(); ++j) list.set(j, tried(list.get(j)));
      } else if (value.isOptionalTensorList()) {
        auto list = value.toOptionalTensorList();
        for (size_t j = 0; j < list.size(); ++j)
          if (const std::optional<at::Tensor> tensor = list.get(j)) list.set(j, tried(*tensor));
      } else if (value.isDevice()) {
        value = c10::Device(c10::kCPU);
      } else if (info.is_size[i - begin]) {
        value = size_tried_with(value, one);
      }
    }
    return call;
  }

 private:
  void add(char byte) {
    if (size_ == bytes_.size()) bytes_.resize(2 * size_ + 64);
    bytes_[size_++] = byte;
  }
  void add(std::string_view text) {
    for (char byte : text) add(byte);
  }
  // The bytes of a number; one byte for nearly all.
  void put(int64_t number) {
    const bool small = number >= 0 && number < 255;
    add(static_cast<char>(small ? number : 255));
    if (!small) add({reinterpret_cast<const char*>(&number), sizeof number});
  }
  void put(char kind, int64_t number) {
    add(kind);
    put(number);
  }

  bool note(const c10::IValue& value) {
    if (value.isTensor()) {
      note(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) note(tensor);
    } else if (value.isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
        note(tensor.value_or(at::Tensor()));
    } else if (value.isIntList()) {
      for (int64_t number : value.toIntVector()) put('i', number);
    } else if (value.isSymInt() || value.isSymIntList() || value.isSymFloat() ||
               value.isSymBool()) {
      return false;
    } else if (value.isInt()) {
      if (value.toInt() > kMostElementsTried) return false;
      put('i', value.toInt());  // a dtype, or which dimension
    } else if (value.isBool()) {
      add(value.toBool() ? 'y' : 'n');
    } else if (value.isString()) {
      add('"');
      add(value.toStringRef());
      add('"');
    } else {
      add(value.isNone() ? '-' : value.isDouble() ? 'f' : value.isComplexDouble() ? 'c' : '?');
    }
    add(',');
    return true;
  }

  void note(const at::Tensor& tensor) {
    if (!tensor.defined()) {
      add('-');
      return;
    }
    const bool number = tensor.unsafeGetTensorImpl()->is_wrapped_number() && !as_fake(tensor);
    put(number ? 'w' : 't', static_cast<int64_t>(tensor.scalar_type()));
    put(':', tensor.dim());
    for (int64_t d = 0; d < tensor.dim(); ++d)
      if (is_empty_along(tensor, d)) put('0', d);
  }

  static std::vector<int64_t> hints_of(const c10::IValue& value) {
    std::vector<int64_t> hints;
    if (value.isInt() || value.isSymInt()) hints.push_back(from_symint(value.toSymInt()).hint());
    if (value.isIntList() || value.isSymIntList())
      for (const c10::SymInt& size : value.toSymIntVector())
        hints.push_back(from_symint(size).hint());
    return hints;
  }

  // 0 and -1 are kept.
  static c10::IValue size_tried_with(const c10::IValue& value, bool one) {
    std::vector<int64_t> sizes = hints_of(value);
    if (sizes.empty()) return value;
    int64_t count = 1;
    for (int64_t& size : sizes) {
      if (one) size = std::min<int64_t>(size, 1);
      TORCH_CHECK(
          size <= kMostElementsTried && (count *= std::max<int64_t>(size, 1)) <= kMostElementsTried,
          "too large to be tried");
    }
    if (value.isInt() || value.isSymInt()) return sizes[0];
    return sizes;
  }

  static bool is_empty_along(const at::Tensor& tensor, int64_t d) {
    return from_symint(tensor.sym_size(d)).hint() == 0;
  }

  static at::Tensor tried_with(const at::Tensor& tensor, bool one) {
    const FakeTensorImpl* fake = tensor.defined() ? as_fake(tensor) : nullptr;
    if (!tensor.defined() || (tensor.unsafeGetTensorImpl()->is_wrapped_number() && !fake))
      return tensor;
    std::vector<int64_t> sizes(tensor.dim(), 1);
    int64_t count = 1;
    for (int64_t d = 0; d < tensor.dim(); ++d) {
      if (one && !is_empty_along(tensor, d)) continue;
      sizes[d] = std::min(from_symint(tensor.sym_size(d)).hint(), kMostElementsTried);
      count *= std::max<int64_t>(sizes[d], 1);
      TORCH_CHECK(count <= kMostElementsTried, "too large to be tried");
    }
    return at::zeros(sizes, at::TensorOptions(tensor.scalar_type()));
  }

  std::vector<char> bytes_;
  size_t size_ = 0;
};

// Strings found by views.
struct ViewHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// Not about the size that is not the call's own.
bool is_about_dtypes(std::string_view message) {
  for (std::string_view words :
       {"can't be cast", "not implemented for '", "type", "support", "not allowed", "must not be"})
    if (message.find(words) != std::string_view::npos) return true;
  return false;
}

// Warnings about the size that is not the call's own are nobody's; others come once in a process.
class OfOtherSizes : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    if (warning.msg().find("degrees of freedom") == std::string::npos) outer_->process(warning);
  }

 private:
  c10::WarningHandler* const outer_ = c10::WarningUtils::get_warning_handler();
};

// An error's words; empty: none.
struct Refusal {
  std::string words;
  bool not_implemented = false;  // a NotImplementedError to Python
};

Refusal refusal_of(const OperatorInfo& info, const torch::jit::Stack& stack, size_t begin) {
  RealCallScope scope;
  OfOtherSizes warnings;
  const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
  for (const bool one : {true, false}) {
    try {
      torch::jit::Stack call = SmallCall::arguments(info, stack, begin, one);
      info.handle.callBoxed(call);
      return {};
    } catch (const c10::Error& error) {
      std::string message = error.what_without_backtrace();
      const bool not_implemented = dynamic_cast<const c10::NotImplementedError*>(&error) != nullptr;
      if (is_about_dtypes(message)) return {std::move(message), not_implemented};
    } catch (const std::exception&) {
      // Of sizes that do not fit each other.
    }
  }
  return {};
}

}  // namespace

void refuse_dtypes(const OperatorInfo& info, const torch::jit::Stack& stack, size_t begin) {
  if (!info.may_refuse_dtypes || is_plain(info, stack, begin)) return;
  struct Outcomes {
    SmallCall call;
    std::unordered_map<std::string, Refusal, ViewHash, std::equal_to<>> by_key;
  };
  thread_local Outcomes outcomes;
  const std::string_view key = outcomes.call.key(info, stack, begin);
  if (key.empty()) return;
  auto known = outcomes.by_key.find(key);
  if (known == outcomes.by_key.end()) {
    if (outcomes.by_key.size() >= kMostOutcomes) outcomes.by_key.clear();
    std::string kept(key);  // the call that is tried may come here too
    Refusal refusal = refusal_of(info, stack, begin);
    known = outcomes.by_key.try_emplace(std::move(kept), std::move(refusal)).first;
  }
  const Refusal& refusal = known->second;
  TORCH_CHECK_NOT_IMPLEMENTED(!refusal.not_implemented, refusal.words);
  TORCH_CHECK(refusal.words.empty(), refusal.words);
}

}  // namespace braze::trace
