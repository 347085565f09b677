#include "runtime/cuda/cublaslt.h"

#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/fork_mutex.h"
#include "base/log.h"
#include "runtime/cuda/driver.h"

namespace braze::runtime::cuda {
namespace {

// NVIDIA, cuBLAS Library: "Using the cuBLASLt API". Results are cublasStatus_t, 0 for success;
// handles, descriptions and streams are addresses.
#define BRAZE_CUBLASLT_FUNCTIONS(X)                                                           \
  X(create, "cublasLtCreate", int (*)(void**))                                                \
  X(status_text, "cublasLtGetStatusString", const char* (*)(int))                             \
  X(create_product, "cublasLtMatmulDescCreate", int (*)(void**, int, int))                    \
  X(destroy_product, "cublasLtMatmulDescDestroy", int (*)(void*))                             \
  X(set_product, "cublasLtMatmulDescSetAttribute", int (*)(void*, int, const void*, size_t))  \
  X(create_layout, "cublasLtMatrixLayoutCreate",                                              \
    int (*)(void**, int, uint64_t, uint64_t, int64_t))                                        \
  X(destroy_layout, "cublasLtMatrixLayoutDestroy", int (*)(void*))                            \
  X(set_layout, "cublasLtMatrixLayoutSetAttribute", int (*)(void*, int, const void*, size_t)) \
  X(create_preference, "cublasLtMatmulPreferenceCreate", int (*)(void**))                     \
  X(destroy_preference, "cublasLtMatmulPreferenceDestroy", int (*)(void*))                    \
  X(set_preference, "cublasLtMatmulPreferenceSetAttribute",                                   \
    int (*)(void*, int, const void*, size_t))                                                 \
  X(choose, "cublasLtMatmulAlgoGetHeuristic",                                                 \
    int (*)(void*, void*, void*, void*, void*, void*, void*, int, void*, int*))               \
  X(multiply, "cublasLtMatmul",                                                               \
    int (*)(void*, void*, const void*, const void*, void*, const void*, void*, const void*,   \
            const void*, void*, void*, void*, const void*, void*, size_t, void*))

enum DataType : int { kFloat = 0, kHalf = 2, kBFloat16 = 14 };  // cudaDataType_t
enum ComputeType : int { kSingle = 68, kTf32 = 77 };            // cublasComputeType_t
enum Transposition : int32_t { kAsItIs = 0, kTransposed = 1 };  // cublasOperation_t
enum ProductAttribute : int { kTransA = 3, kTransB = 4, kEpilogue = 7, kBiasPointer = 8 };
enum EpilogueKind : int32_t { kNothing = 1, kBias = 4 };  // cublasLtEpilogue_t
enum LayoutAttribute : int { kBatchCount = 5, kBatchStride = 6 };
enum PreferenceAttribute : int {
  kWorkspaceBytes = 1,
  kReductionSchemes = 3,
  kAlignmentOfA = 5,
  kAlignmentOfB = 6,
  kAlignmentOfC = 7,
  kAlignmentOfD = 8
};
enum ReductionScheme : uint32_t { kNoReduction = 0, kInSingle = 2, kAnyReduction = 7 };

// cublasLtMatmulHeuristicResult_t
struct Choice {
  uint64_t algorithm[8];
  size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};

// PyTorch lets the library have as much on GPUs since Hopper.
constexpr uint64_t kMostWorkspace = 32 << 20;

struct Library {
#define X(member, name, type) std::type_identity_t<type> member = nullptr;
  BRAZE_CUBLASLT_FUNCTIONS(X)
#undef X
  bool is_there = false;
  std::map<int, void*> handles;  // by device, for as long as the process lives
  ForkMutex mutex;

  Library() {
    void* library = nullptr;
    for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12"})
      if (!library) library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    if (!library) return;
    is_there = true;
#define X(member, name, type)                            \
  member = reinterpret_cast<type>(dlsym(library, name)); \
  is_there = is_there && member;
    BRAZE_CUBLASLT_FUNCTIONS(X)
#undef X
  }

  std::string text_of(int status) const {
    const char* text = status_text(status);
    return text ? text : "status " + std::to_string(status);
  }
  void check(int status, const char* what) const {
    if (status == 0) [[likely]]
      return;
    throw InternalError(__FILE__, __LINE__, detail::concat(what, ": ", text_of(status)));
  }

  void* handle(int device) {
    std::lock_guard lock(mutex);
    void*& handle = handles[device];
    if (!handle) check(create(&handle), "cublasLtCreate");
    return handle;
  }
};

// Never destroyed: products may run while the process ends.
Library& library() {
  static Library& library = *std::make_unique<Library>().release();
  return library;
}

int data_type(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Half:
      return kHalf;
    case c10::ScalarType::BFloat16:
      return kBFloat16;
    default:
      BRAZE_CHECK(dtype == c10::ScalarType::Float);
      return kFloat;
  }
}

// The library's matrices lie by columns. A matrix that lies by rows is its transpose there, so the
// product is computed as b^T @ a^T = d^T: what is transposed here is as it is there.
void* layout_of(const MatrixLayout& layout, int64_t rows, int64_t columns, const Matmul& matmul) {
  const Library& lt = library();
  void* result = nullptr;
  if (layout.transposed) std::swap(rows, columns);
  lt.check(lt.create_layout(&result, data_type(matmul.dtype), columns, rows, layout.leading),
           "cublasLtMatrixLayoutCreate");
  if (matmul.batch > 1) {
    const auto count = static_cast<int32_t>(matmul.batch);
    lt.check(lt.set_layout(result, kBatchCount, &count, sizeof count), "the number of matrices");
    lt.check(lt.set_layout(result, kBatchStride, &layout.batch_stride, sizeof(int64_t)),
             "the stride of matrices");
  }
  return result;
}

template <class T>
void set_product(void* product, ProductAttribute which, T value) {
  library().check(library().set_product(product, which, &value, sizeof value),
                  "cublasLtMatmulDescSetAttribute");
}

template <class T>
void set_preference(void* preference, PreferenceAttribute which, T value) {
  library().check(library().set_preference(preference, which, &value, sizeof value),
                  "cublasLtMatmulPreferenceSetAttribute");
}

}  // namespace

bool knows_cublaslt() { return library().is_there; }

MatmulPlan::MatmulPlan(const Matmul& matmul) : MatmulPlan() {
  Library& lt = library();
  if (!lt.is_there) throw UserError("cuBLASLt is not loaded");
  handle_ = lt.handle(matmul.device);
  lt.check(lt.create_product(&product_, matmul.tf32 ? kTf32 : kSingle, kFloat),
           "cublasLtMatmulDescCreate");
  set_product(product_, kTransA, matmul.b.transposed ? kTransposed : kAsItIs);
  set_product(product_, kTransB, matmul.a.transposed ? kTransposed : kAsItIs);
  set_product(product_, kEpilogue, matmul.has_bias ? kBias : kNothing);
  a_ = layout_of(matmul.a, matmul.rows, matmul.inner, matmul);
  b_ = layout_of(matmul.b, matmul.inner, matmul.columns, matmul);
  d_ = layout_of(matmul.d, matmul.rows, matmul.columns, matmul);
  choose(matmul);
}

MatmulPlan::~MatmulPlan() {
  const Library& lt = library();
  for (void* layout : {a_, b_, d_})
    if (layout) lt.destroy_layout(layout);
  if (product_) lt.destroy_product(product_);
}

void MatmulPlan::choose(const Matmul& matmul) {
  const Library& lt = library();
  void* preference = nullptr;
  lt.check(lt.create_preference(&preference), "cublasLtMatmulPreferenceCreate");
  set_preference(preference, kWorkspaceBytes, matmul.splits_sums ? kMostWorkspace : uint64_t{0});
  uint32_t schemes = kAnyReduction;
  if (!matmul.rounds_parts) schemes = matmul.splits_sums ? kInSingle : kNoReduction;
  set_preference(preference, kReductionSchemes, schemes);
  const auto alignment = [](const MatrixLayout& layout) {
    return static_cast<uint32_t>(layout.alignment);
  };
  set_preference(preference, kAlignmentOfA, alignment(matmul.b));
  set_preference(preference, kAlignmentOfB, alignment(matmul.a));
  set_preference(preference, kAlignmentOfC, alignment(matmul.d));
  set_preference(preference, kAlignmentOfD, alignment(matmul.d));
  // An address for the question: the description is not complete without one.
  if (matmul.has_bias) set_product(product_, kBiasPointer, uint64_t{16});
  Choice choice{};
  int found = 0;
  const int status = lt.choose(handle_, product_, b_, a_, d_, d_, preference, 1, &choice, &found);
  lt.destroy_preference(preference);
  if (status != 0 || found == 0 || choice.status != 0)
    throw UserError("cuBLASLt has no algorithm: " +
                    lt.text_of(status != 0 ? status : choice.status));
  std::copy_n(choice.algorithm, 8, algorithm_.data);
  workspace_bytes_ = static_cast<int64_t>(choice.workspace_bytes);
}

void MatmulPlan::run(const void* a, const void* b, const void* bias, void* d, void* workspace,
                     void* stream) {
  const float one = 1, zero = 0;
  const Library& lt = library();
  std::unique_lock<std::mutex> lock(bias_, std::defer_lock);
  if (bias) {
    lock.lock();
    set_product(product_, kBiasPointer, bias);
  }
  lt.check(lt.multiply(handle_, product_, &one, b, b_, a, a_, &zero, d, d_, d, d_, &algorithm_,
                       workspace, static_cast<size_t>(workspace_bytes_), stream),
           "cublasLtMatmul");
}

MatmulPlan* plan_of(const Matmul& matmul) {
  static ForkMutex mutex;
  static auto* plans = new std::map<Matmul, std::unique_ptr<MatmulPlan>>;
  std::lock_guard lock(mutex);
  if (const auto known = plans->find(matmul); known != plans->end()) return known->second.get();
  std::unique_ptr<MatmulPlan> made;
  try {
    made = std::make_unique<MatmulPlan>(matmul);
  } catch (const UserError& error) {
    if (log::enabled(log::Component::kBreaks))
      log::write(
          log::Component::kBreaks,
          detail::concat("products of ", matmul.rows, " x ", matmul.inner, " and ", matmul.inner,
                         " x ", matmul.columns, " run through ATen: ", error.what()));
  }
  return plans->emplace(matmul, std::move(made)).first->second.get();
}

}  // namespace braze::runtime::cuda
