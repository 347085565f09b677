#include "runtime/matmul_operator.h"

#include <ATen/Context.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include <optional>
#include <type_traits>

#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/stream.h"

namespace braze::runtime {
namespace {

// What the user's settings say of sums in the precision of halves: a bool in some of PyTorch's
// releases, in others one of three values, the strictest last.
struct Reduction {
  template <class T>
  explicit Reduction(T setting) {
    if constexpr (std::is_same_v<T, bool>) {
      rounds_parts = setting;
    } else {
      rounds_parts = static_cast<int>(setting) == 0;
      splits_sums = static_cast<int>(setting) < 2;
    }
  }
  bool splits_sums = true, rounds_parts = true;
};

bool is_matrix_for_cublaslt(const at::Tensor& tensor, int64_t dims, at::ScalarType dtype) {
  return tensor.dim() == dims && tensor.scalar_type() == dtype && tensor.is_cuda() &&
         tensor.layout() == at::kStrided && tensor.numel() > 0 && !tensor.is_conj() &&
         !tensor.is_neg();
}

// Of a power of two, up to that of the widest access.
int32_t alignment_of(const void* address) {
  constexpr uintptr_t kWidest = 16;
  const auto bits = reinterpret_cast<uintptr_t>(address) | kWidest;
  return static_cast<int32_t>(bits & -bits);
}

// Nothing: it lies in no way that the library knows.
std::optional<cuda::MatrixLayout> layout_of(const at::Tensor& tensor) {
  const int64_t dims = tensor.dim();
  const int64_t rows = tensor.size(-2), columns = tensor.size(-1);
  const int64_t by_row = tensor.stride(-2), by_column = tensor.stride(-1);
  cuda::MatrixLayout layout{.batch_stride = dims == 3 ? tensor.stride(0) : 0,
                            .alignment = alignment_of(tensor.const_data_ptr())};
  if ((by_column == 1 || columns == 1) && (by_row >= columns || rows == 1)) {
    layout.leading = rows == 1 ? columns : by_row;
    return layout;
  }
  if ((by_row == 1 || rows == 1) && (by_column >= rows || columns == 1)) {
    layout.leading = columns == 1 ? rows : by_column;
    layout.transposed = true;
    return layout;
  }
  return std::nullopt;
}

// What the settings of PyTorch say; false: they ask for what is ATen's business.
bool apply_settings(cuda::Matmul& matmul) {
  const at::Context& context = at::globalContext();
  if (context.deterministicAlgorithms()) return false;
  if (matmul.dtype == at::kFloat) {
    matmul.tf32 = context.allowTF32CuBLAS();
    return true;
  }
  const bool is_half = matmul.dtype == at::kHalf;
  if (is_half && context.allowFP16AccumulationCuBLAS()) return false;
  const Reduction reduction = is_half ? Reduction(context.allowFP16ReductionCuBLAS())
                                      : Reduction(context.allowBF16ReductionCuBLAS());
  matmul.splits_sums = reduction.splits_sums;
  matmul.rounds_parts = reduction.rounds_parts;
  return true;
}

// The product, where it is one of the library's.
std::optional<cuda::Matmul> described(const at::Tensor& self, const at::Tensor& mat2,
                                      const std::optional<at::Tensor>& bias,
                                      const at::Tensor& out) {
  const int64_t dims = self.dim();
  const at::ScalarType dtype = self.scalar_type();
  if (dtype != at::kFloat && dtype != at::kHalf && dtype != at::kBFloat16) return std::nullopt;
  if (dims != 2 && (dims != 3 || bias)) return std::nullopt;
  for (const at::Tensor* tensor : {&self, &mat2, &out})
    if (!is_matrix_for_cublaslt(*tensor, dims, dtype) || tensor->device() != self.device())
      return std::nullopt;
  cuda::Matmul matmul{.device = self.device().index(),
                      .dtype = dtype,
                      .rows = self.size(-2),
                      .inner = self.size(-1),
                      .columns = mat2.size(-1),
                      .batch = dims == 3 ? self.size(0) : 1,
                      .has_bias = bias.has_value()};
  if (mat2.size(-2) != matmul.inner || out.size(-2) != matmul.rows ||
      (dims == 3 && (mat2.size(0) != matmul.batch || out.size(0) != matmul.batch)))
    return std::nullopt;
  if (bias && (!is_matrix_for_cublaslt(*bias, 1, dtype) || bias->size(0) != matmul.columns ||
               (bias->stride(0) != 1 && matmul.columns > 1) || bias->device() != self.device() ||
               alignment_of(bias->const_data_ptr()) < 16))
    return std::nullopt;
  const auto a = layout_of(self), b = layout_of(mat2), d = layout_of(out);
  if (!a || !b || !d || d->transposed || !apply_settings(matmul)) return std::nullopt;
  matmul.a = *a, matmul.b = *b, matmul.d = *d;
  return matmul;
}

at::Tensor& aten_product(const at::Tensor& self, const at::Tensor& mat2,
                         const std::optional<at::Tensor>& bias, at::Tensor& out) {
  if (bias) return at::addmm_out(out, *bias, self, mat2);
  return self.dim() == 3 ? at::bmm_out(out, self, mat2) : at::mm_out(out, self, mat2);
}

at::Tensor& cublaslt_matmul_out(const at::Tensor& self, const at::Tensor& mat2,
                                const std::optional<at::Tensor>& bias, at::Tensor& out) {
  const std::optional<cuda::Matmul> matmul = described(self, mat2, bias, out);
  cuda::MatmulPlan* plan = matmul ? cuda::plan_of(*matmul) : nullptr;
  if (!plan) return aten_product(self, mat2, bias, out);
  const cuda::CurrentContext current(cuda::primary_context(matmul->device));
  at::Tensor workspace;
  if (plan->workspace_bytes() > 0)
    workspace = at::empty({plan->workspace_bytes()}, out.options().dtype(at::kByte));
  plan->run(self.const_data_ptr(), mat2.const_data_ptr(), bias ? bias->const_data_ptr() : nullptr,
            out.mutable_data_ptr(), workspace.defined() ? workspace.mutable_data_ptr() : nullptr,
            cuda::current_stream(out.device()));
  return out;
}

at::Tensor cublaslt_matmul(const at::Tensor& self, const at::Tensor& mat2,
                           const std::optional<at::Tensor>& bias) {
  TORCH_CHECK(self.dim() >= 2 && mat2.dim() >= 2, "cublaslt_matmul: expected matrices, got ",
              self.sizes(), " and ", mat2.sizes());
  std::vector<int64_t> sizes = self.sizes().vec();
  sizes.back() = mat2.size(-1);
  at::Tensor out = at::empty(sizes, self.options());
  return cublaslt_matmul_out(self, mat2, bias, out);
}

}  // namespace

void register_matmul_operator() {
  static const bool done = [] {
    static torch::Library library(torch::Library::FRAGMENT, "braze", std::nullopt, __FILE__,
                                  __LINE__);
    library.def("cublaslt_matmul(Tensor self, Tensor mat2, Tensor? bias) -> Tensor");
    library.def(
        "cublaslt_matmul.out(Tensor self, Tensor mat2, Tensor? bias, *, "
        "Tensor(a!) out) -> Tensor(a!)");
    for (const c10::DispatchKey key : {c10::DispatchKey::CPU, c10::DispatchKey::CUDA}) {
      library.impl("cublaslt_matmul", torch::dispatch(key, cublaslt_matmul));
      library.impl("cublaslt_matmul.out", torch::dispatch(key, cublaslt_matmul_out));
    }
    return true;
  }();
  (void)done;
}

}  // namespace braze::runtime
