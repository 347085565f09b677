#include "guard/tensor_spec.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "base/error.h"
#include "pytorch/memory.h"
#include "pytorch/nodes.h"
#include "torch_python/objects.h"

namespace braze::guard {

namespace {

// Index of the device; -1 for the CPU and other devices that have one only.
int16_t pack(c10::Device device) {
  return static_cast<int16_t>(static_cast<int>(device.type()) << 8 | (device.index() & 0xFF));
}

bool is_plain(const c10::TensorImpl& impl) {
  return impl.layout() == c10::kStrided && !impl.is_python_dispatch() &&
         !impl.has_symbolic_sizes_strides() && !impl.key_set().has(c10::DispatchKey::NestedTensor);
}

// All AutogradMeta are torch's own, so no virtual call is needed.
bool requires_grad(const c10::TensorImpl& impl) {
  auto meta = static_cast<const torch::autograd::AutogradMeta*>(
      const_cast<c10::TensorImpl&>(impl).autograd_meta());
  return meta != nullptr && (meta->requires_grad_ || static_cast<bool>(meta->grad_fn_));
}

// No compiled code is for such.
bool carries_tangent(const c10::TensorImpl& impl) {
  auto meta = static_cast<const torch::autograd::AutogradMeta*>(
      const_cast<c10::TensorImpl&>(impl).autograd_meta());
  return meta != nullptr && meta->fw_grad_ && pytorch::has_tangent(impl);
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string dtype_text(int16_t dtype) {
  switch (static_cast<c10::ScalarType>(dtype)) {
    case c10::ScalarType::Float:
      return "float32";
    case c10::ScalarType::Double:
      return "float64";
    case c10::ScalarType::Half:
      return "float16";
    case c10::ScalarType::Byte:
      return "uint8";
    case c10::ScalarType::Char:
      return "int8";
    case c10::ScalarType::Short:
      return "int16";
    case c10::ScalarType::Int:
      return "int32";
    case c10::ScalarType::Long:
      return "int64";
    default:
      return lower(c10::toString(static_cast<c10::ScalarType>(dtype)));
  }
}

std::string device_text(int16_t device) {
  const auto index = static_cast<c10::DeviceIndex>(device & 0xFF);
  return c10::Device(static_cast<c10::DeviceType>(device >> 8), index).str();
}

}  // namespace

c10::TensorImpl* tensor_of(PyObject* object) {
  if (object == nullptr || !torch_python::is_tensor(object)) return nullptr;
  return torch_python::tensor_of(object).unsafeGetTensorImpl();
}

bool has_other_owner(PyObject* object) {
  c10::TensorImpl* impl = object ? tensor_of(object) : nullptr;
  return impl && c10::raw::intrusive_ptr::use_count(impl) > 1;
}

void prefetch_tensor(PyObject* object, c10::TensorImpl* impl) {
  __builtin_prefetch(object);
  auto at = reinterpret_cast<const char*>(impl);
  for (int line = 0; line < 4; ++line) __builtin_prefetch(at + 64 * line);
}

bool lie_apart(PyObject* a, PyObject* b, int64_t bytes, bool one_storage) {
  const c10::TensorImpl* x = tensor_of(a);
  const c10::TensorImpl* y = tensor_of(b);
  return x != nullptr && y != nullptr && x->has_storage() && y->has_storage() &&
         x->storage().is_alias_of(y->storage()) == one_storage &&
         pytorch::address_of(*y) - pytorch::address_of(*x) == static_cast<uintptr_t>(bytes);
}

TensorSpec::TensorSpec(PyObject* tensor, uint64_t free_sizes, uint64_t free_strides, bool no_hooks)
    : free_sizes_(free_sizes), free_strides_(free_strides), no_hooks_(no_hooks) {
  const c10::TensorImpl* impl = tensor_of(tensor);
  BRAZE_CHECK(impl != nullptr, "a tensor guard expects a ", Py_TYPE(tensor)->tp_name);
  type_ = Py_TYPE(tensor);
  type_ref_ = cpython::Ref::borrow(reinterpret_cast<PyObject*>(type_));
  keys_ = impl->key_set().raw_repr();
  dtype_ = static_cast<int16_t>(c10::typeMetaToScalarType(impl->dtype()));
  device_ = pack(impl->device());
  requires_grad_ = requires_grad(*impl);
  plain_ = is_plain(*impl);
  dim_ = plain_ ? static_cast<int>(impl->dim()) : 0;
  if (!plain_) return;
  int64_t* out = inline_;
  if (dim_ > kInline) {
    more_.resize(2 * dim_);
    out = more_.data();
  }
  std::copy_n(impl->sizes().data(), dim_, out);
  std::copy_n(impl->strides().data(), dim_, out + dim_);
}

inline bool TensorSpec::fits_history(const c10::TensorImpl& impl) const {
  return requires_grad(impl) == requires_grad_ && (!no_hooks_ || !pytorch::has_hooks(impl)) &&
         !carries_tangent(impl);
}

inline bool TensorSpec::fits_but_shape(const c10::TensorImpl& impl) const {
  // The keys say that sizes and strides are the plain ones, so nothing virtual is called.
  if (impl.key_set().raw_repr() != keys_ || !plain_) return false;
  if (static_cast<int16_t>(impl.dtype().toScalarType()) != dtype_) return false;
  if (pack(impl.device()) != device_) return false;
  return static_cast<int>(impl.sizes().size()) == dim_;
}

bool TensorSpec::matches_free(const c10::TensorImpl& impl) const {
  const c10::IntArrayRef sizes = impl.sizes(), strides = impl.strides();
  const int64_t* expected = shape();
  for (int i = 0; i < dim_; ++i) {
    if (!(free_sizes_ >> i & 1) && sizes[i] != expected[i]) return false;
    if (!(free_strides_ >> i & 1) && strides[i] != expected[dim_ + i]) return false;
  }
  return fits_history(impl);
}

std::optional<TensorSpec::Varying> TensorSpec::varying(PyObject* object) const {
  const c10::TensorImpl* impl = tensor_of(object);
  if (impl == nullptr || Py_TYPE(object) != type_ || !fits_but_shape(*impl) || !fits_history(*impl))
    return std::nullopt;
  Varying bits;
  for (int i = 0; i < dim_; ++i) {
    const uint64_t bit = uint64_t{1} << i;
    if (!(free_sizes_ & bit) && impl->sizes()[i] != shape()[i]) bits.sizes |= bit;
    if (!(free_strides_ & bit) && impl->strides()[i] != shape()[dim_ + i]) bits.strides |= bit;
  }
  return bits;
}

// "[2, *]": any where free.
std::string TensorSpec::shape_text(const int64_t* values, uint64_t free) const {
  std::string text = "[";
  for (int i = 0; i < dim_; ++i)
    text += (i ? ", " : "") + (free >> i & 1 ? std::string("*") : std::to_string(values[i]));
  return text + "]";
}

inline bool TensorSpec::matches(const c10::TensorImpl& impl) const {
  if (!fits_but_shape(impl)) return false;
  if (free_sizes_ | free_strides_) return matches_free(impl);
  const c10::IntArrayRef sizes = impl.sizes(), strides = impl.strides();
  const int64_t* expected = shape();
  bool same = true;
  for (int i = 0; i < dim_; ++i)
    same &= (sizes[i] == expected[i]) & (strides[i] == expected[dim_ + i]);
  return same && fits_history(impl);
}

bool TensorSpec::matches(PyObject* object, c10::TensorImpl** impl) const {
  if (object == nullptr || Py_TYPE(object) != type_) return false;
  *impl = torch_python::tensor_of(object).unsafeGetTensorImpl();
  return matches(**impl);
}

std::string TensorSpec::text() const {
  std::string text = dtype_text(dtype_) + shape_text(shape(), free_sizes_);
  if (device_ != pack(c10::kCPU)) text += " on " + device_text(device_);
  if (requires_grad_) text += " with requires_grad";
  return text;
}

std::string TensorSpec::difference(const std::string& source, PyObject* object) const {
  const auto changed = [&](const std::string& what, const std::string& was, const std::string& is) {
    return source + "." + what + ": " + was + " -> " + is;
  };
  const auto flag = [](bool value) { return value ? "True" : "False"; };
  if (object == nullptr) return source + ": a tensor -> absent";
  const c10::TensorImpl* impl = tensor_of(object);
  if (impl == nullptr || Py_TYPE(object) != type_)
    return "type(" + source + "): " + type_->tp_name + " -> " + Py_TYPE(object)->tp_name;
  const auto dtype = static_cast<int16_t>(c10::typeMetaToScalarType(impl->dtype()));
  if (dtype != dtype_) return changed("dtype", dtype_text(dtype_), dtype_text(dtype));
  if (pack(impl->device()) != device_)
    return changed("device", device_text(device_), impl->device().str());
  if (!plain_ || !is_plain(*impl)) return source + ": no plain strided tensor";
  const int dim = static_cast<int>(impl->dim());
  if (dim != dim_) return changed("dim()", std::to_string(dim_), std::to_string(dim));
  for (const bool strides : {false, true}) {
    const int64_t* now = strides ? impl->strides().data() : impl->sizes().data();
    const int64_t* was = shape() + (strides ? dim_ : 0);
    const uint64_t free = strides ? free_strides_ : free_sizes_;
    std::string text;
    for (int i = 0; i < dim; ++i)
      if (now[i] != was[i] && !(free >> i & 1))
        text += (text.empty() ? "" : ", ") +
                changed((strides ? "stride(" : "size(") + std::to_string(i) + ")",
                        std::to_string(was[i]), std::to_string(now[i]));
    if (!text.empty()) return text;
  }
  if (requires_grad(*impl) != requires_grad_)
    return changed("requires_grad", flag(requires_grad_), flag(!requires_grad_));
  if (no_hooks_ && pytorch::has_hooks(*impl)) return source + " has got a hook";
  if (carries_tangent(*impl)) return source + " carries a tangent of forward-mode differentiation";
  return changed("dispatch keys", c10::toString(c10::DispatchKeySet::from_raw_repr(keys_)),
                 c10::toString(impl->key_set()));
}

}  // namespace braze::guard
