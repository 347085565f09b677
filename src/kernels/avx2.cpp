// Compiled with AVX2 and FMA instructions (CMakeLists.txt).
#include <immintrin.h>
#include <sched.h>

#include "kernels/jobs.h"

namespace braze::kernels {
namespace {
namespace avx2 {

#include "vector_math_avx2.inc"

#define BRAZE_MATH(name) name##_f32x8
// Each needs those before it.
// clang-format off
#include "kernels/panel.inc"
#include "kernels/product.inc"
#include "kernels/rows.inc"
#include "kernels/few_rows.inc"
#include "kernels/attention.inc"
#include "kernels/attention_gradient.inc"
// clang-format on

}  // namespace avx2
}  // namespace

const Variant kAvx2 = {.panel = avx2::kPanel,
                       .panels = avx2::kPanels,
                       .tile_rows = avx2::kTileRows,
                       .inner_block = avx2::kInnerBlock,
                       .packs_rows = avx2::kPacksRows,
                       .multiply = avx2::multiply,
                       .multiply_few_rows = avx2::multiply_few_rows,
                       .lanes = avx2::kLanes,
                       .attend = avx2::attend,
                       .weigh = avx2::weigh,
                       .differentiate_weights = avx2::differentiate_weights,
                       .multiply_and_sum_rows = avx2::multiply_and_sum_rows};

}  // namespace braze::kernels
