"""Cases of the `sizes` suite: what is compiled once for all sizes, beside a compile for each.

Small kernels over short rows, where a size that is not known when the kernel is compiled costs
most, and small models, whose calls are mostly the overhead of their steps.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

ROWS = 2048
LENGTHS = (8, 17, 24, 32, 50, 64, 100, 128)
TRACED = 40  # the length that the symbolic compile sees first


@dataclass(frozen=True)
class Kernel:
    """function(*arguments(rows, length))."""

    name: str
    function: Callable
    arguments: Callable[[int, int], tuple[torch.Tensor, ...]]


def _matrix(rows: int, length: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(rows, length),)


def _matrix_and_row(rows: int, length: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(rows, length), torch.randn(length)


def _matrix_and_two_rows(rows: int, length: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(rows, length), torch.randn(length), torch.randn(length)


def _scores_and_mask(rows: int, length: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(rows // 16, 16, length), torch.rand(16, length) < 0.8


def _heads(rows: int, length: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(rows // 64, length, 4, 16),)


def softmax(x):
    return torch.softmax(x, -1)


def log_softmax(x):
    return torch.log_softmax(x * 0.5, -1)


def masked_softmax(scores, mask):
    return torch.softmax(scores.masked_fill(~mask, -1e9) * 0.125, -1)


def layer_norm(x, weight, bias):
    return F.layer_norm(x, x.shape[-1:], weight, bias)


def rms_norm(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def row_sum(x):
    return x.sum(-1)


def row_max(x):
    return x.amax(-1)


def row_argmax(x):
    return x.argmax(-1)


def add_row(x, row):
    return torch.relu(x + row)


def gelu_row(x, row):
    return F.gelu(x + row, approximate="tanh")


def center(x):
    return x - x.mean(0)


def split_heads(x):
    return x.transpose(1, 2).contiguous() * 2


def turn_half(x):
    """Rotary embedding's rotation of the last dimension, which has a known length."""
    half = x.shape[-1] // 2
    return torch.cat([-x[..., half:], x[..., :half]], -1)


KERNELS: dict[str, Kernel] = {
    kernel.name: kernel
    for kernel in (
        Kernel("softmax", softmax, _matrix),
        Kernel("log_softmax", log_softmax, _matrix),
        Kernel("masked_softmax", masked_softmax, _scores_and_mask),
        Kernel("layer_norm", layer_norm, _matrix_and_two_rows),
        Kernel("rms_norm", rms_norm, _matrix_and_row),
        Kernel("row_sum", row_sum, _matrix),
        Kernel("row_max", row_max, _matrix),
        Kernel("row_argmax", row_argmax, _matrix),
        Kernel("add_row", add_row, _matrix_and_row),
        Kernel("gelu_row", gelu_row, _matrix_and_row),
        Kernel("center", center, _matrix),
        Kernel("split_heads", split_heads, _heads),
        Kernel("turn_half", turn_half, _heads),
    )
}


@dataclass(frozen=True)
class ModelSizes:
    """Of a model of bench/zoo.py: what the symbolic compile sees first, and what is measured."""

    traced: tuple[int, int]
    measured: tuple[tuple[int, int], ...]
    changes: bool = False  # also what a call takes longer because its sizes change


_TEXT = ModelSizes((5, 32), ((2, 16), (3, 24), (4, 11)), changes=True)
_AUDIO = ModelSizes((5, 10), ((2, 8), (3, 12), (4, 6)))
_IMAGES = ModelSizes((2, 96), ((2, 64), (3, 128), (5, 64)))
_ONE_RESOLUTION = ModelSizes((4, 32), ((2, 32), (3, 32), (5, 32)))  # position embeddings
MODELS = {
    "bert": _TEXT,
    "distilbert": _TEXT,
    "gpt2": _TEXT,
    "t5": _TEXT,
    "llama": _TEXT,
    "whisper": _AUDIO,
    "vit": _ONE_RESOLUTION,
    "resnet": _IMAGES,
    "convnext": _IMAGES,
    "mobilenet_v2": _IMAGES,
}
