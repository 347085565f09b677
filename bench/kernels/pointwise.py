"""Activations, gated units, rotary embeddings, choices by a mask, dropout, quantisation."""

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32

from bench.kernels.case import Kernel


def gelu(x):
    return F.gelu(x)


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


def silu(x):
    return F.silu(x)


def mish(x):
    return F.mish(x)


def bias_gelu(x, b):
    return F.gelu(x + b)


def bias_gelu_mul(x, r, b):
    return F.gelu(x + b) * r


def bias_relu_residual(x, r, b):
    return F.relu(x + b) + r


def swiglu(x, gate):
    return F.silu(gate) * x


def geglu(x):
    """Both halves in one matrix, as a product of a joint weight gives them."""
    value, gate = x.chunk(2, -1)
    return value * F.gelu(gate)


def reglu(x, gate):
    return F.relu(gate) * x


def rotary(q, k, c, s):
    """batch x heads x length x width; the cosines and sines are length x width (Su et al. 2021)."""

    def turned(x):
        first, second = x.chunk(2, -1)
        return x * c + torch.cat((-second, first), -1) * s

    return turned(q), turned(k)


def rotary_pairs(x, c, s):
    """Neighbours are a pair, as in GPT-J."""
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack((even * c - odd * s, even * s + odd * c), -1).flatten(-2)


def where(m, x, r):
    return torch.where(m, x, r * 2)


def masked_fill(x, m):
    return x.masked_fill(m, 0.0)


def modulate(x, shift, scale):
    """batch x length x width by numbers of each image (Peebles and Xie 2023, adaLN)."""
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


def dropout_add_layer_norm(x, r, w, b):
    return F.layer_norm(F.dropout(x, 0.1) + r, x.shape[-1:], w, b)


def dropout_gelu(x):
    return F.dropout(F.gelu(x), 0.1)


def quantize_rows(x):
    """int8 by the largest magnitude of each row, and the rows' scales."""
    scale = x.abs().amax(-1, keepdim=True) / 127
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


def dequantize_rows(q, scale):
    return q.to(scale.dtype) * scale


def quantize_float8(x):
    scale = x.abs().amax(-1, keepdim=True) / 448
    return (x / scale).clamp(-448, 448).to(torch.float8_e4m3fn), scale


def _one(width):
    return lambda draw: (draw.matrix(width),)


def _two(width):
    return lambda draw: draw.matrices(2, width)


def _with_bias(matrices, width):
    return lambda draw: draw.matrix_and_rows(matrices, 1, width)


def _heads(heads, length, width, turned=2):
    def make(draw):
        long = max(2, min(length, draw.elements // (2 * heads * width)))
        batch = max(1, draw.elements // (heads * long * width))
        xs = [draw.normal(batch, heads, long, width) for _ in range(turned)]
        angles = width if turned == 2 else width // 2
        return *xs, draw.normal(long, angles), draw.normal(long, angles)

    return make


def _masked(order):
    def make(draw):
        x, r = draw.matrices(2, 4096)
        named = {"m": draw.mask(*x.shape), "x": x, "r": r}
        return tuple(named[name] for name in order)

    return make


def _modulated(draw):
    width = min(1152, draw.elements // 4)
    length = max(1, min(256, draw.elements // (2 * width)))
    batch = draw.elements // (length * width)
    return draw.normal(batch, length, width), draw.normal(batch, width), draw.normal(batch, width)


def _quantized(draw):
    rows, width = draw.matrix_shape(4096)
    q = torch.randint(-127, 128, (rows, width), device=draw.device, dtype=torch.int8)
    return q, draw.uniform(rows, 1)


def _no_float8(device):
    if device == "cuda" and torch.cuda.get_device_capability() < (8, 9):
        return "8-bit floats begin with compute capability 8.9"
    return ""


KERNELS = (
    Kernel("gelu", bfloat16, gelu, _one(4096), "x y", "dy x dx"),
    Kernel("gelu_tanh", float16, gelu_tanh, _one(4095), "x y", "dy x dx"),
    Kernel("silu", float32, silu, _one(4096), "x y", "dy x dx"),
    Kernel("mish", float16, mish, _one(4096), "x y", "dy x dx"),
    Kernel("bias_gelu_3072", float16, bias_gelu, _with_bias(1, 3072), "x b y", "dy x b dx db"),
    Kernel("bias_gelu_mul_4096", float16, bias_gelu_mul, _with_bias(2, 4096), "x r b y",
           "dy x r b dx dr db"),
    Kernel("bias_relu_residual_1001", float32, bias_relu_residual, _with_bias(2, 1001),
           "x r b y", "dy x b dx dr db"),
    Kernel("swiglu_11008", bfloat16, swiglu, _two(11008), "x gate y", "dy x gate dx dgate"),
    Kernel("geglu_10240", float16, geglu, _one(10240), "x y", "dy x dx"),
    Kernel("reglu_4096", float32, reglu, _two(4096), "x gate y", "dy x gate dx dgate"),
    Kernel("rotary_32x128", bfloat16, rotary, _heads(32, 2048, 128), "q k c s y", "dy c s dq dk"),
    Kernel("rotary_pairs_16x64", float16, rotary_pairs, _heads(16, 2048, 64, turned=1),
           "x c s y", "dy c s dx"),
    Kernel("where", float16, where, _masked("mxr"), "m x r y", "dy m dx dr"),
    Kernel("masked_fill", float32, masked_fill, _masked("xm"), "x m y",
           "dy m dx"),
    Kernel("modulate_1152", float16, modulate, _modulated, "x shift scale y",
           "dy x scale dx dshift dscale"),
    # The backward reads which numbers were dropped, or draws them again: not counted.
    Kernel("dropout_add_layer_norm_4096", float16, dropout_add_layer_norm,
           lambda draw: draw.matrix_and_rows(2, 2, 4096), "x r w b y", "dy x r w dx dr dw db",
           random=True),
    Kernel("dropout_gelu", float32, dropout_gelu, _one(4096), "x y", "dy x dx", random=True),
    Kernel("quantize_int8_rows_4096", float16, quantize_rows, _one(4096), "x y"),
    Kernel("dequantize_int8_rows_4096", float16, dequantize_rows, _quantized, "q scale y"),
    Kernel("quantize_float8_rows_4096", bfloat16, quantize_float8, _one(4096), "x y",
           lacking=_no_float8),
)  # fmt: skip
