// Fake tensors: real `torch.Tensor`s with sizes, strides, dtype and device, and no data.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <atomic>
#include <typeinfo>
#include <vector>

#include "graph/graph.h"

namespace braze::trace {

// The dispatch key of the recording fallback, and its only mention. It must sit above the backends
// and BackendSelect, and below Python, autograd, ADInplaceOrView and autocast; `Fake` is the only
// key of PyTorch's fixed list that does and that PyTorch itself leaves without a fallback.
inline constexpr c10::DispatchKey kFakeKey = c10::DispatchKey::Fake;

// What is in force on this thread.
struct ThreadState {
  void* state = nullptr;         // the TraceState of the current Scope
  bool in_kernel = false;        // a metadata kernel runs: fakes say that they are on "meta"
  bool storage_visible = false;  // the fallback runs: fakes show their storage
};
inline thread_local ThreadState thread_state;

// A fake holds a *meta* storage, shared by views as real storages are, and the key set of a real
// tensor of its device plus kFakeKey. `device()` is "meta" while a metadata kernel runs, so that
// the fake itself can be handed to Meta kernels.
//
// Outside of the fallback a fake claims to have no storage, so that `data_ptr()`, `numpy()` and
// `tolist()` raise instead of reading through a null pointer.
class FakeTensorImpl final : public c10::TensorImpl {
 public:
  FakeTensorImpl(c10::Storage storage, caffe2::TypeMeta dtype, c10::Device device);
  ~FakeTensorImpl() override { live_count.fetch_sub(1, std::memory_order_relaxed); }

  // Of all threads.
  static inline std::atomic<int64_t> live_count{0};

  c10::Device device_custom() const override {
    return thread_state.in_kernel ? c10::Device(c10::kMeta) : device_;
  }
  bool has_storage() const override { return thread_state.storage_visible; }
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                         bool allow_change) const override;
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                         bool allow_change) const override;
  // `x.data = y`: from then on x is y.
  void shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& impl) override;

  // A C++ kernel that asks a symbolic fake for plain numbers gets the hints, with guards.
  c10::IntArrayRef sizes_custom() const override;
  c10::IntArrayRef strides_custom() const override;
  int64_t numel_custom() const override;
  int64_t storage_offset_custom() const override;

  void copy_layout_of(const c10::TensorImpl& source);

  // Whether it is an inference tensor. At first it is one if it was made in inference mode; a view
  // is what its base is, and what stands for a tensor from outside what that is.
  void set_inference(bool inference);

  // The strides of symbolic sizes are row-major, those of dimensions of size 1 too: nobody needs to
  // work that out again, until an operator changes the layout in place.
  void assume_row_major() {
    if (!has_symbolic_sizes_strides()) return;
    extra_meta_->symbolic_shape_meta_->assume_contiguous();
    row_major_ = true;
  }
  void forget_row_major() { row_major_ = false; }
  bool is_known_row_major() const { return row_major_; }

  c10::Device fake_device() const { return device_; }
  void set_fake_device(c10::Device device);

  graph::Value* value = nullptr;  // what it stands for in the graph of trace `serial`
  uint32_t serial = 0;
  bool stands_for_input = false;  // Python code holds it in place of a real tensor from outside
  c10::TensorImpl* outside = nullptr;           // stands for this real tensor below the dispatcher
  c10::TensorImpl* specialised_from = nullptr;  // is that symbolic fake with its hints for sizes

 private:
  template <class Version>
  c10::intrusive_ptr<TensorImpl> copy(Version&& version, bool allow_change) const;
  c10::IntArrayRef guarded(c10::SymIntArrayRef values, std::vector<int64_t>& hints) const;

  c10::Device device_;
  bool row_major_ = false;
  mutable std::vector<int64_t> size_hints_, stride_hints_;  // once asked for
};

// Null for real tensors, and for the plain tensors that metadata kernels make of fakes.
inline FakeTensorImpl* as_fake(const at::TensorBase& tensor) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return typeid(*impl) == typeid(FakeTensorImpl) ? static_cast<FakeTensorImpl*>(impl) : nullptr;
}

// A storage without memory of that many bytes.
c10::Storage meta_storage(c10::SymInt bytes);

// A fake over `storage` with dtype, sizes, strides and offset of `like`.
at::Tensor make_fake(c10::Storage storage, const c10::TensorImpl& like, c10::Device device);

// A fresh fake with these row-major strides, in elements; on the CPU, like those below, until the
// recorder says otherwise.
at::Tensor make_row_major_fake(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                               at::ScalarType dtype);
// With any strides.
at::Tensor make_fake(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides, at::ScalarType dtype);
// One of this type, in the environment of this thread's trace.
at::Tensor make_fake(const graph::TensorType& type, bool row_major = false);
// A fake for a tensor from outside.
at::Tensor make_fake_input(c10::Storage storage, c10::SymIntArrayRef sizes,
                           c10::SymIntArrayRef strides, int64_t offset, at::ScalarType dtype,
                           c10::Device device);
// A view of `base`, which is a fake.
at::Tensor make_fake_view(const at::Tensor& base, c10::SymIntArrayRef sizes,
                          c10::SymIntArrayRef strides, const c10::SymInt& offset);
at::Tensor make_fake_view(const at::Tensor& base, const graph::TensorType& type);

}  // namespace braze::trace
