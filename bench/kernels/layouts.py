"""Transposes and permutes, and what joins or parts tensors."""

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32

from bench.kernels.case import Kernel


def transpose_add(x, r):
    return (x.t() + r).contiguous()


def transpose(x):
    return x.t().contiguous()


def to_channels_last(x):
    return x.permute(0, 2, 3, 1).contiguous()


def to_channels_first(x):
    return F.relu(x).permute(0, 3, 1, 2).contiguous()


def split_heads(x):
    """batch x length x width to batch x heads x length x 64."""
    n, length, width = x.shape
    return x.view(n, length, width // 64, 64).transpose(1, 2).contiguous()


def merge_heads(x, r):
    n, heads, length, width = x.shape
    return x.transpose(1, 2).reshape(n, length, heads * width) + r


def permute_to_front(x):
    return x.permute(2, 0, 1).contiguous()


def permute_reversed(x):
    return x.permute(2, 1, 0).contiguous()


def cat_last(x, r, s):
    return torch.cat((x, r * 2, s), -1)


def cat_first(x, r):
    return torch.cat((F.relu(x), r), 0)


def stack_last(x, r):
    return torch.stack((x, r), -1)


def split_add(x):
    first, second, third = x.chunk(3, -1)
    return first + second * third


def split_apart(x):
    """Three matrices of their own, as attention is given them."""
    return tuple(part.contiguous() for part in x.chunk(3, -1))


def flip(x):
    return x.flip(-1)


def roll(x):
    return torch.roll(x, 5, 0) + x


def repeat_heads(x):
    """Each of the heads four times: grouped attention's (batch x heads x length x width)."""
    return x.repeat_interleave(4, 1)


def _square(count):
    """Matrices as high as they are wide, or nearly."""

    def make(draw):
        side = int(draw.elements**0.5)
        width = side - side % 8 if side >= 16 else side
        return tuple(draw.normal(width, width) for _ in range(count))

    return make


def _one(width):
    return lambda draw: (draw.matrix(width),)


def _images(channels, side):
    return lambda draw: (draw.images(channels, side),)


def _last(draw):
    n, c, h, w = draw.image_shape(128, 56)
    return (draw.normal(n, h, w, c),)


def _sequences(heads, length):
    def make(draw):
        long = max(2, min(length, draw.elements // (128 * heads)))
        return max(1, draw.elements // (64 * heads * long)), heads, long, 64

    return make


def _unsplit(draw):
    n, heads, length, width = _sequences(12, 512)(draw)
    return (draw.normal(n, length, heads * width),)


def _unmerged(draw):
    n, heads, length, width = _sequences(16, 1024)(draw)
    return draw.normal(n, heads, length, width), draw.normal(n, length, heads * width)


def _few_heads(draw):
    n, heads, length, width = _sequences(8, 1024)(draw)
    return (draw.normal(max(1, n // 4), heads, length, width),)


def _cubes(draw):
    side = max(4, int(round(draw.elements ** (1 / 3))))
    return (draw.normal(side, side, side),)


def _matrices(count, width):
    return lambda draw: draw.matrices(count, width)


def _threes(width):
    """A width that three divide, however small."""

    def make(draw):
        rows, columns = draw.matrix_shape(width)
        return (draw.normal(rows, columns - columns % 3),)

    return make


KERNELS = (
    Kernel("transpose_add", float16, transpose_add, _square(2), "x r y"),
    Kernel("transpose_odd", float32, transpose, _one(1001), "x y"),
    Kernel("to_channels_last_64x56", float16, to_channels_last, _images(64, 56), "x y"),
    Kernel("to_channels_first_relu_128x56", float32, to_channels_first, _last, "x y"),
    Kernel("split_heads_12x64", float16, split_heads, _unsplit, "x y"),
    Kernel("merge_heads_16x64", bfloat16, merge_heads, _unmerged, "x r y"),
    Kernel("permute_to_front", float32, permute_to_front, _cubes, "x y"),
    Kernel("permute_reversed", float16, permute_reversed, _cubes, "x y"),
    Kernel("cat_last_1024", float16, cat_last, _matrices(3, 1024), "x r s y"),
    Kernel("cat_first_2048", float32, cat_first, _matrices(2, 2048), "x r y"),
    Kernel("stack_last", float16, stack_last, _matrices(2, 4096), "x r y", "dy dx dr"),
    Kernel("split_multiply_add_3072", bfloat16, split_add, _threes(3072), "x y", "dy x dx"),
    Kernel("split_apart_2304", float16, split_apart, _threes(2304), "x y", "dy dx"),
    Kernel("flip_1024", float32, flip, _one(1024), "x y", "dy dx"),
    Kernel("roll_add_512", float16, roll, _one(512), "x y", "dy dx"),
    Kernel("repeat_heads_8x64", bfloat16, repeat_heads, _few_heads, "x y", "dy dx"),
)  # fmt: skip
