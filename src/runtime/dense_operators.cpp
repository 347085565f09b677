#include "runtime/dense_operators.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include "kernels/kernels.h"
#include "runtime/torch_threads.h"
#include "target/isa.h"

namespace braze::runtime {
namespace {

kernels::Activation activation_named(std::string_view name) {
  if (name == "gelu") return kernels::Activation::kGelu;
  if (name == "gelu_tanh") return kernels::Activation::kGeluTanh;
  TORCH_CHECK_VALUE(name == "none", "mm_pointwise: no activation ", name);
  return kernels::Activation::kNone;
}

bool is_f32_matrix(const at::Tensor& tensor) {
  return tensor.dim() == 2 && tensor.scalar_type() == at::kFloat && tensor.device().is_cpu() &&
         tensor.layout() == at::kStrided;
}

// Where MKL knows the processor, it is the faster one for fewer rows, and for operands in another
// order than that of a linear layer, which a gradient has: it reads all orders at the same rate.
constexpr int64_t kRowsOverMkl = 64;

bool aten_multiplies_faster(int64_t rows, bool as_in_linear, kernels::Activation activation) {
  const bool other_order = !as_in_linear && activation == kernels::Activation::kNone;
  return (rows < kRowsOverMkl || other_order) && mkl_knows_processor();
}

at::Tensor& aten_product(const at::Tensor& self, const at::Tensor& mat2,
                         const std::optional<at::Tensor>& bias, kernels::Activation activation,
                         at::Tensor& out) {
  if (bias)
    at::addmm_out(out, *bias, self, mat2);
  else
    at::mm_out(out, self, mat2);
  if (activation == kernels::Activation::kGelu) at::gelu_(out, "none");
  if (activation == kernels::Activation::kGeluTanh) at::gelu_(out, "tanh");
  return out;
}

// Elements of a row side by side.
at::Tensor with_whole_rows(const at::Tensor& tensor) {
  return tensor.stride(1) == 1 || tensor.size(1) <= 1 ? tensor : tensor.contiguous();
}

at::Tensor& mm_pointwise_out(const at::Tensor& self, const at::Tensor& mat2,
                             const std::optional<at::Tensor>& bias, std::string_view activation,
                             at::Tensor& out) {
  const kernels::Variant* variant = kernels::variant_for(target::chosen_isa());
  TORCH_CHECK(variant, "mm_pointwise: needs a processor with AVX2 and FMA");
  TORCH_CHECK(is_f32_matrix(self) && is_f32_matrix(mat2) && is_f32_matrix(out),
              "mm_pointwise: expected float32 matrices on the CPU");
  const int64_t rows = self.size(0), inner = self.size(1), columns = mat2.size(1);
  TORCH_CHECK(mat2.size(0) == inner && out.size(0) == rows && out.size(1) == columns &&
                  (out.stride(1) == 1 || columns <= 1),
              "mm_pointwise: ", self.sizes(), " @ ", mat2.sizes(), " into ", out.sizes());
  if (bias)
    TORCH_CHECK(bias->dim() == 1 && bias->size(0) == columns && bias->scalar_type() == at::kFloat,
                "mm_pointwise: a bias of sizes ", bias->sizes());
  const kernels::Activation wanted = activation_named(activation);
  const bool transposed = mat2.stride(1) != 1 && columns > 1 && (mat2.stride(0) == 1 || inner <= 1);
  if (aten_multiplies_faster(rows, transposed && self.stride(1) == 1, wanted))
    return aten_product(self, mat2, bias, wanted, out);
  const bool packs = self.stride(1) != 1 && self.stride(0) == 1 && kernels::packs_rows(rows, inner);
  const at::Tensor a = packs ? self : with_whole_rows(self);
  const at::Tensor b = transposed ? mat2 : with_whole_rows(mat2);
  const at::Tensor bias_row = bias ? bias->contiguous() : at::Tensor();
  const kernels::Product product{
      .a = a.const_data_ptr<float>(),
      .b = b.const_data_ptr<float>(),
      .bias = bias_row.defined() ? bias_row.const_data_ptr<float>() : nullptr,
      .c = out.mutable_data_ptr<float>(),
      .rows = rows,
      .inner = inner,
      .columns = columns,
      .a_stride = a.stride(packs ? 1 : 0),
      .c_stride = out.stride(0),
      .a_transposed = packs,
      .b_stride = b.stride(transposed ? 1 : 0),
      .b_transposed = transposed,
      .activation = wanted};
  kernels::multiply(*variant, product, usable_threads(), on_torch_threads);
  return out;
}

at::Tensor mm_pointwise(const at::Tensor& self, const at::Tensor& mat2,
                        const std::optional<at::Tensor>& bias, std::string_view activation) {
  TORCH_CHECK(is_f32_matrix(self) && is_f32_matrix(mat2),
              "mm_pointwise: expected float32 matrices on the CPU");
  at::Tensor out = at::empty({self.size(0), mat2.size(1)}, self.options());
  return mm_pointwise_out(self, mat2, bias, activation, out);
}

}  // namespace

bool mkl_knows_processor() { return __builtin_cpu_is("intel"); }

void register_dense_operators() {
  static const bool done = [] {
    static torch::Library library(torch::Library::FRAGMENT, "braze", std::nullopt, __FILE__,
                                  __LINE__);
    library.def("mm_pointwise(Tensor self, Tensor mat2, Tensor? bias, str activation) -> Tensor",
                torch::dispatch(c10::DispatchKey::CPU, mm_pointwise));
    library.def(
        "mm_pointwise.out(Tensor self, Tensor mat2, Tensor? bias, str activation, *, "
        "Tensor(a!) out) -> Tensor(a!)",
        torch::dispatch(c10::DispatchKey::CPU, mm_pointwise_out));
    return true;
  }();
  (void)done;
}

}  // namespace braze::runtime
