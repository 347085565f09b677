"""Losses: of classes over 50,000 to 131,072 columns, and of numbers."""

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32

from bench.kernels.case import Kernel, wide


def cross_entropy(x, target):
    return F.cross_entropy(wide(x), target)


def cross_entropy_smoothed(x, target):
    return F.cross_entropy(wide(x), target, label_smoothing=0.1)


def cross_entropy_ignoring(x, target):
    return F.cross_entropy(wide(x), target, ignore_index=0)


def cross_entropy_weighted(x, target, weight):
    return F.cross_entropy(x, target, weight)


def cross_entropy_with_z_loss(x, target):
    """With the square of the logarithm of the softmax's denominator (PaLM, section 5)."""
    denominator = torch.logsumexp(wide(x), -1)
    return F.cross_entropy(wide(x), target) + 1e-4 * denominator.square().mean()


def nll(x, target):
    return F.nll_loss(x, target)


def kl_divergence(x, target):
    return F.kl_div(torch.log_softmax(x, -1), target, reduction="batchmean")


def bce_with_logits(x, target):
    return F.binary_cross_entropy_with_logits(wide(x), wide(target))


def mse(x, target):
    return F.mse_loss(wide(x), wide(target))


def smooth_l1(x, target):
    return F.smooth_l1_loss(x, target)


def huber_rows(x, target):
    return F.huber_loss(x, target, reduction="none").mean(-1)


def focal(x, target):
    """Lin et al. 2017, equation 5, of each class on its own."""
    loss = F.binary_cross_entropy_with_logits(x, target, reduction="none")
    probability = torch.sigmoid(x)
    hit = probability * target + (1 - probability) * (1 - target)
    weight = 0.25 * target + 0.75 * (1 - target)
    return (weight * (1 - hit) ** 2 * loss).mean()


def _classes(width):
    def make(draw):
        x = draw.matrix(width)
        return x, draw.below(x.shape[1], x.shape[0])

    return make


def _some_ignored(width):
    def make(draw):
        x, target = _classes(width)(draw)
        target[::3] = 0
        target[1] = 1
        return x, target

    return make


def _weighted(width):
    def make(draw):
        x, target = _classes(width)(draw)
        return x, target, draw.uniform(x.shape[1])

    return make


def _distributions(width):
    def make(draw):
        x, other = draw.matrices(2, width)
        return x, torch.softmax(other, -1)

    return make


def _pair(width):
    return lambda draw: draw.matrices(2, width)


def _zeros_and_ones(width):
    def make(draw):
        x = draw.matrix(width)
        return x, draw.mask(*x.shape).to(draw.dtype)

    return make


_CLASSES = ("x target y", "dy x target dx")
LOSS_SCALE = 2.0**16  # the first of torch.amp.GradScaler

KERNELS = (
    Kernel("cross_entropy_50304", float16, cross_entropy, _classes(50304), *_CLASSES,
           tangent_scale=LOSS_SCALE),
    Kernel("cross_entropy_50257", float32, cross_entropy, _classes(50257), *_CLASSES),
    Kernel("cross_entropy_131072", bfloat16, cross_entropy, _classes(131072), *_CLASSES),
    Kernel("cross_entropy_smoothed_50304", float16, cross_entropy_smoothed, _classes(50304),
           *_CLASSES, tangent_scale=LOSS_SCALE),
    Kernel("cross_entropy_ignoring_128256", bfloat16, cross_entropy_ignoring,
           _some_ignored(128256), *_CLASSES),
    Kernel("cross_entropy_weighted_1000", float32, cross_entropy_weighted, _weighted(1000),
           "x target y", "dy x target dx"),
    Kernel("cross_entropy_with_z_loss_65536", bfloat16, cross_entropy_with_z_loss,
           _classes(65536), *_CLASSES),
    # Of log-probabilities one in each row is read, which measures nothing; of the gradient all is
    # written.
    Kernel("nll_131072", float32, nll, _classes(131072), "", "dy target dx"),
    Kernel("kl_divergence_65536", float32, kl_divergence, _distributions(65536), "x target y",
           "dy x target dx"),
    Kernel("bce_with_logits", float16, bce_with_logits, _zeros_and_ones(4096), "x target y",
           "dy x target dx", tangent_scale=LOSS_SCALE),
    Kernel("mse", bfloat16, mse, _pair(4096), "x target y", "dy x target dx"),
    Kernel("smooth_l1", float32, smooth_l1, _pair(4096), "x target y", "dy x target dx"),
    Kernel("huber_rows_512", float32, huber_rows, _pair(512), "x target y", "dy x target dx"),
    Kernel("focal_80", float32, focal, _zeros_and_ones(80), "x target y", "dy x target dx"),
)  # fmt: skip
