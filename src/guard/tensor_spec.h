// Inside of guard/: what a tensor must be like, compared in a few loads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cpython/ref.h"

namespace c10 {
struct TensorImpl;
}

namespace braze::guard {

class TensorSpec {
 public:
  // As `tensor` (a torch.Tensor object) is now. Nothing of it is kept alive.
  // Dimensions given by bit may have any size or stride. `no_hooks`: a gradient for it has none to
  // call.
  explicit TensorSpec(PyObject* tensor, uint64_t free_sizes = 0, uint64_t free_strides = 0,
                      bool no_hooks = false);

  // Python type, key set, dtype, device, sizes, strides, requires_grad, no hooks. No Python code
  // runs. On success `impl` is the tensor.
  bool matches(PyObject* object, c10::TensorImpl** impl) const;

  // What of `object`, which was read from `source`, is other than this: "x.size(0): 4 -> 8".
  std::string difference(const std::string& source, PyObject* object) const;
  // Dimensions of another size, and of another stride, as bits.
  struct Varying {
    uint64_t sizes = 0, strides = 0;
  };
  // If sizes and strides alone tell this from `object`. Else nothing.
  std::optional<Varying> varying(PyObject* object) const;
  int64_t size(int dim) const { return shape()[dim]; }
  // "float32[2, 3]", with * for sizes that may be any
  std::string text() const;

 private:
  bool matches(const c10::TensorImpl& impl) const;
  bool matches_free(const c10::TensorImpl& impl) const;
  bool fits_but_shape(const c10::TensorImpl& impl) const;
  bool fits_history(const c10::TensorImpl& impl) const;
  std::string shape_text(const int64_t* values, uint64_t free) const;

  PyTypeObject* type_;  // kept alive by `type_ref_`
  uint64_t keys_;
  int16_t dtype_;
  int16_t device_;
  bool requires_grad_;
  bool plain_;  // strided, with the usual sizes and strides: anything else never matches
  int dim_;
  static constexpr int kInline = 5;
  int64_t inline_[2 * kInline];
  uint64_t free_sizes_, free_strides_;
  bool no_hooks_;
  std::vector<int64_t> more_;  // sizes then strides, where they do not fit
  cpython::Ref type_ref_;

  const int64_t* shape() const { return dim_ <= kInline ? inline_ : more_.data(); }
};

// The tensor behind a torch.Tensor object; null for any other object.
c10::TensorImpl* tensor_of(PyObject* object);
// Whether somebody beside the object keeps a tensor, as a parameter its gradient.
bool has_other_owner(PyObject* object);

// Hints the processor to load what `matches` will read. Never faults.
void prefetch_tensor(PyObject* object, c10::TensorImpl* impl);

// Whether two tensors have that many bytes between them, and one storage or two.
bool lie_apart(PyObject* a, PyObject* b, int64_t bytes, bool one_storage);

}  // namespace braze::guard
