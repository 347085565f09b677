// Compiled with AVX-512 instructions (CMakeLists.txt).
#include <immintrin.h>

#include "kernels/jobs.h"

namespace braze::kernels {
namespace {
namespace avx512 {

#include "vector_math_avx512.inc"

#define BRAZE_MATH(name) name##_f32x16
#include "kernels/panel.inc"

#include "kernels/attention.inc"
#include "kernels/product.inc"

}  // namespace avx512
}  // namespace

const Variant kAvx512 = {avx512::kPanel, avx512::kTileRows, avx512::multiply, avx512::kLanes,
                         avx512::attend};

}  // namespace braze::kernels
