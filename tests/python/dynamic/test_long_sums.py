"""Sums over several dims of unknown sizes, compiled for short ones, lose no digits in long ones."""

import braze
import pytest
import torch

SUMS = {
    "sum": lambda x: (x * 1.1).sum((0, 2)),
    "mean": lambda x: x.mean((0, 2)),
    "var": lambda x: x.var((0, 2)),
    "mean of a product": lambda x: (x * x.new_tensor([1.0, 2.0])[:, None]).mean((0, 2)),
    "var of one row": lambda x: (x[:, :1] - x[:, 1:]).var(),
}
# The first sizes are those that the kernel's loops are arranged for.
SIZES = (2, 3), (3, 4), (70000, 3), (70001, 5), (300, 900), (2, 140000), (20000, 40)


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_long_dims_beside_short_ones(name, dynamic):
    function = SUMS[name]
    fast = braze.compile(function, dynamic=dynamic)
    torch.manual_seed(0)
    for rows, columns in SIZES:
        x = 100 + torch.randn(rows, 2, columns)
        expected = function(x.double())
        error = (fast(x).double() - expected).abs().max() / expected.abs().max()
        eager = (function(x).double() - expected).abs().max() / expected.abs().max()
        assert error <= max(1e-6, 2 * eager.item()), (rows, columns)
