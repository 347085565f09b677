#include "runtime/batched_products.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>

#include "kernels/kernels.h"
#include "runtime/torch_threads.h"
#include "target/isa.h"

namespace braze::runtime {
namespace {

// Multiplications that are worth a task of their own.
constexpr int64_t kLeastTask = int64_t{1} << 18;

bool is_f32_on_cpu(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat && tensor.device().is_cpu() &&
         tensor.layout() == at::kStrided;
}

// Elements of a row side by side. What is expanded is copied once.
at::Tensor rows_side_by_side(const at::Tensor& batch) {
  if (batch.stride(2) == 1 || batch.size(2) <= 1) return batch;
  if (batch.stride(0) != 0) return batch.contiguous();
  return batch.select(0, 0).contiguous().expand(batch.sizes());
}

class BatchedProduct {
 public:
  // `out`: [batch, rows, columns], expanded where the products are summed.
  BatchedProduct(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& out)
      : batch_(self.size(0)), c_step_(out.stride(0)) {
    const kernels::Variant* variant = kernels::variant_for(target::chosen_isa());
    TORCH_CHECK(variant, "bmm: needs a processor with AVX2 and FMA");
    variant_ = variant;
    const bool transposed =
        mat2.stride(2) != 1 && mat2.size(2) > 1 && (mat2.stride(1) == 1 || mat2.size(1) <= 1);
    const bool packs = self.stride(2) != 1 && self.stride(1) == 1 &&
                       kernels::packs_rows(self.size(1), self.size(2));
    a_ = packs ? self : rows_side_by_side(self);
    b_ = transposed ? mat2 : rows_side_by_side(mat2);
    first_ = {.a = a_.const_data_ptr<float>(),
              .b = b_.const_data_ptr<float>(),
              .c = out.mutable_data_ptr<float>(),
              .rows = self.size(1),
              .inner = self.size(2),
              .columns = mat2.size(2),
              .a_stride = a_.stride(packs ? 2 : 1),
              .c_stride = out.stride(1),
              .a_transposed = packs,
              .b_stride = b_.stride(transposed ? 2 : 1),
              .b_transposed = transposed};
  }

  // Where there are enough, each product is one thread's.
  void multiply() const {
    const int threads = usable_threads();
    const int64_t work = std::max<int64_t>(1, first_.rows * first_.inner * first_.columns);
    if (batch_ < 2 * threads && work > kLeastTask) return multiply_by(threads);
    for_ranges(batch_, std::max<int64_t>(1, kLeastTask / work), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) multiply(i, 1, false);
    });
  }

  void sum() const {
    for (int64_t i = 0; i < batch_; ++i) multiply(i, usable_threads(), i > 0);
  }

 private:
  void multiply_by(int threads) const {
    for (int64_t i = 0; i < batch_; ++i) multiply(i, threads, false);
  }

  void multiply(int64_t i, int threads, bool adds) const {
    kernels::Product product = first_;
    product.a += i * a_.stride(0);
    product.b += i * b_.stride(0);
    product.c += i * c_step_;
    product.adds = adds;
    const auto alone = [](int, const std::function<void()>& body) { body(); };
    if (threads == 1)
      kernels::multiply(*variant_, product, 1, alone);
    else
      kernels::multiply(*variant_, product, threads, on_torch_threads);
  }

  const kernels::Variant* variant_ = nullptr;
  at::Tensor a_, b_;
  kernels::Product first_;
  int64_t batch_ = 0, c_step_ = 0;
};

void check_operands(const at::Tensor& self, const at::Tensor& mat2) {
  TORCH_CHECK(is_f32_on_cpu(self) && is_f32_on_cpu(mat2) && self.dim() == 3 && mat2.dim() == 3,
              "bmm: expected batches of float32 matrices on the CPU");
  TORCH_CHECK(self.size(0) == mat2.size(0) && self.size(2) == mat2.size(1), "bmm: ", self.sizes(),
              " @ ", mat2.sizes());
}

void check_out(const at::Tensor& out, c10::IntArrayRef sizes) {
  const int64_t last = out.dim() - 1;
  TORCH_CHECK(is_f32_on_cpu(out) && out.sizes() == sizes, "bmm: ", sizes, " into ", out.sizes());
  TORCH_CHECK(out.stride(last) == 1 || out.size(last) <= 1,
              "bmm: the rows of the result do not lie side by side");
}

at::Tensor& bmm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  check_operands(self, mat2);
  check_out(out, {self.size(0), self.size(1), mat2.size(2)});
  if (out.numel() > 0) BatchedProduct(self, mat2, out).multiply();
  return out;
}

at::Tensor bmm(const at::Tensor& self, const at::Tensor& mat2) {
  check_operands(self, mat2);
  at::Tensor out = at::empty({self.size(0), self.size(1), mat2.size(2)}, self.options());
  return bmm_out(self, mat2, out);
}

at::Tensor& bmm_sum_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  check_operands(self, mat2);
  check_out(out, {self.size(1), mat2.size(2)});
  if (self.size(0) == 0) return out.zero_();
  if (out.numel() > 0) BatchedProduct(self, mat2, out.expand({self.size(0), -1, -1})).sum();
  return out;
}

at::Tensor bmm_sum(const at::Tensor& self, const at::Tensor& mat2) {
  check_operands(self, mat2);
  at::Tensor out = at::empty({self.size(1), mat2.size(2)}, self.options());
  return bmm_sum_out(self, mat2, out);
}

}  // namespace

void register_batched_products() {
  static const bool done = [] {
    static torch::Library library(torch::Library::FRAGMENT, "braze", std::nullopt, __FILE__,
                                  __LINE__);
    library.def("bmm(Tensor self, Tensor mat2) -> Tensor",
                torch::dispatch(c10::DispatchKey::CPU, bmm));
    library.def("bmm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)",
                torch::dispatch(c10::DispatchKey::CPU, bmm_out));
    library.def("bmm_sum(Tensor self, Tensor mat2) -> Tensor",
                torch::dispatch(c10::DispatchKey::CPU, bmm_sum));
    library.def("bmm_sum.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)",
                torch::dispatch(c10::DispatchKey::CPU, bmm_sum_out));
    return true;
  }();
  (void)done;
}

}  // namespace braze::runtime
