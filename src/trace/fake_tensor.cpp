#include "trace/fake_tensor.h"

#include <c10/core/Storage.h>

#include <algorithm>
#include <memory>

#include "trace/sym_node.h"
#include "trace/trace_state.h"
#include "trace/tracer.h"

namespace braze::trace {
namespace {

bool all_concrete(c10::SymIntArrayRef dims) {
  for (const c10::SymInt& dim : dims)
    if (dim.is_heap_allocated()) return false;
  return true;
}

void set_layout(FakeTensorImpl& fake, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                const c10::SymInt& offset) {
  c10::TensorImpl& impl = fake;
  if (all_concrete(sizes) && all_concrete(strides) && !offset.is_heap_allocated())
    impl.set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
                               offset.as_int_unchecked());
  else
    impl.set_sizes_and_strides(sizes, strides, offset);
}

// Bytes that a tensor of these sizes and strides reaches, from its first element.
c10::SymInt bytes_of(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides, at::ScalarType dtype) {
  c10::SymInt reach = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!sizes[i].is_heap_allocated() && sizes[i].as_int_unchecked() == 0) return 0;
    reach = plus(reach, times(minus(sizes[i], 1), strides[i]));
  }
  return times(reach, static_cast<int64_t>(c10::elementSize(dtype)));
}

c10::DispatchKey key_of(c10::Device device) {
  return device.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
}

// Versions of PyTorch that have a use for kFakeKey of their own ask a tensor with that key for the
// device that it stands for (`reshape` does), which they keep beside the tensor.
template <class Impl, class Meta>
void write_down(std::unique_ptr<Meta>& extra_meta, c10::Device device) {
  if constexpr (requires(const Impl& impl) { impl.fake_device(); }) {
    if (!extra_meta) {
      extra_meta = std::make_unique<Meta>();
      // TensorImpl makes it for symbolic sizes only along with the rest.
      extra_meta->symbolic_shape_meta_ = std::make_unique<c10::SymbolicShapeMeta>();
    }
    extra_meta->fake_device_ = device;
  }
}

}  // namespace

FakeTensorImpl::FakeTensorImpl(c10::Storage storage, caffe2::TypeMeta dtype, c10::Device device)
    : TensorImpl(std::move(storage), c10::DispatchKeySet({key_of(device), kFakeKey}), dtype),
      device_(device) {
  live_count.fetch_add(1, std::memory_order_relaxed);
  set_custom_device(true);
  write_down<c10::TensorImpl>(extra_meta_, device);
}

c10::IntArrayRef FakeTensorImpl::guarded(c10::SymIntArrayRef values,
                                         std::vector<int64_t>& hints) const {
  hints.clear();
  for (const c10::SymInt& value : values) hints.push_back(value.guard_int(__FILE__, __LINE__));
  return hints;
}

c10::IntArrayRef FakeTensorImpl::sizes_custom() const {
  if (!has_symbolic_sizes_strides()) return sizes_default();
  return guarded(sym_sizes(), size_hints_);
}

c10::IntArrayRef FakeTensorImpl::strides_custom() const {
  if (!has_symbolic_sizes_strides()) return strides_default();
  return guarded(sym_strides(), stride_hints_);
}

int64_t FakeTensorImpl::numel_custom() const {
  if (!has_symbolic_sizes_strides()) return numel_default();
  return sym_numel().guard_int(__FILE__, __LINE__);
}

int64_t FakeTensorImpl::storage_offset_custom() const {
  if (!has_symbolic_sizes_strides()) return storage_offset_default();
  return sym_storage_offset().guard_int(__FILE__, __LINE__);
}

void FakeTensorImpl::copy_layout_of(const c10::TensorImpl& source) {
  if (source.has_symbolic_sizes_strides())
    TensorImpl::set_sizes_and_strides(source.sym_sizes(), source.sym_strides(),
                                      source.sym_storage_offset());
  else
    TensorImpl::set_sizes_and_strides(source.sizes(), source.strides(), source.storage_offset());
}

void FakeTensorImpl::set_fake_device(c10::Device device) {
  const c10::BackendComponent from = c10::toBackendComponent(key_of(device_));
  const c10::BackendComponent to = c10::toBackendComponent(key_of(device));
  device_ = device;
  write_down<c10::TensorImpl>(extra_meta_, device);
  if (from == to) return;
  key_set_ = (key_set_.remove_backend(from) - c10::getAutocastRelatedKeySetFromBackend(from)) |
             c10::DispatchKeySet(to) | c10::getAutocastRelatedKeySetFromBackend(to);
}

void FakeTensorImpl::set_inference(bool inference) {
  if (inference == is_inference()) return;
  if (inference) {
    key_set_ = key_set_ - c10::autograd_dispatch_keyset_with_ADInplaceOrView;
    version_counter_ = c10::VariableVersion();
  } else {
    key_set_ = key_set_ |
               c10::getAutogradRelatedKeySetFromBackend(c10::toBackendComponent(key_of(device_)));
    version_counter_ = c10::VariableVersion(/*version=*/0);
  }
}

template <class Version>
c10::intrusive_ptr<c10::TensorImpl> FakeTensorImpl::copy(Version&& version,
                                                         bool allow_change) const {
  auto result = c10::make_intrusive<FakeTensorImpl>(c10::Storage(storage_), data_type_, device_);
  copy_tensor_metadata(this, result.get(), std::forward<Version>(version), allow_change);
  // `x.data` is x in the graph; what a kernel makes of its operand (detach) is a result.
  if (!thread_state.in_kernel) {
    result->value = value;
    result->serial = serial;
  }
  return result;
}

c10::intrusive_ptr<c10::TensorImpl> FakeTensorImpl::shallow_copy_and_detach(
    const c10::VariableVersion& version, bool allow_change) const {
  return copy(version, allow_change);
}

c10::intrusive_ptr<c10::TensorImpl> FakeTensorImpl::shallow_copy_and_detach(
    c10::VariableVersion&& version, bool allow_change) const {
  return copy(std::move(version), allow_change);
}

void FakeTensorImpl::shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& impl) {
  TensorImpl::shallow_copy_from(impl);
  forget_row_major();
  if (typeid(*impl) == typeid(FakeTensorImpl)) {
    const auto& source = static_cast<const FakeTensorImpl&>(*impl);
    value = source.value;
    serial = source.serial;
  } else {
    value = nullptr;
  }
}

c10::Storage meta_storage(c10::SymInt bytes) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), std::move(bytes),
      at::DataPtr(nullptr, c10::Device(c10::kMeta)), c10::GetAllocator(c10::kMeta),
      /*resizable=*/true));
}

at::Tensor make_fake(c10::Storage storage, const c10::TensorImpl& like, c10::Device device) {
  auto fake = c10::make_intrusive<FakeTensorImpl>(std::move(storage), like.dtype(), device);
  fake->copy_layout_of(like);
  if (like.is_wrapped_number()) fake->set_wrapped_number(true);
  return at::Tensor(std::move(fake));
}

at::Tensor make_fake(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides, at::ScalarType dtype) {
  auto fake =
      c10::make_intrusive<FakeTensorImpl>(meta_storage(bytes_of(sizes, strides, dtype)),
                                          c10::scalarTypeToTypeMeta(dtype), c10::Device(c10::kCPU));
  set_layout(*fake, sizes, strides, 0);
  return at::Tensor(std::move(fake));
}

at::Tensor make_row_major_fake(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                               at::ScalarType dtype) {
  // Strides count what is or may be 0 as 1.
  bool counted = !sizes.empty();
  for (const c10::SymInt& size : sizes)
    counted = counted && (size.is_heap_allocated() ? size.toSymNodeImplUnowned()->has_hint()
                                                   : size.as_int_unchecked() != 0);
  c10::SymInt bytes =
      counted ? times(times(sizes[0], strides[0]), static_cast<int64_t>(c10::elementSize(dtype)))
              : bytes_of(sizes, strides, dtype);
  auto fake = c10::make_intrusive<FakeTensorImpl>(
      meta_storage(std::move(bytes)), c10::scalarTypeToTypeMeta(dtype), c10::Device(c10::kCPU));
  set_layout(*fake, sizes, strides, 0);
  fake->assume_row_major();
  return at::Tensor(std::move(fake));
}

namespace {

bool all_constant(const sym::Dims& dims) {
  return std::ranges::all_of(dims, [](const sym::Int& dim) { return dim.is_constant(); });
}

void set_layout(FakeTensorImpl& fake, const graph::TensorType& type, const sym::Int& offset) {
  c10::TensorImpl& impl = fake;
  if (all_constant(type.sizes) && all_constant(type.strides) && offset.is_constant()) {
    c10::SmallVector<int64_t, 6> sizes, strides;
    for (const sym::Int& size : type.sizes) sizes.push_back(size.constant());
    for (const sym::Int& stride : type.strides) strides.push_back(stride.constant());
    return impl.set_sizes_and_strides(sizes, strides, offset.constant());
  }
  sym::ShapeEnv& shapes = current_state()->shapes;
  c10::SmallVector<c10::SymInt, 6> sizes, strides;
  for (const sym::Int& size : type.sizes) sizes.push_back(to_symint(size, shapes));
  for (const sym::Int& stride : type.strides) strides.push_back(to_symint(stride, shapes));
  impl.set_sizes_and_strides(sizes, strides, to_symint(offset, shapes));
}

// Of a row-major tensor that is not empty, the outermost dimension tells.
sym::Int elements_reached(const graph::TensorType& type, bool row_major) {
  const auto may_be_empty = [](const sym::Int& size) {
    return size.is_constant() ? size.constant() == 0
                              : current_state()->shapes.mentions_unbacked(size);
  };
  if (row_major && !type.sizes.empty() && std::ranges::none_of(type.sizes, may_be_empty))
    return type.sizes[0] * type.strides[0];
  sym::Int reach = 1;
  for (size_t i = 0; i < type.sizes.size(); ++i) {
    if (type.sizes[i] == sym::Int(0)) return 0;
    reach = reach + (type.sizes[i] - 1) * type.strides[i];
  }
  return reach;
}

}  // namespace

at::Tensor make_fake(const graph::TensorType& type, bool row_major) {
  const sym::Int bytes = elements_reached(type, row_major) * graph::size_of(type.dtype);
  auto fake = c10::make_intrusive<FakeTensorImpl>(
      meta_storage(bytes.is_constant() ? c10::SymInt(bytes.constant())
                                       : to_symint(bytes, current_state()->shapes)),
      c10::scalarTypeToTypeMeta(scalar_type_of(type.dtype)), c10::Device(c10::kCPU));
  set_layout(*fake, type, 0);
  if (row_major) fake->assume_row_major();
  return at::Tensor(std::move(fake));
}

at::Tensor make_fake_view(const at::Tensor& base, const graph::TensorType& type) {
  const FakeTensorImpl* fake_base = as_fake(base);
  auto fake = c10::make_intrusive<FakeTensorImpl>(
      c10::Storage(base.unsafeGetTensorImpl()->unsafe_storage()), base.dtype(),
      fake_base ? fake_base->fake_device() : c10::Device(c10::kCPU));
  set_layout(*fake, type, type.offset);
  return at::Tensor(std::move(fake));
}

at::Tensor make_fake_input(c10::Storage storage, c10::SymIntArrayRef sizes,
                           c10::SymIntArrayRef strides, int64_t offset, at::ScalarType dtype,
                           c10::Device device) {
  auto fake = c10::make_intrusive<FakeTensorImpl>(std::move(storage),
                                                  c10::scalarTypeToTypeMeta(dtype), device);
  set_layout(*fake, sizes, strides, offset);
  return at::Tensor(std::move(fake));
}

at::Tensor make_fake_view(const at::Tensor& base, c10::SymIntArrayRef sizes,
                          c10::SymIntArrayRef strides, const c10::SymInt& offset) {
  auto fake = c10::make_intrusive<FakeTensorImpl>(
      c10::Storage(base.unsafeGetTensorImpl()->unsafe_storage()), base.dtype(),
      as_fake(base) ? as_fake(base)->fake_device() : c10::Device(c10::kCPU));
  set_layout(*fake, sizes, strides, offset);
  return at::Tensor(std::move(fake));
}

}  // namespace braze::trace
