"""Pooling, upsampling, padding, and images whose pixels or channels change their places."""

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32

from bench.kernels.case import Kernel


def max_pool(x):
    return F.max_pool2d(x, 3, 2, 1)


def average_pool(x):
    return F.avg_pool2d(x, 2)


def adaptive_pool(x):
    return F.adaptive_avg_pool2d(x, 7)


def global_pool(x):
    return F.adaptive_avg_pool2d(x, 1)


def upsample_nearest(x):
    return F.interpolate(x, scale_factor=2.0, mode="nearest")


def upsample_bilinear(x):
    return F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)


def upsample_add(x, skip):
    return F.relu(F.interpolate(x, scale_factor=2.0, mode="nearest") + skip)


def reflection_pad(x):
    return F.pad(x, (3, 3, 3, 3), mode="reflect")


def zero_pad(x):
    return F.pad(x, (1, 1, 1, 1))


def channel_shuffle(x):
    return F.channel_shuffle(x, 4)


def pixel_shuffle(x):
    return F.pixel_shuffle(x, 2)


def pixel_unshuffle(x):
    return F.pixel_unshuffle(x, 2)


def patches(x):
    """Squares of 4 as rows (Dosovitskiy et al. 2021)."""
    n, c, h, w = x.shape
    x = x.reshape(n, c, h // 4, 4, w // 4, 4)
    return x.permute(0, 2, 4, 1, 3, 5).reshape(n, h * w // 16, c * 16)


def windows(x):
    """Windows of 4 of images by channels last, shifted by 2 (Liu et al. 2021)."""
    x = torch.roll(x, (-2, -2), (1, 2))
    n, h, w, c = x.shape
    x = x.reshape(n, h // 4, 4, w // 4, 4, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)


def unfold(x):
    return F.unfold(x, 3, padding=1)


def _images(channels, side, share=1):
    """`share`: how much larger the result is."""

    def make(draw):
        n, c, h, w = draw.image_shape(channels, side)
        return (draw.normal(max(1, n // share), c, h, w),)

    return make


def _with_skip(draw):
    n, c, h, w = draw.image_shape(64, 112)
    return draw.normal(n, c, h // 2, w // 2), draw.normal(n, c, h, w)


def _channels_last(draw):
    n, c, h, w = draw.image_shape(96, 56)
    return (draw.normal(n, h, w, c),)


KERNELS = (
    Kernel("max_pool_64x112", float16, max_pool, _images(64, 112), "x y", "dy x dx"),
    Kernel("average_pool_128x56", float32, average_pool, _images(128, 56), "x y", "dy dx"),
    Kernel("adaptive_pool_7_of_256x28", float16, adaptive_pool, _images(256, 28), "x y", "dy dx"),
    Kernel("global_pool_512x14", float32, global_pool, _images(512, 14), "x y"),
    Kernel("upsample_nearest_64x56", float16, upsample_nearest, _images(64, 56, 2), "x y",
           "dy dx"),
    Kernel("upsample_bilinear_64x56", float32, upsample_bilinear, _images(64, 56, 2), "x y",
           "dy dx"),
    Kernel("upsample_add_relu_64x112", float16, upsample_add, _with_skip, "x skip y",
           "dy y dx dskip"),
    Kernel("reflection_pad_32x128", float32, reflection_pad, _images(32, 128), "x y", "dy dx"),
    Kernel("zero_pad_64x56", bfloat16, zero_pad, _images(64, 56), "x y"),
    Kernel("channel_shuffle_128x28", float16, channel_shuffle, _images(128, 28), "x y", "dy dx"),
    Kernel("pixel_shuffle_64x64", float16, pixel_shuffle, _images(64, 64), "x y", "dy dx"),
    Kernel("pixel_unshuffle_16x128", float32, pixel_unshuffle, _images(16, 128), "x y", "dy dx"),
    Kernel("patches_3x224", bfloat16, patches, _images(3, 224), "x y", "dy dx"),
    Kernel("shifted_windows_96x56", float16, windows, _channels_last, "x y", "dy dx"),
    Kernel("unfold_3_of_32x56", float32, unfold, _images(32, 56, 4), "x y", "dy dx"),
)  # fmt: skip
