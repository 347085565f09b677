// Matrix products by NVIDIA's cuBLASLt, through its own interface: what a product is made ready
// with (descriptions, the choice of an algorithm) is made once and kept, so that a call costs the
// CPU little more than the launch. The library is the one that PyTorch has loaded.
#pragma once

#include <c10/core/ScalarType.h>

#include <compare>
#include <cstdint>
#include <mutex>

namespace braze::runtime::cuda {

// Whether PyTorch has loaded cuBLASLt.
bool knows_cublaslt();

// How one matrix of a product lies in memory.
struct MatrixLayout {
  int64_t leading = 0;       // elements from one row to the next, of a transposed one: column
  int64_t batch_stride = 0;  // elements from one matrix to the next
  bool transposed = false;   // the elements of a column lie side by side
  int32_t alignment = 0;     // of its address, in bytes

  auto operator<=>(const MatrixLayout&) const = default;
};

// d = a @ b + bias: matrices of rows x inner and inner x columns, `batch` of each, sums in single
// precision. `d` is not transposed.
struct Matmul {
  int32_t device = 0;
  c10::ScalarType dtype = c10::ScalarType::Float;  // Float, Half or BFloat16, of all that it takes
  int64_t rows = 0, inner = 0, columns = 0, batch = 1;
  MatrixLayout a, b, d;
  bool has_bias = false;  // a number for each column, of a product of two matrices
  bool tf32 = false;      // operands of single precision are rounded to TF32
  // Whether sums may be cut into parts at all, and parts may be added up in the result's precision.
  bool splits_sums = true, rounds_parts = true;

  auto operator<=>(const Matmul&) const = default;
};

class MatmulPlan {
 public:
  // The library's first choice. Throws UserError with the library's word if it has none.
  explicit MatmulPlan(const Matmul& matmul);
  ~MatmulPlan();
  MatmulPlan(const MatmulPlan&) = delete;

  int64_t workspace_bytes() const { return workspace_bytes_; }
  // Puts the product on a stream of the current device. InternalError with the library's word.
  void run(const void* a, const void* b, const void* bias, void* d, void* workspace, void* stream);

 private:
  struct Algorithm {  // cublasLtMatmulAlgo_t
    uint64_t data[8];
  };
  MatmulPlan() = default;  // so that a plan that cannot be made is destroyed
  void choose(const Matmul& matmul);

  void* handle_ = nullptr;
  void *product_ = nullptr, *a_ = nullptr, *b_ = nullptr, *d_ = nullptr;  // descriptions
  Algorithm algorithm_{};
  int64_t workspace_bytes_ = 0;
  std::mutex bias_;  // the description of the product has the bias's address
};

// The plan of a product, made once and kept. Null, and said once in the log, where the library has
// no algorithm. Thread-safe.
MatmulPlan* plan_of(const Matmul& matmul);

}  // namespace braze::runtime::cuda
