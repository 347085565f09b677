"""Softmax and its like over rows of 128 to 262,144, scans, and what is chosen from a row."""

import torch
from torch import bfloat16, float16, float32

from bench.kernels.case import Kernel, wide


def softmax(x):
    return torch.softmax(x, -1)


def log_softmax(x):
    return torch.log_softmax(x, -1)


def scale_add_softmax(x, m):
    return torch.softmax(x * 0.125 + m, -1)


def mask_softmax(x, m):
    return torch.softmax((x * 0.125).masked_fill(m, float("-inf")), -1)


def causal_softmax(x):
    """Of square matrices, in single precision."""
    side = x.shape[-1]
    later = torch.ones(side, side, dtype=torch.bool, device=x.device).triu(1)
    return torch.softmax(wide(x * 0.125).masked_fill(later, float("-inf")), -1).to(x.dtype)


def softcap_softmax(x):
    return torch.softmax(50.0 * torch.tanh(x / 50.0), -1)


def logsumexp(x):
    return torch.logsumexp(x, -1)


def cumsum(x):
    return x.cumsum(-1)


def cumsum_columns(x):
    return x.cumsum(0)


def cumprod(x):
    return x.cumprod(-1)


def logcumsumexp(x):
    return torch.logcumsumexp(x, -1)


def argmax(x):
    return x.argmax(-1)


def topk(x):
    """The values: which of equal ones is chosen is nobody's promise."""
    return x.topk(8, -1).values


def softmax_topk(x):
    """A router's: the weights of the best two, made to sum to one."""
    weights = torch.softmax(wide(x), -1).topk(2, -1).values
    return weights / weights.sum(-1, keepdim=True)


def _one(width):
    return lambda draw: (draw.matrix(width),)


def _masked(width):
    """No row is masked as a whole: that of a softmax is NaN."""

    def make(draw):
        x = draw.matrix(width)
        mask = draw.mask(*x.shape)
        mask[:, 0] = False
        return x, mask

    return make


def _squares(side):
    def make(draw):
        width = min(side, int((draw.elements // 2) ** 0.5))
        return (draw.normal(draw.elements // (width * width), width, width),)

    return make


def _near_one(width):
    """Products of long rows of these stay in range."""
    return lambda draw: (draw.matrix(width).mul_(0.01).add_(1.0),)


KERNELS = (
    *(
        Kernel(f"softmax_{width}", dtype, softmax, _one(width), "x y", "dy y dx")
        for width, dtype in ((128, float16), (1000, float32), (2047, float16), (32768, bfloat16),
                             (262144, float32))
    ),
    *(
        Kernel(f"log_softmax_{width}", dtype, log_softmax, _one(width), "x y", "dy y dx")
        for width, dtype in ((256, float32), (50257, float16), (131072, bfloat16))
    ),
    Kernel("scale_add_softmax_4096", float16, scale_add_softmax,
           lambda draw: draw.matrices(2, 4096), "x m y", "dy y dx"),
    Kernel("mask_softmax_2048", bfloat16, mask_softmax, _masked(2048), "x m y", "dy y m dx"),
    Kernel("causal_softmax_1024", float16, causal_softmax, _squares(1024), "x y", "dy y dx"),
    Kernel("softcap_softmax_1024", float32, softcap_softmax, _one(1024), "x y", "dy x y dx"),
    Kernel("logsumexp_50304", float32, logsumexp, _one(50304), "x y", "dy x y dx"),
    Kernel("cumsum_4096", float32, cumsum, _one(4096), "x y", "dy dx"),
    Kernel("cumsum_columns_1024", float32, cumsum_columns, _one(1024), "x y", "dy dx"),
    Kernel("cumprod_1024", float32, cumprod, _near_one(1024), "x y"),
    Kernel("logcumsumexp_2048", float32, logcumsumexp, _one(2048), "x y"),
    Kernel("argmax_32000", float16, argmax, _one(32000), "x y"),
    Kernel("topk_8_of_1024", float32, topk, _one(1024), "x y"),
    Kernel("softmax_topk_2_of_64", bfloat16, softmax_topk, _one(64), "x y"),
)  # fmt: skip
