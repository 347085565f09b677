// Sums of rows by place, so that a plan calls them as any other operator: `torch.ops.braze`.
#pragma once

namespace braze::runtime {

//   sum_by_place(Tensor source, Tensor place, int dim, SymInt rows, SymInt skipped=-1,
//                bool checked=False, Tensor? base=None) -> Tensor
//
// source: float16, bfloat16, float32 or float64, of one dimension and more; place: int64 or int32,
// of one dimension, for each element of `source` along `dim`. The result has `rows` elements there,
// each the sum of that of `base`, if there is one, and of those of `source` that have its place, in
// ascending order or, of long lists, in another one that is always the same; halves are summed in
// single precision and rounded once. What has the place `skipped` is not added. A place that is
// none is skipped, too, unless `checked`: IndexError then, on a GPU an assertion of the device's.
//
// On a GPU without a driver or NVRTC of Braze's, for dimensions of 2^31 and more, and elsewhere,
// PyTorch's operators do it.
//
// Once for a process; a call more does nothing.
void register_place_sum_operator();

}  // namespace braze::runtime
