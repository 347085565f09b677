"""Steps of optimizers over 200 tensors: what is written is what the next step reads."""

import torch
from torch import float16, float32

from bench.kernels.case import Kernel

TENSORS = 200


def adamw(parameters, gradients, means, squares):
    """A step (Loshchilov and Hutter 2019, algorithm 2), the hundredth."""
    torch._foreach_mul_(parameters, 1 - 1e-3 * 1e-2)
    torch._foreach_lerp_(means, gradients, 0.1)
    torch._foreach_mul_(squares, 0.999)
    torch._foreach_addcmul_(squares, gradients, gradients, 0.001)
    roots = torch._foreach_sqrt(squares)
    torch._foreach_div_(roots, (1 - 0.999**100) ** 0.5)
    torch._foreach_add_(roots, 1e-8)
    torch._foreach_addcdiv_(parameters, means, roots, -1e-3 / (1 - 0.9**100))


def momentum(parameters, gradients, velocities):
    torch._foreach_mul_(velocities, 0.9)
    torch._foreach_add_(velocities, gradients)
    torch._foreach_add_(parameters, velocities, alpha=-1e-3)


def clip_gradients(gradients):
    """To a norm of 1 over all of them, as torch.nn.utils.clip_grad_norm_ does."""
    norms = torch.stack(torch._foreach_norm(gradients))
    norm = torch.linalg.vector_norm(norms)
    torch._foreach_mul_(gradients, torch.clamp(1.0 / (norm + 1e-6), max=1.0))


def average_weights(averages, parameters):
    torch._foreach_lerp_(averages, parameters, 0.001)


def unscale(gradients):
    """Of loss scaling: the gradients by a number, and whether all are finite."""
    torch._foreach_mul_(gradients, 1.0 / 128)
    return torch.stack([gradient.isfinite().all() for gradient in gradients]).all()


def _lists(count, positive=()):
    """Tensors of three sizes, as of layers: matrices mostly, and vectors."""

    def make(draw):
        unit = max(2, int((draw.elements / TENSORS) ** 0.5))
        shapes = ((unit, unit), (unit, 2 * unit), (unit,), (unit // 2 + 1, unit))
        lists = []
        for i in range(count):
            tensors = [draw.normal(*shapes[j % len(shapes)]) for j in range(TENSORS)]
            lists.append([t.square_() for t in tensors] if i in positive else tensors)
        return tuple(lists)

    return make


KERNELS = (
    Kernel("adamw_200", float32, adamw, _lists(4, positive=(3,)),
           "parameters gradients means squares parameters means squares",
           updates=("parameters", "means", "squares")),
    Kernel("momentum_200", float32, momentum, _lists(3),
           "parameters gradients velocities parameters velocities",
           updates=("parameters", "velocities")),
    # The norm is known when all is read, so what does not stay in the caches is read twice.
    Kernel("clip_gradients_200", float32, clip_gradients, _lists(1),
           "gradients gradients gradients", updates=("gradients",)),
    Kernel("average_weights_200", float32, average_weights, _lists(2),
           "averages parameters averages", updates=("averages",)),
    Kernel("unscale_gradients_200", float16, unscale, _lists(1), "gradients gradients",
           updates=("gradients",)),
)  # fmt: skip
