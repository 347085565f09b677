// Compiled with AVX2 and FMA instructions (CMakeLists.txt).
#include <immintrin.h>

#include "kernels/jobs.h"

namespace braze::kernels {
namespace {
namespace avx2 {

#include "vector_math_avx2.inc"

#define BRAZE_MATH(name) name##_f32x8
#include "kernels/panel.inc"

#include "kernels/attention.inc"
#include "kernels/product.inc"

}  // namespace avx2
}  // namespace

const Variant kAvx2 = {avx2::kPanel, avx2::kTileRows, avx2::multiply, avx2::kLanes, avx2::attend};

}  // namespace braze::kernels
