// The loss of connectionist temporal classification, as an operator with a gradient:
// `torch.ops.braze`. PyTorch's own gives beside the losses what its backward needs, the paths,
// whose size depends on the lengths of the targets, which are data. Here they have room for the
// longest target that a row holds. Of targets that lie one behind the other, the backward computes
// them again.
#pragma once

namespace braze::trace {

//   ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths,
//            int blank, bool zero_infinity) -> (Tensor losses, Tensor paths)
//   ctc_loss_backward(Tensor tangent, Tensor log_probs, Tensor targets, Tensor input_lengths,
//                     Tensor target_lengths, Tensor losses, Tensor paths, int blank,
//                     bool zero_infinity) -> Tensor
//
// log_probs [T, N, C], targets [N, S] or, one behind the other, [sum of target_lengths], lengths of
// integers, N of each, on any device, give what `aten._ctc_loss` gives, [N] and [N, T, 2 S + 1] or
// [0], and the gradient for log_probs, [T, N, C]. Data that these operators refuse is refused. The
// gradient has none itself, as PyTorch's.
void register_ctc_loss_operators();  // once for a process; a call more does nothing

}  // namespace braze::trace
