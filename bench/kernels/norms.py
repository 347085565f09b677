"""Normalisations: of rows from 64 to 65,536 wide, odd widths among them, and of images."""

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32

from bench.kernels.case import Kernel, wide


def layer_norm(x, w, b):
    return F.layer_norm(x, x.shape[-1:], w, b)


def add_layer_norm(x, r, w, b):
    return F.layer_norm(x + r, x.shape[-1:], w, b)


def layer_norm_gelu(x, w, b):
    return F.gelu(F.layer_norm(x, x.shape[-1:], w, b))


def rms_norm(x, w):
    """As Llama's."""
    h = wide(x)
    h = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6)
    return w * h.to(x.dtype)


def add_rms_norm(x, r, w):
    """The sum is the next residual."""
    total = x + r
    return total, F.rms_norm(total, total.shape[-1:], w, 1e-6)


def rms_norm_rotary(x, w, c, s):
    h = wide(x)
    h = (h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w
    first, second = h.chunk(2, -1)
    return h * c + torch.cat((-second, first), -1) * s


def group_norm(x, w, b):
    return F.group_norm(x, 32, w, b)


def group_norm_silu(x, w, b):
    return F.silu(F.group_norm(x, 32, w, b))


def instance_norm(x, w, b):
    return F.instance_norm(x, weight=w, bias=b)


def batch_norm_training(x, w, b):
    return F.batch_norm(x, None, None, w, b, True)


def batch_norm_training_relu(x, w, b):
    return F.relu(F.batch_norm(x, None, None, w, b, True))


def batch_norm_inference_relu(x, mean, var, w, b):
    return F.relu(F.batch_norm(x, mean, var, w, b, False))


def _images(channels, side, layout=torch.contiguous_format):
    """Images and two numbers for each channel, which are single as those of mixed precision."""

    def make(draw):
        x = draw.images(channels, side).contiguous(memory_format=layout)
        dtype = draw.dtype if draw.dtype == bfloat16 else float32
        return x, draw.normal(channels, dtype=dtype), draw.normal(channels, dtype=dtype)

    return make


def _same_images(channels, side):
    """The same, the numbers of the images' own dtype."""
    return lambda draw: (
        draw.images(channels, side),
        draw.normal(channels),
        draw.normal(channels),
    )


def _with_statistics(channels, side):
    def make(draw):
        x, w, b = _images(channels, side)(draw)
        mean = draw.normal(channels, dtype=float32)
        return x, mean, mean.square() + 0.5, w, b

    return make


def _rotated(width):
    return lambda draw: _rotation(*draw.matrix_and_rows(3, 1, width))


def _rotation(x, c, s, w):
    return x, w, c, s


_ROWS = "dy x w dx dw db"

KERNELS = (
    *(
        Kernel(f"layer_norm_{width}", dtype, layer_norm,
               lambda draw, width=width: draw.matrix_and_rows(1, 2, width), "x w b y", _ROWS)
        for width, dtype in ((64, float16), (768, float32), (1023, float16), (4096, float16),
                             (12289, bfloat16), (65536, float32))
    ),
    Kernel("add_layer_norm_4096", float16, add_layer_norm,
           lambda draw: draw.matrix_and_rows(2, 2, 4096), "x r w b y", "dy x r w dx dr dw db"),
    Kernel("layer_norm_gelu_1024", bfloat16, layer_norm_gelu,
           lambda draw: draw.matrix_and_rows(1, 2, 1024), "x w b y", "dy x w b dx dw db"),
    *(
        Kernel(f"rms_norm_{width}", dtype, rms_norm,
               lambda draw, width=width: draw.matrix_and_rows(1, 1, width),
               "x w y", "dy x w dx dw")
        for width, dtype in ((128, bfloat16), (1000, float32), (5120, bfloat16), (16384, float16),
                             (65535, bfloat16))
    ),
    Kernel("add_rms_norm_4096", bfloat16, add_rms_norm,
           lambda draw: draw.matrix_and_rows(2, 1, 4096), "x r w y", "dy x r w dx dr dw"),
    Kernel("rms_norm_rotary_4096", float16, rms_norm_rotary, _rotated(4096),
           "x w c s y", "dy x w c s dx dw"),
    Kernel("group_norm_256x56", float16, group_norm, _same_images(256, 56), "x w b y", _ROWS),
    Kernel("group_norm_silu_320x64", float32, group_norm_silu, _images(320, 64), "x w b y",
           "dy x w b dx dw db"),
    Kernel("instance_norm_64x127", float32, instance_norm, _images(64, 127), "x w b y", _ROWS),
    Kernel("batch_norm_training_256x56", float32, batch_norm_training, _images(256, 56),
           "x w b y", _ROWS),
    Kernel("batch_norm_training_relu_256x112", float16, batch_norm_training_relu,
           _images(256, 112), "x w b y", "dy x w b dx dw db"),
    Kernel("batch_norm_training_relu_channels_last", float16, batch_norm_training_relu,
           _images(128, 56, torch.channels_last), "x w b y", "dy x w b dx dw db"),
    Kernel("batch_norm_inference_relu_64x112", float16, batch_norm_inference_relu,
           _with_statistics(64, 112), "x mean var w b y"),
)  # fmt: skip
