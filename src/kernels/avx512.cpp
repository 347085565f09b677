// Compiled with AVX-512 instructions (CMakeLists.txt).
#include <immintrin.h>
#include <sched.h>

#include "kernels/jobs.h"

namespace braze::kernels {
namespace {
namespace avx512 {

#include "vector_math_avx512.inc"

#define BRAZE_MATH(name) name##_f32x16
// Each needs those before it.
// clang-format off
#include "kernels/panel.inc"
#include "kernels/product.inc"
#include "kernels/rows.inc"
#include "kernels/few_rows.inc"
#include "kernels/attention.inc"
#include "kernels/attention_gradient.inc"
// clang-format on

}  // namespace avx512
}  // namespace

const Variant kAvx512 = {.panel = avx512::kPanel,
                         .panels = avx512::kPanels,
                         .tile_rows = avx512::kTileRows,
                         .inner_block = avx512::kInnerBlock,
                         .packs_rows = avx512::kPacksRows,
                         .multiply = avx512::multiply,
                         .multiply_few_rows = avx512::multiply_few_rows,
                         .lanes = avx512::kLanes,
                         .attend = avx512::attend,
                         .weigh = avx512::weigh,
                         .differentiate_weights = avx512::differentiate_weights,
                         .multiply_and_sum_rows = avx512::multiply_and_sum_rows};

}  // namespace braze::kernels
