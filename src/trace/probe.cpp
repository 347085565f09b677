#include "trace/probe.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <atomic>
#include <unordered_map>

#include "trace/constants.h"
#include "trace/fake_tensor.h"

namespace braze::trace {
namespace {

constexpr size_t kMaxBytes = size_t{256} << 20;

std::atomic<int64_t> kernels_run = 0;

class Probe {
 public:
  Probe(const OperatorInfo& info, torch::jit::Stack& stack)
      : info_(info), stack_(stack), begin_(stack.size() - info.arguments.size()) {}

  bool run() {
    torch::jit::Stack call;
    if (!make_arguments(call)) return false;
    try {
      ++kernels_run;
      RealCallScope scope;
      end_bags(call);
      info_.handle.callBoxed(call);
    } catch (const c10::Error&) {
      return false;  // the caller raises the error of the metadata kernel
    }
    for (c10::IValue& result : call) {
      if (result.isTensor()) {
        result = fake_of(result.toTensor());
      } else if (result.isTensorList()) {
        c10::List<at::Tensor> fakes;
        for (const at::Tensor& tensor : result.toTensorVector()) fakes.push_back(fake_of(tensor));
        result = fakes;
      }
    }
    stack_.resize(begin_);
    stack_.insert(stack_.end(), std::make_move_iterator(call.begin()),
                  std::make_move_iterator(call.end()));
    return true;
  }

 private:
  // A kernel that is told of an offset for the end trusts it.
  void end_bags(torch::jit::Stack& call) const {
    const c10::FunctionSchema& schema = info_.handle.schema();
    const auto has_end = schema.argumentIndexWithName("include_last_offset");
    if (!has_end || !call[*has_end].toBool()) return;
    const auto tensor = [&](const char* name) {
      return call[schema.argumentIndexWithName(name).value()].toTensor();
    };
    if (const at::Tensor offsets = tensor("offsets"); offsets.numel() > 0)
      offsets.select(0, -1).fill_(tensor("indices").numel());
  }

  bool make_arguments(torch::jit::Stack& call) {
    RealCallScope scope;
    for (size_t i = begin_; i < stack_.size(); ++i) {
      const c10::IValue& value = stack_[i];
      if (value.isTensor()) {
        at::Tensor real;
        if (!real_of(value.toTensor(), real)) return false;
        call.emplace_back(real);
      } else if (value.isTensorList() || value.isList()) {
        call.push_back(copy_lists(value));
        if (!replace_elements(call.back())) return false;
      } else if (value.isDevice()) {
        call.emplace_back(c10::Device(c10::kCPU));
      } else if (value.isSymInt()) {
        return false;
      } else {
        call.push_back(value);
      }
    }
    return true;
  }

  bool replace_elements(c10::IValue& list) {
    if (list.isTensorList()) {
      auto tensors = list.toTensorList();
      for (size_t j = 0; j < tensors.size(); ++j) {
        at::Tensor real;
        if (!real_of(tensors.get(j), real)) return false;
        tensors.set(j, real);
      }
      return true;
    }
    auto values = list.toList();
    for (size_t j = 0; j < values.size(); ++j) {
      const c10::IValue element = values.get(j);
      if (element.isSymInt()) return false;
      if (!element.isTensor()) continue;
      at::Tensor real;
      if (!real_of(element.toTensor(), real)) return false;
      values.set(j, real);
    }
    return true;
  }

  // A tensor of zeros with the layout of `like`; those that share memory share it here too.
  bool real_of(const at::Tensor& like, at::Tensor& real) {
    c10::TensorImpl* impl = like.unsafeGetTensorImpl();
    if (!like.defined() || (impl->is_wrapped_number() && !as_fake(like))) {
      real = like;
      return true;
    }
    if (impl->has_symbolic_sizes_strides()) return false;
    const c10::Storage& storage = impl->unsafe_storage();
    if (!storage) return false;
    at::Tensor& bytes = memory_[storage.unsafeGetStorageImpl()];
    if (!bytes.defined()) {
      const int64_t count = storage.sym_nbytes().guard_int(__FILE__, __LINE__);
      total_ += count;
      if (total_ > kMaxBytes) return false;
      bytes = at::zeros({count}, at::TensorOptions(at::kByte));
      meta_of_[bytes.storage().unsafeGetStorageImpl()] = storage;
    }
    real = at::empty({0}, at::TensorOptions(like.scalar_type()));
    real.set_(bytes.storage(), like.storage_offset(), like.sizes(), like.strides());
    argument_of_[real.unsafeGetTensorImpl()] = like;
    kept_.push_back(real);
    return true;
  }

  at::Tensor fake_of(const at::Tensor& result) {
    if (!result.defined() || result.layout() != at::kStrided) return result;
    auto argument = argument_of_.find(result.unsafeGetTensorImpl());
    if (argument != argument_of_.end()) {
      follow(argument->second, result);
      return argument->second;
    }
    const c10::Storage& storage = result.unsafeGetTensorImpl()->unsafe_storage();
    c10::Storage& meta = meta_of_[storage.unsafeGetStorageImpl()];
    if (!meta) meta = meta_storage(static_cast<int64_t>(storage.nbytes()));
    return make_fake(meta, *result.unsafeGetTensorImpl(), c10::Device(c10::kCPU));
  }

  // An out= argument that the kernel has resized.
  static void follow(const at::Tensor& argument, const at::Tensor& real) {
    c10::TensorImpl* impl = argument.unsafeGetTensorImpl();
    if (impl->sizes() == real.sizes() && impl->strides() == real.strides()) return;
    impl->set_sizes_and_strides(real.sizes(), real.strides(), real.storage_offset());
    impl->unsafe_storage().unsafeGetStorageImpl()->set_nbytes(real.storage().nbytes());
  }

  const OperatorInfo& info_;
  torch::jit::Stack& stack_;
  const size_t begin_;
  size_t total_ = 0;
  std::unordered_map<c10::StorageImpl*, at::Tensor> memory_;
  std::unordered_map<c10::StorageImpl*, c10::Storage> meta_of_;
  std::unordered_map<c10::TensorImpl*, at::Tensor> argument_of_;
  std::vector<at::Tensor> kept_;
};

}  // namespace

bool probe(const OperatorInfo& info, torch::jit::Stack& stack) {
  if (info.random || !info.returns_tensor) return false;
  return Probe(info, stack).run();
}

int64_t probe_count() { return kernels_run; }

}  // namespace braze::trace
