"""Sums, moments, norms and logic along each dimension and of everything."""

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32

from bench.kernels.case import Kernel, wide


def sum_first(x):
    return wide(x).sum(0)


def sum_middle(x):
    return x.sum(1)


def sum_last(x):
    return x.sum(-1)


def sum_all(x):
    return wide(x).sum()


def sum_squares(x):
    return wide(x).square().sum()


def mean_outer(x):
    """Of all but the channels of images."""
    return x.mean((0, 2, 3))


def var_last(x):
    return x.var(-1)


def std_first(x):
    return x.std(0)


def var_all(x):
    return x.var()


def moments(x):
    var, mean = torch.var_mean(wide(x), -1)
    return mean, var


def norm_last(x):
    return torch.linalg.vector_norm(x, dim=-1)


def norm_all(x):
    return torch.linalg.vector_norm(x)


def normalize(x):
    return F.normalize(x, dim=-1)


def extremes(x):
    return x.amin(-1), x.amax(-1)


def any_last(m):
    return m.any(-1)


def all_finite(x):
    return torch.isfinite(x).all()


def pairwise_distance(x, r):
    return F.pairwise_distance(x, r)


def cosine_similarity(x, r):
    return F.cosine_similarity(x, r, -1)


def distances(x, r):
    """Of all pairs of few numbers, which a product gains nothing for."""
    return (x.unsqueeze(1) - r.unsqueeze(0)).abs().sum(-1)


def softplus_mean(x):
    return F.softplus(wide(x)).mean(-1)


def _one(width):
    return lambda draw: (draw.matrix(width),)


def _cubes(middle, last):
    def make(draw):
        wide_, long = min(last, draw.elements // 8), min(middle, 64)
        long = middle if draw.elements >= 2 * middle * wide_ else min(long, 4)
        return (draw.normal(max(1, draw.elements // (long * wide_)), long, wide_),)

    return make


def _masks(width):
    """Few of many, one byte each."""

    def make(draw):
        rows, width_ = draw.matrix_shape(width)
        return (torch.rand(rows * draw.dtype.itemsize, width_, device=draw.device) < 1e-4,)

    return make


def _two(width):
    return lambda draw: draw.matrices(2, width)


def _points(draw):
    count = max(8, int(draw.elements**0.5))
    return draw.normal(count, 3), draw.normal(count, 3)


KERNELS = (
    Kernel("sum_first_of_4096", float16, sum_first, _one(4096), "x y"),
    Kernel("sum_first_of_100", float32, sum_first, _one(100), "x y"),
    Kernel("sum_middle_196x768", float32, sum_middle, _cubes(196, 768), "x y"),
    Kernel("sum_last_64", float32, sum_last, _one(64), "x y"),
    Kernel("sum_last_4097", float16, sum_last, _one(4097), "x y"),
    Kernel("sum_last_1048576", float32, sum_last, _one(1048576), "x y"),
    Kernel("sum_all", bfloat16, sum_all, _one(4096), "x y"),
    Kernel("sum_squares_all", float16, sum_squares, _one(4096), "x y", "dy x dx"),
    Kernel("mean_outer_256x56", float32, mean_outer, lambda draw: (draw.images(256, 56),), "x y"),
    Kernel("var_last_1024", float32, var_last, _one(1024), "x y", "dy x dx"),
    Kernel("std_first_of_768", float32, std_first, _one(768), "x y", "dy x y dx"),
    Kernel("var_all", float32, var_all, _one(4096), "x y", "dy x dx"),
    Kernel("moments_2048", bfloat16, moments, _one(2048), "x y", "dy x dx"),
    Kernel("norm_last_512", float16, norm_last, _one(512), "x y", "dy x y dx"),
    Kernel("norm_all", float32, norm_all, _one(4096), "x y", "dy x y dx"),
    Kernel("normalize_384", float32, normalize, _one(384), "x y", "dy x dx"),
    Kernel("extremes_2000", float16, extremes, _one(2000), "x y"),
    Kernel("any_last_16384", float32, any_last, _masks(16384), "m y"),
    Kernel("all_finite", float16, all_finite, _one(4096), "x y"),
    Kernel("pairwise_distance_256", float32, pairwise_distance, _two(256), "x r y",
           "dy x r dx dr"),
    Kernel("cosine_similarity_768", float32, cosine_similarity, _two(768), "x r y",
           "dy x r dx dr"),
    Kernel("distances_of_points", float32, distances, _points, "x r y"),
    Kernel("softplus_mean_333", bfloat16, softplus_mean, _one(333), "x y", "dy x dx"),
)  # fmt: skip
