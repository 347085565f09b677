"""Means and variances of few long rows, which are computed in parts, where lengths vary: parts may
be empty for some of them."""

import braze
import pytest
import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree


def moments(x):
    variance, mean = torch.var_mean(x, -1)
    return variance, mean, x.std(-1, correction=0)


def normalised(x):
    return F.group_norm(x[:, :, None], 2)


@pytest.mark.parametrize("first", [65536, 100_003])
@pytest.mark.parametrize("function", [moments, normalised])
def test_lengths_that_vary(function, first):
    fast = braze.compile(function, dynamic=True)
    for length in (first, 5, 64, 2048, 65537, 33_000, 131_072, 1_000):
        x = torch.randn(3, length) + 10 if function is moments else torch.randn(1, 4, length)
        exact = function(x.double())
        for got, right in zip(pytree.tree_leaves(fast(x)), pytree.tree_leaves(exact), strict=True):
            torch.testing.assert_close(got.double(), right, rtol=1e-4, atol=1e-4)
